"""States on disk from which something goes on: whole or absent, and read without running code."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import torch

from skelbench.core.files import check_regular, write_atomic


def write_state(path: Path, state: dict[str, Any]) -> None:
    """Write a state: tensors, numbers, text, and under ``id`` whose it is."""
    write_atomic(path, lambda file: torch.save(state, file))


def read_state(path: Path, owner: str, kind: str) -> dict[str, Any]:
    """What :func:`write_state` wrote of ``owner``, a ``kind`` ("run"), on the CPU. A damaged file raises almost
    anything, another's a ValueError."""
    check_regular(path)
    with zipfile.ZipFile(path) as file:  # the loader compares no checksums
        if file.testzip() is not None:
            raise ValueError("a checksum differs")
    state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    if state["id"] != owner:
        raise ValueError(f"it is another {kind}'s")
    return state
