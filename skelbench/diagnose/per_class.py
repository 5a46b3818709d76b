"""Two runs class by class, from the per-clip predictions of their evaluations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from skelbench.errors import SkelbenchError
from skelbench.evaluate.statistics import PairedTest, holm, mcnemar, paired_test
from skelbench.report.frame import predictions
from skelbench.results.store import RunDir

ALIKE = ("data", "protocol", "protocol_version", "protocol_source", "protocol_config")
"""Fields of two evaluations that must agree. Others (bodies, resampling, probe seed) are each run's own."""


def evaluation(run: RunDir, protocol: str, checkpoint: str) -> dict[str, Any]:
    """The record of ``run`` under ``protocol``: the standard one if there is one, the latest of several."""
    found = [
        record
        for record in run.records()
        if (record["spec"]["protocol"], record["spec"]["checkpoint"]) == (protocol, checkpoint)
    ]
    if not found:
        place, what = run.spec.id, f"run {run.name}"
        if checkpoint != "last":
            place, what = f"{place}@{checkpoint}", f"the snapshot at epoch {checkpoint} of {what}"
        raise SkelbenchError(
            f"{what} was not evaluated with {protocol}; do that first: skelbench eval {place} --protocol {protocol}"
        )
    return max(found, key=lambda record: (record["standard"], record["finished"]))


def check_alike(runs: Sequence[RunDir], records: Sequence[Mapping[str, Any]]) -> None:
    """Refuse evaluations on different data or with different probes, naming the first difference."""
    first, second = (record["spec"] for record in records)
    for field in ALIKE:
        if first[field] != second[field]:
            raise SkelbenchError(
                f"{runs[0].name} and {runs[1].name} were not evaluated alike: "
                f"{_difference(field, first[field], second[field])}; evaluate both on the same data with the same probe"
            )


def _difference(field: str, a: Any, b: Any) -> str:
    """``split is cross-view in one, cross-subject in the other``: of two mappings the first key that differs."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        field = next(key for key in [*a, *b] if a.get(key) != b.get(key))
        a, b = a.get(field), b.get(field)
    return f"{field.replace('_', ' ')} is {a} in one, {b} in the other"


def compare(
    first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray], names: tuple[str, str]
) -> tuple[list[dict[str, Any]], PairedTest]:
    """One row per class of the test clips, largest loss of the second first, and the test over all classes (second
    minus first too).

    ``first``, ``second``: ``ids``, ``labels`` and ``correct`` of the same clips in any order. A row: ``label``,
    ``clips``, ``first`` and ``second`` (accuracies), ``difference`` (second minus first), ``only_first`` and
    ``only_second`` (clips that one alone gets right), ``p`` (exact McNemar) and ``p_holm`` (adjusted over the classes).
    """
    overall = paired_test(second["ids"], second["correct"], first["ids"], first["correct"], names[::-1])
    order_a, order_b = np.argsort(first["ids"]), np.argsort(second["ids"])
    label_n, a_n, b_n = first["labels"][order_a], first["correct"][order_a], second["correct"][order_b]
    rows = []
    for label in np.unique(label_n):
        a, b = a_n[label_n == label], b_n[label_n == label]
        only_a, only_b, p = mcnemar(a, b)
        row = {"label": int(label), "clips": len(a), "first": float(a.mean()), "second": float(b.mean()), "p": p}
        alone = {"only_first": only_a, "only_second": only_b}
        rows.append(row | alone | {"difference": (only_b - only_a) / len(a)})
    for row, adjusted in zip(rows, holm([row["p"] for row in rows])):
        row["p_holm"] = float(adjusted)
    return sorted(rows, key=lambda row: (row["difference"], row["p"], row["label"])), overall


def of_runs(runs: Sequence[RunDir], records: Sequence[Mapping[str, Any]], names: tuple[str, str]) -> dict[str, Any]:
    """The record of two evaluations compared."""
    check_alike(runs, records)
    first, second = (predictions(run, record) for run, record in zip(runs, records))
    rows, overall = compare(first, second, names)
    return {
        "names": list(names),
        "rows": rows,
        "overall": {
            "clips": overall.n,
            "first": overall.accuracy_b,
            "second": overall.accuracy_a,
            "difference": overall.difference,
            "interval": list(overall.interval),
            "p": overall.p_value,
            "verdict": overall.verdict,
        },
    }
