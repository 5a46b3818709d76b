import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skelbench.core.errors import SkelbenchError
from skelbench.data.store.splits import FieldRule, NameRule, RandomRule, make_split

N = 24
INDEX = {
    "label": np.repeat([0, 1, 2], [4, 8, 12]),
    "subject": np.arange(N) % 5,
    "camera": 1 + np.arange(N) % 3,
    "setup": np.arange(N) % 7,
    "trial": np.arange(N) % 2,
}


@pytest.mark.parametrize(("rule", "trains", "tests"), [
    (FieldRule(field="camera", train=(2, 3)), lambda i: 1 + i % 3 in (2, 3), lambda i: 1 + i % 3 == 1),
    (FieldRule(field="subject", train="odd"), lambda i: i % 5 in (1, 3), lambda i: i % 5 in (0, 2, 4)),
    (FieldRule(field="setup", train="even"), lambda i: i % 7 % 2 == 0, lambda i: i % 7 % 2 == 1),
    (FieldRule(field="subject", train=(1,), test=(4,)), lambda i: i % 5 == 1, lambda i: i % 5 == 4),
])  # fmt: skip
def test_rules_over_fields(rule, trains, tests):
    split = make_split("s", rule, INDEX, "x")
    assert split.train.tolist() == [i for i in range(N) if trains(i)]
    assert split.test.tolist() == [i for i in range(N) if tests(i)]


def test_rule_over_videos():
    index = {"label": np.zeros(5), "name": np.array(["A01_1-L_1", "A01_1-L_2", "A01_1_1", "A01_1-R_1", "loose"])}
    for test, expected in (((), None), (("A01_1",), [2]), (None, [2, 3, 4])):
        rule = NameRule(field="video", train=("A01_1-L",), test=test)
        if expected is None:
            with pytest.raises(SkelbenchError, match="leaves no test clips"):
                make_split("s", rule, index, "x")
        else:
            split = make_split("s", rule, index, "x")
            assert split.train.tolist() == [0, 1] and split.test.tolist() == expected


@given(seed=st.integers(0, 1000), share=st.sampled_from([0.25, 0.5, 0.75]))
def test_random_split_holds_out_a_fraction_of_every_class(seed, share):
    split = make_split("random", RandomRule(test=share, seed=seed), INDEX, "x")
    assert sorted([*split.train, *split.test]) == list(range(N))
    counts = np.bincount(INDEX["label"][split.test])
    assert counts.tolist() == [4 * share, 8 * share, 12 * share]


def splitmix64(x):
    """In plain integers, as its authors print it."""
    x = (x + 0x9E3779B97F4A7C15) % 2**64
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_random_split_takes_the_smallest_hashes_of_every_class(seed):
    expected = set()
    for label in range(3):
        members = [i for i in range(N) if INDEX["label"][i] == label]
        expected |= set(sorted(members, key=lambda i: splitmix64(i + (seed << 32)))[: len(members) // 2])
    assert set(make_split("random", RandomRule(test=0.5, seed=seed), INDEX, "x").test) == expected


def test_empty_and_overlapping_sides_are_rejected():
    for rule, side in ((FieldRule(field="camera", train=(9,)), "training"), (RandomRule(test=0.0), "test")):
        with pytest.raises(SkelbenchError, match=f"here: split 's' leaves no {side} clips"):
            make_split("s", rule, INDEX, "here")
    with pytest.raises(SkelbenchError, match="the same clips into train and test"):
        make_split("s", FieldRule(field="camera", train=(1, 2), test=(2,)), INDEX, "here")


def test_names_of_splits(store):
    assert store.split().name == "cross-view"
    for alias, name in (("xsub", "cross-subject"), ("X-View", "cross-view"), ("xview", "cross-view")):
        split, full = store.split(alias), store.split(name)
        assert split.name == name
        np.testing.assert_array_equal(split.train, full.train)
        assert split.train.dtype == np.int64
    with pytest.raises(SkelbenchError, match="dataset made: unknown split 'cross-vew'; did you mean 'cross-view'"):
        store.split("cross-vew")
    with pytest.raises(SkelbenchError, match="unknown split 'xset'"):
        store.split("xset")
