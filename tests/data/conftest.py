"""Fixtures of the data room."""

import os
from pathlib import Path

import pytest
from made.clips import random_clips, write_store

from skelbench.data.store.clip_store import ClipStore


@pytest.fixture
def clips():
    return random_clips()


@pytest.fixture
def store(tmp_path, clips):
    return ClipStore.open(write_store(tmp_path / "made", clips))


@pytest.fixture
def locked(monkeypatch):
    """``locked(folder)`` makes it one that cannot be listed, whoever runs the tests (root reads everything)."""
    real, folders = os.scandir, set()

    def scandir(path):
        if str(path) in folders:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    def lock(folder):
        folder.mkdir(exist_ok=True)
        folders.add(str(folder))

    monkeypatch.setattr(os, "scandir", scandir)
    return lock


@pytest.fixture(scope="session")
def recordings():
    """The small file of real recordings."""
    shared = Path(__file__).parents[3] / "shared" / "data"
    path = Path(os.environ.get("SKELBENCH_SHARED_DATA", shared)) / "uiprmd_mini.npz"
    if not path.is_file():
        pytest.skip("the real recordings are not here (set SKELBENCH_SHARED_DATA)")
    return path
