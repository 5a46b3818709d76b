"""Atomic files, complete or absent: written under a temporary name, synced, renamed."""

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
from typing import IO, Any

from skelbench.core.errors import SkelbenchError

ABANDONED_SECONDS = 3600.0
"""Age of a temporary file that no process writes any more."""


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add ``path`` to an OSError without a file name, for example from writing on a full disk."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def write_atomic(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Call ``write(file)`` on a temporary neighbor of ``path``, sync it and rename it into place.

    After a failure the temporary file is removed, and the old content of ``path`` stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.????????.tmp"):  # of processes that were killed
        with suppress(OSError):  # removed meanwhile, or of another user
            if time.time() - leftover.stat().st_mtime > ABANDONED_SECONDS:
                leftover.unlink()
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


def write_whole(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """:func:`write_atomic` at a path that a user chose: a failure is a SkelbenchError."""
    try:
        write_atomic(path, write)
    except OSError as error:
        raise unwritable(path, error) from error


def unwritable(path: Path, error: OSError) -> SkelbenchError:
    """Error for a path that cannot be written."""
    cure = "free space or choose" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "choose"
    return SkelbenchError(f"cannot write {path}: {error.strerror or error}; {cure} another place")


def write_json(path: Path, value: Any) -> None:
    """Write indented JSON atomically."""
    text = json.dumps(value, indent=1, allow_nan=False, default=_plain) + "\n"
    write_atomic(path, lambda file: file.write(text.encode()))


def keep_newest(paths: Iterable[Path], most: int) -> None:
    """Delete all but the ``most`` newest of ``paths``, as far as possible."""
    for old in sorted(paths, key=lambda path: path.stat().st_mtime, reverse=True)[most:]:
        with suppress(OSError):
            old.unlink()


def check_regular(path: Path) -> None:
    """OSError for a pipe or a device, which would be read without end."""
    if not path.is_file() and path.exists():
        raise OSError(errno.EINVAL, "not a regular file", str(path))


def read_text(path: Path) -> str:
    """Return the text of a regular file."""
    check_regular(path)
    return path.read_text(encoding="utf-8")


def read_json(path: Path) -> Any:
    """Parse a JSON file; OSError or ValueError if that fails."""
    return json.loads(read_text(path))


def _plain(value: Any) -> Any:
    """Convert numpy scalars and paths for JSON."""
    if hasattr(value, "item"):
        return value.item()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"cannot write {type(value).__name__} as JSON")
