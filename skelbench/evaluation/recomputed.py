"""Checks of an added run: ids follow from specs, and accuracies follow from per-clip predictions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import EvalSpec
from skelbench.evaluation.protocol import accuracies
from skelbench.records.errors import Damaged
from skelbench.records.run_dir import RunDir

TOLERANCE = 1e-9
"""Largest difference between sums in different orders."""


def problems(run: RunDir) -> Iterator[str]:
    """Return every contradiction between ``run`` and its specs and predictions; empty = the run is sound."""
    try:
        run.check_done()
        run.read()
    except SkelbenchError as error:
        yield str(error.__cause__ or error)
        return
    for path in sorted(run.path.glob("eval-*.json")):
        try:
            record = run.record(path)
            if (expected := EvalSpec.model_validate(record["spec"]).id) != record["id"]:
                yield f"{path.name}: the spec has id {expected}"
                continue
            with np.load(path.with_suffix(".npz"), allow_pickle=False) as arrays:
                again = recomputed(record, dict(arrays))
        except Damaged as error:
            yield f"{path.name}: {error.__cause__ or error}"
            continue
        except Exception as error:  # damaged archives of arrays raise errors of many kinds
            yield f"{path.stem}.npz holds no predictions: {error}"
            continue
        for name, value in again.items():
            if not abs(record["metrics"][name] - value) <= TOLERANCE:
                yield f"{path.name}: {name} is {record['metrics'][name]}, the predictions give {value:.6g}"


def recomputed(record: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Metrics of ``record`` that follow from the predicted classes of each clip.

    ``arrays`` holds ``labels`` [C], ``predicted`` [C] or [draws, C], and ``predicted_NAME`` for test conditions.
    Metrics of scores and rankings (mAP, top 5) do not follow from classes.
    """
    labels_C = arrays["labels"]
    metrics = {"n_test": float(len(labels_C))}
    for name, predicted in arrays.items():
        if name == "predicted" or name.startswith("predicted_"):
            suffix = name.removeprefix("predicted")
            again = accuracies(labels_C, predicted)
            metrics |= {key.replace("accuracy", f"accuracy{suffix}"): value for key, value in again.items()}
    if record["spec"]["protocol"] == "retrieval":
        metrics["recall_at_1"] = metrics["accuracy"]
    return {name: value for name, value in metrics.items() if name in record["metrics"]}
