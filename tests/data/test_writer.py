import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from made.clips import open_writer, random_clips, write_store

from skelbench.core.errors import SkelbenchError
from skelbench.data.store.clip_store import ClipStore, Flag
from skelbench.data.store.roots import list_stores, open_dataset
from skelbench.data.store.splits import FieldRule

GOOD = np.zeros((1, 4, 25, 3))


def visible(folder):
    return sorted(p.name for p in folder.iterdir())


SURE = {"confidence_MTJ": GOOD[..., 0]}


def late(frame, value):
    return {"x_MTJC": np.where(np.arange(4)[None, :, None, None] == frame, value, GOOD)}


@pytest.mark.parametrize(("first", "second", "message"), [
    ({}, {"x_MTJC": np.zeros((1, 4, 20, 3))}, r"clip 1: expected \[bodies, frames, 25, 3\].*got \[1, 4, 20, 3\]"),
    *[({}, {"x_MTJC": np.zeros(shape)}, "clip 1: expected")
      for shape in ((4, 25, 3), (1, 0, 25, 3), (0, 4, 25, 3))],
    ({}, late(2, np.nan), "clip 1, frame 2: .*not finite"),
    ({}, late(3, np.inf), "clip 1, frame 3: .*not finite"),
    ({}, {"label": 3}, "clip 1: label 3 is outside 0..2"),
    ({}, {"label": -1}, "clip 1: label -1 is outside 0..2"),
    ({"name": "a"}, {"name": "a"}, "two clips are called 'a'"),
    (SURE, {}, "clip 1: confidence is given for some clips only"),
    ({}, SURE, "clip 1: confidence is given for some clips only"),
    ({"confidence_MTJ": GOOD[..., 0] + 2}, {}, r"clip 0: confidence must be numbers from 0 to 1, \[1, 4, 25\]"),
    ({"confidence_MTJ": GOOD[..., 0] * np.nan}, {}, "clip 0: confidence must be"),
    ({"confidence_MTJ": GOOD[:, :3, :, 0]}, {}, "clip 0: confidence must be"),
    *[({}, {field: value}, f"clip 1: {field} {value} does not fit 32 bits")
      for field in ("subject", "camera", "setup", "trial", "source_frames")
      for value in (2**31, -(2**31) - 1)],
    ({}, {"flags": 2**40}, f"clip 1: flags {2**40} does not fit 32 bits"),
    ({}, {"flags": 128 | Flag.MERGED}, "clip 1: flags 129 hold 128, which means nothing"),
    ({}, {"flags": -1}, "clip 1: flags -1 hold"),
    ({}, {"flags": Flag.EMPTY_BODY, "x_MTJC": np.ones((2, 4, 25, 3))}, "clip 1: a flag says that its second body is"),
    *[({}, {"origin": origin}, "clip 1: origin .* is no place")
      for origin in (0.0, (1.0, 2.0), (1.0, 2.0, np.nan))],
    ({}, {"flags": Flag.EMPTY_BODY}, "clip 1: it has one body and a flag that says the second one is empty"),
])  # fmt: skip
def test_a_bad_clip_is_refused_and_nothing_is_left(tmp_path, first, second, message):
    with pytest.raises(SkelbenchError, match=message), open_writer(tmp_path / "made") as writer:
        for changes in (first, second):
            writer.add(**{"x_MTJC": GOOD, "label": 0} | changes)
    assert visible(tmp_path) == []


def test_no_clips_and_empty_splits_are_refused(tmp_path):
    with pytest.raises(SkelbenchError, match="no clips"), open_writer(tmp_path / "made"):
        pass
    with pytest.raises(SkelbenchError, match="split 'cross-subject' leaves no training clips"):
        write_store(tmp_path / "made", random_clips(1))
    with pytest.raises(SkelbenchError, match="did you mean 'cross-view'"):
        write_store(tmp_path / "made", random_clips(), default_split="cros-view")
    both = {"cross-view": FieldRule(field="camera", train=(1, 2), test=(2, 3))}
    with pytest.raises(SkelbenchError, match="the same clips into train and test"):
        write_store(tmp_path / "made", random_clips(), splits=both)
    assert visible(tmp_path) == []


def test_overwriting_must_be_asked_for(tmp_path):
    first, second = random_clips(5, seed=1), random_clips(6, seed=2)
    path = write_store(tmp_path / "made", first)
    with pytest.raises(SkelbenchError, match="exists already"):
        write_store(path, second)
    assert len(ClipStore.open(path)) == 5
    write_store(path, second, overwrite=True)
    assert len(ClipStore.open(path)) == 6
    assert visible(tmp_path) == ["made"]


@pytest.mark.parametrize(("error", "seen"), [(OSError(28, "No space left on device"), SkelbenchError),
                                             (KeyboardInterrupt(), KeyboardInterrupt)])  # fmt: skip
def test_the_old_store_comes_back_when_the_new_one_cannot_take_its_place(tmp_path, monkeypatch, error, seen):
    path = write_store(tmp_path / "made", random_clips(5))
    real, calls = os.replace, []

    def replace(source, target):
        calls.append(source)
        if len(calls) == 2:
            raise error
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(seen):
        write_store(path, random_clips(6), overwrite=True)
    assert len(ClipStore.open(path)) == 5 and visible(tmp_path) == ["made"]


REPLACE = """
    import os, subprocess, sys
    from made.clips import *
    real, calls = os.replace, []
    def replace(source, target):
        calls.append(source)
        if len(calls) == 2:
            {halfway}
        real(source, target)
    os.replace = replace
    write_store(path, random_clips(6), overwrite=True)
"""


@pytest.mark.parametrize("then", ["list", "open", "refuse", "fail", "replace"])
def test_a_store_whose_replacement_was_killed_halfway_is_put_back(tmp_path, then):
    path = write_store(tmp_path / "made", random_clips(5))
    assert _python(REPLACE.format(halfway="os._exit(9)"), path).returncode == 9 and not path.exists()
    if then == "list":
        assert list_stores(tmp_path) == {"made": path}
    elif then == "open":
        assert len(open_dataset("made", tmp_path)) == 5
    elif then == "refuse":
        with pytest.raises(SkelbenchError, match="exists already"):
            write_store(path, random_clips(6))
    elif then == "fail":
        with pytest.raises(SkelbenchError, match="no clips"), open_writer(path, overwrite=True):
            pass
    else:
        write_store(path, random_clips(6), overwrite=True)
        assert visible(tmp_path) == ["made"]
    assert len(ClipStore.open(path)) == (6 if then == "replace" else 5)


def test_a_link_is_not_replaced(tmp_path):
    large = write_store(tmp_path / "large", random_clips())
    (tmp_path / "s").symlink_to(large)
    with pytest.raises(SkelbenchError, match="is a link"):
        write_store(tmp_path / "s", random_clips(), overwrite=True)
    assert (tmp_path / "s").is_symlink() and len(ClipStore.open(tmp_path / "s")) == len(ClipStore.open(large))


def test_a_folder_that_is_no_store_is_never_overwritten(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").write_text("x")
    with pytest.raises(SkelbenchError, match="is not a clip store and is not overwritten"):
        write_store(tmp_path / "thesis", random_clips(), overwrite=True)
    assert (tmp_path / "thesis" / "chapter").read_text() == "x"


def test_two_writers_at_once(tmp_path):
    with open_writer(tmp_path / "made") as writer:
        for i in range(4):
            writer.add(GOOD, 0, subject=i, camera=i)
        other = _python("from made.clips import *; write_store(path, random_clips())", tmp_path / "made")
        assert other.returncode == 1 and "is being written by another process" in other.stderr
    assert len(ClipStore.open(tmp_path / "made")) == 4


def test_a_killed_writer_leaves_no_store_and_does_not_block_the_next(tmp_path):
    code = """
        import os, signal
        from made.clips import *
        with open_writer(path) as writer:
            for i, x in enumerate(random_clips(50)):
                writer.add(x, 0, subject=i, camera=i)
            writer.frames.file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    """
    assert _python(code, tmp_path / "made").returncode == -9
    assert list_stores(tmp_path) == {} and not (tmp_path / "made").exists()
    clips = random_clips(6)
    store = ClipStore.open(write_store(tmp_path / "made", clips))
    store.verify()
    assert len(store) == 6 and visible(tmp_path) == ["made"]


def test_a_full_disk(tmp_path):
    code = """
        import resource
        from made.clips import *
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        write_store(path, [np.zeros((2, 100, 25, 3))] * 10)
    """
    ended = _python(code, tmp_path / "made")
    assert "SkelbenchError: cannot write" in ended.stderr and "File too large; choose another place" in ended.stderr
    assert visible(tmp_path) == []


def _python(code, path):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    code = f"from pathlib import Path\npath = Path({str(path)!r})\n{textwrap.dedent(code)}"
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def test_slots_that_pad_a_clip_are_no_bodies(tmp_path):
    """Wherever they are; a flag says that the clip has an empty second one."""
    seen = np.ones((1, 4, 25, 3))
    clips = [((0, 1, 0), 0), ((0, 0), 0), ((1, 0), Flag.EMPTY_BODY), ((1,), 0)]
    with open_writer(tmp_path / "made") as writer:
        for subject, (bodies, flags) in enumerate(clips, 1):
            x_MTJC = np.concatenate([there * seen for there in bodies])
            writer.add(x_MTJC, 0, subject=subject, camera=subject, flags=flags, confidence_MTJ=x_MTJC[..., 0])
    store = ClipStore.open(tmp_path / "made")
    assert store.bodies.tolist() == [1, 1, 2, 1] and store.present.tolist() == [1, 1, 1, 1]
    assert store.clip(0).all() and store.confidence(0).all() and not store.clip(1).any()
