"""Pictures on the disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from skelbench.errors import SkelbenchError
from skelbench.files import write_atomic


def write_whole(path: Path, write: Callable[[IO[bytes]], Any]) -> None:
    """Have ``write(file)`` make the picture at ``path``; on failure what was there stays, and a sentence says why."""
    try:
        write_atomic(path, write)
    except OSError as error:
        raise SkelbenchError(
            f"cannot write {path}: {error.strerror or error}; free space or choose another place"
        ) from error
