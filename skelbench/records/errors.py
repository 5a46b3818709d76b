"""Files of the results that hold nothing that can be used: one such file stops no command that looks at all runs."""

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
    """A file of the results that holds nothing that can be used."""

    @classmethod
    def because(cls, sentence: str, error: Exception) -> Damaged:
        """``sentence`` with what went wrong in brackets."""
        return cls(f"{sentence} ({getattr(error, 'strerror', None) or error})")


@cache
def warn_once(sentence: str) -> None:
    log.warning("note: left out: %s", sentence)


_listening: list[list[str]] = []


def if_whole(read: Callable[[], Found]) -> Found | None:
    """What ``read`` returns; None where that is :class:`Damaged`, with one warning per file in a process."""
    try:
        return read()
    except Damaged as error:
        for said in _listening:
            said.append(str(error))
        warn_once(str(error))
        return None


@contextmanager
def left_out() -> Iterator[list[str]]:
    """What :func:`if_whole` leaves out meanwhile, as sentences."""
    said: list[str] = []
    _listening.append(said)
    try:
        yield said
    finally:
        _listening[:] = [one for one in _listening if one is not said]
