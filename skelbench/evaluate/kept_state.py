"""The state of an evaluation that takes minutes, on disk: whole or absent, and of this evaluation or none."""

from __future__ import annotations

import logging
import zipfile
from pathlib import Path
from typing import Any

import torch

from skelbench.files import check_regular, write_atomic

log = logging.getLogger(__name__)


def keep(path: Path, eval_id: str, state: dict[str, Any]) -> None:
    """Write ``state`` (tensors, numbers, text) of the evaluation ``eval_id``."""
    write_atomic(path, lambda file: torch.save({**state, "id": eval_id}, file))


def kept(path: Path, eval_id: str) -> dict[str, Any] | None:
    """What :func:`keep` wrote of the evaluation ``eval_id``, on the CPU; None where there is nothing, or nothing that
    can be trusted, which is said: an evaluation that begins anew gives the same result."""
    if not path.exists():
        return None
    try:
        check_regular(path)
        with zipfile.ZipFile(path) as file:  # the loader compares no checksums
            if file.testzip() is not None:
                raise ValueError("a checksum differs")
        state = torch.load(path, map_location="cpu", weights_only=True)
        if state["id"] != eval_id:
            raise ValueError("it is another evaluation's")
    except Exception as error:
        log.warning("%s cannot be continued from (%s); this evaluation begins anew", path, _line(error))
        return None
    return state


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
