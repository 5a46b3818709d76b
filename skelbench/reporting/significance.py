"""``compare --significance``: which rows of a block can be told apart, and what its test clips could show at all."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skelbench.evaluation.outcomes import paired_over_seeds, reader
from skelbench.evaluation.stats.compact_letter_display import letters, ranks
from skelbench.evaluation.stats.paired import SeedsTest, holm, minimum_detectable_difference
from skelbench.records.errors import if_whole
from skelbench.reporting.table import Column

if TYPE_CHECKING:
    from pandas import DataFrame

    from skelbench.records.store import ResultStore

ALPHA = 0.05
COLUMNS = (
    Column("rank", "Rank", "d", asked=True),
    Column("letters", "Not told apart", asked=True),
    Column("untested", "Not tested against (runs)", shown=False),
)
"""Of the rows that were tested among each other."""
HOW = (
    "Rank: by the accuracy as it is shown, ties share one. Rows that share a letter are not told apart: paired tests "
    "of all pairs of a block over the seeds that both have, the larger p of clips and subjects, Holm-adjusted to "
    f"{100 * ALPHA:.0f} % for the block."
)


def mark(rows: Sequence[dict[str, Any]], groups: Sequence[DataFrame], store: ResultStore, where: str) -> Iterator[str]:
    """Give the ``rows`` of one block, whose runs are ``groups``, their ``rank`` and ``letters``; yields what is to be
    said of the block, which is ``where``. Nothing for fewer than two rows."""
    if len(rows) < 2:
        return
    found = apart([row["accuracy"].value for row in rows], groups, store)
    for place, (row, rank, name) in enumerate(zip(rows, found.ranks, found.letters, strict=True)):
        others = [other for pair in found.untested if place in pair for other in pair if other != place]
        row |= {"rank": rank, "letters": name, "untested": "; ".join(str(rows[other]["run"]) for other in others)}
    yield f"{where}: {' '.join(filter(None, (found.detectable, found.missing)))}"


class Apart(NamedTuple):
    """Which rows can be told apart."""

    ranks: list[int]
    letters: list[str]
    detectable: str
    """What the tests could show at all."""
    untested: list[tuple[int, int]]
    """Pairs of rows that could not be tested, which share a letter."""

    @property
    def missing(self) -> str:
        """What could not be tested, in words; "" for nothing."""
        pairs = len(self.untested)
        have = "has" if pairs == 1 else "have"
        why = f"{have} no seed or not the same test clips in common, and share{'s' * (pairs == 1)} a letter untested."
        return f"{_many(pairs)} {why}" if pairs else ""


def apart(
    values: Sequence[float], groups: Sequence[DataFrame], store: ResultStore, predicted: str = "predicted"
) -> Apart:
    """Of two or more rows with accuracies ``values``, in percent, whose evaluations are ``groups``; ``predicted``: see
    :func:`~skelbench.evaluation.outcomes.predictions`."""
    order = sorted(range(len(values)), key=lambda place: -values[place])
    pairs = list(combinations(range(len(values)), 2))
    read = reader(predicted)
    tries = [partial(paired_over_seeds, store, groups[order[i]], groups[order[j]], read) for i, j in pairs]
    found = [if_whole(one) for one in tries]
    tested = {pair: test for pair, test in zip(pairs, found) if test is not None}
    different = np.zeros((len(values), len(values)), dtype=bool)
    for (i, j), p in zip(tested, holm([test.p_value for test in tested.values()])):
        different[i, j] = different[j, i] = p <= ALPHA
    shown = ranks([float(format(values[place], ".1f")) for place in order])
    by_row = sorted(zip(order, shown, letters(different), strict=True))
    untested = [(order[i], order[j]) for i, j in pairs if (i, j) not in tested]
    detectable = _detectable(list(tested.values()))
    return Apart([rank for _, rank, _ in by_row], [name for _, _, name in by_row], detectable, untested)


def _detectable(tests: Sequence[SeedsTest]) -> str:
    """What the clips of a block could show, typical of its pairs."""
    if not tests:
        return "no two rows have a seed and their test clips in common, so none were tested."
    clips, pairs = tests[0].clips, len(tests)
    discordance, effect = median(test.discordance for test in tests), median(test.effect for test in tests)
    subjects = {test.by_subject.count for test in tests if test.by_subject}
    text = f"{clips:,} test clips"
    if subjects:
        text += f" of {max(subjects)} subjects, worth {clips / effect:,.0f} independent ones"
    if subjects and (least := pairs * 2.0 ** (1 - min(subjects))) > ALPHA:
        p = f"p = {min(1.0, least):.2g} after adjusting for {_many(pairs)}"
        return f"{text}: over so few even a difference in all of them has {p}, so none can be shown."
    of = min(subjects) if subjects else None
    points = 100 * minimum_detectable_difference(int(clips / effect), discordance, ALPHA / pairs, subjects=of)
    text += f"; two rows differ on {median(test.differing for test in tests):.1%} of them (median)"
    found = f"found with 80 % power, adjusted for {_many(pairs)}"
    if not math.isfinite(points):
        return f"{text}: too few for any difference to be {found}."
    return f"{text}. The smallest true difference {found}: {points:.1f} points."


def _many(pairs: int) -> str:
    return "1 pair" if pairs == 1 else f"{pairs} pairs"


def place(row: Mapping[str, Any], keys: Sequence[str]) -> str:
    """``ntu60 / xsub, preset small``: a block in words, by those of ``keys`` that say something."""
    first = " / ".join(str(row[key]) for key in ("dataset", "split") if key in keys)
    return ", ".join([first, *(f"{key} {row[key]}" for key in keys if key not in ("dataset", "split"))])
