"""Confusion of classes, from the predictions of an evaluation, and its tables.

Shapes: ``K`` classes, ``C`` test clips.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.evaluation.stats.paired import wilson
from skelbench.plugin.host import Host
from skelbench.reporting.table import Cell, Column, Table

log = logging.getLogger(__name__)
NAME = 28
"""Maximal length of a class name in tables and figures."""


def matrix(found: Mapping[str, np.ndarray], num_classes: int) -> np.ndarray:
    """Clips [K, K] by class (rows) and predicted class (columns), mean over draws.

    >>> matrix({"labels": np.array([0, 0, 1]), "predicted": np.array([[0, 1, 1], [0, 0, 1]])}, 2).tolist()
    [[1.5, 0.5], [0.0, 1.0]]
    """
    predicted_DC = np.atleast_2d(found["predicted"])
    labels_DC = np.broadcast_to(found["labels"], predicted_DC.shape)
    counts_KK = np.zeros((num_classes, num_classes))
    np.add.at(counts_KK, (labels_DC.ravel(), predicted_DC.ravel()), 1)
    return counts_KK / len(predicted_DC)


def classes_of(found: Mapping[str, np.ndarray], dataset: str, host: Host, data_root: Path | None) -> list[str]:
    """Names of the classes; their numbers, with a warning, if the data set is missing, changed or damaged."""
    from skelbench.data.store import roots
    from skelbench.pipeline.resolve import open_dataset

    least, root = 1 + int(max(found["labels"].max(), found["predicted"].max())), data_root or roots.data_root()
    try:
        names = list(open_dataset(dataset, host, root).classes)
    except SkelbenchError as error:
        names = []
        if dataset in (*host.names("datasets"), *roots.named_stores(root)):
            log.warning("note: classes are shown without their names: %s", error)
    return names if len(names) >= least else [f"class {label}" for label in range(least)]


def short(name: str) -> str:
    """``name``, without its middle where it is too long for a cell: classes also differ in how they end.

    >>> short("standing active straight leg raise / incorrect")
    'standing activ…e / incorrect'
    """
    if len(name) <= NAME:
        return name
    end = (NAME - 1) // 2
    return f"{name[: NAME - 1 - end].rstrip()}…{name[-end:].lstrip()}"


def classes(counts_KK: np.ndarray, names: Sequence[str], title: str, top: int = 15, draws: int = 1) -> Table:
    """The ``top`` classes with the lowest accuracy, and the class that each is most often taken for; 0 = all.

    Classes without a test clip have no row.
    """
    clips_K, right_K = counts_KK.sum(1), counts_KK.diagonal()
    there = [label for label in range(len(names)) if clips_K[label]]
    order = sorted(there, key=lambda label: (right_K[label] / clips_K[label], label))
    rows = []
    for label in order[: top or None]:
        clips, right, wrong = clips_K[label], right_K[label], counts_KK[label].copy()
        wrong[label] = 0
        low, high = wilson(round(right), round(clips))
        other = int(wrong.argmax())
        rows.append(
            {
                "label": label,
                "class": short(names[label]),
                "clips": round(clips),
                "accuracy": Cell(
                    100 * right / clips, interval=(100 * low, 100 * high), interval_over=f"{clips:.0f} clips"
                ),
                "taken_for": short(names[other]) if wrong[other] else None,
                "share": 100 * wrong[other] / clips if wrong[other] else None,
            }
        )
    columns = (
        Column("label", "Label", "d", shown=False),
        Column("class", "Class", leads=True),
        Column("clips", "Clips", "d"),
        Column("accuracy", "Accuracy, %", ".1f"),
        Column("taken_for", "Most often taken for"),
        Column("share", "Of its clips, %", ".1f"),
    )
    share_K = right_K[there] / clips_K[there]
    kept = f"the {len(rows)} hardest of {len(there)} classes" if len(rows) < len(there) else f"all {len(there)} classes"
    notes = [
        f"{kept[0].upper()}{kept[1:]}. Mean class accuracy {100 * share_K.mean():.1f} %, of all clips "
        f"{100 * right_K.sum() / clips_K.sum():.1f} %. Brackets: Wilson's 95 % over the clips of a class, as if "
        "those of one subject did not depend on each other."
    ]
    notes += [f"Means over {draws} draws."] if draws > 1 else []
    return Table(title, columns, tuple(rows), tuple(notes))


def pairs(counts_KK: np.ndarray, names: Sequence[str], top: int = 10) -> Table:
    """The ``top`` pairs of classes by the share of their clips that are taken for the other class of the pair."""
    clips_K = counts_KK.sum(1)
    both_KK = counts_KK + counts_KK.T
    of_KK = clips_K[:, None] + clips_K
    share_KK = np.divide(both_KK, of_KK, out=np.zeros_like(both_KK), where=of_KK > 0)
    found = [(a, b) for a, b in combinations(range(len(names)), 2) if both_KK[a, b]]
    found.sort(key=lambda pair: (-share_KK[pair], pair))
    rows = [
        {
            "one": short(names[a]),
            "other": short(names[b]),
            "share": 100 * share_KK[a, b],
            "one_as_other": 100 * counts_KK[a, b] / clips_K[a] if clips_K[a] else None,
            "other_as_one": 100 * counts_KK[b, a] / clips_K[b] if clips_K[b] else None,
        }
        for a, b in found[: top or None]
    ]
    columns = (
        Column("one", "One", leads=True),
        Column("other", "Other", leads=True),
        Column("share", "Of both, %", ".1f"),
        Column("one_as_other", "One as other", ".1f"),
        Column("other_as_one", "Back", ".1f"),
    )
    note = "Of the clips of both classes the share that is taken for the other of the two; then each way for itself."
    return Table(
        "Pairs that are confused most", columns, tuple(rows), (note if rows else "No clip was taken for another.",)
    )
