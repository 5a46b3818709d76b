"""All evaluation records as one pandas frame: what tables are built from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np

from skelbench.config import DataSpec, RunSpec, twin_fields
from skelbench.errors import SkelbenchError
from skelbench.results.files import read_json
from skelbench.results.identity import canonical_json, digest
from skelbench.results.store import ResultStore, RunDir

if TYPE_CHECKING:
    import pandas

COLUMNS = (
    "run", "group", "method", "setting", "dataset", "split", "tokens", "preset", "exact", "hardware", "seed",
    "protocol", "checkpoint", "accuracy", "accuracy_selected", "accuracy_best_on_test", "n_test", "control_run",
    "control_accuracy", "difference", "p_value", "gflops", "step_gflops", "clips_seen", "train_seconds",
)  # fmt: skip


def frame(store: ResultStore) -> pandas.DataFrame:
    """One row per evaluation record of a finished run, with the paired test against its untrained twin."""
    import pandas

    runs = [run for run in store.runs() if run.outcome == "done"]
    rows = [row for run in runs for row in _rows(run, runs)]
    return pandas.DataFrame(rows, columns=list(COLUMNS))


def untrained_twin(run: RunDir, runs: list[RunDir]) -> RunDir | None:
    """The untrained run with the same encoder, grid, data, precision and seed, if it exists."""
    spec = run.spec
    for other in runs:
        theirs = other.spec
        alike = twin_fields(theirs) == twin_fields(spec) and theirs.train.precision == spec.train.precision
        if theirs.method == "untrained" and alike:
            return other
    return None


def predictions(run: RunDir, record: dict[str, Any]) -> dict[str, np.ndarray]:
    """Per-clip test predictions of an evaluation: ids, labels, predicted, correct."""
    try:
        with np.load(run.path / record["predictions"]) as file:
            arrays = dict(file)
    except (OSError, ValueError, BadZipFile) as error:
        raise SkelbenchError(
            f"predictions of evaluation {record['id']} in {run.path} are missing or damaged; "
            f"evaluate again: skelbench eval {run.spec.id} --force"
        ) from error
    return {**arrays, "correct": arrays["labels"] == arrays["predicted"]}


def paired(run: RunDir, record: dict[str, Any], other: RunDir, other_record: dict[str, Any]):
    """Paired test of two evaluations of the same test clips (first minus second)."""
    from skelbench.evaluate.statistics import paired_test

    mine, theirs = predictions(run, record), predictions(other, other_record)
    return paired_test(mine["ids"], mine["correct"], theirs["ids"], theirs["correct"])


def _rows(run: RunDir, runs: list[RunDir]):
    spec, info = run.spec, run.info
    twin = untrained_twin(run, runs) if spec.method != "untrained" else None
    twin_records = {_what(record): record for record in twin.records()} if twin else {}
    cost_path = run.path / "cost.json"
    cost = read_json(cost_path) if cost_path.exists() else None
    for record in run.records():
        evaluated, metrics = record["spec"], record["metrics"]
        row = {
            "run": run.name,
            "group": _group(spec, evaluated),
            "method": spec.method,
            "setting": info.get("setting", "shared"),
            "dataset": DataSpec.model_validate(evaluated["data"]).title,
            "split": evaluated["data"]["split"],
            "tokens": _grid(spec, cost),
            "preset": info["preset"] + ("+" if info["modified"] else ""),
            "exact": not info["modified"] and record["standard"],
            "hardware": info["environment"]["hardware"],
            "seed": spec.seed,
            "protocol": evaluated["protocol"],
            "checkpoint": evaluated["checkpoint"],
            "accuracy": metrics["accuracy"],
            "accuracy_selected": metrics.get("accuracy_selected"),
            "accuracy_best_on_test": metrics.get("accuracy_best_on_test"),
            "n_test": int(metrics["n_test"]),
            "gflops": 2e-9 * cost["encoder"]["macs"] if cost else None,
            "step_gflops": 1e-9 * cost["step"]["flops_per_clip"] if cost and cost["step"] else None,
            "clips_seen": info.get("clips_seen"),
            "train_seconds": info.get("train_seconds"),
        }
        control = twin_records.get(_what(record))
        if control is not None:
            test = paired(run, record, twin, control)
            row |= {
                "control_run": twin.name,
                "control_accuracy": control["metrics"]["accuracy"],
                "difference": test.difference,
                "p_value": test.p_value,
            }
        yield row


def _grid(spec: RunSpec, cost: dict[str, Any] | None) -> str:
    """Token grid, ``8x25``, with ``+1`` for a class token: two untrained encoders of one grid can differ in it."""
    grid = cost["grid"].replace(" ", "") if cost else str(spec.tokens)
    return grid + ("+1" if spec.encoder_config.get("cls") else "")


def _group(spec: RunSpec, evaluated: dict[str, Any]) -> str:
    """What must agree for two runs to be seeds of one setting."""
    probe = {key: value for key, value in evaluated.items() if key not in ("pretrain_id", "seed", "checkpoint")}
    return digest([spec.model_copy(update={"seed": 0}).model_dump(mode="json"), probe])


def _what(record: dict[str, Any]) -> str:
    """Everything that must agree between two evaluations for a paired test, whatever the encoder and checkpoint."""
    spec = {key: value for key, value in record["spec"].items() if key not in ("pretrain_id", "checkpoint")}
    return canonical_json(spec)
