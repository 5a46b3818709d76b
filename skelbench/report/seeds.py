"""Rows over seeds: which evaluated runs make up a row, their mean, spread and interval as cells, and what rows have in
common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from skelbench.evaluate.statistics import wilson
from skelbench.report.frame import DEFAULTS
from skelbench.report.table import Cell

if TYPE_CHECKING:
    from pandas import DataFrame, Series

RAW = "not shown to be better than coordinates without a network: exact McNemar p > 0.05 for at least one seed"
"""Footnote ``raw`` of the cells of :func:`over_raw`."""

_EVALUATION = ["run", "dataset", "split", "stream", "checkpoint"]


def seeds_of(frame: DataFrame, keys: Sequence[str]) -> Iterator[DataFrame]:
    """Runs that belong in one row: alike in ``keys`` and, where it is there, in ``group``, ordered by seed.

    A seed that occurs twice means that something else differs: every evaluation is then a row of its own.
    """
    keys = [*keys, *(["group"] if "group" in frame else [])]
    for _, group in frame.groupby(keys, dropna=False, sort=False):
        if group["seed"].duplicated().any():
            yield from (group.iloc[[i]] for i in range(len(group)))
        else:
            yield group.sort_values("seed")


def accuracy(group: DataFrame) -> Cell:
    """Mean accuracy in percent, its standard deviation over seeds, Wilson's 95 % interval on ``n_test`` clips."""
    mean, n = float(group["accuracy"].mean()), int(group["n_test"].iloc[0])
    low, high = wilson(round(mean * n), n)
    return Cell(100 * mean, spread(group["accuracy"]), (100 * low, 100 * high))


def percent(shares: Series) -> Cell:
    """Mean over all seeds in percent, empty unless every seed has the figure."""
    if shares.isna().any():
        return Cell()
    return Cell(100 * float(shares.mean()), spread(shares))


def over_raw(group: DataFrame) -> Cell:
    """Points above the control ``raw`` on the same clips, empty unless every seed has the figure."""
    over = percent(group["raw_difference"])
    unshown = group["raw_difference"].le(0) | group["raw_p_value"].gt(0.05)
    return replace(over, footnotes=("raw",)) if over.value is not None and unshown.any() else over


def spread(shares: Series) -> float | None:
    """Sample standard deviation in percent; none for one seed."""
    return 100 * float(shares.std(ddof=1)) if len(shares) > 1 else None


def nearest(frame: DataFrame) -> Callable[[DataFrame], Series]:
    """Accuracies of the nearest-neighbour probe for the rows of a group, NaN where there is none or more than one."""
    knn = frame[frame["protocol"] == "knn"].drop_duplicates(_EVALUATION, keep=False).set_index(_EVALUATION)["accuracy"]
    return lambda group: knn.reindex(group.set_index(_EVALUATION).index)


def further(frame: DataFrame, name: str) -> Callable[[DataFrame], Cell]:
    """The figure ``name`` of the rows of a group: mean and spread, in percent if it is a share. Of their own protocol,
    else of the one other that measured it on the same runs; empty unless every seed has it."""
    has = frame[[name in each for each in frame["measures"]]]
    others = has.drop_duplicates(_EVALUATION, keep=False).set_index(_EVALUATION)["measures"]

    def cell(group: DataFrame) -> Cell:
        places = group.set_index(_EVALUATION)["measures"]
        found = [own if name in own else others.get(place, {}) for place, own in places.items()]
        if not all(name in each for each in found):
            return Cell()
        values = [each[name][0] * (100 if each[name][1].share else 1) for each in found]
        return Cell(mean(values), stdev(values) if len(values) > 1 else None)

    return cell


def alike(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> tuple[set[str], list[str]]:
    """Which of ``keys`` tell ``rows`` apart, and what all rows have in common: ``preset small``; what is as ever is not
    worth a word."""
    varying = {key for key in keys if len({row[key] for row in rows}) > 1}
    return varying, [
        f"{key} {rows[0][key]}" for key in keys if key not in varying and rows[0][key] != DEFAULTS.get(key)
    ]
