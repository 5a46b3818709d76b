"""What follows from the predictions of an evaluation, counted again: a record that says otherwise was changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

TOLERANCE = 1e-9
"""Between two sums of the same clips in another order."""
OF_LINEAR = ("linear", "linear@slim", "transfer", "transfer@slim", "robustness", "missing-representation")
"""Protocols whose curve is that of :class:`skelbench.evaluation.linear.Linear`."""


def recomputed(record: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Metrics that follow from ``arrays`` (``ids``, ``labels`` [C], ``predicted`` [C] or [draws, C], and
    ``predicted_NAME`` of conditions) and from the rows of the record's curve, by the names that the record has them by.

    Figures of a ranking or of scores (mAP, recall beyond the first, top 5) do not follow from classes alone.

    Raises:
        ValueError: the arrays are not those of an evaluation.
    """
    labels_C, predicted = _checked(arrays)
    found = {"n_test": float(len(labels_C)), **_accuracies(labels_C, predicted, "")}
    for name, values in arrays.items():
        if name.startswith("predicted_"):
            found |= _accuracies(labels_C, _of_clips(name, values, labels_C), name.removeprefix("predicted"))
    if record["spec"]["protocol"] == "retrieval":
        found["recall_at_1"] = found["accuracy"]
    found |= dict(_of_curve(record))
    return {name: value for name, value in found.items() if name in record["metrics"]}


def _checked(arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    if missing := [name for name in ("ids", "labels", "predicted") if name not in arrays]:
        raise ValueError(f"there are no {missing[0]}")
    labels_C, ids_C = arrays["labels"], arrays["ids"]
    if labels_C.ndim != 1 or ids_C.shape != labels_C.shape or not len(labels_C):
        raise ValueError("labels and ids are not one for every clip")
    if len(np.unique(ids_C)) < len(ids_C):
        raise ValueError("a clip occurs twice")
    if labels_C.min() < 0 or labels_C.max() >= 2**20:
        raise ValueError("a label is no number of a class")
    if "subjects" in arrays and arrays["subjects"].shape != labels_C.shape:
        raise ValueError("subjects are not one for every clip")
    return labels_C, _of_clips("predicted", arrays["predicted"], labels_C)


def _of_clips(name: str, values: np.ndarray, labels_C: np.ndarray) -> np.ndarray:
    if values.ndim not in (1, 2) or values.shape[-1:] != labels_C.shape or not values.size:
        raise ValueError(f"{name} is not one class for every clip")
    return values


def _accuracies(labels_C: np.ndarray, predicted: np.ndarray, suffix: str) -> dict[str, float]:
    """``accuracy``, ``macro_accuracy`` (mean over the classes that occur) and, of several draws, ``accuracy_sd``."""
    right_DC = np.atleast_2d(predicted == labels_C)
    clips = np.bincount(labels_C)
    present = clips > 0
    by_draw = [np.bincount(labels_C, weights=right_C)[present] / clips[present] for right_C in right_DC]
    found = {f"accuracy{suffix}": float(right_DC.mean()), f"macro_accuracy{suffix}": float(np.mean(by_draw))}
    if len(right_DC) > 1:
        found[f"accuracy{suffix}_sd"] = float(right_DC.mean(1).std(ddof=1))
    return found


def _of_curve(record: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Of one linear probe: its last checkpoint, the best on test, and the one that held-out clips choose."""
    rows = [row for row in record.get("curve", ()) if isinstance(row, Mapping)]
    names = ("test_accuracy", "val_accuracy", "val_loss")
    one = record["spec"]["protocol"] in OF_LINEAR and record["spec"].get("fusion") == "none"
    if not one or any(not isinstance(row.get(name, 0.0), float | int) for row in rows for name in names):
        return
    fitted = [row for row in rows if row.get("fit") == "all-train" and "test_accuracy" in row]
    held = [row for row in rows if row.get("fit") == "held-out" and all(name in row for name in names)]
    if fitted:
        yield "accuracy_best_on_test", max(row["test_accuracy"] for row in fitted)
        yield from _of_row(fitted[-1], steps="step", train_loss="train_loss", train_accuracy="train_accuracy")
    if held:
        best = max(held, key=lambda row: (row["val_accuracy"], -row["val_loss"]))
        yield from _of_row(best, selected_step="step", accuracy_selected="test_accuracy")


def _of_row(row: Mapping[str, Any], **metrics: str) -> Iterator[tuple[str, float]]:
    """Metrics that are a column of one row of a curve."""
    for name, column in metrics.items():
        if isinstance(value := row.get(column), float | int):
            yield name, value


def unlike(record: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Iterator[str]:
    """Metrics of ``record`` that are not what its predictions give, each in a sentence."""
    for name, value in recomputed(record, arrays).items():
        said = record["metrics"][name]
        if not isinstance(said, float | int) or not abs(said - value) <= TOLERANCE:
            yield f"{name} is {said} in the record and {value:.6g} by its predictions"
