"""Two runs class by class, against counting by hand."""

from math import comb

import numpy as np
import pytest

from skelbench.core.errors import SkelbenchError
from skelbench.reporting.diagnostics.per_class import check_alike, compare


def outcomes(seed, chance, ids, labels):
    correct = np.random.default_rng(seed).random(len(ids)) < np.asarray(chance)[labels]
    order = np.random.default_rng(seed + 100).permutation(len(ids))  # files need not agree on the order of clips
    return {"ids": ids[order], "labels": labels[order], "correct": correct[order]}


@pytest.fixture
def pair():
    ids, labels = np.arange(200) * 3, np.arange(200) % 4
    return outcomes(1, [0.9, 0.5, 0.7, 0.2], ids, labels), outcomes(2, [0.3, 0.5, 0.8, 0.9], ids, labels)


def test_rows_equal_a_count_clip_by_clip(pair):
    rows, overall = compare(*pair, ("a", "b"))
    first, second = ({int(i): bool(c) for i, c in zip(one["ids"], one["correct"])} for one in pair)
    assert sorted(row["label"] for row in rows) == [0, 1, 2, 3]
    for row in rows:
        ids = [3 * k for k in range(200) if k % 4 == row["label"]]
        a, b = [first[i] for i in ids], [second[i] for i in ids]
        lost, won = sum(x and not y for x, y in zip(a, b)), sum(y and not x for x, y in zip(a, b))
        assert (row["clips"], row["only_first"], row["only_second"]) == (50, lost, won)
        assert (row["first"], row["second"]) == pytest.approx((np.mean(a), np.mean(b)))
        assert row["difference"] == pytest.approx(np.mean(b) - np.mean(a))
        n = lost + won
        exact = min(1.0, 2 * sum(comb(n, i) for i in range(min(lost, won) + 1)) / 2**n)
        assert row["p"] == pytest.approx(exact)
    largest = 0.0
    for rank, row in enumerate(sorted(rows, key=lambda row: row["p"])):
        largest = max(largest, min(1.0, (4 - rank) * row["p"]))
        assert row["p_holm"] == pytest.approx(largest)
    assert [row["difference"] for row in rows] == sorted(row["difference"] for row in rows)
    assert rows[0]["label"] == 0 and rows[-1]["label"] == 3
    assert overall.difference == pytest.approx(np.mean([second[i] - first[i] for i in first]))


def test_one_of_several_subjects_is_not_significant():
    ids, labels, subjects = np.arange(120), np.repeat([0, 1], 60), np.repeat([0, 1, 2, 3, 4, 5, 6], [60, *[10] * 6])
    one = {"ids": ids, "labels": labels, "subjects": subjects, "correct": ids % 3 == 0}
    other = one | {"correct": ids % 3 < 2}
    rows, _ = compare(one, other, ("a", "b"))
    assert {row["label"]: row["p"] for row in rows} == {0: 1.0, 1: 2 / 2**6}
    same = {"subjects": np.zeros(120, int)}  # nobody has written down who they are
    rows, _ = compare(one | same, other | same, ("a", "b"))
    assert [row["p"] for row in rows] == pytest.approx([2 / 2**20] * 2)


def test_the_first_difference_is_named():
    class Run:
        name = "run"

    data = {"name": "ntu60", "split": "cross-view"}
    spec = {"data": data, "protocol": "linear", "protocol_version": 1, "protocol_source": None, "protocol_config": {}}
    runs = [Run(), Run()]
    check_alike(runs, [{"spec": spec}, {"spec": {**spec, "seed": 3, "resize": "half-pixel"}}])
    other = {**spec, "data": {**data, "split": "cross-subject"}}
    with pytest.raises(SkelbenchError, match="split is cross-view in one, cross-subject in"):
        check_alike(runs, [{"spec": spec}, {"spec": other}])
    with pytest.raises(SkelbenchError, match="lr is 0.1 in one, None in"):
        check_alike(runs, [{"spec": {**spec, "protocol_config": {"lr": 0.1}}}, {"spec": spec}])
