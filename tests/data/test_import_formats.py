"""Every format but the ragged npz (test_importers.py): what is read, what is refused, and in which words."""

import io
import os
import pickle
import re
import sys
import tracemalloc
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made.files import (
    DAMAGE,
    LENGTHS,
    NAMES,
    annotation,
    centred,
    flat_annotation,
    labels,
    mamp_arrays,
    people,
    pixels,
    slot_array,
    split_lists,
    survive_damage,
    upright,
    write_h5,
    write_pickle,
    write_slots,
    zipped,
)

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers import ImportOptions, import_files, name_for, ntu
from skelbench.data.importers.bodies import TURNS, Pose, drop_absent
from skelbench.data.importers.exporters import export_mamp_npz
from skelbench.data.importers.files import _is_table
from skelbench.data.raw.origin import centre
from skelbench.data.store.clip_store import ClipStore, Flag
from skelbench.data.store.splits import FieldRule, NameRule
from skelbench.views.skeleton.topology import NTU25, topologies


@pytest.fixture
def take(tmp_path):
    """``take(*files, **options)``: import them, give the opened store; ``take.skipped`` what was left out."""

    def take(*files, name="mine", **options):
        imported = import_files(files, name, tmp_path / "root", ImportOptions(**options), overwrite=True)
        take.imported = imported
        return ClipStore.open(imported.path)

    return take


def refused(tmp_path, message, *files, progress=None, **options):
    with pytest.raises(SkelbenchError, match=message) as caught:
        import_files(files, "refused", tmp_path / "root", ImportOptions(**options), progress=progress)
    sentence = str(caught.value)
    assert "\n" not in sentence and len(sentence) < 600
    assert not list((tmp_path / "root").glob("*refused*/*"))


def expect(store, clip, i, exact=True):
    """Clip ``clip`` of the store is person(s) ``i``, centred, and can be put back in front of the camera."""
    x, origin = centred(people(i))
    assert store.clip(clip).shape == x.shape
    np.testing.assert_allclose(store.clip(clip), x, atol=0 if exact else 4e-3)
    np.testing.assert_allclose(store.index["origin"][clip], origin, atol=0 if exact else 2e-3)


# ------------------------------------------------------------------------------------------------ CTR-GCN, MAMP, SGN
@pytest.mark.parametrize("repeat", [False, True])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_padded_npz(tmp_path, take, repeat, save):
    save(tmp_path / "x.npz", **mamp_arrays(repeat))
    store = take(tmp_path / "x.npz")
    rows = [i for i, name in enumerate(NAMES) if "P001" in name] + [i for i, name in enumerate(NAMES) if "P003" in name]
    assert store.lengths.tolist() == [LENGTHS[i] for i in rows]
    assert store.bodies.tolist() == [1 + i % 2 for i in rows], "a repeated or a missing second body is none"
    for clip, i in enumerate(rows):
        np.testing.assert_array_equal(store.clip(clip), centred(people(i))[0])
    np.testing.assert_array_equal(store.labels, labels()[rows])
    assert store.num_classes == 60 and store.classes[49] == "label 49", "60 classes do not make it NTU"
    assert store.split("given").train.tolist() == list(range(6)) and store.names[6] == "test_000000"


def test_an_empty_second_body_is_kept_where_single_bodies_are_repeated(tmp_path, take):
    arrays = mamp_arrays(repeat=True)
    arrays["x_train"][0, :, 75:] = 0
    np.savez(tmp_path / "x.npz", **arrays)
    store = take(tmp_path / "x.npz")
    assert store.bodies[0] == 2 and not store.clip(0)[1].any() and store.index["flags"][0] == Flag.EMPTY_BODY
    assert store.bodies[2] == 1 and not store.index["flags"][1:].any()


def test_a_body_in_the_second_slot_alone_is_the_clips_only_one(tmp_path, take):
    arrays = mamp_arrays()
    x = arrays["x_train"]
    x[0, :, 75:], x[0, :, :75] = x[0, :, :75].copy(), 0
    np.savez(tmp_path / "x.npz", **arrays)
    store, first = take(tmp_path / "x.npz"), next(i for i, name in enumerate(NAMES) if "P001" in name)
    np.testing.assert_array_equal(store.clip(0), centred(people(first))[0])


@pytest.mark.parametrize("repeat", [False, True])
def test_of_two_padded_bodies_the_one_seen_longest_is_kept_if_one_is_asked_for(tmp_path, take, repeat):
    arrays = mamp_arrays(repeat)
    np.savez(tmp_path / "x.npz", **arrays)
    two = take(tmp_path / "x.npz")
    clip = int(np.flatnonzero(two.bodies == 2)[0])
    arrays["x_train"][clip, :3, :75] = 0
    np.savez(tmp_path / "x.npz", **arrays)
    one = take(tmp_path / "x.npz", max_bodies=1)
    assert set(one.bodies.tolist()) == {1} and one.index["flags"][clip] == Flag.BODY_DROPPED
    second = arrays["x_train"][clip, : one.lengths[clip], 75:].reshape(1, -1, 25, 3)
    np.testing.assert_array_equal(one.clip(clip), centre(second, NTU25.center)[0])
    assert not one.index["flags"][two.bodies == 1].any()


def test_empty_frames_inside_a_clip_stay_and_empty_clips_do_not(tmp_path, take):
    arrays = mamp_arrays()
    arrays["x_train"][0, 5:8] = 0
    arrays["x_test"][1] = 0
    np.savez(tmp_path / "x.npz", **arrays)
    store = take(tmp_path / "x.npz")
    assert store.lengths[0] == LENGTHS[0] and not store.clip(0)[:, 5:8].any() and len(store) == 11
    assert [(one.name, one.expected) for one in take.imported.skipped] == [("test_000001", True)]
    assert not take.imported.unexpected and store.meta.details["empty_frames_kept"] == 3


def test_coordinates_that_are_not_centred_are(tmp_path, take):
    arrays = mamp_arrays()
    for part in ("train", "test"):
        x = arrays[f"x_{part}"].reshape(6, 50, 2, 25, 3)
        x[x.any(axis=(3, 4))] += np.array([1, 2, 3], np.float32)
    np.savez(tmp_path / "x.npz", **arrays)
    store = take(tmp_path / "x.npz")
    np.testing.assert_allclose(store.clip(0), centred(people(0))[0], atol=1e-6)
    np.testing.assert_allclose(store.index["origin"], np.tile([1, 2, 3], (12, 1)), atol=1e-6)


def test_names_are_restored_only_if_every_label_fits(monkeypatch):
    everybody = ntu.all_names("ntu60")
    assert len(everybody) == 56_578 and len(ntu.all_names("ntu120")) == 113_945
    assert everybody[0] == "S001C001P001R001A001" and list(everybody) == sorted(everybody)
    monkeypatch.setattr(ntu, "all_names", lambda data: tuple(NAMES) if data == "ntu60" else everybody)
    by_view = [[i for i, name in enumerate(NAMES) if name[7] == camera] for camera in "231"]
    train, test = labels()[by_view[0] + by_view[1]], labels()[by_view[2]]
    split, first, second = ntu.restore(train, test)
    assert split == "cross-view" and first == [NAMES[i] for i in by_view[0] + by_view[1]]
    assert second == [NAMES[i] for i in by_view[2]]
    assert ntu.restore(train[::-1], test) is None and ntu.restore(train[:-1], test) is None


def test_restored_names_bring_all_splits(tmp_path, take, monkeypatch):
    monkeypatch.setattr(ntu, "all_names", lambda data: tuple(NAMES))
    np.savez(tmp_path / "x.npz", **mamp_arrays())
    store = take(tmp_path / "x.npz")
    assert list(store.meta.splits) == ["cross-subject", "cross-view"] and store.meta.default_split == "cross-subject"
    assert sorted(store.names) == sorted(NAMES) and store.meta.lineage.startswith("ctrgcn-denoise")
    assert store.classes[49] == "punching/slapping other person" and "NTU" in store.meta.licence
    assert store.index["camera"].tolist() == [int(name[7]) for name in store.names]


def test_sgn_h5(tmp_path, take):
    write_h5(tmp_path / "x.h5", mamp_arrays())
    store = take(tmp_path / "x.h5")
    assert len(store) == 14 and store.split("given").train.tolist() == list(range(8))
    assert store.split("validation").test.tolist() == [6, 7]
    assert store.names[8] == "test_000000"
    np.testing.assert_array_equal(store.clip(8), centred(people(6))[0])
    np.testing.assert_array_equal(store.clip(0), centred(people(0))[0])


def test_h5_that_leads_elsewhere_or_is_no_sgn_file(tmp_path):
    write_h5(tmp_path / "other.h5", mamp_arrays())
    with h5py.File(tmp_path / "link.h5", "w") as file:
        file["x"], file["y"] = h5py.ExternalLink("other.h5", "x"), h5py.ExternalLink("other.h5", "y")
    refused(tmp_path, "has no data sets x and y", tmp_path / "link.h5")
    (tmp_path / "cut.h5").write_bytes((tmp_path / "other.h5").read_bytes()[:3000])
    refused(tmp_path, "is not a readable HDF5 file", tmp_path / "cut.h5")


def test_parts_of_an_h5_are_whole(tmp_path, take):
    write_h5(tmp_path / "x.h5", mamp_arrays())
    with h5py.File(tmp_path / "x.h5", "a") as file:
        del file["test_y"]
    refused(tmp_path, "no data sets test_x and test_y of its own; the file is incomplete", tmp_path / "x.h5")
    with h5py.File(tmp_path / "x.h5", "a") as file:
        del file["test_x"]
    store = take(tmp_path / "x.h5")
    assert (store.split().name, len(store.split().train), store.split().test.tolist()) == ("given", 6, [6, 7])


def test_h5_without_h5py_says_what_to_install(tmp_path, monkeypatch):
    write_h5(tmp_path / "x.h5", mamp_arrays())
    monkeypatch.setitem(sys.modules, "h5py", None)
    refused(tmp_path, r"needs h5py .*pip install 'skelbench\[h5\]'", tmp_path / "x.h5")


def scored(x):
    """Pixels of people a hundred tall, with a score as third number."""
    x_nC = x.reshape(-1, 3) * np.array([90, 90, 0], x.dtype)
    x_nC[:, 2] = np.where(x_nC.any(axis=1), 0.6 + 0.4 * np.sin(np.arange(len(x_nC))), 0)
    return x_nC.reshape(x.shape)


PADDED = {
    "labels not one-hot": (dict(y_train=lambda y: y * 0), "'y_train': row 0 is not one-hot"),
    "two labels": (dict(y_train=lambda y: np.maximum(y, np.eye(60)[[3]])), "is not one-hot"),
    "labels too few": (dict(y_test=lambda y: y[:4]), "has 6 clips but 4 labels"),
    "labels negative": (dict(y_train=lambda y: -np.ones(6)), "clip 0 has label -1"),
    "labels as text": (dict(y_train=lambda y: np.array(list("abcdef"))), "labels must be numbers"),
    "integers": (dict(x_train=lambda x: x.astype(int)), "expected floating-point"),
    "flat": (dict(x_train=lambda x: x.reshape(6, -1)), r"\[clips, frames, bodies x joints x 3\]"),
    "odd width": (dict(x_train=lambda x: x[..., :149], x_test=lambda x: x[..., :149]), "149 values a frame"),
    "widths differ": (dict(x_test=lambda x: x[..., :75]), "differ in their last axis"),
    "millimetres": (dict(x_train=lambda x: x * 1000), "measure .* m; say --units mm"),
    "pixels": (dict(x_train=lambda x: x * 30), "which no joint positions do"),
    "pixels with scores": (dict(x_train=scored), "as of pixels with a score; give 2-D key points"),
    "all zeros": (dict(x_train=lambda x: x * 0), "its first clips are all zeros"),
    "columns": (dict(x_train=np.asfortranarray), "stored column by column"),
    "objects": (dict(y_train=lambda y: np.array([None] * 6)), "'y_train' holds Python objects"),
    "no labels": (dict(y_train=None, y_test=None), "none of the layouts"),
    "upside down half the time": (
        dict(x_train=lambda x: x * np.array([1, -1] * 3, np.float32)[:, None, None]),
        "do not show which axis points up; say which with --up",
    ),
}


@pytest.mark.parametrize("kind", PADDED)
def test_bad_padded_npz(tmp_path, kind):
    changes, message = PADDED[kind]
    arrays = mamp_arrays()
    for key, change in changes.items():
        if change is None:
            del arrays[key]
        else:
            arrays[key] = change(arrays[key])
    np.savez(tmp_path / "x.npz", **arrays)
    refused(tmp_path, message, tmp_path / "x.npz")


def test_not_a_number_leaves_out_one_clip(tmp_path, take):
    for value in (np.nan, np.inf, 1e300):
        arrays = {key: value_.astype(float) for key, value_ in mamp_arrays().items()}
        arrays["x_test"][2, 3, 40] = value
        np.savez(tmp_path / "x.npz", **arrays)
        assert len(take(tmp_path / "x.npz")) == 11
        assert [(one.name, one.reason) for one in take.imported.unexpected] == [
            ("test_000002", "a coordinate is not a finite number")
        ]


def test_a_clip_of_no_possible_size_is_left_out_of_any_format(tmp_path, take):
    arrays = mamp_arrays()
    arrays["x_test"][2] *= 1000
    np.savez(tmp_path / "x.npz", **arrays)
    entries = [annotation(i) for i in range(12)]
    entries[3]["keypoint"] = (entries[3]["keypoint"].astype(np.float32) - people(3)[:1, :1, :1]) / 1000
    x = slot_array(range(6))
    x[1] *= 1000
    np.save(tmp_path / "x.npy", x)
    labels = write_pickle(tmp_path / "x_label.pkl", (list("abcdef"), [0] * 6))
    for files, name, size in (
        ([tmp_path / "x.npz"], "test_000002", r".*e\+03"),
        ([pyskl(tmp_path, entries)], NAMES[3], r"0\.00\d+"),
        ([tmp_path / "x.npy", labels], "b", r".*e\+03"),
    ):
        take(*files)
        (one,) = take.imported.unexpected
        assert one.name == name and re.match(f"its bodies measure {size} m from end to end, which no joint", one.reason)


def test_units_and_up_axis(tmp_path, take):
    for up, (axes, signs) in TURNS.items():
        arrays = mamp_arrays()
        for part in ("train", "test"):
            x = arrays[f"x_{part}"].reshape(-1, 3)
            turned = np.zeros_like(x)
            turned[:, list(axes)] = x * np.array(signs, np.float32)
            arrays[f"x_{part}"] = (1000 * turned).reshape(6, 50, 150)
        np.savez(tmp_path / "x.npz", **arrays)
        store = take(tmp_path / "x.npz", units="mm")
        assert store.meta.details["up_axis_of_file"] == up and store.meta.up_axis == "y"
        np.testing.assert_allclose(store.clip(0), centred(people(0))[0], atol=1e-6)


@pytest.mark.parametrize("up", TURNS)
def test_turning_is_a_rotation(up):
    matrix = Pose(up).apply(np.eye(3, dtype=np.float32))
    assert np.linalg.det(matrix) == pytest.approx(1)
    points_up = np.zeros(3, np.float32)
    points_up["xyz".index(up[-1])] = -1 if up.startswith("-") else 1
    assert Pose(up).apply(points_up).tolist() == [0, 1, 0]


def test_one_clip_at_a_time(tmp_path):
    """Reading needs a few clips, not the array: 60 MB of coordinates here."""
    rng = np.random.default_rng(0)
    arrays = mamp_arrays()
    for part in ("train", "test"):
        arrays[f"x_{part}"] = np.tile(arrays[f"x_{part}"], (30, 6, 1)) + rng.normal(0, 1e-3, (180, 300, 1)).astype("f4")
        arrays[f"y_{part}"] = np.tile(arrays[f"y_{part}"], (30, 1))
    np.savez(tmp_path / "x.npz", **arrays)
    import_files([tmp_path / "x.npz"], "warm", tmp_path / "root")
    tracemalloc.start()
    import_files([tmp_path / "x.npz"], "mine", tmp_path / "root")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.6 * arrays["x_train"].nbytes < 20e6


# ------------------------------------------------------------------------------------------------ hostile zips
def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def test_zips_with_paths_are_refused(tmp_path):
    for name in ("../../x_train.npy", "/etc/x_train.npy", "a/b.npy"):
        file = zipped(tmp_path / "x.npz", {name: b""})
        refused(tmp_path, "a path that no npz file has; nothing was unpacked", file)
    assert not (tmp_path.parent / "x_train.npy").exists()


def test_zip_bombs_and_arrays_that_promise_too_much(tmp_path):
    bomb = npy(np.zeros((1, 300, 150), "f4"))[:128].replace(b"(1, 300, 150), }     ", b"(400, 300, 150), }   ")
    promise = npy(np.zeros((1, 2, 150), "f4")).replace(b"(1, 2, 150), }    ", b"(99999, 2, 150), }")
    for data, clips, message in (
        (bomb + bytes(400 * 300 * 150 * 4), 400, "would unpack to 0.1 GB, .* times its size"),
        (promise, 1, "does not hold the .* values it promises"),
    ):
        members = {"x_train.npy": data, "y_train.npy": npy(np.zeros(clips, int))}
        refused(tmp_path, message, zipped(tmp_path / "x.npz", members))


def test_parts_of_an_npz_go_by_their_names(tmp_path, take):
    good = mamp_arrays()
    (x, y), (x_test, y_test) = ((good[f"x_{part}"], good[f"y_{part}"]) for part in ("train", "test"))
    for first, second in (("val", "train"), ("Test", "Train"), ("validation", "training"), ("eval", "train")):
        arrays = {f"x_{first}": x_test[:4], f"y_{first}": y_test[:4], f"x_{second}": x[:2], f"y_{second}": y[:2]}
        np.savez(tmp_path / "x.npz", **arrays)
        store = take(tmp_path / "x.npz")
        assert store.split().name == "given" and (len(store.split().train), len(store.split().test)) == (2, 4)
        np.testing.assert_array_equal(store.clip(0), centred(people(0))[0])
        sources = take.imported.recording.sources["given"]
        assert sources == (f"x.npz: array 'x_{second}'", f"x.npz: array 'x_{first}'")
    np.savez(tmp_path / "x.npz", **good, x_val=x[:3], y_val=y[:3])
    store = take(tmp_path / "x.npz")
    assert (len(store.split().train), len(store.split().test), len(store.split("validation").test)) == (9, 6, 3)
    for message, arrays in (
        ("has x_test but no y_test; the file is incomplete", {"x_train": x, "y_train": y, "x_test": x}),
        ("has y_train but no x_train; the file is incomplete", {"x_test": x, "y_test": y, "y_train": y}),
        ("called a, b, which does not say which of them trains", {"x_a": x, "y_a": y, "x_b": x, "y_b": y}),
        ("called test, eval, which does not say", {"x_test": x, "y_test": y, "x_eval": x, "y_eval": y}),
        ("none to train on; add x_train and y_train", {"x_test": x, "y_test": y, "x_val": x, "y_val": y}),
    ):
        np.savez(tmp_path / "x.npz", **arrays)
        refused(tmp_path, message, tmp_path / "x.npz")


def test_arrays_of_negative_size(tmp_path):
    arrays = mamp_arrays()
    header = npy(np.zeros((2, 3)))[:128]
    for shape in (b"(-2, -3), }", b"(2, -3), } ", b"(-2, 3), } "):
        wrong = header.replace(b"(2, 3), }  ", shape) + bytes(48)
        assert len(wrong) == 176 and shape in wrong
        for key in ("x_train", "y_train"):
            members = {f"{name}.npy": npy(array) for name, array in arrays.items()} | {f"{key}.npy": wrong}
            refused(tmp_path, f"'{key}' does not hold the .* values it promises", zipped(tmp_path / "x.npz", members))
    (tmp_path / "x.npy").write_bytes(wrong)
    refused(tmp_path, "does not hold the .* values it promises", tmp_path / "x.npy")


def test_other_zips(tmp_path):
    raw = zipped(tmp_path / "raw.zip", {"nturgb+d_skeletons/S001C001P001R001A001.skeleton": b"1\r\n"})
    refused(tmp_path, "is a zip without arrays; .*data prepare ntu60 --raw", raw)
    odd = zipped(tmp_path / "odd.npz", {"x_train": b"1", "y_train.npy": npy(np.zeros(1, int))})
    refused(tmp_path, "has arrays 'y_train', none of the layouts", odd)
    twice = tmp_path / "twice.npz"
    with zipfile.ZipFile(twice, "w") as file, pytest.warns(UserWarning):
        file.writestr("x.npy", b"1")
        file.writestr("x.npy", b"2")
    refused(tmp_path, "two members called 'x.npy'", twice)


@settings(max_examples=120, deadline=None)
@given(**DAMAGE)
def test_a_damaged_npz_never_crashes_and_never_changes_the_data(tmp_path_factory, **damage):
    folder = tmp_path_factory.mktemp("fuzz")
    np.savez_compressed(folder / "good.npz", **{key: array[:2] for key, array in mamp_arrays(frames=40).items()})
    survive_damage(folder, **damage)


# ------------------------------------------------------------------------------------------------ pyskl, 3-D
def pyskl(tmp_path, entries=None, split=None, protocol=2):
    entries = [annotation(i) for i in range(12)] if entries is None else entries
    return write_pickle(tmp_path / "x.pkl", {"split": split or split_lists(), "annotations": entries}, protocol)


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_pyskl_3d(tmp_path, take, protocol):
    store = take(pyskl(tmp_path, protocol=protocol))
    assert store.names.tolist() == NAMES and store.classes[0] == "drink water" and store.num_classes == 60
    for i in range(12):
        expect(store, i, i, exact=False)
    assert store.meta.splits["cross-view"] == FieldRule(field="camera", train=(2, 3), test=(1,))
    assert store.meta.default_split == "cross-subject" and len(store.split("xview").test) == 4
    assert store.index["camera"].tolist() == [int(name[7]) for name in NAMES] and set(store.index["trial"]) == {1}


def test_pyskl_lists_that_say_something_else_are_kept(tmp_path, take):
    split = split_lists() | {"xsub_train": NAMES[:3], "xsub_val": [*NAMES[3:6], "gone"]}
    store = take(pyskl(tmp_path, split=split))
    assert store.meta.splits["xsub"] == NameRule(field="name", train=tuple(NAMES[:3]), test=tuple(NAMES[3:6]))
    assert store.split("xsub").test.tolist() == [3, 4, 5]
    assert store.meta.details["split_names_without_annotation"] == 1


def test_pyskl_splits_of_other_data_sets(tmp_path, take):
    names = [f"v{i}" for i in range(12)]
    entries = [annotation(i, frame_dir=names[i]) for i in range(12)]
    split = {"train1": names[:8], "test1": names[8:], "train2": names[4:], "test2": names[:4]}
    store = take(pyskl(tmp_path, entries, split))
    assert list(store.meta.splits) == ["1", "2"] and store.split("2").test.tolist() == [0, 1, 2, 3]
    split = {"train": names[:6], "val": names[6:9], "test": names[9:]}
    store = take(pyskl(tmp_path, entries, split))
    assert store.split().name == "given"
    assert store.split("given").test.tolist() == [9, 10, 11] and store.split("given-val").test.tolist() == [6, 7, 8]
    store = take(write_pickle(tmp_path / "list.pkl", entries))
    assert store.meta.default_split == "random"


@pytest.mark.parametrize("number", [float, np.float32, np.int64, np.array])
def test_labels_and_other_values_of_any_numeric_type(tmp_path, take, number):
    """As mmaction2's tools keep them: also dictionaries with floating-point keys, which are not used."""
    more = dict(valid={np.float64(0.5): np.float32(9), 0.6: 8}, total_frames=20.0, img_shape=np.array([1080, 1920, 3]))
    entries = [flat_annotation(i, label=number(i % 3), **more) for i in range(12)]
    store = take(write_pickle(tmp_path / "x.pkl", entries), topology="coco17")
    assert store.labels.tolist() == [i % 3 for i in range(12)]


def test_pickles_of_one_part_each(tmp_path, take):
    """As mmaction2 had them: lists of annotations, the split being the files."""
    train = write_pickle(tmp_path / "gym_train.pkl", [annotation(i, frame_dir=f"v{i}", label=0) for i in range(4)])
    val = write_pickle(tmp_path / "gym_val.pkl", [annotation(i, frame_dir=f"v{i}", label=0) for i in range(4, 12)])
    for files in ((train,), (val,), (train, val)):
        store = take(*files)
        assert store.split().name == "given" and store.split().train.tolist() == [0, 1, 2, 3] and len(store) == 12
        assert take.imported.recording.sources == {"given": ("gym_train.pkl", "gym_val.pkl")}
    refused(tmp_path, "gym_val.pkl .8 clips. and gym_train.pkl .4 clips. are given as .* names say", val, train)
    other = pyskl(tmp_path)
    refused(tmp_path, "complete by itself", train, other)
    np.save(tmp_path / "x.npy", slot_array([0]))
    refused(tmp_path, "gym_train.pkl, x.npy are no two parts of a data set", train, tmp_path / "x.npy")
    train.unlink()
    assert take(val).split().name == "random"
    val.rename(train)
    write_pickle(val, [annotation(0, frame_dir="v5")])
    refused(tmp_path, "two annotations are called 'v5'", train)


def test_one_damaged_annotation_does_not_speak_for_the_file(tmp_path, take):
    for shape in ((40, 25, 3), (1, 40, 25, 2), (1, 40, 17, 3)):
        store = take(pyskl(tmp_path, [annotation(0, keypoint=np.ones(shape)), *map(annotation, range(1, 12))]))
        assert len(store) == 11 and store.meta.topology == "ntu25"
        assert [one.reason for one in store.meta.skipped] == [f"its key points have shape {list(shape)}"]


def test_a_pyskl_list_of_names_that_are_no_clips_is_named(tmp_path):
    entries = [annotation(i, frame_dir=f"v{i}") for i in range(12)]
    names = [f"v{i}" for i in range(12)]
    for split, said in (
        ({"train": names[:6], "test": ["x6", "x7"]}, "of the 2 names in its list 'test' none is .* .the first: 'x6'."),
        ({"train": [f"{name}.avi" for name in names[:6]], "test": names[6:]}, "of the 6 names in its list 'train' "),
        ({"train": [], "val": names}, "of the 0 names in its list 'train' none is the frame_dir of an annotation;"),
    ):
        refused(tmp_path, said, pyskl(tmp_path, entries, split))


def test_pyskl_lists_go_by_their_names(tmp_path, take):
    names = [f"v{i}" for i in range(12)]
    entries = [annotation(i, frame_dir=names[i], label=i % 2) for i in range(12)]
    for split, found in (
        ({"Test": names[3:], "Train": names[:3]}, {"given": (3, 9)}),
        ({"validation_1": names[4:], "training_1": names[:4]}, {"1": (4, 8)}),
        ({"train": names[:4], "test": names[4:7], "eval": names[7:]}, {"given": (4, 3), "given-eval": (4, 5)}),
    ):
        store = take(pyskl(tmp_path, entries, split))
        assert {one: (len(store.split(one).train), len(store.split(one).test)) for one in store.meta.splits} == found
    for split in ({"a": names[:3], "b": names[3:]}, {"train": names[:3]}, {"test": names[:3], "val": names[3:]}):
        refused(tmp_path, f"split has '{next(iter(split))}'.*call them train and test", pyskl(tmp_path, entries, split))
    refused(tmp_path, "split must name lists of clips", pyskl(tmp_path, entries, {"train\x1b[2J": names[:3]}))


def test_pyskl_bodies_and_frames_that_show_nobody_are_left_out(tmp_path, take):
    x = np.concatenate([np.zeros((1, 20, 25, 3)), people(0)]).astype(np.float16)
    x[:, [0, 7, 8, 19]] = 0
    store = take(pyskl(tmp_path, [annotation(0, keypoint=x), annotation(2), annotation(6), annotation(8)]))
    assert store.bodies[0] == 1 and store.lengths[0] == 16
    assert store.index["flags"][0] == Flag.FRAMES_DROPPED and store.index["source_frames"][0] == 20
    np.testing.assert_allclose(store.clip(0)[0, 0], (people(0)[0, 1] - people(0)[0, 1, 1]), atol=4e-3)


def test_pyskl_entries_that_cannot_be_used_are_listed(tmp_path, take):
    bad = people(3).astype(np.float32)
    bad[0, 2, 3, 1] = np.nan
    entries = [annotation(i) for i in range(12)]
    entries[1] = None
    entries[3] = annotation(3, keypoint=bad)
    entries[5] = annotation(5, keypoint=np.zeros((1, 4, 17, 2)))
    entries[7] = annotation(7, keypoint=np.zeros((1, 4, 25, 3)))
    del entries[9]["keypoint"]
    entries[10] = 5
    store = take(pyskl(tmp_path, entries))
    assert len(store) == 6
    skipped = {one.name: (one.reason, one.expected) for one in take.imported.skipped}
    assert skipped == {
        "annotation 1": ("the file has None for it: nobody was seen", True),
        NAMES[3]: ("a coordinate is not a finite number", False),
        NAMES[5]: ("its key points have shape [1, 4, 17, 2]", False),
        NAMES[7]: ("all its coordinates are zero", True),
        NAMES[9]: ("it has no array of key points", False),
        "annotation 10": ("it is not a dictionary", False),
    }


PYSKL = {
    "two of a name": (lambda e, s: e.append(annotation(0)), "two annotations are called 'S001C001P001R001A001'"),
    "no name": (lambda e, s: e[0].pop("frame_dir"), "annotation 0 has no frame_dir; give every clip its name"),
    "number as name": (
        lambda e, s: e[2].update(frame_dir=0.5),
        "annotation 2 has frame_dir 0.5, which is not printable",
    ),
    "no label": (lambda e, s: e[1].pop("label"), "annotation 1 has no label; add the labels"),
    "label behind None": (lambda e, s: (e.insert(0, None), e[3].pop("label")), "annotation 3 has no label"),
    "a label of a million values": (
        lambda e, s: e[1].update(label=[np.zeros((2,) * 20)]),
        "annotation 1 has label of type list, which is not one whole",
    ),
    "several labels": (
        lambda e, s: e[1].update(label=[1, 2]),
        r"annotation 1 has label \[1, 2\], which is not one whole",
    ),
    "label not a number": (
        lambda e, s: e[1].update(label=float("nan")),
        "annotation 1 has label nan, which is not one",
    ),
    "lists": (
        lambda e, s: [one.update(keypoint=one["keypoint"].tolist()) for one in e],
        "key points are kept as list, not as numpy arrays; save them",
    ),
    "label negative": (lambda e, s: e[1].update(label=-1), "clip 1 has label -1"),
    "label fractional": (lambda e, s: e[1].update(label=0.5), "annotation 1 has label 0.5, which is not one whole"),
    "label huge": (lambda e, s: e[1].update(label=10**12), "clip 1 has label 1000000000000"),
    "shared": (lambda e, s: s["xsub_train"].append(NAMES[11]), "xsub_train and xsub_val share clips"),
    "split that is a path": (
        lambda e, s: s.update({"../x_train": s["xsub_train"], "../x_val": s["xsub_val"]}),
        "refused: '../x' is no name of a split; rename it",
    ),
    "split of numbers": (lambda e, s: s.update(xsub_train=[1, 2]), "split must name lists of clips"),
    "packed": (lambda e, s: e[0].update(frame_inds=[0]), "packed by detection"),
    "flat key points": (lambda e, s: [x.update(keypoint=np.zeros((5, 17, 3))) for x in e], r"not \[5, 17, 3\]"),
    "contents only": (lambda e, s: [one.pop("keypoint") for one in e], "is a table of contents"),
    "empty": (lambda e, s: e.clear(), "at least one entry"),
    "17 joints": (
        lambda e, s: [one.update(keypoint=one["keypoint"][:, :, :17]) for one in e],
        "17 joints are those of coco17 or h36m17; say which with --topology",
    ),
}


@pytest.mark.parametrize("kind", PYSKL)
def test_bad_pyskl(tmp_path, kind):
    change, message = PYSKL[kind]
    entries, split = [annotation(i) for i in range(12)], split_lists()
    change(entries, split)
    refused(tmp_path, message, pyskl(tmp_path, entries, split))


def test_hostile_and_other_pickles(tmp_path):
    class Hostile:
        def __reduce__(self):
            return open, (str(tmp_path / "trap"), "w")

    hostile = write_pickle(tmp_path / "x.pkl", {"annotations": [Hostile()]})
    refused(tmp_path, "asks for _?io.open, .*nothing was run", hostile)
    assert not (tmp_path / "trap").exists()
    refused(tmp_path, "holds a dictionary with 'state'", write_pickle(tmp_path / "x.pkl", {"state": 1}))
    refused(tmp_path, "holds no clips", write_pickle(tmp_path / "x.pkl", [1, 2]))
    (tmp_path / "x.pkl").write_bytes(pickle.dumps({"annotations": [annotation(0)]})[:-50])
    refused(tmp_path, "is not a readable pickle", tmp_path / "x.pkl")


# ------------------------------------------------------------------------------------------------ pyskl, 2-D
def test_pyskl_2d(tmp_path, take):
    names = [f"video{i}" for i in range(12)]
    split = {"train": names[:8], "val": names[8:]}
    store = take(pyskl(tmp_path, [flat_annotation(i) for i in range(12)], split), topology="coco17")
    assert store.topology.name == "coco17" and store.meta.dimensions == 2 and store.num_classes == 3
    for i in range(12):
        flat, score = pixels(i)
        x = flat.astype(np.float32) - flat[0, 0, 0].astype(np.float32)  # the nose is coco17's centre
        np.testing.assert_allclose(store.clip(i)[..., :2], x * np.float32(3 / 1080) * (1, -1), atol=1e-6)
        assert not store.clip(i)[..., 2].any()
        np.testing.assert_array_equal(store.confidence(i), score.astype(np.float32).clip(0, 1))
    head, ankles = store.clip(0)[0, :, 0, 1], store.clip(0)[0, :, 15, 1]
    assert (head > ankles).all(), "Y is up"
    refused(tmp_path, "17 joints are those of coco17 or h36m17", tmp_path / "x.pkl")


def test_joints_that_were_not_seen_have_no_part_in_a_body_s_size(tmp_path, take):
    """They lie at the origin, of which somebody small who crosses the image comes to be 30 m away."""
    entries = []
    for i in range(12):
        entry = flat_annotation(i, keypoint=pixels(i)[0].astype(np.float32) * 0.05)
        entry["keypoint"][..., 0] += 1800 * np.arange(LENGTHS[i])[:, None] / LENGTHS[i]
        entry["keypoint_score"][:, :, 3] = 0
        entries.append(entry)
    store = take(pyskl(tmp_path, entries, {"a": []}), topology="coco17", scale_2d="body")
    assert len(store) == 12


def test_options_of_2d_poses_that_nothing_heeds_are_refused(tmp_path):
    flat = pyskl(tmp_path, [flat_annotation(i) for i in range(12)], {"a": []})
    for options, said in (
        ({"body_m": 2.0}, "--body-height says how large bodies become with --scale-2d body"),
        ({"scale_2d": "body", "image_m": 2.0}, "--image-height is for --scale-2d image"),
    ):
        with pytest.raises(SkelbenchError, match=said):
            import_files([flat], "x", tmp_path / "out", ImportOptions(topology="coco17", **options))
    solid = pyskl(tmp_path, [annotation(i) for i in range(12)], {"a": []})
    with pytest.raises(SkelbenchError, match="--scale-2d and --body-height scale 2-D poses, and these are 3-D"):
        import_files([solid], "x", tmp_path / "out", ImportOptions(scale_2d="body", body_m=2.0))


def test_2d_scaled_by_body(tmp_path, take):
    entries = [flat_annotation(i, keypoint=pixels(i)[0] * np.float16(0.25 + i / 12)) for i in range(12)]
    for entry in entries:
        del entry["img_shape"]
    refused(tmp_path, "no img_shape", pyskl(tmp_path, entries, {"a": []}), topology="coco17")
    store = take(tmp_path / "x.pkl", topology="coco17", scale_2d="body", body_m=2.0)
    for i in range(12):
        x = store.clip(i)
        box = (x.max(axis=2) - x.min(axis=2)).max(axis=-1)
        assert np.median(box, axis=1).max() == pytest.approx(2.0, rel=1e-3)


def test_joints_of_no_confidence_are_nowhere(tmp_path, take):
    entry = flat_annotation(0)
    score, entry["keypoint"][0, 5, 16] = entry["keypoint_score"], 60000
    score[0, :4, 0] = 0  # the nose, on which clips are centred, shows in frame 4 first
    score[0, 0, :] = score[0, 5, 16] = 0
    store = take(pyskl(tmp_path, [entry, *(flat_annotation(i) for i in (2, 4, 6))], {"a": []}), topology="coco17")
    assert store.lengths[0] == LENGTHS[0] - 1 and store.index["flags"][0] == Flag.FRAMES_DROPPED
    assert not store.clip(0)[0, 4, 16].any() and store.confidence(0)[0, 4, 16] == 0
    assert not store.clip(0)[0, 3, 0].any() and np.abs(store.clip(0)).max() < 5


def test_the_surest_bodies_are_kept(tmp_path, take):
    flat, score = pixels(1)
    more = dict(keypoint=np.concatenate([flat[:1], flat]), keypoint_score=np.concatenate([0.1 * score[:1], score]))
    entries = [flat_annotation(1, **more), *(flat_annotation(i) for i in (2, 4, 6))]
    store = take(pyskl(tmp_path, entries, {"a": []}), topology="coco17")
    assert store.bodies[0] == 2 and store.index["flags"][0] == Flag.BODY_DROPPED
    np.testing.assert_array_equal(store.confidence(0), score.astype(np.float32).clip(0, 1))
    assert take(tmp_path / "x.pkl", topology="coco17", max_bodies=3).bodies[0] == 3


def test_2d_entries_that_cannot_be_used(tmp_path, take):
    nan = flat_annotation(2)
    nan["keypoint_score"][0, 0, 0] = np.nan
    unsure = flat_annotation(3, keypoint_score=np.zeros_like(pixels(3)[1]))
    scoreless = flat_annotation(4)
    del scoreless["keypoint_score"]
    entries = [*(flat_annotation(i) for i in (0, 1, 6, 7)), nan, unsure, scoreless]
    take(pyskl(tmp_path, entries, {"a": []}), topology="coco17")
    assert [one.reason for one in take.imported.skipped] == [
        "a coordinate or a score is not a finite number",
        "no joint has a confidence above 0",
        "it has no keypoint_score for each of its key points",
    ]


# ------------------------------------------------------------------------------------------------ ST-GCN and successors
def test_stgcn_and_what_lies_beside_it(tmp_path, take):
    rows = write_slots(tmp_path / "ntu")
    (tmp_path / "ntu" / "notes.txt").write_text("S001C001P001R001A001")
    write_pickle(tmp_path / "ntu" / "other.pkl", {"x": 1})
    for start in ("train_data.npy", "val_label.pkl"):
        store = take(tmp_path / "ntu" / start)
        assert sorted(store.names) == sorted(NAMES) and store.names.tolist() == [NAMES[i] for i in rows]
        assert list(store.meta.splits) == ["given", "cross-subject", "cross-view"], "the files' own comes first"
        assert store.split().name == "given" and store.split().test.tolist() == [7, 8, 9, 10, 11]
        for clip, i in enumerate(rows):
            expect(store, clip, i)


def test_a_link_that_leads_nowhere_is_passed_over(tmp_path, take):
    write_slots(tmp_path / "ntu")
    (tmp_path / "ntu" / "label.pkl").symlink_to(tmp_path / "gone")
    assert len(take(tmp_path / "ntu" / "train_data.npy")) == 12


def test_files_given_in_order_and_part_of_a_data_set(tmp_path, take):
    rows = write_slots(tmp_path / "ntu", pairs=((0, 1, 2, 3, 4, 5), (6, 7, 8, 9, 10, 11)))
    files = [tmp_path / "ntu" / name for name in ("train_data.npy", "train_label.pkl", "val_data.npy", "val_label.pkl")]
    for store in (take(*files), take(files[0]), take(files[2]), take(files[3])):
        assert store.names.tolist() == [NAMES[i] for i in rows] and store.split().test.tolist() == [*range(6, 12)]
        assert (store.labels == labels()[rows]).all(), "each part has its own labels, though both have six"
        assert list(store.meta.splits) == ["cross-subject", "cross-view"] and store.split().name == "cross-subject"
    assert len(take(files[0], files[1])) == 6
    said = take(files[0], files[1]).meta.details["part"]
    assert said.startswith("train alone by its name") and "part" not in store.meta.details
    assert list(take(files[0], files[1]).meta.splits) == ["cross-view"], "all six are of one subject"


WORDS = {"train": ("train", "Train", "TRAIN", "training"), "test": ("val", "valid", "test", "Val", "TEST", "eval")}


def write_parts(folder, train, test, name="{}_position.npy", label="{}_label.npy"):
    """AimCLR's arrays: the training part is the first ``train[0]`` clips, called ``train[1]``; the test part alike."""
    paths = []
    for rows, word in ((range(train[0]), train[1]), (range(train[0], train[0] + test[0]), test[1])):
        x = slot_array([i % 12 for i in rows])[:, :, :20]
        paths += [folder / name.format(word), folder / label.format(word)]
        for path in paths[-2:]:
            path.parent.mkdir(parents=True, exist_ok=True)
        np.save(paths[-2], x - x[:, :, :, 20:21])
        np.save(paths[-1], np.array(rows)[:, None] % 5)
    return paths


@settings(max_examples=12, deadline=None)
@given(st.integers(3, 9), st.integers(3, 9), *(st.sampled_from(WORDS[side]) for side in ("train", "test")),
       st.sampled_from(["{}_data.npy", "ntu_xsub_{}.npy", "{}.npy", "x{}.npy"]), st.integers(0, 3))  # fmt: skip
def test_names_say_which_part_trains_whatever_their_sizes(tmp_path_factory, train, test, word, other, name, start):
    folder = tmp_path_factory.mktemp("parts")
    files = write_parts(folder, (train, word), (test, other), name)
    imported = import_files([files[start]], "mine", folder / "root")
    store = ClipStore.open(imported.path)
    assert store.split().train.tolist() == list(range(train)) and len(store.split().test) == test
    assert store.labels.tolist() == [i % 5 for i in range(train + test)]
    assert imported.recording.sources == {"given": (files[0].name, files[2].name)}
    exported = export_mamp_npz(store, folder / "back.npz")
    back = ClipStore.open(import_files([exported], "back", folder / "root").path)
    assert back.split().train.tolist() == list(range(train)) and back.labels.tolist() == store.labels.tolist()


def test_names_of_folders_say_which_part_trains(tmp_path, take):
    files = write_parts(tmp_path / "xsub", (4, "train"), (8, "val"), "{}/data.npy", "{}/label.npy")
    for named in (files, files[:1], files[2:3]):
        assert len(take(*named).split().train) == 4
    refused(tmp_path, "val/data.npy .8 clips. and data.npy .*names say something else", *files[2:], *files[:2])
    files[2].write_bytes(files[2].read_bytes()[:-100])
    refused(tmp_path, "val/data.npy does not hold", files[0])


def test_the_order_given_must_not_contradict_the_names(tmp_path, take):
    train, train_label, val, val_label = write_parts(tmp_path, (4, "train"), (8, "val"))
    swapped = (val, val_label, train, train_label)
    message = "val_position.npy .8 clips. and train_position.npy .4 clips. are given as training and test part, but"
    refused(tmp_path, message + " their names say something else; .*or confirm with --train .*val_pos", *swapped)
    assert len(take(*swapped, train=val).split().train) == 8
    assert len(take(*swapped, train=train).split().train) == 4
    assert len(take(train, train_label, val, val_label).split().train) == 4


def test_names_that_do_not_say_which_part_trains(tmp_path, take):
    a, a_label, b, b_label = write_parts(tmp_path, (4, "a"), (8, "b"))
    message = (
        "b_position.npy .8 clips. and a_position.npy .4 clips. .*names do not say which .*say --train .*b_pos.* or"
    )
    refused(tmp_path, message, b)
    for chosen, count in ((a, 4), (b, 8)):
        for named in (a, b):
            assert len(take(named, train=chosen).split().train) == count
    assert len(take(b, b_label, a, a_label).split().train) == 8, "as given"
    refused(tmp_path, "it is not one of two files of clips", a, train=tmp_path / "c.npy")
    np.savez(tmp_path / "x.npz", **mamp_arrays())
    refused(tmp_path, "complete by itself; leave out --train", tmp_path / "x.npz", train=tmp_path / "x.npz")


def test_labels_of_the_other_part_are_not_taken(tmp_path):
    train, train_label, val, val_label = write_parts(tmp_path, (5, "train"), (5, "val"))
    message = "train_position.npy holds 5 clips, and val_label.npy, .* belongs to the other part by its name"
    refused(tmp_path, message, train, val_label)
    train_label.unlink()
    refused(tmp_path, message, train)


def test_the_other_part_is_not_passed_over_because_it_is_damaged(tmp_path, take):
    train, train_label, val, val_label = write_parts(tmp_path, (9, "train"), (8, "val"))
    whole = val.read_bytes()
    for content, message in ((whole[:-100], "does not hold"), (b"", "is empty"), (bytes(99), "begins with zero bytes")):
        val.write_bytes(content)
        refused(tmp_path, f"val_position.npy {message}", train)
    assert len(take(train, train_label)) == 9, "named without it"
    val.write_bytes(whole)
    val_label.unlink()
    refused(tmp_path, "val_position.npy holds 8 clips without labels", train)


@pytest.mark.parametrize("first", ["clip,frame,label", "label;x;y", "N\tx\ty"])
def test_a_table_is_no_pickle_whatever_letter_it_begins_with(tmp_path, first):
    (tmp_path / "poses.csv").write_text(f"{first}\n0,0,1\n")
    refused(
        tmp_path, "poses.csv is a table; save it as a ragged npz, with arrays joints, offsets", tmp_path / "poses.csv"
    )
    (tmp_path / "notes.txt").write_text("some words about it\n")
    refused(tmp_path, "notes.txt is text .raw recordings are read by", tmp_path / "notes.txt")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_of_any_protocol_is_one(protocol):
    for value in ({"a": [1, 2, 3]}, [np.arange(3)], ("x, y", 2), np.float32(1)):
        assert not _is_table(pickle.dumps(value, protocol=protocol)[:64])


def test_every_file_given_is_used(tmp_path):
    train, train_label, val, val_label = write_parts(tmp_path, (4, "train"), (8, "val"))
    write_slots(tmp_path / "stgcn")
    raw = [tmp_path / "stgcn" / "val_data.npy", tmp_path / "stgcn" / "val_label.pkl"]
    message = "train_position.npy .AimCLR.* and val_data.npy .ST-GCN arrays, ntu25. are no two parts of one data set"
    refused(tmp_path, message, train, train_label, *raw)
    refused(tmp_path, "val_label.npy fits none of the arrays that are given with it", train, train_label, val_label)


def test_the_split_that_files_are_made_for_is_the_default(tmp_path, take):
    views = [[i for i, name in enumerate(NAMES) if (name[7] == "1") == test] for test in (False, True)]
    write_slots(tmp_path / "xview", pairs=views)
    store = take(tmp_path / "xview" / "val_data.npy")
    assert store.split().name == "cross-view" and len(store.split().train) == 8
    assert take.imported.recording.sources == {"cross-view": ("train_data.npy", "val_data.npy")}


@pytest.mark.parametrize("kind", ["cut short", "no numbers", "float npy"])
def test_labels_that_cannot_be_read_are_the_reason(tmp_path, kind):
    train, train_label, val, val_label = write_parts(tmp_path, (5, "train"), (5, "val"))
    if kind == "no numbers":
        train_label.unlink()
        train_label = write_pickle(tmp_path / "train_label.pkl", (["a"] * 5, ["x"] * 5))
    elif kind == "cut short":
        train_label.write_bytes(train_label.read_bytes()[:-3])
    else:
        np.save(train_label, np.ones((5, 2)))
    refused(tmp_path, "train_label.(pkl|npy).*(not all numbers|not hold the|neither clips)", train)
    refused(tmp_path, "train_label.(pkl|npy)", val)
    train_label.rename(tmp_path / "other_label.bak")
    refused(tmp_path, "val_label.npy, .* belongs to the other part by its name", train)


def test_a_refused_npz_is_closed_at_once(tmp_path):
    np.savez(tmp_path / "x.npz", **mamp_arrays() | {"y_train": np.full((6, 60), 0.5)})
    try:
        import_files([tmp_path / "x.npz"], "x", tmp_path / "root")
    except SkelbenchError:
        held = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    assert str(tmp_path / "x.npz") not in held


def test_arrays_without_labels(tmp_path):
    data, label = tmp_path / "data.npy", tmp_path / "label.pkl"
    np.save(data, slot_array([0, 1]))
    refused(tmp_path, "holds 2 clips without labels", data)
    refused(tmp_path, "clip 1 has label -1", data, write_pickle(label, (["a", "b"], [0, -1])))
    refused(tmp_path, "has 2 names but 1 labels", data, write_pickle(label, (["a", "b"], [0])))
    message = "3 labels or lengths, and of the arrays beside it none does"
    refused(tmp_path, message, write_pickle(label, (["a", "b", "c"], [0, 1, 1])))


def test_names_that_are_not_ntu(tmp_path, take):
    for part, rows in (("train", [0, 1, 2, 3]), ("val", [4, 5, 6])):
        np.save(tmp_path / f"{part}.npy", slot_array(rows))
        write_pickle(tmp_path / f"{part}.pkl", ([f"{part} {i}" for i in rows], [i % 2 for i in rows]))
    store = take(tmp_path / "val.npy")
    assert store.meta.default_split == "given" and store.split().train.tolist() == [0, 1, 2, 3]
    assert store.meta.details["arrays"] == "train.npy, val.npy"
    assert store.names[4] == "val 4" and store.classes == ("label 0", "label 1")


def test_2s_agcn_is_turned_and_cut_where_it_repeats_itself(tmp_path, take):
    rows = write_slots(tmp_path / "ntu", upright)
    store = take(tmp_path / "ntu" / "train_data.npy")
    assert store.lengths.tolist() == [LENGTHS[i] for i in rows]
    for clip, i in enumerate(rows):
        x = people(i)
        np.testing.assert_allclose(store.clip(clip), x - x[:1, :, 1:2], atol=1e-5)
    assert store.meta.details["up_axis_of_file"] == "z" and not store.index["origin"].any()
    assert store.meta.details["lengths_from_repetition"] == 12 and "2s-AGCN" in store.meta.lineage


def test_what_a_file_beside_an_array_holds_its_name_says(tmp_path, take):
    """Whole numbers, one for each clip, may be anything."""
    folder = tmp_path / "ntu"
    rows = write_slots(folder, upright)
    np.save(folder / "train_subject.npy", np.arange(7) + 1)
    store = take(folder / "train_data.npy")
    assert store.lengths.tolist() == [LENGTHS[i] for i in rows]
    assert store.meta.details["labels_from"] == "train_label.pkl, val_label.pkl"
    (folder / "val_label.pkl").rename(tmp_path / "label.pkl")
    np.save(folder / "val_num_frame.npy", np.array([LENGTHS[i] for i in rows[7:]]))
    refused(tmp_path, r"val_data.npy holds 5 clips without labels, .* is called so", folder / "train_data.npy")
    np.save(folder / "val_label.npy", np.array([i % 3 for i in rows[7:]]))
    store = take(folder / "train_data.npy")
    assert store.labels[7:].tolist() == [i % 3 for i in rows[7:]]
    assert store.meta.details["lengths_from"] == "none, val_num_frame.npy"


def test_2s_agcn_bodies_that_repeat_at_different_times(tmp_path, take):
    x = slot_array([1], 60)
    x[..., 0] = x[..., 0][:, :, np.arange(60) % 12]
    x[..., 1] = x[..., 1][:, :, np.arange(60) % 31]
    x -= x[:, :, :, 1:2, :1].copy()
    np.save(tmp_path / "data.npy", np.concatenate([x, upright([2]), upright([3]), upright([5])]))
    write_pickle(tmp_path / "label.pkl", (list("abcd"), [0, 0, 0, 0]))
    assert take(tmp_path / "data.npy", tmp_path / "label.pkl", up="y").lengths[0] == 31


def test_2s_agcn_with_num_frame(tmp_path, take):
    rows = write_slots(tmp_path / "ntu", upright)
    train = np.array([LENGTHS[i] + 2 for i in rows[:7]])
    train[0] = 500
    np.save(tmp_path / "ntu" / "train_num_frame.npy", train)
    np.save(tmp_path / "ntu" / "val_num_frame.npy", np.array([LENGTHS[i] for i in rows[7:]]))
    store = take(tmp_path / "ntu" / "train_data.npy")
    assert store.lengths.tolist() == [60, *train[1:], *(LENGTHS[i] for i in rows[7:])]
    assert store.index["source_frames"][0] == 500 and store.index["flags"][0] == Flag.TRUNCATED


def test_lengths_no_clip_has(tmp_path):
    write_slots(tmp_path, upright)
    np.save(tmp_path / "train_num_frame.npy", np.array([30, 2**40, 30, 30, 30, 30, 30]))
    message = r"train_num_frame.npy: clip 1 has a length beyond 2\^31; is it the file of lengths"
    refused(tmp_path, message, tmp_path / "train_data.npy")


def test_aimclr(tmp_path, take):
    for part, rows in (("train", range(7)), ("val", range(7, 12))):
        x = slot_array(rows)[:, :, :20]
        x -= x[:, :, :, 20:21]
        np.save(tmp_path / f"{part}_position.npy", x)
        np.save(tmp_path / f"{part}_motion.npy", np.diff(x, axis=2, append=0))
        np.save(tmp_path / f"{part}_label.npy", labels()[list(rows)][:, None])
    store = take(tmp_path / "train_position.npy")
    assert len(store) == 12 and set(store.lengths) == {20} and store.meta.default_split == "given"
    assert "AimCLR" in store.meta.lineage and not store.clip(3)[:, :, 20].any()
    refused(tmp_path, "which no joint positions do", tmp_path / "train_motion.npy", tmp_path / "train_label.npy")


def test_bone_vectors_are_refused(tmp_path):
    write_slots(tmp_path)
    bones = np.einsum("jk,nctkm->nctjm", NTU25.differences, np.load(tmp_path / "train_data.npy")).astype("f4")
    bones[:, :, :, 0] = 0
    np.save(tmp_path / "bone.npy", bones)
    refused(tmp_path, "bone vectors, motions", tmp_path / "bone.npy")


def test_kinetics_skeleton(tmp_path, take):
    x = np.zeros((4, 3, 40, 18, 2), np.float32)
    rng = np.random.default_rng(0)
    for i in range(4):
        flat, score = pixels(2 * i)
        joints = [0, 0, *range(1, 17)]
        x[i, :2, : LENGTHS[2 * i], :, 0] = (flat[0][:, joints] / 1080).transpose(2, 0, 1)[:, :40] - 0.5
        x[i, 1] *= -1
        x[i, 2, : LENGTHS[2 * i], :, 0] = score[0][:, joints].clip(0, 1)
        lost = rng.integers(18)
        x[i, :, 3, lost, 0] = 0
    x[..., 1:] = 0
    np.save(tmp_path / "data.npy", x)
    write_pickle(tmp_path / "label.pkl", (list("abcd"), [0, 1, 0, 1]))
    store = take(tmp_path / "data.npy")
    assert store.topology.name == "openpose18" and store.meta.dimensions == 2 and store.bodies.tolist() == [1] * 4
    np.testing.assert_array_equal(store.confidence(0)[0], x[0, 2, : LENGTHS[0], :, 0])
    assert (store.clip(0)[0, 5:, 1, 1] > store.clip(0)[0, 5:, 13, 1]).all()


# ------------------------------------------------------------------------------------------------ all formats
def test_files_that_allow_no_split_are_refused_before_clips_are_read(tmp_path):
    read = {"progress": lambda *_: pytest.fail("a clip was read")}
    message = "no class has two clips, so none can be kept for testing; bring more clips of a class, or "
    x = mamp_arrays()["x_train"][:3]
    np.savez(tmp_path / "x.npz", x_train=x, y_train=np.array([4, 0, 2]))
    refused(tmp_path, message + "a file that holds the test part too", tmp_path / "x.npz", **read)
    np.save(tmp_path / "x.npy", slot_array([0, 1]))
    write_pickle(tmp_path / "label.pkl", (["a", "b"], [0, 1]))
    files = [tmp_path / "x.npy", tmp_path / "label.pkl"]
    refused(tmp_path, message + "name the files of the test part too", *files, **read)
    entries = [annotation(i, frame_dir=f"v{i}", label=i) for i in range(3)]
    refused(tmp_path, message + "lists of their names under split", pyskl(tmp_path, entries, {"a": []}), **read)


def test_splits_that_clips_left_out_make_empty(tmp_path, take):
    entries = [annotation(i, frame_dir=f"v{i}", label=0) for i in range(6)]
    entries[0] = annotation(0, frame_dir="v0", label=0, keypoint=np.full((1, 5, 25, 3), np.nan))
    split = {"train1": ["v1", "v2"], "test1": ["v3"], "train2": ["v3"], "test2": ["v0"]}
    store = take(pyskl(tmp_path, entries, split))
    assert list(store.meta.splits) == ["1"] and store.meta.details["splits_left_out"] == "2"
    assert take.imported.recording.details["splits_left_out"] == "2"
    del split["train1"]
    message = r"1 of the 6 clips cannot be used \(the first, v0: a coordinate .*one side of split 2; repair"
    refused(tmp_path, message, pyskl(tmp_path, entries, split))


@pytest.mark.parametrize("name", topologies())
def test_every_topology_comes_in_through_a_ragged_npz(tmp_path, take, name):
    joints = topologies()[name].num_joints
    x = np.random.default_rng(0).normal(size=(40, joints, 3)).astype("f4")
    np.savez(tmp_path / "x.npz", joints=x, offsets=np.arange(0, 41, 10), label=np.array([0, 0, 0, 0]))
    unambiguous = sum(one.num_joints == joints for one in topologies().values()) == 1
    if not unambiguous:
        refused(tmp_path, "say which with --topology", tmp_path / "x.npz")
    store = take(tmp_path / "x.npz", topology=None if unambiguous else name)
    assert store.topology.name == name and not store.clip(0)[0, 0, store.topology.center].any()
    refused(tmp_path, "unknown topology 'no such'", tmp_path / "x.npz", topology="no such")
    other = next(one.name for one in topologies().values() if one.num_joints != joints)
    refused(tmp_path, f"{joints} joints, but topology {other} has", tmp_path / "x.npz", topology=other)


def test_options_that_would_do_nothing_are_refused(tmp_path, take):
    np.savez(tmp_path / "x.npz", **mamp_arrays())
    store = take(tmp_path / "x.npz")
    exported = export_mamp_npz(store, tmp_path / "own.npz")
    for options in (dict(units="mm"), dict(up="z"), dict(topology="coco17")):
        refused(tmp_path, "in metres with Y up and skeleton ntu25; leave out --units", exported, **options)
    assert len(take(exported, units="m", up="y", topology="ntu25")) == 12
    refused(
        tmp_path, "--label-fields is for ragged npz, this is padded npz", tmp_path / "x.npz", label_fields=("a", "b")
    )
    flat = pyskl(tmp_path, [flat_annotation(i) for i in range(12)], {"a": []})
    for options in (dict(units="mm"), dict(up="z")):
        refused(tmp_path, "--units and --up are for 3-D poses", flat, topology="coco17", **options)


def test_several_whole_files_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", **mamp_arrays())
    refused(tmp_path, "complete by itself; import one file at a time", tmp_path / "a.npz", tmp_path / "a.npz")


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_centring_moves_bodies_rigidly_and_leaves_absence_alone(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    x = rng.normal(size=(2, 6, 25, 3)).astype(np.float32)
    absent = np.array(data.draw(st.lists(st.booleans(), min_size=12, max_size=12))).reshape(2, 6)
    x[absent] = 0
    dropped, flags = drop_absent(x, 2)
    assert bool(flags & Flag.FRAMES_DROPPED) == bool(absent.all(axis=0).any() and not absent.all())
    if absent.all():
        assert 0 in dropped.shape
        return
    moved, origin = centre(dropped, 1)
    seen = dropped.any(axis=(2, 3))
    np.testing.assert_allclose(moved[seen], dropped[seen] - origin, atol=0)
    assert not moved[~seen].any() and not moved[0, np.argmax(seen[0]), 1].any()


def test_names_for_data_sets():
    for file, name in (("NTU60_XSub.npz", "ntu60_xsub"), ("a b(1).pkl", "a-b-1"), ("...npy", "imported")):
        assert name_for(Path(file)) == name
