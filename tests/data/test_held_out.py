"""``SPLIT~tune``: whole training subjects held out for choosing settings, and nothing of the test part in it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import write_small_store

from skelbench.data.store.clip_store import ClipStore
from skelbench.data.store.splits import FieldRule, RandomRule, hold_out, make_split
from skelbench.errors import SkelbenchError


def index_of(subjects, seed=0):
    rng = np.random.default_rng(seed)
    count = len(subjects)
    fields = {"subject": np.array(subjects), "camera": rng.integers(1, 4, count), "label": rng.integers(0, 3, count)}
    return fields | {"name": np.array([""] * count)}


RULES = [
    FieldRule(field="subject", train="odd"),
    FieldRule(field="camera", train=(2, 3)),
    RandomRule(test=0.5),
]


@given(st.lists(st.integers(1, 12), min_size=30, max_size=60), st.sampled_from(RULES), st.integers(0, 99))
def test_whole_training_subjects_are_held_out_and_no_test_clip_is_seen(subjects, rule, seed):
    index = index_of(subjects, seed)
    try:
        split = make_split("s", rule, index, "here")
    except SkelbenchError:
        return
    train_subjects = set(index["subject"][split.train].tolist())
    if len(train_subjects) < 2:
        return
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


def test_who_is_held_out_hangs_on_data_set_split_and_subjects():
    index = index_of(list(range(1, 41)) * 2)
    split = make_split("s", FieldRule(field="subject", train="odd"), index, "here")
    chosen = hold_out(split, "set", index)
    others = {hold_out(split, f"set{number}", index).subjects for number in range(5)}
    assert chosen.subjects not in others and len(others) == 5
    assert chosen.subjects == hold_out(split, "set", index).subjects and len(chosen.subjects) == 4


def test_one_subject_gives_clips_of_every_class_and_says_so():
    index = index_of([0] * 60)
    split = make_split("random", RandomRule(test=0.5), index, "here")
    held = hold_out(split, "set", index)
    labels = index["label"]
    for label in range(3):
        members = (labels[split.train] == label).sum()
        assert (labels[held.split.test] == label).sum() == round(0.2 * members)
    assert held.subjects == () and "stratified by class because it has no two subjects" in held.sentence
    few = make_split("random", RandomRule(test=0.5), index_of([0] * 4), "here")
    with pytest.raises(SkelbenchError, match="import the data set with its subjects"):
        hold_out(few, "set", index_of([0] * 4))


def test_a_store_knows_the_tuning_split_of_each_of_its_splits(tmp_path):
    store = ClipStore.open(write_small_store(tmp_path))
    split = store.split("half~tune")
    assert split.name == "half~tune" and store.held_out().split.name == "half~tune"
    assert sorted([*split.train, *split.test]) == store.split("half").train.tolist()
    assert len(store.split("half~tune", min_frames=30).train) < len(split.train)
    with pytest.raises(SkelbenchError, match="did you mean 'half'"):
        store.split("hal~tune")
    with pytest.raises(SkelbenchError, match="held out already"):
        store.split("half~tune~tune")
