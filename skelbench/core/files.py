"""Files that are whole or absent: written under a temporary name, synced, renamed."""

from __future__ import annotations

import errno
import glob
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeVar

from skelbench.core.errors import SkelbenchError

Text = TypeVar("Text", str, bytes)
NESTED = 100
"""Deeper than any table of settings."""
ABANDONED_SECONDS = 3600.0
"""Age of a temporary file that no process writes any more."""


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Failures of the system within, as of writing to an open file on a full disk, name ``path`` if they name none."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def write_atomic(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Call ``write(file)`` on a temporary neighbour of ``path``, sync it and rename it into place.

    On any failure the temporary file is removed and what was at ``path`` stays untouched. What a killed process left
    of an earlier try is removed as well.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with naming(path), os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(temporary, 0o666 & ~umask)
            os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _sweep(path: Path) -> None:
    """Remove temporary files of processes that were killed while they wrote ``path``."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.????????.tmp"):
        with suppress(OSError):  # removed meanwhile, or of another user
            if time.time() - left.stat().st_mtime > ABANDONED_SECONDS:
                left.unlink()


def write_whole(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """:func:`write_atomic` at a place that a user chose: what fails there is one sentence."""
    try:
        write_atomic(path, write)
    except OSError as error:
        raise unwritable(path, error) from error


def unwritable(path: Path, error: OSError) -> SkelbenchError:
    """What is said of a place where writing failed."""
    cure = "free space or choose" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "choose"
    return SkelbenchError(f"cannot write {path}: {error.strerror or error}; {cure} another place")


def write_json(path: Path, value: Any) -> None:
    """Indented JSON, atomically."""
    text = json.dumps(value, indent=1, allow_nan=False, default=_plain) + "\n"
    write_atomic(path, lambda file: file.write(text.encode()))


def keep_newest(paths: Iterable[Path], most: int) -> None:
    """Delete all but the ``most`` newest of ``paths``, as far as that can be."""
    for old in sorted(paths, key=lambda path: path.stat().st_mtime, reverse=True)[most:]:
        with suppress(OSError):
            old.unlink()


def check_regular(path: Path) -> None:
    """OSError if something else than a file is there: a pipe is waited for, and a device read, without end."""
    if not path.is_file() and path.exists():
        raise OSError(errno.EINVAL, "not a regular file", str(path))


def read_text(path: Path) -> str:
    """The text of a regular file."""
    check_regular(path)
    return path.read_text(encoding="utf-8")


def read_json(path: Path) -> Any:
    """Parse a JSON file; OSError or ValueError if it cannot be."""
    return parsed(json.loads, read_text(path))


def parsed(parse: Callable[[Text], Any], text: Text) -> Any:
    """``parse(text)``; text nested deeper than the parser goes is a ValueError, as any other that it cannot read."""
    try:
        return parse(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def shallow(value: Any) -> Any:
    """``value``, if it is nested no deeper than what speaks of it again follows; ValueError else."""
    layer = [value]
    for _ in range(NESTED):
        nodes = [node.values() if isinstance(node, dict) else node for node in layer if isinstance(node, dict | list)]
        layer = [inner for node in nodes for inner in node]
        if not layer:
            return value
    raise ValueError("it is nested too deeply")


def _plain(value: Any) -> Any:
    """numpy scalars and paths as JSON."""
    if hasattr(value, "item"):
        return value.item()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"cannot write {type(value).__name__} as JSON")
