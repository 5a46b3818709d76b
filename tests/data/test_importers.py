"""Ragged npz, skelbench's own format for recordings."""

import numpy as np
import pytest
from made.files import people

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers import ImportOptions, import_files
from skelbench.data.store.clip_store import ClipStore

LENGTHS = (3, 1, 5, 2, 4, 6)


def standing():
    """Joints of people who stand: meters, Y up."""
    return np.concatenate([people(i, 1)[0, :length] for i, length in enumerate(LENGTHS)])


def recording(**changes):
    """Arrays of a small, good file; None leaves a key out."""
    rng = np.random.default_rng(0)
    arrays = dict(
        joints=standing(),
        offsets=np.cumsum((0, *LENGTHS)),
        origin=rng.standard_normal((6, 3)).astype(np.float32),
        label=np.array([0, 1, 2, 0, 1, 2], dtype=np.int16),
        correct=np.array([0, 0, 0, 1, 1, 1], dtype=np.int8),
        subject=np.array([1, 2, 3, 4, 5, 6], dtype=np.int16),
        trial=np.array([9, 8, 7, 6, 5, 4], dtype=np.int16),
        classes=np.array(["squat", "lunge", "bow"]),
        fps=np.full(6, 30.0),
    )
    return {key: value for key, value in (arrays | changes).items() if value is not None}


GOOD = recording()


def imported(tmp_path, name="mine", label_fields=("label",), options=None, **changes):
    np.savez(tmp_path / "file.npz", **recording(**changes))
    options = ImportOptions(label_fields=label_fields, **(options or {}))
    return ClipStore.open(import_files([tmp_path / "file.npz"], name, tmp_path / "root", options).path)


def test_clips_are_centered_and_the_origin_restores_them(tmp_path):
    store, arrays = imported(tmp_path), recording()
    assert store.path == tmp_path / "root" / "mine" and store.lengths.tolist() == list(LENGTHS)
    for i, (start, end) in enumerate(zip(arrays["offsets"][:-1], arrays["offsets"][1:], strict=True)):
        x = store.clip(i)
        assert x.shape == (1, end - start, 25, 3) and not x[0, 0, 1].any()
        camera = arrays["joints"][start:end] + arrays["origin"][i]
        np.testing.assert_allclose(x[0] + store.index["origin"][i], camera, atol=1e-6)
    for field in ("label", "subject", "trial"):
        np.testing.assert_array_equal(store.index[field], arrays[field])
    assert store.classes == ("squat", "lunge", "bow")


def test_combined_labels(tmp_path):
    store, arrays = imported(tmp_path, label_fields=("label", "correct")), recording()
    np.testing.assert_array_equal(store.labels, arrays["label"] * 2 + arrays["correct"])
    expected = [f"{move} / {how}" for move in ("squat", "lunge", "bow") for how in ("incorrect", "correct")]
    assert list(store.classes) == expected
    turned = imported(tmp_path, "turned", ("correct", "label"), label_classes=np.array(["a", "b", "c"]), classes=None)
    assert turned.classes[4] == "correct / b" and turned.labels[4] == 4
    assert imported(tmp_path, "alone", ("correct",)).classes == ("incorrect", "correct")
    other = imported(tmp_path, "other", ("move",), label=None, move=GOOD["label"])
    assert other.classes == ("squat", "lunge", "bow"), "without label, classes are of the first field"


def test_optional_arrays(tmp_path):
    store = imported(tmp_path, origin=None, trial=None, fps=None, classes=None, correct=None)
    assert store.classes == ("label 0", "label 1", "label 2")
    np.testing.assert_array_equal(store.index["origin"], GOOD["joints"][GOOD["offsets"][:-1], 1])
    assert store.meta.fps == 30.0 and not store.index["trial"].any()
    late = imported(tmp_path, "late", classes=None, label=GOOD["label"] + 1)
    assert "from 1, so class 'label 0' has no clip" in late.meta.details["labels"]
    rates = [30.3, 32.05, 31.0, 30.5, 31.5, 30.9]
    rated = imported(tmp_path, "rated", fps=np.array(rates))
    assert rated.meta.fps == np.median(rates)


def test_splits_follow_the_subjects(tmp_path):
    store = imported(tmp_path)
    assert store.split().name == "odd-even" and store.split().train.tolist() == [0, 2, 4]
    assert store.split("even-odd").test.tolist() == [0, 2, 4]
    even = imported(tmp_path, "even", subject=np.array([2, 4, 8, 2, 4, 8]))
    assert even.split().name == "by-subject" and even.split().test.tolist() == [1, 4]
    for name, subject in (("none", None), ("one", np.full(6, 3))):
        random = imported(tmp_path, name, subject=subject, label=np.array([0, 0, 0, 0, 1, 1]))
        assert list(random.meta.splits) == ["random"] and len(random.split().test) == 2


def test_units_and_up_axis(tmp_path):
    good = imported(tmp_path, "good", joints=standing())
    turned = (1000 * standing()[..., [0, 2, 1]] * [1, -1, 1]).astype(np.float32)  # Y up to z up
    origin = 1000 * GOOD["origin"][:, [0, 2, 1]] * [1, -1, 1]
    store = imported(tmp_path, joints=turned, origin=origin, options=dict(units="mm", up="z"))
    for i in range(6):
        np.testing.assert_allclose(store.clip(i), good.clip(i), atol=1e-5)
    np.testing.assert_allclose(store.index["origin"], good.index["origin"], atol=1e-5)


def test_frames_without_bodies_are_dropped(tmp_path):
    store = imported(tmp_path, joints=changed(GOOD["joints"], [4, 7], 0))
    assert store.lengths.tolist() == [3, 1, 3, 2, 4, 6]


def changed(array, index, value):
    array = array.copy()
    array[index] = value
    return array


BAD = {
    "no joints": (dict(joints=None), "has no array 'joints'"),
    "offsets too short": (dict(offsets=GOOD["offsets"][:-1]), "offsets run from 0 to 15 but joints from 0 to 21"),
    "offsets backwards": (dict(offsets=changed(GOOD["offsets"], 3, 20)), "clip 3 has no frames"),
    "label too large": (dict(label=changed(GOOD["label"], 4, 3)), "clip 4 has label 3, outside 0..2"),
    "labels of text": (dict(label=np.array(list("abcabc"))), "numpy.unique.label, return_inverse=True"),
    "subject huge": (dict(subject=np.arange(6) * 2**40), "does not fit 32 bits"),
    "two classes of a name": (dict(classes=np.array(["a", "b", "a"])), "calls class 2 'a'"),
    "millimeters": (dict(joints=1000 * GOOD["joints"]), "say --units mm"),
    "z up": (dict(joints=standing()[..., [0, 2, 1]]), "its bodies stand along z; say .*--up z or"),
    "bad frame rate": (dict(fps=changed(np.full(6, 30.0), 4, np.nan)), "fps must be a positive number"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_content_is_rejected(tmp_path, kind):
    changes, message = BAD[kind]
    refused(tmp_path, message, **changes)


def test_a_clip_that_cannot_be_used_is_skipped(tmp_path):
    joints = changed(GOOD["joints"], (6, 3, 1), np.nan)
    joints[-6:] *= 1000
    store = imported(tmp_path, joints=joints)
    assert store.lengths.tolist() == [3, 1, 2, 4]
    assert [one.name for one in store.meta.skipped] == ["clip 2", "clip 5"]


def refused(tmp_path, message, **changes):
    with pytest.raises(SkelbenchError, match=message) as caught:
        imported(tmp_path, **changes)
    assert "\n" not in str(caught.value) and not list((tmp_path / "root").glob("*"))


def test_real_recordings(tmp_path, recordings):
    options = ImportOptions(label_fields=("label", "correct"))
    store = ClipStore.open(import_files([recordings], "uiprmd", tmp_path, options).path)
    assert (len(store), store.num_classes, store.max_bodies, store.lengths.sum()) == (200, 20, 1, 15454)
    assert store.classes[:2] == ("deep squat / incorrect", "deep squat / correct")
    split = store.split()
    assert split.name == "odd-even" and len(split.train) == len(split.test) == 100
    assert set(store.index["subject"][split.train] % 2) == {1}
    with np.load(recordings) as file:
        first = file["joints"][: file["offsets"][1]] + file["origin"][0]
    np.testing.assert_allclose(store.clip(0)[0] + store.index["origin"][0], first, atol=1e-6)
