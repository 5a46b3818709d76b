"""``compare --against METHOD``: what separates every row from that method's, and whether it is shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from skelbench.evaluation.outcomes import paired_over_seeds, reader
from skelbench.evaluation.stats.paired import holm
from skelbench.records.errors import if_whole
from skelbench.reporting.seeds import difference
from skelbench.reporting.table import Column

if TYPE_CHECKING:
    from pandas import DataFrame

    from skelbench.records.store import ResultStore

LIKE = (("tokens", "changed", "hardware"), ("tokens", "changed"), ("tokens",), ())
"""What the method's row has in common with the row that is held against it, as far as one has it alone."""


def columns(title: str) -> tuple[Column, ...]:
    """Those of differences to ``title``."""
    return (
        Column("against", f"Over {title}", "+.1f", beside=("pm", "interval"), asked=True),
        Column("against_p", f"p over {title} (Holm)", ".2g", asked=True),
    )


def how(title: str) -> str:
    """What is to be said of them."""
    return (
        f"Over {title}: difference to its row of the block (of several to the one with the same tokens and settings), "
        "over the seeds that both have; p: exact paired test on the same clips, the larger of that over clips and that "
        "over subjects, Holm-adjusted over these differences of the block; it says nothing about other pre-training "
        "seeds."
    )


def mark(rows: Sequence[dict[str, Any]], groups: Sequence[DataFrame], title: str, store: ResultStore) -> None:
    """Give the ``rows`` of one block, whose runs are ``groups``, their difference to the row of ``title`` and its p."""
    read, tested = reader(), []
    for place, row in enumerate(rows):
        for rival in _rival(rows, row, title):
            test = if_whole(partial(paired_over_seeds, store, groups[place], groups[rival], read))
            if test is not None:
                row["against"] = difference(test)
                tested.append((row, test.p_value))
    for (row, _), p in zip(tested, holm([p for _, p in tested]), strict=True):
        row["against_p"] = float(p)


def _rival(rows: Sequence[dict[str, Any]], row: dict[str, Any], title: str) -> Iterator[int]:
    """The place of the row of ``title`` that is most like ``row``; nothing where several are, and for itself."""
    own = [place for place, one in enumerate(rows) if one["method"].value == title]
    if row["method"].value == title:
        return
    for keys in LIKE:
        like = [place for place in own if all(rows[place][key] == row[key] for key in keys)]
        if like:
            yield from like if len(like) == 1 else ()
            return
