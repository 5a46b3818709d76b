"""Origin of runs that were added from a file (`skelbench runs add`)."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from skelbench.core.text import plain

FIELD = "added"
"""Field of run.json."""


class Added(NamedTuple):
    """Origin of an added run."""

    file: str
    """Name of the file, without its folder."""
    sha256: str
    """Hash of the file."""
    at: float
    """Time of the addition, seconds since 1970."""

    @property
    def sentence(self) -> str:
        """``mine.zip (sha256 0123456789ab, added 2026-11-22)``."""
        return f"{self.file} (sha256 {self.sha256[:12]}, added {time.strftime('%Y-%m-%d', time.localtime(self.at))})"


def mark(file: Path) -> dict[str, Any]:
    """Fields of run.json for a run that is added from ``file`` now."""
    with open(file, "rb") as content:
        sha256 = hashlib.file_digest(content, "sha256").hexdigest()
    return {FIELD: Added(plain(file.name), sha256, time.time())._asdict()}


def added(info: Mapping[str, Any]) -> Added | None:
    """Origin in a run.json; None for a run of this results directory."""
    origin = info.get(FIELD)
    return Added(str(origin["file"]), str(origin["sha256"]), float(origin["at"])) if origin else None
