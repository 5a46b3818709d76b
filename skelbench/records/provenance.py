"""Runs that were not made here, but added from a file that somebody handed on."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from skelbench.core.text import plain

FIELD = "added"
"""Of run.json."""


class Added(BaseModel):
    """Where a run comes from."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)

    file: str
    """Name of the file, without its folder."""
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    """Of the file."""
    at: float
    """When it was added, seconds since 1970."""

    @property
    def sentence(self) -> str:
        """``mine.zip (sha256 0123456789ab, added 2026-11-22)``."""
        return f"{self.file} (sha256 {self.sha256[:12]}, added {time.strftime('%Y-%m-%d', time.localtime(self.at))})"


def mark(file: Path, sha256: str) -> dict[str, Any]:
    """What run.json says of a run that is added now."""
    return {FIELD: Added(file=plain(file.name), sha256=sha256, at=time.time()).model_dump()}


def added(info: Mapping[str, Any]) -> Added | None:
    """Where the run of this run.json comes from; None = it was made here. What says that it comes from elsewhere, but
    not legibly from where, does."""
    if FIELD not in info:
        return None
    try:
        return Added.model_validate(info[FIELD])
    except ValidationError:
        return Added(file="an unknown file", sha256="0" * 64, at=0.0)
