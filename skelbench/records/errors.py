"""Damaged files of results: one damaged file does not stop commands that read all runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

from skelbench.core.errors import SkelbenchError

log = logging.getLogger(__name__)
Found = TypeVar("Found")


class Damaged(SkelbenchError):
    """A file of the results cannot be used."""


@contextmanager
def damage(message: str) -> Iterator[None]:
    """Raise :class:`Damaged` with ``message`` for an OSError or ValueError within."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise Damaged(f"{message} ({getattr(error, 'strerror', None) or error})") from error


@cache
def warn_once(message: str) -> None:
    log.warning("note: skipped: %s", message)


def if_whole(read: Callable[[], Found]) -> Found | None:
    """Call ``read``; on a damaged file, warn once and return None."""
    try:
        return read()
    except Damaged as error:
        warn_once(str(error))
        return None
