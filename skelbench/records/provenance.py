"""Origin of runs that were added from a file (`skelbench runs add`)."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from skelbench.core.text import plain

FIELD = "added"
"""Field of run.json."""


class Added(BaseModel):
    """Origin of an added run."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)

    file: str
    """Name of the file, without its folder."""
    sha256: str
    """Of the file."""
    at: float
    """When it was added, seconds since 1970."""

    @property
    def sentence(self) -> str:
        """``mine.zip (sha256 0123456789ab, added 2026-11-22)``."""
        return f"{self.file} (sha256 {self.sha256[:12]}, added {time.strftime('%Y-%m-%d', time.localtime(self.at))})"


def mark(file: Path) -> dict[str, Any]:
    """Fields of run.json for a run that is added from ``file`` now."""
    with open(file, "rb") as content:
        sha256 = hashlib.file_digest(content, "sha256").hexdigest()
    return {FIELD: Added(file=plain(file.name), sha256=sha256, at=time.time()).model_dump()}


def added(info: Mapping[str, Any]) -> Added | None:
    """Origin by a run.json; None for a run that was made here."""
    if FIELD not in info:
        return None
    try:
        return Added.model_validate(info[FIELD])
    except ValidationError:
        return Added(file="an unknown file", sha256="", at=0.0)
