"""``SPLIT~tune``: whole training subjects held out for choosing settings, and nothing of the test part in it."""

import numpy as np
import pytest
from small import write_small_store

from skelbench.core.errors import SkelbenchError
from skelbench.data.store.clip_store import ClipStore
from skelbench.data.store.splits import FieldRule, NameRule, RandomRule, hold_out, make_split
from skelbench.data.store.writer import StoreWriter
from skelbench.views.skeleton.topology import NTU25


def index_of(subjects, seed=0):
    rng = np.random.default_rng(seed)
    count = len(subjects)
    fields = {"subject": np.array(subjects), "camera": rng.integers(1, 4, count), "label": rng.integers(0, 3, count)}
    return fields | {"name": np.array([""] * count)}


RULES = [FieldRule(field="subject", train="odd"), FieldRule(field="camera", train=(2, 3)), RandomRule(test=0.5)]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("seed", range(6))
def test_whole_training_subjects_are_held_out_and_no_test_clip_is_seen(rule, seed):
    index = index_of(np.random.default_rng(seed).integers(1, 13, 40), seed)
    split = make_split("s", rule, index, "here")
    train_subjects = set(index["subject"][split.train].tolist())
    held = hold_out(split, "set", index)
    train, test = held.split.train, held.split.test
    assert sorted([*train, *test]) == split.train.tolist() and len(train) and len(test)
    assert set(index["subject"][test].tolist()) == set(held.subjects)
    assert not set(index["subject"][train].tolist()) & set(held.subjects)
    assert len(held.subjects) == max(1, round(0.2 * len(train_subjects))) and held.of == len(train_subjects)
    # Whatever the index says of test clips, the choice is the same.
    poisoned = {name: values.copy() for name, values in index.items()}
    for name in ("subject", "camera", "label"):
        poisoned[name][split.test] = -1
    again = hold_out(split, "set", poisoned)
    assert again.split.train.tolist() == train.tolist() and again.hash == held.hash


@pytest.mark.parametrize("seed", range(10))
def test_cameras_are_held_out_with_subjects_and_neither_trains(seed):
    index = index_of(np.random.default_rng([1, seed]).integers(1, 7, 60), seed)
    subjects, cameras = index["subject"], index["camera"]
    split = make_split("s", FieldRule(field="camera", train=(2, 3)), index, "here")
    held = hold_out(split, "set", index, "camera")
    train, test = held.split.train, held.split.test
    assert len(train) and len(test) and held.split.name == "s~tune-camera" and held.field == "camera"
    seen = {name: [set(index[name][part].tolist()) for part in (train, test)] for name in ("subject", "camera")}
    for kept, out in seen.values():
        assert not kept & out
    assert seen["subject"][1] == set(held.subjects) and seen["camera"][1] <= set(held.views)
    # Of the training part those clips are left out that are of a held one of one kind alone, and no others.
    alone = np.isin(subjects, held.subjects) != np.isin(cameras, held.views)
    assert sorted([*train, *test]) == [clip for clip in split.train if not alone[clip]]
    poisoned = {name: values.copy() for name, values in index.items()}
    for name in ("subject", "camera", "label"):
        poisoned[name][split.test] = -1
    assert hold_out(split, "set", poisoned, "camera").hash == held.hash


def test_held_out_subjects_depend_on_dataset_split_and_subjects():
    index = index_of(list(range(1, 41)) * 2)
    split = make_split("s", FieldRule(field="subject", train="odd"), index, "here")
    chosen = hold_out(split, "set", index)
    others = {hold_out(split, f"set{number}", index).subjects for number in range(5)}
    assert chosen.subjects not in others and len(others) == 5
    assert chosen.subjects == hold_out(split, "set", index).subjects and len(chosen.subjects) == 4


def test_a_store_knows_the_tuning_split_of_each_of_its_splits(tmp_path):
    store = ClipStore.open(write_small_store(tmp_path))
    split = store.split("half~tune")
    assert split.name == "half~tune" and store.held_out().split.name == "half~tune"
    assert sorted([*split.train, *split.test]) == store.split("half").train.tolist()
    assert len(store.split("half~tune", min_frames=30).train) < len(split.train)
    with pytest.raises(SkelbenchError, match="did you mean 'half'"):
        store.split("hal~tune")
    with pytest.raises(SkelbenchError, match="held out already"):
        store.held_out("half~tune")
    with pytest.raises(SkelbenchError, match="unknown split"):
        store.split("half~tune~tune")


@pytest.fixture
def seen_by_three(tmp_path):
    """Four people as three cameras see them, twice each; camera 1 tests."""
    pose = np.random.default_rng(0).normal(size=(1, 4, 25, 3)).astype(np.float32)
    splits = {"view": FieldRule(field="camera", train=(2, 3)), "front": FieldRule(field="camera", train=(2,))}
    splits |= {"odd": FieldRule(field="subject", train="odd")}
    named = {camera: tuple(str(clip) for clip in range(24) if 1 + clip // 2 % 3 in camera) for camera in ((1,), (2, 3))}
    splits |= {
        "named": NameRule(field="name", train=named[2, 3]),
        "mixed": NameRule(field="name", train=named[1,] + ("2",)),
    }
    with StoreWriter(tmp_path / "seen", topology=NTU25, classes=("a", "b"), splits=splits, default_split="view",
                     lineage="made here") as writer:  # fmt: skip
        for clip in range(24):
            writer.add(pose, clip % 2, subject=1 + clip // 6, camera=1 + clip // 2 % 3, name=str(clip))
    return ClipStore.open(tmp_path / "seen")


def test_a_split_over_cameras_tunes_on_held_out_cameras(seen_by_three):
    held = seen_by_three.held_out()
    assert held.split.name == "view~tune-camera" and (len(held.split.train), len(held.split.test)) == (6, 2)
    again = seen_by_three.split("view~tune-camera")
    assert again.train.tolist() == held.split.train.tolist() and again.test.tolist() == held.split.test.tolist()
    assert len(seen_by_three.split("view~tune").test) == 4  # subjects alone, as ever
    # A list of names that tests on another camera is taken by the cameras, one that does not as it is.
    assert seen_by_three.held_out("named").split.name == "named~tune-camera"
    assert seen_by_three.held_out("mixed").split.name == "mixed~tune"
    # One camera to train on: there is no other to hold out. Subjects: cameras have nothing to do with them.
    assert seen_by_three.held_out("front").split.name == "front~tune"
    assert seen_by_three.held_out("odd").split.name == "odd~tune"
    record = held.record()
    assert (record["split"], record["of"], record["of_cameras"]) == ("view~tune-camera", 4, 2)
    with pytest.raises(SkelbenchError, match="did you mean 'view~tune-camera'"):
        seen_by_three.split("view~tune-camrea")
    with pytest.raises(SkelbenchError, match="held out already"):
        seen_by_three.held_out("view~tune-camera")
