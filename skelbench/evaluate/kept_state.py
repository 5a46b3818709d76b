"""The state of an evaluation that takes minutes, on disk: whole or absent, and of this evaluation or none."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from skelbench.results.state_file import read_state, write_state

log = logging.getLogger(__name__)


def keep(path: Path, eval_id: str, state: dict[str, Any]) -> None:
    """Write ``state`` (tensors, numbers, text) of the evaluation ``eval_id``."""
    write_state(path, {**state, "id": eval_id})


def kept(path: Path, eval_id: str) -> dict[str, Any] | None:
    """What :func:`keep` wrote of the evaluation ``eval_id``, on the CPU; None where there is nothing, or nothing that
    can be trusted, which is said: an evaluation that begins anew gives the same result."""
    if not path.exists():
        return None
    try:
        return read_state(path, eval_id, "evaluation")
    except Exception as error:
        log.warning("%s cannot be continued from (%s); this evaluation begins anew", path, _line(error))
        return None


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
