"""Writing clip stores: whole or not at all, by one writer at a time, and only clips that a run can use."""

import os
import shutil
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from made.clips import open_writer, random_clips, write_store

from skelbench.core.errors import SkelbenchError
from skelbench.data.store.clip_store import ClipStore
from skelbench.data.store.roots import named_stores
from skelbench.data.store.writer import make_once

GOOD = np.zeros((1, 4, 25, 3))
SURE = {"confidence_MTJ": GOOD[..., 0]}


def visible(folder):
    return sorted(p.name for p in folder.iterdir())


def late(frame, value):
    return {"x_MTJC": np.where(np.arange(4)[None, :, None, None] == frame, value, GOOD)}


@pytest.mark.parametrize(("first", "second", "message"), [
    ({}, {"x_MTJC": np.zeros((1, 4, 20, 3))}, r"clip 1: expected \[bodies, frames, 25, 3\].*got \[1, 4, 20, 3\]"),
    ({}, late(2, np.nan), "clip 1, frame 2: .*not finite"),
    ({}, {"label": 3}, "clip 1: label 3 is outside 0..2"),
    ({"name": "a"}, {"name": "a"}, "two clips are called 'a'"),
    (SURE, {}, "clip 1: confidence is given for some clips only"),
    ({"confidence_MTJ": GOOD[..., 0] + 2}, {}, r"clip 0: confidence must be numbers from 0 to 1, \[1, 4, 25\]"),
    ({}, {"subject": 2**31}, f"clip 1: subject {2**31} does not fit 32 bits"),
    ({}, {"origin": (1.0, 2.0, np.nan)}, "clip 1: origin .* is not a position"),
])  # fmt: skip
def test_a_bad_clip_is_rejected_and_nothing_is_left(tmp_path, first, second, message):
    with pytest.raises(SkelbenchError, match=message), open_writer(tmp_path / "made") as writer:
        for changes in (first, second):
            writer.add(**{"x_MTJC": GOOD, "label": 0} | changes)
    assert visible(tmp_path) == []


def test_no_clips_and_empty_splits_are_rejected(tmp_path):
    with pytest.raises(SkelbenchError, match="no clips"), open_writer(tmp_path / "made"):
        pass
    with pytest.raises(SkelbenchError, match="split 'cross-subject' leaves no training clips"):
        write_store(tmp_path / "made", random_clips(1))
    assert visible(tmp_path) == []


def test_overwriting_needs_a_flag_and_a_failure_keeps_the_old_store(tmp_path):
    path = write_store(tmp_path / "made", random_clips(5, seed=1))
    with pytest.raises(SkelbenchError, match="exists already"):
        write_store(path, random_clips(6))
    with pytest.raises(ZeroDivisionError), open_writer(path, overwrite=True) as writer:
        writer.add(GOOD, 0)
        raise ZeroDivisionError
    assert len(ClipStore.open(path)) == 5
    write_store(path, random_clips(6), overwrite=True)
    assert len(ClipStore.open(path)) == 6 and visible(tmp_path) == ["made"]


def test_a_folder_without_a_store_is_never_overwritten(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").write_text("x")
    with pytest.raises(SkelbenchError, match="is a link or no clip store, and is not overwritten"):
        write_store(tmp_path / "thesis", random_clips(), overwrite=True)
    assert (tmp_path / "thesis" / "chapter").read_text() == "x"


def test_two_writers_at_once(tmp_path):
    make_once(tmp_path / "made", lambda: write_store(tmp_path / "made", random_clips()))
    make_once(tmp_path / "made", lambda: pytest.fail("it is there already"))
    shutil.rmtree(tmp_path / "made")
    with open_writer(tmp_path / "made") as writer:
        for i in range(4):
            writer.add(GOOD, 0, subject=i, camera=i)
        with ThreadPoolExecutor(1) as other, pytest.raises(SkelbenchError, match="is being written by another process"):
            other.submit(write_store, tmp_path / "made", random_clips()).result()
    assert len(ClipStore.open(tmp_path / "made")) == 4


def test_a_killed_writer_leaves_no_store_and_does_not_block_the_next(tmp_path):
    code = """
        import os, signal
        with open_writer(path) as writer:
            for i, x in enumerate(random_clips(50)):
                writer.add(x, 0, subject=i, camera=i)
            writer.frames.file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    """
    assert _python(code, tmp_path / "made").returncode == -9
    assert named_stores(tmp_path) == {} and not (tmp_path / "made").exists()
    store = ClipStore.open(write_store(tmp_path / "made", random_clips(6)))
    store.verify()
    assert len(store) == 6 and visible(tmp_path) == ["made"]


def test_a_full_disk(tmp_path):
    code = """
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        write_store(path, [np.zeros((2, 100, 25, 3))] * 10)
    """
    ended = _python(code, tmp_path / "made")
    assert "SkelbenchError: cannot write" in ended.stderr and "File too large; choose another place" in ended.stderr
    assert visible(tmp_path) == []


def _python(code, path):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    code = f"from pathlib import Path\nfrom made.clips import *\npath = Path({str(path)!r})\n{textwrap.dedent(code)}"
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)


def test_padding_slots_are_no_bodies(tmp_path):
    """Wherever they are; a flag says that the clip has an empty second one."""
    seen = np.ones((1, 4, 25, 3))
    clips = [((0, 1, 0), False), ((0, 0), False), ((1, 0), True), ((1,), False)]
    with open_writer(tmp_path / "made") as writer:
        for subject, (bodies, empty) in enumerate(clips, 1):
            x_MTJC = np.concatenate([there * seen for there in bodies])
            writer.add(x_MTJC, 0, subject=subject, camera=subject, empty_body=empty, confidence_MTJ=x_MTJC[..., 0])
    store = ClipStore.open(tmp_path / "made")
    assert store.bodies.tolist() == [1, 1, 2, 1] and store.present.tolist() == [1, 1, 1, 1]
    assert store.clip(0).all() and store.confidence(0).all() and not store.clip(1).any()
