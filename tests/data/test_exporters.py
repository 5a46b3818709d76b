import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made.clips import CLASSES, open_writer, random_clips, write_store

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers import import_files
from skelbench.data.importers.exporters import export_mamp_npz
from skelbench.data.store.clip_store import FIELDS, NOTES, ClipStore
from skelbench.data.store.splits import NameRule, RandomRule
from skelbench.views.skeleton.topology import KINECT20


@pytest.fixture
def named(tmp_path):
    """A store whose clips have names that are not in the order of the clips."""
    with open_writer(tmp_path / "named") as writer:
        for i, x in enumerate(random_clips(9, seed=3)):
            writer.add(x, i % 3, subject=5 - i % 5, camera=1 + i % 3, name=f"clip {(7 * i) % 9}")
    return ClipStore.open(tmp_path / "named")


def test_layout_is_the_one_that_mamp_reads(store, tmp_path):
    export_mamp_npz(store, tmp_path / "x.npz", split="xsub")
    with np.load(tmp_path / "x.npz") as file:
        longest = store.lengths.max()
        for part, ids in (("train", store.split("xsub").train), ("test", store.split("xsub").test)):
            x, y = file[f"x_{part}"], file[f"y_{part}"]
            assert x.dtype == np.float32 and x.shape == (len(ids), longest, 150)
            assert y.dtype == np.float64 and y.shape == (len(ids), len(CLASSES)) and set(y.ravel()) == {0, 1}
            # As its feeder takes it apart: clips, frames, bodies, joints, coordinates.
            x = x.reshape(len(ids), longest, 2, 25, 3)
            ids = sorted(ids, key=lambda i: (store.index["subject"][i], i))
            assert np.where(y > 0)[1].tolist() == store.labels[ids].tolist()
            for row, i in enumerate(ids):
                clip = store.clip(i)
                for body in range(2):
                    for frame in range(longest):
                        there = body < len(clip) and frame < clip.shape[1]
                        np.testing.assert_array_equal(x[row, frame, body], clip[body, frame] if there else 0)


def equal(back, store, ids):
    """Store ``back`` holds the clips ``ids`` of ``store``, in that order, with all that is known of them."""
    assert len(back) == len(ids)
    for field in (*FIELDS, *NOTES, "origin"):
        np.testing.assert_array_equal(back.index[field], store.index[field][ids])
    np.testing.assert_array_equal(back.fps, store.fps[ids])
    for j, i in enumerate(ids):
        np.testing.assert_array_equal(back.clip(j), store.clip(i))
        if store.confidence_FJ is not None:
            np.testing.assert_array_equal(back.confidence(j), store.confidence(i))
    assert (back.confidence_FJ is None) == (store.confidence_FJ is None)
    assert (back.classes, back.meta.lineage, back.meta.fps) == (store.classes, store.meta.lineage, store.meta.fps)


def refused_again(store, tmp_path, said, *lost, **changes):
    """The exported file, without some arrays or with others, is refused in one sentence."""
    export_mamp_npz(store, tmp_path / "x.npz", overwrite=True)
    with np.load(tmp_path / "x.npz") as file:
        arrays = {key: array for key, array in file.items() if key not in lost}
    for key, change in changes.items():
        arrays[key] = change(arrays[key])
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(SkelbenchError, match=said) as caught:
        import_files([tmp_path / "x.npz"], "back", tmp_path / "root")
    assert "\n" not in str(caught.value) and not (tmp_path / "root" / "back").exists()


@pytest.mark.parametrize(("change", "said"), [
    ({"skelbench": lambda a: np.array("{}")}, "is incomplete"),
    ({"y_test": lambda y: np.eye(9)[[8] * len(y)]}, "label 8 is outside"),
    ({"length_train": lambda a: a[1:]}, "its arrays do not fit together"),
    ({"subject_train": lambda a: a.astype(np.int64) + 2**40}, "does not fit 32 bits"),
])  # fmt: skip
def test_arrays_that_mean_nothing_are_refused(named, tmp_path, change, said):
    assert named.bodies[named.split().train].min() == 1
    refused_again(named, tmp_path, said, **change)


clip_shapes = st.lists(st.tuples(st.integers(1, 2), st.integers(1, 6)), min_size=4, max_size=7)


@settings(max_examples=20, deadline=None)
@given(shapes=clip_shapes, seed=st.integers(0, 2**32), repeat=st.booleans(), named=st.booleans(), zeros=st.booleans(),
       confident=st.booleans())  # fmt: skip
def test_what_is_exported_comes_back(tmp_path_factory, shapes, seed, repeat, named, zeros, confident):
    folder, rng = tmp_path_factory.mktemp("round"), np.random.default_rng(seed)
    with open_writer(folder / "made") as writer:
        for i, (bodies, frames) in enumerate(shapes):
            x = rng.normal(size=(bodies, frames, 25, 3)).astype("f4")
            absent = rng.random((bodies, frames)) < 0.3 * zeros
            absent.flat[rng.integers(absent.size)] = False  # somebody is seen at some time
            x[absent] = 0  # absent bodies, empty frames, even at the end
            sure = rng.random(x.shape[:3]) if confident else None
            writer.add(x, i % 3, subject=i % 2, camera=1 + i % 2, setup=i, origin=rng.normal(size=3), flags=i,
                       source_frames=i + 9, fps=30.3 + zeros * i, name=f"n{i}" if named else "",
                       confidence_MTJ=sure)  # fmt: skip
    store = ClipStore.open(folder / "made")
    second = "repeat" if repeat else "zero"
    file = export_mamp_npz(store, folder / "x.npz", split="cross-subject", second_body=second)
    back = ClipStore.open(import_files([file], "back", folder).path)
    split = store.split("cross-subject")
    ids = [*split.train, *split.test]
    equal(back, store, ids)
    assert back.meta.splits == store.meta.splits and back.meta.default_split == "cross-subject"
    assert back.split().train.tolist() == list(range(len(split.train)))
    assert (back.names is None) == (not named)


def test_splits_that_are_not_fields_come_back_as_lists(tmp_path):
    splits = {"random": RandomRule(test=0.4), "some": NameRule(field="name", train=("0", "2"), test=("3",))}
    clips = random_clips(10)
    with open_writer(tmp_path / "made", splits=splits, default_split="random") as writer:
        for i, x in enumerate(clips):
            writer.add(x, i % 2, name=str(i))
    store = ClipStore.open(tmp_path / "made")
    for name in splits:
        file = export_mamp_npz(store, tmp_path / f"{name}.npz", split=name)
        back = ClipStore.open(import_files([file], f"back-{name}", tmp_path).path)
        split, again = store.split(name), back.split(name)
        assert [back.names[i] for i in again.train] == [store.names[i] for i in split.train]
        assert [back.names[i] for i in again.test] == [store.names[i] for i in split.test]
        equal(back, store, [*split.train, *split.test])


def test_what_cannot_be_exported(store, tmp_path):
    (tmp_path / "there.npz").write_bytes(b"mine")
    kinect = write_store(tmp_path / "kinect", [np.zeros((1, 2, 20, 3), "f4")] * 4, topology=KINECT20)
    for message, source, file, split in (
        ("exists already; .*--force", store, "there.npz", None),
        ("has skeleton kinect20", ClipStore.open(kinect), "x.npz", None),
        ("cross-subject~tune is for choosing settings", store, "x.npz", "cross-subject~tune"),
    ):
        with pytest.raises(SkelbenchError, match=message):
            export_mamp_npz(source, tmp_path / file, split=split)
    assert (tmp_path / "there.npz").read_bytes() == b"mine"
    assert not (tmp_path / "x.npz").exists()
