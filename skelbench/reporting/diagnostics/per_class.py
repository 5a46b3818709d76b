"""Two runs class by class, from the per-clip predictions of their evaluations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import EvalSpec
from skelbench.data.store.splits import full_name
from skelbench.evaluation.stats.paired import PairedTest, holm, paired_test
from skelbench.records.run_dir import RunDir

ALIKE = ("data", "protocol", "protocol_version", "protocol_source", "protocol_config")
"""Fields of two evaluations that must agree. Others (bodies, resampling, probe seed) are each run's own."""


def evaluation(
    run: RunDir,
    protocol: str,
    checkpoint: str,
    dataset: str | None = None,
    split: str | None = None,
    stream: str | None = None,
) -> dict[str, Any]:
    """The record of ``run`` under ``protocol``: the standard one if there is one, the latest of several.

    ``dataset``, ``split``, ``stream``: only those on this dataset and split, and of this stream (``bone``,
    ``joint,bone``). None = any.

    Raises:
        SkelbenchError: there is none, or some are on different data or of different streams.
    """
    candidates = [
        record
        for record in run.records()
        if (record["spec"]["protocol"], record["spec"]["checkpoint"]) == (protocol, checkpoint)
    ]
    if not candidates:
        place, title = run.spec.id, f"run {run.name}"
        if checkpoint != "last":
            run.encoder(checkpoint)  # raises for an epoch without a snapshot
            place, title = f"{place}@{checkpoint}", f"the snapshot at epoch {checkpoint} of {title}"
        raise SkelbenchError(
            f"{title} was not evaluated with {protocol}; do that first: skelbench eval {place} --protocol {protocol}"
        )
    options = {"dataset": dataset, "split": split and full_name(split), "stream": stream}
    fitting = [
        record
        for record in candidates
        if all(value in (None, own) for value, own in zip(options.values(), _place(record)))
    ]
    if not fitting:
        wanted_options = " ".join(f"--{name} {value}" for name, value in options.items() if value)
        raise SkelbenchError(
            f"run {run.name} was not evaluated with {protocol} and {wanted_options}; there is {_listed(candidates)}"
        )
    fitting = [record for record in fitting if record["standard"]] or fitting
    if (ways := len(set(map(_place, fitting)))) > 1:
        raise SkelbenchError(
            f"run {run.name} was evaluated with {protocol} in {ways} ways: {_listed(fitting)}; choose one with "
            "--dataset, --split or --stream"
        )
    return max(fitting, key=lambda record: record["finished"])


def _place(record: Mapping[str, Any]) -> tuple[str, str, str]:
    """Dataset, split and streams of an evaluation."""
    spec = EvalSpec.model_validate(record["spec"])
    return spec.data.name, spec.data.split, ",".join(spec.streams)


def _listed(records: Iterable[Mapping[str, Any]]) -> str:
    places = dict.fromkeys(map(_place, records))
    return ", ".join(f"{dataset} / {split} ({stream})" for dataset, split, stream in places)


def check_alike(runs: Sequence[RunDir], records: Sequence[Mapping[str, Any]]) -> None:
    """Raise for evaluations on different data or with different probes; the error names the first difference."""
    first, second = (record["spec"] for record in records)
    for field in ALIKE:
        if first[field] != second[field]:
            raise SkelbenchError(
                f"{runs[0].name} and {runs[1].name} were not evaluated in the same way: "
                f"{_difference(field, first[field], second[field])}; evaluate both on the same data with the same probe"
            )


def _difference(field: str, a: Any, b: Any) -> str:
    """``split is cross-view in one, cross-subject in the other``: the first key in which two mappings differ."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        field = next(key for key in [*a, *b] if a.get(key) != b.get(key))
        a, b = a.get(field), b.get(field)
    return f"{field.replace('_', ' ')} is {a} in one, {b} in the other"


def compare(
    first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray], names: tuple[str, str]
) -> tuple[list[dict[str, Any]], PairedTest]:
    """One row per class of the test clips, largest loss of the second first, and the test over all classes (second
    minus first too).

    ``first``, ``second``: ``ids``, ``labels``, ``correct`` ([C], or of several draws [draws, C]) and, where they are
    known, ``subjects`` of the same clips in any order. A row: ``label``, ``clips``, ``first`` and ``second``
    (accuracies), ``difference`` (second minus first), ``only_first`` and ``only_second`` (clips that one alone gets
    right, of several draws more often), ``p`` (exact sign-flip test, the larger of those over clips and over subjects;
    1 where all clips are of one of several subjects) and ``p_holm`` (adjusted over the classes).
    """
    order_a, order_b = np.argsort(first["ids"]), np.argsort(second["ids"])
    subjects = first["subjects"][order_a] if "subjects" in first else None
    if subjects is None and "subjects" in second:
        subjects = second["subjects"][order_b]
    has_subjects = subjects is not None and len(np.unique(subjects)) > 1
    label_n, a_n, b_n = first["labels"][order_a], first["correct"][..., order_a], second["correct"][..., order_b]
    ids_a, ids_b = first["ids"][order_a], second["ids"][order_b]

    def test(selection: np.ndarray | slice) -> PairedTest:
        who = subjects[selection] if subjects is not None else None
        sides = ids_b[selection], b_n[..., selection], ids_a[selection], a_n[..., selection]
        return paired_test(*sides, names[::-1], subjects_a=who)

    overall = test(slice(None))
    rows = []
    better_n = np.sign(np.atleast_2d(b_n).mean(0) - np.atleast_2d(a_n).mean(0))
    for label in np.unique(label_n):
        of_class, better_c = test(label_n == label), better_n[label_n == label]
        row = {
            "label": int(label),
            "clips": of_class.clips,
            "first": of_class.accuracy_b,
            "second": of_class.accuracy_a,
        }
        counts = {"only_first": int((better_c < 0).sum()), "only_second": int((better_c > 0).sum())}
        # One subject is not enough for a test.
        p = 1.0 if has_subjects and of_class.by_subject is None else of_class.p_value
        rows.append(row | counts | {"difference": of_class.difference, "p": p})
    for row, adjusted in zip(rows, holm([row["p"] for row in rows])):
        row["p_holm"] = float(adjusted)
    return sorted(rows, key=lambda row: (row["difference"], row["p"], row["label"])), overall
