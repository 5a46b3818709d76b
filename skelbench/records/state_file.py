"""States on disk to resume from: whole or absent, and read without running code."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import torch

from skelbench.core.files import check_regular, write_atomic


def write_state(path: Path, state: dict[str, Any]) -> None:
    """Write a state of tensors, numbers and text; ``id`` is the id of its owner."""
    write_atomic(path, lambda file: torch.save(state, file))


def read_state(path: Path, owner: str, kind: str) -> dict[str, Any]:
    """Read the state of ``owner``, a ``kind`` ("run"), on the CPU; ValueError for the state of another owner.

    A damaged file raises almost any error.
    """
    check_regular(path)
    with zipfile.ZipFile(path) as file:  # torch's loader compares no checksums
        if file.testzip() is not None:
            raise ValueError("a checksum differs")
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    if state["id"] != owner:
        raise ValueError(f"it is another {kind}'s")
    return state
