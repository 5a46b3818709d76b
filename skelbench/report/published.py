"""Numbers printed in papers, as data with provenance. They are shown beside ours and never used as ours.

One file per published table. Columns: ``method``; ``variant`` (token grid, label share, ablation row ...); ``dataset``,
``split`` and ``protocol`` as this package names them, where ``protocol`` is what was done if that is known to differ
from what the caption says; ``metric``; ``value`` and ``std`` (accuracies in percent, costs in GFLOPs); ``source``; and
``note`` for what a reader must know before comparing.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from skelbench.errors import SkelbenchError, did_you_mean

FOLDER = Path(__file__).parent / "published"
COLUMNS = ("method", "variant", "dataset", "split", "protocol", "metric", "value", "std", "source", "note")


def names() -> list[str]:
    """Published tables that :func:`load` knows."""
    return sorted(path.stem for path in FOLDER.glob("*.csv"))


def load(name: str, **filters: Any) -> list[dict[str, Any]]:
    """Rows of published table ``name`` whose columns equal ``filters``, in the paper's order.

    ``value`` is a float, ``std`` a float or ``None``, everything else text.

    Raises:
        SkelbenchError: unknown table or column.
    """
    if name not in names():
        raise SkelbenchError(did_you_mean(name, names(), "published table"))
    for column in filters:
        if column not in COLUMNS:
            raise SkelbenchError(did_you_mean(column, COLUMNS, "column of published tables"))
    with open(FOLDER / f"{name}.csv", newline="", encoding="utf-8") as file:
        rows: list[dict[str, Any]] = list(csv.DictReader(file))
    for row in rows:
        row["value"] = float(row["value"])
        row["std"] = float(row["std"]) if row["std"] else None
    return [row for row in rows if all(row[column] == wanted for column, wanted in filters.items())]
