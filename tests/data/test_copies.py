"""Clips that are in a data set more than once are found, and the splits that have them on both sides named."""

import numpy as np
from made.clips import open_writer

from skelbench.data.copies import first_copies, on_both_sides
from skelbench.data.store.clip_store import ClipStore
from skelbench.data.store.splits import FieldRule
from skelbench.data.verify import verify


def made(path, numbers, confidence=None):
    """Clips that are equal where ``numbers`` are; odd ones train."""
    splits = {"odd": FieldRule(field="subject", train="odd"), "late": FieldRule(field="trial", train=(9,))}
    with open_writer(path, splits=splits, default_split="odd") as writer:
        for i, number in enumerate(numbers):
            x = np.random.default_rng(number).standard_normal((1, 5, 25, 3))
            sure = {} if confidence is None else {"confidence_MTJ": np.full((1, 5, 25), confidence[i])}
            writer.add(x, i % 3, subject=i, trial=9 * (i > 5), name=f"n{i}", **sure)
    return ClipStore.open(path)


def test_copies_are_found_and_counted_by_split(tmp_path):
    store = made(tmp_path / "made", [0, 1, 2, 1, 1, 5, 0, 7, 2])
    assert first_copies(store).tolist() == [0, 1, 2, 1, 1, 5, 0, 7, 2]
    odd, late = on_both_sides(store)
    assert odd == ("odd", 1, 5, "clip 4 (n4) is clip 1 (n1)")
    assert late == ("late", 2, 6, "clip 0 (n0) is clip 6 (n6)")
    (check,) = [check for check in verify(store, None, None) if check.what == "on both sides of a split"]
    assert (check.state, check.found) == ("look", "odd: 1 of 5 test clips; late: 2 of 6 test clips")
    assert "(clip 4 (n4) is clip 1 (n1))" in check.advice


def test_equal_checksums_alone_are_no_copies_nor_is_another_confidence(tmp_path):
    store = made(tmp_path / "made", range(7))
    store.index["crc32"][:] = 1
    assert first_copies(store).tolist() == list(range(7))
    sure = made(tmp_path / "sure", [3] * 7, [0.5, 0.5, 1, 1, 1, 1, 1])
    assert first_copies(sure).tolist() == [0, 0, 2, 2, 2, 2, 2]
