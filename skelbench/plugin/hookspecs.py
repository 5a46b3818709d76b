"""The complete plugin surface. Every hook returns a list of descriptors; observers watch and return nothing."""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pluggy

from skelbench.plugin.descriptors import (
    ComponentSpec,
    DatasetSpec,
    EncoderSpec,
    FigureSpec,
    MethodSpec,
    ProtocolSpec,
    PublishedSpec,
    RowsSpec,
    StudySpec,
    TableSpec,
    TargetSpec,
    TopologySpec,
)

PROJECT = "skelbench"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def skelbench_methods() -> Iterable[MethodSpec]:
    """Pre-training methods."""


@hookspec
def skelbench_encoders() -> Iterable[EncoderSpec]:
    """Encoder families."""


@hookspec
def skelbench_datasets() -> Iterable[DatasetSpec]:
    """Data sets known by name."""


@hookspec
def skelbench_protocols() -> Iterable[ProtocolSpec]:
    """Evaluation protocols."""


@hookspec
def skelbench_targets() -> Iterable[TargetSpec]:
    """What hidden tokens can be made to predict."""


@hookspec
def skelbench_tables() -> Iterable[TableSpec]:
    """Tables for ``skelbench compare``."""


@hookspec
def skelbench_figures() -> Iterable[FigureSpec]:
    """Figures for ``skelbench plot``."""


@hookspec
def skelbench_studies() -> Iterable[StudySpec]:
    """Grids of runs."""


@hookspec
def skelbench_rows() -> Iterable[RowsSpec]:
    """Rows for tables that compare any methods."""


@hookspec
def skelbench_published() -> Iterable[PublishedSpec]:
    """Tables of published figures."""


@hookspec
def skelbench_crops() -> Iterable[ComponentSpec]:
    """Crops of a clip."""


@hookspec
def skelbench_augmentations() -> Iterable[ComponentSpec]:
    """Augmentations of a view."""


@hookspec
def skelbench_masks() -> Iterable[ComponentSpec]:
    """Masks of a view's tokens."""


@hookspec
def skelbench_optimizers() -> Iterable[ComponentSpec]:
    """Optimisers."""


@hookspec
def skelbench_schedules() -> Iterable[ComponentSpec]:
    """Schedules of the learning rate."""


@hookspec
def skelbench_topologies() -> Iterable[TopologySpec]:
    """Skeletons that data sets come in."""


@hookspec
def skelbench_run_started(run: Mapping[str, Any]) -> None:
    """Observer: a pre-training run begins; ``run`` has ``id``, ``name``, ``directory`` and ``spec``."""


@hookspec
def skelbench_log(run: Mapping[str, Any], step: int, metrics: Mapping[str, float]) -> None:
    """Observer: a line of metrics was written."""


@hookspec
def skelbench_run_finished(run: Mapping[str, Any], outcome: str) -> None:
    """Observer: a run ended with ``outcome`` (done, interrupted, diverged, failed)."""
