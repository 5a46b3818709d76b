"""Baselines of a run: the untrained encoder, and coordinates without a network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from skelbench.core.hashing import digest
from skelbench.core.spec import RunSpec, twin_fields
from skelbench.records.run_dir import ReadRun

if TYPE_CHECKING:
    from pandas import DataFrame

CONTROLS = ("untrained", "raw")
"""Names of the baseline methods: the encoder as initialized; coordinates without a network."""


class Controls:
    """The controls among finished ``runs``, the first of each shape."""

    def __init__(self, runs: Iterable[ReadRun]) -> None:
        self._found: dict[str, dict[str, ReadRun]] = {kind: {} for kind in CONTROLS}
        for run in runs:
            if run.outcome == "done" and (kind := run.about["method"]) in self._found:
                self._found[kind].setdefault(_shape(kind, run.spec), run)

    def of(self, kind: str, spec: RunSpec) -> ReadRun | None:
        """``kind`` "untrained": the untrained run with the same encoder, grid, data, precision and seed; "raw": the
        raw-coordinates run on the same data and clip length. None if there is no such run, and for a control itself."""
        if not self._found[kind] or spec.method in (CONTROLS if kind == "untrained" else ("raw",)):
            return None
        return self._found[kind].get(_shape(kind, spec))


def _shape(kind: str, spec: RunSpec) -> str:
    """Hash of the settings that a run shares with its control of this kind."""
    if kind == "raw":
        return digest([spec.data.model_dump(mode="json"), spec.grid.frames], 24)
    fields = spec.model_dump(mode="json", include={*twin_fields(spec)})
    return digest([fields, spec.train.precision], 24)


def question(record: Mapping[str, Any], seed: bool = True) -> str:
    """Hash of everything that must agree between two evaluations for a paired test, except encoder and checkpoint;
    ``seed`` False: the seed may differ too, because the baseline ``raw`` has none."""
    excluded = ("pretrain_id", "partners", "checkpoint", *(() if seed else ("seed",)))
    return digest({key: value for key, value in record["spec"].items() if key not in excluded}, 24)


def controls_beside(rows: DataFrame) -> DataFrame:
    """``rows`` of the frame with controls in every block of rows that are tested against them. ``raw`` has neither
    encoder nor preset, and several presets may share one untrained encoder."""
    import pandas

    alike, places = ["dataset", "split", "protocol", "stream"], ["setting", "encoder", "preset", "budget"]
    for control, key in (("control_run", "run"), ("raw_evaluation", "evaluation")):
        tested = rows[rows["checkpoint"] == "last"]
        tested = tested.assign(preset=tested["preset"].astype(str).str.removesuffix("+"))
        values = tested.loc[tested[control].notna(), [control, *alike, *places]].drop_duplicates()
        if values.empty:  # its type cannot be compared
            continue
        values = values.rename(columns={control: key})
        merged = rows.drop(columns=places).reset_index(names="row").merge(values, on=[key, *alike])
        if len(merged):
            unmatched = rows.drop(merged["row"].unique())
            rows = pandas.concat([unmatched, merged.drop(columns="row")], ignore_index=True)
    return rows
