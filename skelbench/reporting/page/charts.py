"""Data of the page's interactive charts: points and lines as plain numbers, which the page's script draws.

Accuracies are in percent; costs are of one body unless the axis says otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skelbench.evaluation.outcomes import predictions
from skelbench.records.errors import Damaged, if_whole
from skelbench.records.metrics import read_metrics
from skelbench.records.run_dir import RunDir
from skelbench.reporting.confusion import classes_of, matrix
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.seeds import seeds_of, ways_of

if TYPE_CHECKING:
    from pandas import DataFrame, Series

POINTS = 300
"""Points of a line at most."""
MATRICES = 24
"""Confusion matrices of one page."""
CELLS = 200_000
"""Cells of all confusion matrices together; a matrix of 120 classes has 14,400."""
APART = ("step", "epoch", "clips_seen", "seconds", "clips_per_s", "lr", "weight_decay")
"""Columns of metrics.jsonl that are not drawn."""
_BLOCK = ["dataset", "split", "preset", "setting", "stream", "hardware"]
_SETTING = ["title", *_BLOCK, "tokens", "encoder", "protocol", "checkpoint"]


def charts(inputs: TableInputs, index: Mapping[str, int]) -> dict[str, Any]:
    """Data of every chart; ``index``: place of every run of the page by its name."""
    frame = inputs.frame
    return {
        "points": [*points(frame, index)],
        "ways": [*ways(frame, index)],
        "curves": [*curves(inputs, index)],
        "confusion": [*confusions(inputs, frame, index)],
    }


def points(frame: DataFrame, index: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """A point per setting, protocol and checkpoint, the mean over its seeds, with every cost there is."""
    for group in seeds_of(frame, _SETTING):
        yield _point(group, index)


def ways(frame: DataFrame, index: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Points of the trainings that have snapshots; all points of one ``way`` are means over the same runs."""
    for way, own in enumerate(ways_of(frame, [key for key in _SETTING if key != "checkpoint"])):
        first, seeds = own.iloc[0], own["seed"].nunique()
        changed = f" ({first['changed']})" if first["changed"] else ""
        seeds_are = f"seed {first['seed']}" if seeds == 1 else f"{seeds} seeds"
        name = f"{first['title']} {first['tokens']}{changed}, {seeds_are}"
        for _, group in own.groupby("checkpoint"):
            yield {**_point(group.sort_values("seed"), index), "way": way, "name": name}


def _point(group: DataFrame, index: Mapping[str, int]) -> dict[str, Any]:
    first = group.iloc[0]
    accuracy = 100 * group["accuracy"].astype(float)
    return {
        "title": str(first["title"]),
        "method": str(first["method"]),
        "block": " · ".join(str(first[key]) for key in _BLOCK if first[key] not in ("shared", "joint", "")),
        "tokens": str(first["tokens"]),
        "protocol": str(first["protocol"]),
        "checkpoint": str(first["checkpoint"]),
        "encoder": str(first["encoder"]),
        "accuracy": rounded(accuracy.mean()),
        "least": rounded(accuracy.min()),
        "most": rounded(accuracy.max()),
        "seeds": len(group),
        "gflops": rounded(_mean(group["gflops"])),
        "clips": rounded(_mean(group["clips_seen"])),
        "pflops": rounded(1e-15 * _mean(group["train_flops"])),
        "minutes": rounded(_mean(group["train_seconds"]) / 60),
        "runs": _places(index, group["run"]),
    }


def _mean(column: Series) -> float:
    return float(column.astype(float).mean())


def _places(index: Mapping[str, int], names: Iterable[str]) -> list[int]:
    return [index[name] for name in names if name in index]


def rounded(value: Any, digits: int = 6) -> float | None:
    """``value`` with ``digits`` significant digits; None where it is not finite."""
    return float(f"{value:.{digits}g}") if value is not None and math.isfinite(value) else None


def curves(inputs: TableInputs, index: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Logged values of every trained run over the clips it saw, at most :data:`POINTS` of each column."""
    for run in inputs.runs:
        if not inputs.admits(run):
            continue
        logged = if_whole(partial(read_metrics, run))
        if logged is None or logged.empty or (inputs.only is not None and run.name not in inputs.only):
            continue
        lines = {}
        for name in logged.columns:
            if name in APART:
                continue
            whole = logged[["clips_seen", name]].dropna().astype(float)
            if len(whole):
                kept = thinned(whole[name].to_numpy())
                lines[str(name)] = [
                    [rounded(x) for x in whole["clips_seen"].to_numpy()[kept]],
                    [rounded(y, 5) for y in whole[name].to_numpy()[kept]],
                ]
        title = f"{run.title} {run.spec.tokens}t s{run.spec.seed}"
        block = (
            f"{run.spec.data.title} {run.spec.data.split}, {run.info['preset']}{'+' if run.info['modified'] else ''}"
        )
        places = _places(index, [run.name])
        yield {"title": title, "method": run.spec.method, "block": block, "lines": lines, "runs": places}


def thinned(values: np.ndarray, points: int = POINTS) -> np.ndarray:
    """Ascending places of at most ``points`` of ``values`` [n]: both ends, and the lowest and the highest value of
    equal stretches.

    >>> thinned(np.array([0.0, 9.0, 1.0, 1.0, -5.0, 1.0, 2.0]), 4).tolist()
    [0, 1, 4, 6]
    """
    if len(values) <= points:
        return np.arange(len(values))
    kept = {0, len(values) - 1}
    for stretch in np.array_split(np.arange(len(values)), max(1, points // 2 - 1)):
        part = np.where(np.isfinite(values[stretch]), values[stretch], np.nan)
        if not np.isnan(part).all():
            kept |= {int(stretch[np.nanargmin(part)]), int(stretch[np.nanargmax(part)])}
    return np.array(sorted(kept))


def confusions(inputs: TableInputs, frame: DataFrame, index: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Confusion matrices of final weights, the linear probe and the best run first; in percent of each class."""
    frame = frame[frame["checkpoint"] == "last"]
    frame = frame.assign(other=frame["protocol"] != "linear").sort_values(
        ["other", "accuracy"], ascending=[True, False]
    )
    cells = 0
    for _, row in frame.head(MATRICES).iterrows():
        one = if_whole(partial(_confusion, inputs, row))
        if one is None:
            continue
        cells += len(one["share"]) ** 2
        if cells > CELLS:
            return
        yield one | {"runs": _places(index, [row["run"]])}


def _confusion(inputs: TableInputs, row: Series) -> dict[str, Any]:
    run = RunDir(inputs.store.root / row["run"])
    record = run.record(run.path / Path(f"eval-{row['evaluation']}.json").name)
    found = predictions(run, record)
    if min(found["labels"].min(), found["predicted"].min()) < 0:
        raise Damaged(f"predictions of evaluation {row['evaluation']} in {run.path} hold labels below 0")
    names = classes_of(found, record["spec"]["data"]["name"], inputs.host, inputs.data_root)
    counts_KK = matrix(found, len(names))
    clips_K1 = counts_KK.sum(1, keepdims=True)
    share_KK = np.divide(100 * counts_KK, clips_K1, out=np.full_like(counts_KK, np.nan), where=clips_K1 > 0)
    return {
        "title": f"{row['title']} {row['tokens']} s{row['seed']}, {row['protocol']}, {row['dataset']} {row['split']}",
        "accuracy": rounded(100 * row["accuracy"]),
        "names": list(names),
        "share": [[rounded(share, 3) for share in line] for line in share_KK.tolist()],
    }
