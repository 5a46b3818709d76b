import json
import os
import re
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from made.files import DAMAGE, people, survive_damage

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers import ImportOptions, import_files
from skelbench.data.store.clip_store import ClipStore, Flag

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


def standing():
    """Joints of such a file that belong to people who stand: metres, Y up."""
    return np.concatenate([people(i, 1)[0, :length] for i, length in enumerate(LENGTHS)])


def imported(tmp_path, name="mine", label_fields=("label",), options=None, **changes):
    np.savez(tmp_path / "file.npz", **recording(**changes))
    return opened(tmp_path / "file.npz", tmp_path / "root", name, label_fields=label_fields, **(options or {}))


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
    last = imported(tmp_path, "last", ("correct", "label"))
    assert last.classes[4] == "correct / lunge", "classes are those of label, wherever it stands"
    assert imported(tmp_path, "alone", ("correct",)).classes == ("incorrect", "correct")
    other = imported(tmp_path, "other", ("move",), label=None, move=GOOD["label"])
    assert other.classes == ("squat", "lunge", "bow"), "without label they are those of the field there is"


def test_what_may_be_left_out(tmp_path):
    store = imported(tmp_path, origin=None, trial=None, fps=None, meta=None, classes=None, correct=None)
    arrays = recording()
    assert store.classes == ("label 0", "label 1", "label 2")
    np.testing.assert_array_equal(store.index["origin"], arrays["joints"][arrays["offsets"][:-1], 1])
    assert store.meta.fps == 30.0 and not store.index["trial"].any()


def test_names_of_classes_may_be_bytes(tmp_path):
    encoded = np.array([name.encode() for name in ("squat", "lunge", "dépôt")])
    assert imported(tmp_path, "bytes", classes=encoded).classes == ("squat", "lunge", "dépôt")


def test_labels_that_begin_at_1_are_told(tmp_path):
    store = imported(tmp_path, classes=None, label=GOOD["label"] + 1)
    assert store.classes[0] == "label 0" and "from 1, so class 'label 0' has no clip" in store.meta.details["labels"]
    assert "labels" not in imported(tmp_path, "named", label=GOOD["label"].clip(1)).meta.details


@pytest.mark.parametrize("up", ["z", "y"])
def test_the_advice_for_a_wrong_axis_in_meta_can_be_followed(tmp_path, up):
    lying = dict(joints=standing()[..., [0, 2, 1]], meta=np.array('{"up": "y"}'))
    with pytest.raises(SkelbenchError, match="correct the up in its meta to z, or confirm it with --up y"):
        imported(tmp_path, **lying)
    if up == "y":
        assert len(imported(tmp_path, options={"up": "y"}, **lying)) == 6
    else:
        assert len(imported(tmp_path, **lying | {"meta": np.array('{"up": "z"}')})) == 6


@pytest.mark.parametrize("options", [{"fps": np.inf}, {"fps": np.nan}, {"body_m": np.inf}, {"image_m": -1.0}])
def test_no_file_is_blamed_for_numbers_that_are_none(options):
    with pytest.raises(SkelbenchError, match=r"^--(fps|body-height|image-height) .* is no positive number; give one$"):
        ImportOptions(**options)


def test_every_clip_keeps_its_frame_rate(tmp_path):
    rates = [30.3, 32.05, 31.0, 30.5, 31.5, 30.9]
    store = imported(tmp_path, fps=np.array(rates))
    assert store.fps.tolist() == rates and store.meta.fps == np.median(rates)
    one = imported(tmp_path, "one", fps=np.array(31))
    assert one.meta.fps == 31 and (one.fps == 31).all() and one.fingerprint == store.fingerprint


def test_splits_follow_the_subjects(tmp_path):
    store = imported(tmp_path)
    assert store.split().name == "odd-even" and store.split().train.tolist() == [0, 2, 4]
    assert store.split("even-odd").test.tolist() == [0, 2, 4]
    for name, subject in (
        ("even", [2, 4, 8, 2, 4, 8]),
        ("odd", [1, 5, 7, 1, 5, 7]),
        ("negative", [-3, 1, 9, -3, 1, 9]),
    ):
        apart = imported(tmp_path, name, subject=np.array(subject))
        assert apart.split().name == "by-subject" and apart.split().test.tolist() == [1, 4]
        assert f"every other one trains: {subject[0]}, {subject[2]}" in apart.meta.details["subjects"]
    for name, subject in (("none", None), ("one", np.full(6, 3))):
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
    "labels of text": (
        dict(label=np.array(list("abcabc"))),
        r"the 6 clips, not <U1 \[6\]; `names, label = numpy.unique\(label, return_inverse=True\)` numbers names",
    ),
    "labels too few": (dict(label=GOOD["label"][:4]), r"label must be whole numbers, one for each of the 6 clips"),
    "labels one-hot": (dict(label=np.eye(6)), r"label must be whole numbers.*float64 \[6, 6\]"),
    "subject as text": (dict(subject=np.array(list("abcdef"))), "subject must be whole numbers"),
    "subject huge": (dict(subject=np.arange(6) * 2**40), "clip 1 has subject beyond"),
    "origin of the wrong shape": (dict(origin=np.zeros((5, 3))), r"origin must be finite numbers \[6, 3\]"),
    "origin not finite": (dict(origin=np.full((6, 3), np.nan)), "origin must be finite"),
    "objects": (dict(classes=np.array(["a", 1, None], dtype=object)), "'classes' holds Python objects"),
    "unknown unit": (dict(meta=np.array('{"units": "feet"}')), "meta says units 'feet', none of m, cm, mm.*conv"),
    "unknown axis": (dict(meta=np.array('{"up": "w"}')), "meta says up 'w', none of y, -y"),
    "metres called mm": (
        dict(meta=np.array('{"units": "mm"}')),
        r"measure 0\.00\d+ m; correct the units in its meta to m",
    ),
    "millimetres": (dict(joints=1000 * GOOD["joints"]), r"measure \d+ m; correct the units in its meta to mm"),
    "millimetres unsaid": (dict(joints=1000 * GOOD["joints"], meta=None), "measure .* m; say --units mm"),
    "one tall clip": (
        dict(joints=np.concatenate([GOOD["joints"][:-6], 1000 * GOOD["joints"][-6:]])),
        r"clip 5: its bodies measure .*e\+03 m from end to end, which no joint positions in metres do; repair",
    ),
    "no frame is whole": (
        dict(joints=_with(GOOD["joints"], (slice(None), 3), np.nan)),
        "every frame of its first clips is all zeros or holds a coordinate that is not a finite number",
    ),
    "two classes of a name": (
        dict(classes=np.array(["a", "b", "a"])),
        "classes calls class 0 and class 2 'a'; give each a name of its own",
    ),
    "a class without a name": (dict(classes=np.array(["a", " ", "b"])), "class 1 has no name in classes; give it one"),
    "names in another encoding": (
        dict(classes=np.array([b"a", b"\xff", b"b"])),
        "classes holds bytes that are no UTF-8",
    ),
    "all zero": (dict(joints=0 * GOOD["joints"]), "its first clips are all zeros"),
    "a clip of zeros": (
        dict(joints=_with(GOOD["joints"], slice(4, 9), 0)),
        "clip 2: all its coordinates are zero; rep",
    ),
    "z up": (
        dict(joints=standing()[..., [0, 2, 1]], meta=None),
        "y should point up, but its bodies stand along z; say .*--up z or",
    ),
    "meta not JSON": (dict(meta=np.array("{")), "meta is not JSON"),
    "meta nested without end": (dict(meta=np.array("[" * 100_000)), "meta is not JSON"),
    "frame rates too few": (dict(fps=np.full(5, 30.0)), r"one for each of the 6, not float64 \[5\]"),
    "frame rate as text": (dict(fps=np.array("30")), "fps must be a number for all clips"),
    "bad frame rate": (dict(fps=_with(np.full(6, 30.0), 4, np.nan)), "clip 4 has nan frames per second"),
    "no frame rate": (dict(fps=0), "clip 0 has 0.0 frames per second"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_content_is_refused_in_one_sentence(tmp_path, kind):
    changes, message = BAD[kind]
    _refused(tmp_path, lambda: imported(tmp_path, **changes), message)


def _meta(**stated):
    return np.array(json.dumps(stated))


@pytest.mark.parametrize("options, meta", [
    (dict(units="mm", up="z"), None),
    (dict(units="mm", up="z"), _meta(units="millimetres", up="Z")),
    ({}, _meta(units="mm", up="z")),
])  # fmt: skip
def test_units_and_up_axis_are_what_options_or_the_file_say(tmp_path, options, meta):
    good = imported(tmp_path, "good", joints=standing())
    turned = (1000 * standing()[..., [0, 2, 1]] * [1, -1, 1]).astype(np.float32)  # Y up to z up
    origin = 1000 * GOOD["origin"][:, [0, 2, 1]] * [1, -1, 1]
    store = imported(tmp_path, joints=turned, origin=origin, meta=meta, options=options)
    for i in range(6):
        np.testing.assert_allclose(store.clip(i), good.clip(i), atol=1e-5)
    np.testing.assert_allclose(store.index["origin"], good.index["origin"], atol=1e-5)


@pytest.mark.parametrize("options, message", [
    (dict(units="cm"), "its meta says units 'mm', --units says cm; correct the meta or leave out the option"),
    (dict(up="x"), "its meta says up 'z', --up says x; correct"),
])  # fmt: skip
def test_options_that_contradict_the_file(tmp_path, options, message):
    _refused(tmp_path, lambda: imported(tmp_path, meta=_meta(units="mm", up="z"), options=options), message)


def test_frames_that_show_nobody_are_left_out(tmp_path):
    store = imported(tmp_path, joints=_with(GOOD["joints"], [4, 7], 0))
    assert store.lengths.tolist() == [3, 1, 3, 2, 4, 6] and store.index["source_frames"][2] == 5
    assert store.index["flags"].tolist() == [0, 0, Flag.FRAMES_DROPPED, 0, 0, 0]
    joints = GOOD["joints"][[5, 6, 8]]
    np.testing.assert_allclose(store.clip(2)[0], joints - joints[0, 1], atol=1e-6)


def test_label_fields_must_fit(tmp_path):
    _refused(tmp_path, lambda: imported(tmp_path, label_fields=("label", "side")), "has no array 'side'")
    for fields in (("joints",), ("label", "label"), ("label", "joints")):
        message = f"--label-fields {','.join(fields)} names a field twice, or joints"
        _refused(tmp_path, partial(imported, tmp_path, label_fields=fields), message)
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
    "text": (_file(lambda data: b"joints and labels\n1 2\n"), "is text .*data prepare.*; formats"),
    "table": (_file(lambda data: b"joints,label\n1,2\n"), "is a table; save it as a ragged npz"),
    "folder": (lambda path: path.mkdir(), "is a folder without clips of NW-UCLA; name a file in it"),
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
