import json
import os
import re

import numpy as np
import pytest
from hypothesis import given, settings
from made.files import DAMAGE, survive_damage

from skelbench.data.foreign import ImportOptions, import_files
from skelbench.data.store.clip_store import ClipStore
from skelbench.errors import SkelbenchError

LENGTHS = (3, 1, 5, 2, 4, 6)


def recording(**changes):
    """Arrays of a small, good file; None leaves a key out."""
    rng = np.random.default_rng(0)
    arrays = dict(
        joints=rng.standard_normal((sum(LENGTHS), 25, 3)).astype(np.float32),
        offsets=np.cumsum((0, *LENGTHS)),
        origin=rng.standard_normal((6, 3)).astype(np.float32),
        label=np.array([0, 1, 2, 0, 1, 2], dtype=np.int16),
        correct=np.array([0, 0, 0, 1, 1, 1], dtype=np.int8),
        subject=np.array([1, 2, 3, 4, 5, 6], dtype=np.int16),
        trial=np.array([9, 8, 7, 6, 5, 4], dtype=np.int16),
        classes=np.array(["squat", "lunge", "bow"]),
        fps=np.full(6, 30.0),
        meta=np.array(json.dumps({"licence": "public domain", "units": "m", "up": "Y"})),
    )
    return {key: value for key, value in (arrays | changes).items() if value is not None}


def imported(tmp_path, name="mine", label_fields=("label",), **changes):
    np.savez(tmp_path / "file.npz", **recording(**changes))
    return opened(tmp_path / "file.npz", tmp_path / "root", name, label_fields=label_fields)


def opened(file, root, name="mine", **options):
    return ClipStore.open(import_files([file], name, root, ImportOptions(**options)).path)


def test_clips_are_centred_and_can_be_put_back(tmp_path):
    store, arrays = imported(tmp_path), recording()
    assert store.path == tmp_path / "root" / "mine" and store.lengths.tolist() == list(LENGTHS)
    for i, (start, end) in enumerate(zip(arrays["offsets"][:-1], arrays["offsets"][1:], strict=True)):
        x = store.clip(i)
        assert x.shape == (1, end - start, 25, 3) and not x[0, 0, 1].any()
        camera = arrays["joints"][start:end] + arrays["origin"][i]
        np.testing.assert_allclose(x[0] + store.index["origin"][i], camera, atol=1e-6)
    for field in ("label", "subject", "trial"):
        np.testing.assert_array_equal(store.index[field], arrays[field])
    assert store.classes == ("squat", "lunge", "bow") and store.meta.licence == "public domain"


def test_combined_labels(tmp_path):
    store, arrays = imported(tmp_path, label_fields=("label", "correct")), recording()
    np.testing.assert_array_equal(store.labels, arrays["label"] * 2 + arrays["correct"])
    expected = [f"{move} / {how}" for move in ("squat", "lunge", "bow") for how in ("incorrect", "correct")]
    assert list(store.classes) == expected
    turned = imported(tmp_path, "turned", ("correct", "label"), label_classes=np.array(["a", "b", "c"]), classes=None)
    assert turned.classes[4] == "correct / b" and turned.labels[4] == 4


def test_what_may_be_left_out(tmp_path):
    store = imported(tmp_path, origin=None, trial=None, fps=None, meta=None, classes=None, correct=None)
    arrays = recording()
    assert store.classes == ("label 0", "label 1", "label 2")
    np.testing.assert_array_equal(store.index["origin"], arrays["joints"][arrays["offsets"][:-1], 1])
    assert store.meta.fps == 30.0 and not store.index["trial"].any()


def test_splits_follow_the_subjects(tmp_path):
    store = imported(tmp_path)
    assert store.split().name == "odd-even" and store.split().train.tolist() == [0, 2, 4]
    assert store.split("even-odd").test.tolist() == [0, 2, 4]
    for name, subject in (("none", None), ("odd-only", np.array([1, 3, 5, 7, 9, 11]))):
        label = np.array([0, 0, 0, 0, 1, 1])
        random = imported(tmp_path, name, subject=subject, label=label)
        assert list(random.meta.splits) == ["random"] and len(random.split().test) == 2


def _with(array, index, value):
    array = array.copy()
    array[index] = value
    return array


GOOD = recording()
BAD = {
    "no joints": (dict(joints=None), r"has no array 'joints' \(it has: 'offsets', .*needs joints, offsets, label"),
    "no label, no offsets": (dict(label=None, offsets=None), "has no array 'offsets', 'label'"),
    "not a number": (dict(joints=_with(GOOD["joints"], (6, 3, 1), np.nan)), "clip 2, frame 2 .*not a finite number"),
    "infinite": (dict(joints=_with(GOOD["joints"], (3, 3, 1), -np.inf)), "clip 1, frame 0 .*not a finite number"),
    "too large": (
        dict(joints=_with(GOOD["joints"].astype(float), (3, 3, 1), 1e300)),
        "clip 1, frame 0 .*not a finite number",
    ),
    "flat joints": (dict(joints=GOOD["joints"].reshape(-1, 75)), r"joints must be .*not float32 \[21, 75\]"),
    "2-D joints": (dict(joints=GOOD["joints"][..., :2]), r"joints must be .*\[21, 25, 2\]"),
    "integer joints": (dict(joints=GOOD["joints"].astype(int)), r"joints must be floating-point"),
    "19 joints": (dict(joints=GOOD["joints"][:, :19]), "19 joints fit no known topology .*ntu25 with 25"),
    "17 joints": (dict(joints=GOOD["joints"][:, :17]), "17 joints are those of coco17 or h36m17; say which with --top"),
    "offsets too short": (dict(offsets=GOOD["offsets"][:-1]), "offsets run from 0 to 15 but joints has frames 0 to 21"),
    "offsets start late": (dict(offsets=_with(GOOD["offsets"], 0, 1)), "offsets run from 1 to 21"),
    "offsets backwards": (dict(offsets=_with(GOOD["offsets"], 3, 20)), "clip 3 has offsets that go backwards"),
    "empty clip": (dict(offsets=_with(GOOD["offsets"], 2, 3)), "clip 1 has no frames"),
    "label huge, no names": (
        dict(label=_with(GOOD["label"].astype(np.int64), 4, 2**31 - 1), classes=None),
        "clip 4 has label 2147483647, more than the 99999 that is possible",
    ),
    "too many names": (dict(classes=np.arange(100_001).astype(str)), "label make more than 100000 classes"),
    "subject wraps round": (dict(subject=np.full(6, 2**64 - 5, np.uint64)), "clip 0 has subject beyond"),
    "nothing to keep for testing": (
        dict(label=np.arange(6), classes=None, subject=None),
        "no class has two clips, so none can be kept for testing; .* or an array subject",
    ),
    "no clips": (dict(offsets=np.array([0])), "offsets must be whole numbers .*at least one clip"),
    "fractional offsets": (dict(offsets=GOOD["offsets"] * 1.0), "offsets must be whole numbers"),
    "label too large": (dict(label=_with(GOOD["label"], 4, 3)), r"clip 4 has label 3, outside 0..2"),
    "label negative": (dict(label=_with(GOOD["label"], 5, -1)), "clip 5 has label -1, outside"),
    "label negative, no names": (dict(label=_with(GOOD["label"], 5, -1), classes=None), "clip 5 has label -1"),
    "labels too few": (dict(label=GOOD["label"][:4]), r"label must be whole numbers, one for each of the 6 clips"),
    "labels one-hot": (dict(label=np.eye(6)), r"label must be whole numbers.*float64 \[6, 6\]"),
    "subject as text": (dict(subject=np.array(list("abcdef"))), "subject must be whole numbers"),
    "subject huge": (dict(subject=np.arange(6) * 2**40), "clip 1 has subject beyond"),
    "origin of the wrong shape": (dict(origin=np.zeros((5, 3))), r"origin must be finite numbers \[6, 3\]"),
    "origin not finite": (dict(origin=np.full((6, 3), np.nan)), "origin must be finite"),
    "objects": (dict(classes=np.array(["a", 1, None], dtype=object)), "'classes' holds Python objects"),
    "millimetres": (dict(meta=np.array('{"units": "mm"}')), "units are 'mm'.*convert"),
    "z up": (dict(meta=np.array('{"up": "Z"}')), "'Z' points up.*turn the coordinates"),
    "meta not JSON": (dict(meta=np.array("{")), "meta is not JSON"),
    "two frame rates": (dict(fps=np.array([30.0, 25, 30, 30, 30, 30])), "fps must be one positive"),
    "bad frame rate": (dict(fps=np.full(6, np.nan)), "fps must be one positive"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_content_is_refused_in_one_sentence(tmp_path, kind):
    changes, message = BAD[kind]
    _refused(tmp_path, lambda: imported(tmp_path, **changes), message)


def test_label_fields_must_fit(tmp_path):
    _refused(tmp_path, lambda: imported(tmp_path, label_fields=("label", "side")), "has no array 'side'")
    wrong = dict(correct=_with(GOOD["correct"], 1, 2))
    _refused(tmp_path, lambda: imported(tmp_path, label_fields=("label", "correct"), **wrong), "clip 1 has correct 2")


def test_label_fields_do_not_multiply_without_end(tmp_path):
    many = dict(label=_with(GOOD["label"], 0, 400), side=np.arange(6) * 60, classes=None)
    (tmp_path / "one").mkdir()
    assert imported(tmp_path / "one", label_fields=("side",), **many).num_classes == 301
    fields = ("label", "side")
    _refused(tmp_path, lambda: imported(tmp_path, label_fields=fields, **many), "label, side make more than 100000")


def _file(content):
    def write(path):
        np.savez(path, **GOOD)
        data = path.read_bytes()
        path.write_bytes(content(data))

    return write


FILES = {
    "missing": (lambda path: None, "there is no file .*file.npz; check the path"),
    "empty": (_file(lambda data: b""), "is empty; download"),
    "half": (_file(lambda data: data[: len(data) // 2]), "is not a readable npz file .*download or copy it again"),
    "cut at the end": (_file(lambda data: data[:-5]), "is not a readable npz file"),
    "nulls": (_file(lambda data: bytes(len(data))), "begins with zero bytes.*download"),
    "flipped bits": (
        _file(lambda data: data[:2000] + bytes(50) + data[2050:]),
        "array 'joints' is not readable .*download or copy",
    ),
    "text": (_file(lambda data: b"joints,label\n1,2\n"), "is text .*data prepare.*; formats"),
    "folder": (lambda path: path.mkdir(), "is a folder; name a file in it"),
    "named pipe": (os.mkfifo, "is not a regular file but a pipe or a device; save"),
}


@pytest.mark.parametrize("kind", FILES)
def test_bad_files_are_refused_in_one_sentence(tmp_path, kind):
    write, message = FILES[kind]
    write(tmp_path / "file.npz")
    _refused(tmp_path, lambda: opened(tmp_path / "file.npz", tmp_path / "root"), message)


def _refused(tmp_path, attempt, message):
    with pytest.raises(SkelbenchError, match=message) as caught:
        attempt()
    sentence = str(caught.value)
    assert str(tmp_path / "file.npz") in sentence and "\n" not in sentence and "; " in sentence
    assert not [path for path in (tmp_path / "root").glob("*")]


@settings(max_examples=150, deadline=None)
@given(**DAMAGE)
def test_a_damaged_file_never_crashes_and_never_changes_the_data(tmp_path_factory, **damage):
    folder = tmp_path_factory.mktemp("fuzz")
    np.savez(folder / "good.npz", **GOOD)
    survive_damage(folder, **damage)


def test_bad_names_are_refused(tmp_path):
    np.savez(tmp_path / "file.npz", **GOOD)
    with pytest.raises(SkelbenchError, match=re.escape("'../x' cannot name a data set")):
        opened(tmp_path / "file.npz", tmp_path / "root", "../x")


def test_progress_counts_clips(tmp_path):
    np.savez(tmp_path / "file.npz", **GOOD)
    seen = []
    import_files([tmp_path / "file.npz"], "mine", tmp_path, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(i, 6) for i in range(1, 7)]


def test_real_recordings(tmp_path, recordings):
    store = opened(recordings, tmp_path, "uiprmd", label_fields=("label", "correct"))
    assert (len(store), store.num_classes, store.max_bodies, store.lengths.sum()) == (200, 20, 1, 15454)
    assert store.classes[:2] == ("deep squat / incorrect", "deep squat / correct")
    assert np.bincount(store.labels).tolist() == [10] * 20
    split = store.split()
    assert split.name == "odd-even" and len(split.train) == len(split.test) == 100
    assert set(store.index["subject"][split.train] % 2) == {1}
    with np.load(recordings) as file:
        first = file["joints"][: file["offsets"][1]] + file["origin"][0]
    np.testing.assert_allclose(store.clip(0)[0] + store.index["origin"][0], first, atol=1e-6)
    heights = [store.clip(i)[0, 0, 3, 1] - store.clip(i)[0, 0, 15, 1] for i in range(0, 200, 20)]
    assert 1.2 < np.median(heights) < 2.0, "metres, Y up"
