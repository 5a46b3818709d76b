"""Fixtures of the data tests."""

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


@pytest.fixture(scope="session")
def recordings():
    """The small file of real recordings."""
    shared = Path(__file__).parents[3] / "shared" / "data"
    path = Path(os.environ.get("SKELBENCH_SHARED_DATA", shared)) / "uiprmd_mini.npz"
    if not path.is_file():
        pytest.skip("the real recordings are not here (set SKELBENCH_SHARED_DATA)")
    return path
