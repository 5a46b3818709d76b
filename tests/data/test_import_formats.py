"""Every format but the ragged npz (test_importers.py): clips come back, faults are errors or skipped clips."""

import pickle

import h5py
import numpy as np
import pytest
from made.files import (
    LENGTHS,
    NAMES,
    annotation,
    centered,
    flat_annotation,
    labels,
    mamp_arrays,
    people,
    pixels,
    slot_array,
    split_lists,
    upright,
    write_h5,
    write_pickle,
    write_slots,
    zipped,
)
from made.people import person

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers import ImportOptions, import_files, ntu
from skelbench.data.importers.bodies import TURNS, Pose, center
from skelbench.data.importers.parts import side_of
from skelbench.data.importers.pickles import load_pickle
from skelbench.data.store.clip_store import EMPTY_BODY, ClipStore
from skelbench.data.store.splits import FieldRule, NameRule
from skelbench.views.skeleton.topology import NTU25, topologies

BY_PERFORMER = [*range(6), *range(6, 12)]
"""Clips of performer 1, who trains across subjects, then of performer 3."""


@pytest.fixture
def take(tmp_path):
    """``take(*files, **options)``: import them and return the opened store; ``take.imported`` has the details."""

    def take(*files, name="mine", **options):
        take.imported = import_files(files, name, tmp_path / "root", ImportOptions(**options), overwrite=True)
        return ClipStore.open(take.imported.path)

    return take


def refused(tmp_path, message, *files, **options):
    with pytest.raises(SkelbenchError, match=message) as caught:
        import_files(files, "refused", tmp_path / "root", ImportOptions(**options))
    assert "\n" not in str(caught.value) and not list((tmp_path / "root").glob("*refused*/*"))


def pyskl(tmp_path, entries=None, split=None, protocol=2):
    entries = [annotation(i) for i in range(12)] if entries is None else entries
    return write_pickle(tmp_path / "x.pkl", {"split": split or split_lists(), "annotations": entries}, protocol)


# ------------------------------------------------------------------------------------------------ round trips
def first_frame(x_MTJC):
    return centered(x_MTJC)[0]


def every_frame(x_MTJC):
    return x_MTJC - x_MTJC[:1, :, 1:2]


def own_shoulders(x_MTJC):
    return x_MTJC - x_MTJC[:, :, 20:21]


def npz(save, repeat):
    def write(folder):
        save(folder / "x.npz", **mamp_arrays(repeat))
        return [folder / "x.npz"], BY_PERFORMER

    return write


def sgn(folder):
    write_h5(folder / "x.h5", mamp_arrays())
    return [folder / "x.h5"], [*range(6), 0, 1, *range(6, 12)]


def lists(folder):
    """Lists of annotations, as mmaction2 keeps each part in a file of its own."""
    write_pickle(folder / "gym_val.pkl", [annotation(i) for i in range(6, 12)])
    return [write_pickle(folder / "gym_train.pkl", [annotation(i) for i in range(6)])], range(12)


def stgcn(array, start="train_data.npy"):
    def write(folder):
        rows = write_slots(folder / "ntu", array, pairs=(range(6), range(6, 12)))
        return [folder / "ntu" / start], rows

    return write


def aimclr(folder):
    for part, rows in (("train", range(6)), ("val", range(6, 12))):
        x = slot_array(rows)
        np.save(folder / f"{part}_position.npy", x - x[:, :, :, 20:21])
        np.save(folder / f"{part}_label.npy", labels()[list(rows)][:, None])
    return [folder / f"{part}_{what}.npy" for part in ("train", "val") for what in ("position", "label")], range(12)


FORMATS = {
    "npz that repeats single bodies": (npz(np.savez_compressed, True), "padded npz", first_frame, 0),
    "SGN": (sgn, "SGN HDF5", first_frame, 0),
    "pyskl": (lambda folder: ([pyskl(folder)], range(12)), "pyskl pickle, 3-D", first_frame, 4e-3),
    "lists of annotations": (lists, "pyskl pickle, 3-D", first_frame, 4e-3),
    "ST-GCN": (stgcn(slot_array), "ST-GCN arrays", first_frame, 0),
    "ST-GCN, other part named": (stgcn(slot_array, "val_data.npy"), "ST-GCN arrays", first_frame, 0),
    "2s-AGCN": (stgcn(upright), "2s-AGCN arrays", every_frame, 1e-5),
    "AimCLR": (aimclr, "AimCLR / CrosSCLR arrays", own_shoulders, 0),
}


@pytest.mark.parametrize("name", FORMATS)
def test_clips_labels_and_the_split_come_back(tmp_path, take, name):
    write, kind, expected, tolerance = FORMATS[name]
    files, rows = write(tmp_path)
    store = take(*files)
    assert take.imported.recording.kind == kind and not take.imported.skipped
    np.testing.assert_array_equal(store.labels, labels()[list(rows)])
    assert store.lengths.tolist() == [LENGTHS[i] for i in rows]
    for clip, i in enumerate(rows):
        np.testing.assert_allclose(store.clip(clip), expected(people(i)), atol=tolerance)
        if expected is first_frame and tolerance:
            np.testing.assert_allclose(store.index["origin"][clip], people(i)[0, 0, 1], atol=tolerance)
    assert store.split().test.tolist() == list(range(len(rows) - 6, len(rows)))
    if any(store.names == NAMES[rows[0]]):
        assert store.split().name in ("cross-subject", "given") and store.classes[0] == "drink water"


def test_pyskl_2d(tmp_path, take):
    entries = [flat_annotation(i) for i in range(12)]
    entries[0]["keypoint_score"][0, 0, :] = entries[0]["keypoint_score"][0, 5, 16] = 0
    entries[0]["keypoint"][0, 5, 16] = 60000
    names = [f"video{i}" for i in range(12)]
    file = pyskl(tmp_path, entries, {"train": names[:8], "val": names[8:]})
    refused(tmp_path, "not in the order of h36m17: the head .* say --topology coco17", file, topology="h36m17")
    store = take(file)
    assert (
        store.topology.name == "coco17" and store.meta.dimensions == 2 and store.split().test.tolist() == [8, 9, 10, 11]
    )
    for i in range(1, 12):
        flat, score = pixels(i)
        x = flat.astype(np.float32) - flat[0, 0, 0].astype(np.float32)  # the nose is coco17's center
        np.testing.assert_allclose(store.clip(i)[..., :2], x * np.float32(3 / 1080) * (1, -1), atol=1e-6)
        np.testing.assert_array_equal(store.confidence(i), score.astype(np.float32).clip(0, 1))
    # A joint of score 0 is nowhere, and a frame without any other joint is dropped.
    assert store.lengths[0] == LENGTHS[0] - 1
    assert not store.clip(0)[0, 4, 16].any() and store.confidence(0)[0, 4, 16] == 0
    body = take(file, topology="coco17", scale_2d="body")
    box = (body.clip(1).max(axis=2) - body.clip(1).min(axis=2)).max(axis=-1)
    assert np.median(box, axis=1).max() == pytest.approx(1.7, rel=1e-3)


OPENPOSE = [0, 5, 6, 8, 10, 5, 7, 9, 12, 14, 16, 11, 13, 15, 2, 1, 4, 3]
"""Joints of COCO in the order of OpenPose; a shoulder replaces the neck."""


def test_kinetics_skeleton(tmp_path, take):
    x = np.zeros((4, 3, 40, 18, 2), np.float32)
    for i in range(4):
        (flat, score), joints, length = pixels(2 * i), OPENPOSE, LENGTHS[2 * i]
        x[i, :2, :length, :, 0] = ((flat[0][:, joints] / 1080).transpose(2, 0, 1) - 0.5) * np.array([1, -1])[
            :, None, None
        ]
        x[i, 2, :length, :, 0] = score[0][:, joints].clip(0, 1)
        x[i, :, 3, 5, 0] = 0
    np.save(tmp_path / "train_data.npy", x)
    write_pickle(tmp_path / "train_label.pkl", (list("abcd"), [0, 1, 0, 1]))
    store = take(tmp_path / "train_data.npy")
    assert store.topology.name == "openpose18" and store.meta.dimensions == 2 and store.bodies.tolist() == [1] * 4
    np.testing.assert_array_equal(store.confidence(0)[0], x[0, 2, : LENGTHS[0], :, 0])
    assert (store.clip(0)[0, 5:, 0, 1] > store.clip(0)[0, 5:, 13, 1]).all()
    np.save(tmp_path / "train_data.npy", x * np.float32([1, -1, 1])[:, None, None, None])
    downwards = take(tmp_path / "train_data.npy")  # as ST-GCN stores them
    assert take.imported.recording.details["up_axis_of_file"] == "-y"
    np.testing.assert_array_equal(downwards.clip(0), store.clip(0))
    np.testing.assert_array_equal(take(tmp_path / "train_data.npy", up="-y").clip(0), store.clip(0))


# ------------------------------------------------------------------------------------------------ CTR-GCN, MAMP, SGN
def test_second_bodies_of_padded_files(tmp_path, take):
    """Empty where others are repeated: kept. Alone in its slot: the only one. Of two, the one seen longest is kept."""
    arrays = mamp_arrays(repeat=True)
    arrays["x_train"][0, :, 75:] = 0
    np.savez(tmp_path / "x.npz", **arrays)
    store = take(tmp_path / "x.npz")
    assert store.bodies[:3].tolist() == [2, 2, 1] and not store.clip(0)[1].any()
    assert store.index["flags"][0] == EMPTY_BODY and not store.index["flags"][1:].any()
    arrays = mamp_arrays()
    x = arrays["x_train"]
    x[0, :, 75:], x[0, :, :75] = x[0, :, :75].copy(), 0
    x[1, :3, :75] = 0
    np.savez(tmp_path / "x.npz", **arrays)
    store = take(tmp_path / "x.npz", max_bodies=1)
    np.testing.assert_array_equal(store.clip(0), first_frame(people(0)))
    second = x[1, : store.lengths[1], 75:].reshape(1, -1, 25, 3)
    np.testing.assert_array_equal(store.clip(1), center(second, NTU25.center)[0])


def test_names_are_restored_only_if_all_labels_fit(tmp_path, take, monkeypatch):
    everybody = ntu.all_names("ntu60")
    assert len(everybody) == 56_578 and len(ntu.all_names("ntu120")) == 113_945
    assert everybody[0] == "S001C001P001R001A001" and list(everybody) == sorted(everybody)
    monkeypatch.setattr(ntu, "all_names", lambda data: tuple(NAMES) if data == "ntu60" else everybody)
    views = [[i for i, name in enumerate(NAMES) if name[7] == camera] for camera in "231"]
    train, test = labels()[views[0] + views[1]], labels()[views[2]]
    split, first, second = ntu.restore(train, test)
    assert (split, second) == ("cross-view", [NAMES[i] for i in views[2]])
    assert first == [NAMES[i] for i in views[0] + views[1]]
    assert ntu.restore(train[::-1], test) is None and ntu.restore(train[:-1], test) is None
    np.savez(tmp_path / "x.npz", **mamp_arrays())
    store = take(tmp_path / "x.npz")
    assert list(store.meta.splits) == ["cross-subject", "cross-view"] and sorted(store.names) == sorted(NAMES)
    assert store.meta.lineage.startswith("ctrgcn-denoise") and "NTU" in store.meta.license
    assert store.index["camera"].tolist() == [int(name[7]) for name in store.names]


def scored(x):
    """Pixels of people a hundred tall, with a score as third number."""
    x_nC = x.reshape(-1, 3) * np.array([90, 90, 0], x.dtype)
    x_nC[:, 2] = np.where(x_nC.any(axis=1), 0.6 + 0.4 * np.sin(np.arange(len(x_nC))), 0)
    return x_nC.reshape(x.shape)


PADDED = {
    "labels not one-hot": (dict(y_train=lambda y: y * 0), "row 0 is not one-hot"),
    "labels too few": (dict(y_test=lambda y: y[:4]), "has 6 clips but 4 labels"),
    "one number": (dict(x_train=lambda x: np.array(5)), "is one number"),
    "millimeters": (dict(x_train=lambda x: x * 1000), "say --units mm"),
    "pixels": (dict(x_train=lambda x: x * 30), "which no joint positions do"),
    "pixels with scores": (dict(x_train=scored), "as of pixels with a score"),
    "columns": (dict(x_train=np.asfortranarray), "stored column by column"),
    "objects": (dict(y_train=lambda y: np.array([None] * 6)), "Object arrays cannot be loaded"),
    "no layout": (dict(x_train=lambda x: None, y_train=lambda y: None, x_test=lambda x: None, y_test=lambda y: None),
                  "none of the layouts"),
    "no side is up": (dict(x_train=lambda x: x * np.array([1, -1] * 3, np.float32)[:, None, None]), "with --up"),
}  # fmt: skip


@pytest.mark.parametrize("kind", PADDED)
def test_bad_padded_npz(tmp_path, kind):
    changes, message = PADDED[kind]
    arrays = mamp_arrays()
    arrays = {key: changes[key](array) if key in changes else array for key, array in arrays.items()}
    np.savez(tmp_path / "x.npz", other=np.zeros(3), **{key: one for key, one in arrays.items() if one is not None})
    refused(tmp_path, message, tmp_path / "x.npz")


def test_a_clip_that_cannot_be_used_is_skipped_in_any_format(tmp_path, take):
    arrays = mamp_arrays()
    arrays["x_test"][2, 3, 40] = np.nan
    np.savez(tmp_path / "x.npz", **arrays)
    entries = [annotation(i) for i in range(12)]
    entries[3]["keypoint"] = (entries[3]["keypoint"].astype(np.float32) - people(3)[:1, :1, :1]) / 1000
    x = slot_array(range(6))
    x[1] *= 1000
    np.save(tmp_path / "x.npy", x)
    label = write_pickle(tmp_path / "x_label.pkl", (list("abcdef"), [0] * 6))
    for files, name, reason in (
        ([tmp_path / "x.npz"], "test_000002", "a coordinate is not a finite number"),
        ([pyskl(tmp_path, entries)], NAMES[3], "its bodies measure 0.00"),
        ([tmp_path / "x.npy", label], "b", "its bodies measure "),
    ):
        take(*files)
        (one,) = take.imported.unexpected
        assert one.name == name and one.reason.startswith(reason)


def test_units_and_up_axis(tmp_path, take):
    for up, (axes, signs) in TURNS.items():
        assert np.linalg.det(Pose(up).apply(np.eye(3, dtype=np.float32))) == pytest.approx(1)
        arrays = mamp_arrays()
        for part in ("train", "test"):
            x = arrays[f"x_{part}"].reshape(-1, 3)
            turned = np.zeros_like(x)
            turned[:, list(axes)] = x * np.array(signs, np.float32)
            arrays[f"x_{part}"] = (1000 * turned).reshape(6, 50, 150)
        np.savez(tmp_path / "x.npz", **arrays)
        store = take(tmp_path / "x.npz", units="mm")
        assert store.meta.details["up_axis_of_file"] == up and store.meta.up_axis == "y"
        np.testing.assert_allclose(store.clip(0), first_frame(people(0)), atol=1e-6)


# ------------------------------------------------------------------------------------------------ pyskl
@pytest.mark.parametrize("protocol", [2, 5])
def test_pickles_of_arrays_and_plain_values(tmp_path, protocol):
    value = {"a": [np.arange(3), np.float32(0.5), np.array(["x"]), b"1"], "b": {1, 2}, "c": np.ones((2, 3)).T}
    data = pickle.dumps(value, protocol)
    for old in (data, data.replace(b"numpy._core", b"numpy.core")) if protocol < 4 else (data,):
        (tmp_path / "x.pkl").write_bytes(old)
        np.testing.assert_equal(load_pickle(tmp_path / "x.pkl"), value)


def test_hostile_damaged_and_other_pickles(tmp_path):
    class Hostile:
        def __reduce__(self):
            return open, (str(tmp_path / "trap"), "w")

    refused(
        tmp_path, "asks for _?io.open.*nothing was run", write_pickle(tmp_path / "x.pkl", {"annotations": [Hostile()]})
    )
    assert not (tmp_path / "trap").exists()
    refused(tmp_path, "holds a dictionary with 'state'", write_pickle(tmp_path / "x.pkl", {"state": 1}))
    (tmp_path / "x.pkl").write_bytes(pickle.dumps({"annotations": [annotation(0)]})[:-50])
    refused(tmp_path, "is not a readable pickle", tmp_path / "x.pkl")


def test_pyskl_lists_become_rules_where_they_follow_from_names(tmp_path, take):
    store = take(pyskl(tmp_path))
    assert store.meta.splits["cross-view"] == FieldRule(field="camera", train=(2, 3), test=(1,))
    assert store.meta.default_split == "cross-subject" and store.num_classes == 60
    split = split_lists() | {"xsub_train": NAMES[:3], "xsub_val": [*NAMES[3:6], "gone"]}
    store = take(pyskl(tmp_path, split=split))
    assert store.meta.splits["xsub"] == NameRule(field="name", train=tuple(NAMES[:3]), test=tuple(NAMES[3:6]))


def test_pyskl_lists_go_by_their_names(tmp_path, take):
    names = [f"v{i}" for i in range(12)]
    entries = [annotation(i, frame_dir=names[i], label=np.int64(i % 2)) for i in range(12)]
    for split, found in (
        ({"Test": names[3:], "Train": names[:3]}, {"given": (3, 9)}),
        (
            {"train1": names[:8], "test1": names[8:], "train2": names[4:], "test2": names[:4]},
            {"1": (8, 4), "2": (8, 4)},
        ),
        ({"train": names[:4], "test": names[4:7], "val": names[7:]}, {"given": (4, 3), "given-val": (4, 5)}),
    ):
        store = take(pyskl(tmp_path, entries, split))
        assert {one: (len(store.split(one).train), len(store.split(one).test)) for one in store.meta.splits} == found
    refused(tmp_path, "call them train and test", pyskl(tmp_path, entries, {"a": names[:3], "b": names[3:]}))
    refused(tmp_path, "split must name lists", pyskl(tmp_path, entries, {5: names}))


PYSKL = {
    "two of a name": (lambda e: e.append(annotation(0)), "two clips are called 'S001C001P001R001A001'"),
    "no label": (lambda e: e[1].pop("label"), "clip 1 has label nan"),
    "packed": (lambda e: e[0].update(frame_inds=[0]), "DecompressPose"),
    "contents only": (lambda e: [x.pop("keypoint") for x in e], "DecompressPose"),
}


@pytest.mark.parametrize("kind", PYSKL)
def test_bad_pyskl(tmp_path, kind):
    change, message = PYSKL[kind]
    entries = [annotation(i) for i in range(12)]
    change(entries)
    refused(tmp_path, message, pyskl(tmp_path, entries))


# ------------------------------------------------------------------------------------------------ companions
@pytest.mark.parametrize(("name", "side"), [
    ("xsub_train", "train"), ("NTUVal", "valid"), ("x_test", "test"), ("trainData", "train"), ("evaluation", "test"),
    ("constraint", ""), ("latest", ""), ("train_test", ""),
])  # fmt: skip
def test_words_in_names_decide_the_training_part(name, side):
    assert side_of(name)[0] == side


# ------------------------------------------------------------------------------------------------ all formats
def damaged(change):
    def write(path):
        np.savez(path, **mamp_arrays())
        path.write_bytes(change(path.read_bytes()))

    return write


FILES = {
    "missing": (lambda path: None, "there is no file"),
    "empty": (damaged(lambda data: b""), "is empty"),
    "cut": (damaged(lambda data: data[: len(data) // 2]), "zip file.*download"),
    "table": (damaged(lambda data: b"joints,label\n1,2\n"), "save 3-D joints of one body as a ragged npz"),
    "folder": (lambda path: path.mkdir(), "is a folder without clips"),
    "raw zip": (lambda path: zipped(path, {"S001C001P001R001A001.skeleton": b"1\r\n"}), "is a zip without arrays"),
    "other h5": (lambda path: h5py.File(path, "w").close(), "has no datasets x and y"),
}


@pytest.mark.parametrize("kind", FILES)
def test_unsupported_files_are_errors(tmp_path, kind):
    write, message = FILES[kind]
    write(tmp_path / "file.npz")
    refused(tmp_path, message, tmp_path / "file.npz")


@pytest.mark.parametrize("name", topologies())
def test_every_topology_can_be_imported_from_a_ragged_npz(tmp_path, take, name):
    x = np.concatenate([person(topologies()[name], label=label, frames=10)[0] for label in range(4)])
    np.savez(tmp_path / "x.npz", joints=x, offsets=np.arange(0, 41, 10), label=np.array([0, 0, 0, 0]))
    several = sum(one.num_joints == x.shape[1] for one in topologies().values()) > 1
    store = take(tmp_path / "x.npz", topology=name if several else None)
    assert store.topology.name == name and not store.clip(0)[0, 0, store.topology.center].any()


def test_options_without_effect_are_rejected(tmp_path):
    np.savez(tmp_path / "x.npz", **mamp_arrays())
    flat = pyskl(tmp_path, [flat_annotation(i) for i in range(12)], {"a": []})
    for file, options, message in (
        (tmp_path / "x.npz", dict(label_fields=("a", "b")), "--label-fields is for ragged npz"),
        (flat, dict(up="z"), "--units and --up with x or z are for 3-D poses"),
        (flat, dict(units="mm"), "--units and --up with x or z are for 3-D poses"),
    ):
        refused(tmp_path, message, file, **options)
