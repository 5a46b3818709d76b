"""Tests between the rows of a block: ``compare --significance`` (which rows are significantly different, and the
smallest difference that the test clips can show) and ``--against METHOD`` (the difference of every row to that
method's)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from skelbench.evaluation.outcomes import paired_over_seeds, reader
from skelbench.evaluation.stats.compact_letter_display import letters, ranks
from skelbench.evaluation.stats.paired import SeedsTest, holm, minimum_detectable_difference
from skelbench.records.errors import if_whole
from skelbench.reporting.seeds import difference
from skelbench.reporting.table import Column

if TYPE_CHECKING:
    from pandas import DataFrame

    from skelbench.records.store import ResultStore

ALPHA = 0.05
RANKS = (
    Column("rank", "Rank", "d", asked=True),
    Column("letters", "Not significantly different", asked=True),
    Column("untested", "Not tested against (runs)", shown=False),
)
"""Columns of rows that were tested among each other."""
HOW = (
    f"Rows that share a letter are not significantly different: all pairs tested, Holm-adjusted to {100 * ALPHA:.0f} %."
)
TESTS = (
    "Letters: paired tests of all pairs of a block (dataset, split, preset, ...) over the seeds that both have, the "
    "larger p of clips and subjects. Rank: by the printed accuracy; ties share a rank."
)
AGAINST = (
    "p over {}: Holm-adjusted over these differences alone, letters of --significance and of the report over all pairs "
    "of rows."
)
"""Note on the differences to a method."""
LIKE = (("tokens", "changed"), ("tokens",), ())
"""Columns to match a row with its row of ``--against``; the first tuple that leaves exactly one row is used."""


def letters_of(key: str) -> Column:
    """The column of letters behind the column ``key``."""
    return Column(f"{key}_letters", "Letters", minor=True)


def mark(
    there: Sequence[tuple[dict[str, Any], DataFrame]],
    values: Sequence[float],
    store: ResultStore,
    predicted: str,
    letters_key: str,
) -> str:
    """Test all pairs of rows of one block; give the rows letters under ``letters_key``, and ranks if it is "letters".

    ``values``: the accuracies, in percent; ``predicted``: see :func:`~skelbench.evaluation.outcomes.predictions`.
    Returns the note on the block; "" for fewer than two rows.
    """
    if len(there) < 2:
        return ""
    order = sorted(range(len(values)), key=lambda place: -values[place])
    pairs, read = list(combinations(range(len(order)), 2)), reader(predicted)
    runs = [there[place][1] for place in order]
    tries = {(i, j): if_whole(partial(paired_over_seeds, store, runs[i], runs[j], read)) for i, j in pairs}
    tested = {pair: test for pair, test in tries.items() if test is not None}
    different = np.zeros((len(order), len(order)), dtype=bool)
    for ((i, j), test), p in zip(tested.items(), holm([test.p_value for test in tested.values()])):
        different[i, j] = different[j, i] = p <= ALPHA and test.holds_over_seeds
    untested = [(order[i], order[j]) for i, j in pairs if (i, j) not in tested]
    printed_ranks = ranks([float(format(values[place], ".1f")) for place in order])
    for place, rank, name in zip(order, printed_ranks, letters(different), strict=True):
        row = there[place][0]
        row[letters_key] = name
        if letters_key == "letters":
            rivals = [rival for pair in untested if place in pair for rival in pair if rival != place]
            row |= {"rank": rank, "untested": "; ".join(str(there[rival][0]["run"]) for rival in rivals)}
    notes = [_detectable([*tested.values()])] if predicted == "predicted" else []  # once, for the headline
    if untested:
        notes.append(f"{_pairs(len(untested))} without a seed or the same test clips in common: not tested.")
    return " ".join(notes)


def _detectable(tests: Sequence[SeedsTest]) -> str:
    """Return the smallest difference that a test on the clips of a block can find for a typical pair."""
    if not tests:
        return "no two rows have a seed and their test clips in common, so none were tested."
    clips, pairs = tests[0].clips, len(tests)
    discordance, effect = median(test.discordance for test in tests), median(test.effect for test in tests)
    subjects = {test.by_subject.count for test in tests if test.by_subject}
    text = f"{clips:,} test clips"
    if subjects:
        text += f" of {max(subjects)} subjects, worth {clips / effect:,.0f} independent ones"
    if subjects and (least := pairs * 2.0 ** (1 - min(subjects))) > ALPHA:
        p = f"p = {min(1.0, least):.2g} after adjusting for {_pairs(pairs)}"
        return f"{text}: too few for significance: even a difference in all of them has {p}."
    fewest = min(subjects) if subjects else None
    points = 100 * minimum_detectable_difference(int(clips / effect), discordance, ALPHA / pairs, subjects=fewest)
    text += f"; two rows differ on {median(test.differing for test in tests):.1%} of them (median)"
    power = f"found with 80 % power, adjusted for {_pairs(pairs)}"
    if not math.isfinite(points):
        return f"{text}: too few for any difference to be {power}."
    return f"{text}. The smallest true difference {power}: {points:.1f} points."


def _pairs(count: int) -> str:
    return "1 pair" if count == 1 else f"{count} pairs"


def mark_against(block: Sequence[tuple[dict[str, Any], DataFrame]], title: str, store: ResultStore) -> None:
    """Give the rows of one block their difference to the row of the method ``title``, and its p."""
    read, tested = reader(), []
    for row, runs in block:
        for rival in _rivals(block, row, title):
            test = if_whole(partial(paired_over_seeds, store, runs, rival, read))
            if test is not None:
                row["against"] = difference(test)
                tested.append((row, test.p_value))
    for (row, _), p in zip(tested, holm([p for _, p in tested]), strict=True):
        row["against_p"] = float(p)


def _rivals(
    block: Sequence[tuple[dict[str, Any], DataFrame]], row: Mapping[str, Any], title: str
) -> Iterator[DataFrame]:
    """Evaluations of the row of ``title`` most similar to ``row``; none if several are, or for the method itself."""
    own = [entry for entry in block if entry[0]["method"].value == title]
    if row["method"].value == title:
        return
    for keys in LIKE:
        like = [runs for entry, runs in own if all(entry[key] == row[key] for key in keys)]
        if like:
            yield from like if len(like) == 1 else ()
            return
