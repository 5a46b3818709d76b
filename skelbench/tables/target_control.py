"""``compare --table target-control``: one method, four targets of masked prediction, and how each trained."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from skelbench.results.metrics import read_metrics
from skelbench.results.store import ResultStore, RunDir
from skelbench.tables import published, study_rows
from skelbench.tables.study_rows import PAPER_COLUMNS, Row, StudyTable, paper
from skelbench.tables.table import Cell, Column, Table

if TYPE_CHECKING:
    from pandas import DataFrame, Series

SHARE = 0.02
"""Share of the logged lines that "start" and "end" of a curve are the means of."""
_LOGGED = ("mfp", "rank_masked", "rank_pooled")

_TARGETS = (
    ("coordinates", "MSE", "decoder", "target-coordinates", "coordinates, mse, 5-block decoder"),
    ("features", "MSE", "none", "target-features", "teacher features, mse"),
    ("features", "MSE", "predictor", "target-features-predictor", "teacher features, mse, predictor head"),
    ("prototypes", "CE", "none", "", "prototypes, cross-entropy"),
)

ROWS = tuple(
    Row(
        labels={"target": target, "loss": loss, "module": module},
        variant=variant,
        against=len(_TARGETS) - 1 if variant else None,
        paper=paper("target_control", printed),
    )
    for target, loss, module, variant, printed in _TARGETS
)

CURVES = (
    Column("loss_start", "MFP loss, start", ".3g"),
    Column("loss_end", "MFP loss, end", ".3g"),
    Column("loss_fall", "Fall, times", ",.1f"),
    Column("rank_start", "Rank, start", ".2f"),
    Column("rank_end", "Rank, end", ".2f"),
    Column("rank_encoder", "Rank of encoder, end", ".2f"),
)


def build(frame: DataFrame, store: ResultStore) -> Table:
    """Four rows per block of runs, in the paper's order; see :func:`skelbench.tables.study_rows.build`."""
    study = StudyTable(
        name="target-control",
        title="Targets of masked prediction: linear accuracy in percent, loss and effective rank",
        rows=ROWS,
        labels=(
            Column("target", "Target", leads=True),
            Column("loss", "Loss", leads=True),
            Column("module", "Module", leads=True),
        ),
        against="Over prototypes",
        paper=[PAPER_COLUMNS[key] for key in ("paper_xsub", "paper_xview", "paper_mean")],
        extra=CURVES,
        measure=lambda runs: curves(runs, store),
        notes=tuple(_notes()),
        footnotes={"collapse": _collapses(frame)},
    )
    return study_rows.build(study, frame, store)


def curves(runs: DataFrame, store: ResultStore) -> dict[str, Cell]:
    """Masked-prediction loss and effective ranks at start and end, means over seeds; empty where a seed lacks them."""
    seeds = [_ends(read_metrics(RunDir(store.root / name))) for name in runs["run"]]
    mean = {key: float(np.mean([seed[key] for seed in seeds])) for key in seeds[0]}
    collapsed = ("collapse",) if runs["collapse"].notna().any() else ()
    return {key: Cell(value) for key, value in mean.items()} | {
        "loss_fall": Cell(mean["loss_start"] / mean["loss_end"] if mean["loss_end"] > 0 else None),
        "rank_end": Cell(mean["rank_end"], footnotes=collapsed),
    }


def _ends(metrics: DataFrame) -> dict[str, float]:
    both = {name: ends(metrics[name]) if name in metrics else (np.nan, np.nan) for name in _LOGGED}
    return {
        "loss_start": both["mfp"][0],
        "loss_end": both["mfp"][1],
        "rank_start": both["rank_masked"][0],
        "rank_end": both["rank_masked"][1],
        "rank_encoder": both["rank_pooled"][1],
    }


def ends(curve: Series) -> tuple[float, float]:
    """Means of the first and of the last :data:`SHARE` of the logged values, at least one each; NaN without any."""
    logged = curve.dropna().to_numpy(dtype=float)
    if not len(logged):
        return np.nan, np.nan
    few = max(1, round(SHARE * len(logged)))
    return float(logged[:few].mean()), float(logged[-few:].mean())


def _collapses(frame: DataFrame) -> str:
    """What was recorded, by run."""
    found = frame[frame["collapse"].notna() & frame["title"].isin([row.title for row in ROWS])].drop_duplicates("run")
    said = (f"{run}: {what}" for run, what in zip(found["run"], found["collapse"], strict=True))
    return f"a collapse was recorded in training ({'; '.join(said)})"


def _notes() -> Iterator[str]:
    yield (
        "Targets: raw joint coordinates; the teacher's projected features; the teacher's distribution over prototypes, "
        "which is SLiM. CE: cross-entropy. Modules are dropped before probing; the paper's decoder has 5 blocks, a "
        "smaller preset's fewer."
    )
    yield (
        f"Start and end: means of the first and last {100 * SHARE:.0f} % of the logged values. Losses of different "
        "targets have different units: compare how far each falls. Rank: effective rank of the branch's outputs at "
        "masked positions, 1 = one direction; of encoder: of its pooled features."
    )
    printed = {
        row["metric"]: row["value"] for row in published.load("target_control", protocol="pretraining", split="")
    }
    fall = printed["mfp_loss_start"] / printed["mfp_loss_end"]
    yield (
        "Paper: NTU-60, 100 epochs at the full size (preset `ablation`), one pre-training run; ± there: over three "
        f"probes of one checkpoint. Features without predictor in the paper: loss {printed['mfp_loss_start']:.3g} to "
        f"{printed['mfp_loss_end']:.2g} ({fall:,.0f} times), rank {printed['rank_masked']:.2f} at the end."
    )
