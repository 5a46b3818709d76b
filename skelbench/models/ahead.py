"""Marks for gradients that are computed in the forward pass, so that counters of matrix products see them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_depth = 0


@contextmanager
def gradients() -> Iterator[None]:
    """Context for products of the gradient that are computed in the forward pass of an autograd function.

    >>> with gradients():
    ...     active()
    True
    """
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1


def active() -> bool:
    """Whether this is inside :func:`gradients`."""
    return _depth > 0
