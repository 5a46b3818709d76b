"""Confusion of classes, from the predictions of an evaluation, and its tables.

Shapes: ``K`` classes, ``C`` test clips.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.evaluation.outcomes import predictions
from skelbench.plugin.host import Host
from skelbench.records.run_dir import RunDir

if TYPE_CHECKING:
    from skelbench.reporting.inputs import TableInputs

log = logging.getLogger(__name__)
NAME = 28
"""Maximal length of a class name in tables and figures."""


def read(inputs: TableInputs, run: str, evaluation: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Record and predictions of an evaluation."""
    folder = RunDir(inputs.store.root / run)
    record = folder.record(folder.path / f"eval-{evaluation}.json")
    return record, predictions(folder, record)


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
    """Names of the classes; their numbers, with a warning, if the dataset is missing, changed or damaged."""
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
    """``name``, without its middle if it is too long for a cell: classes may differ only in their ends.

    >>> short("standing active straight leg raise / incorrect")
    'standing activ…e / incorrect'
    """
    if len(name) <= NAME:
        return name
    end = (NAME - 1) // 2
    return f"{name[: NAME - 1 - end].rstrip()}…{name[-end:].lstrip()}"
