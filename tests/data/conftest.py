"""Fixtures of the data room; makes the helpers beside the tests importable."""

import os
import sys
from pathlib import Path

import pytest

from skelbench.data.store import ClipStore

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]  # helpers beside the tests, and benchmarks/

from made_clips import random_clips, write_store  # noqa: E402


@pytest.fixture
def clips():
    return random_clips()


@pytest.fixture
def store(tmp_path, clips):
    return ClipStore.open(write_store(tmp_path / "made", clips))


@pytest.fixture(scope="session")
def recordings():
    """The small file of real recordings."""
    shared = HERE.parents[2] / "shared" / "data"
    path = Path(os.environ.get("SKELBENCH_SHARED_DATA", shared)) / "uiprmd_mini.npz"
    if not path.is_file():
        pytest.skip("the real recordings are not here (set SKELBENCH_SHARED_DATA)")
    return path
