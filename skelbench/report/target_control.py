"""``compare --table target-control``: one method, four targets of masked prediction, and how each trained."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from skelbench.report import published, study_rows
from skelbench.report.study_rows import PAPER_COLUMNS, Row, StudyTable, paper
from skelbench.report.table import Cell, Column, Table
from skelbench.results.metrics import read_metrics
from skelbench.results.store import ResultStore, RunDir

if TYPE_CHECKING:
    from pandas import DataFrame, Series

START, END = 0.02, 0.05
"""Shares of the logged values that "start" and "end" of a curve are the means of: at first a loss falls fast, and ranks
are logged only every tenth time."""
_LOGGED = ("mfp", "rank_masked", "rank_pooled")

_TARGETS = (
    ("coordinates", "MSE", "decoder", "target-coordinates", "coordinates, mse, 5-block decoder"),
    ("features", "MSE", "none", "target-features", "teacher features, mse"),
    ("features + head", "MSE", "predictor", "target-features-predictor", "teacher features, mse, predictor head"),
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
    Column("rank_start", "Rank, start", ".2f", shown=False),
    Column("rank_end", "Rank, end", ".2f"),
    Column("rank_encoder", "Rank of encoder", ".2f"),
    Column("collapse", "Collapse", shown=False),
)
COLLAPSED = "a collapse was recorded in training, of these features or others: `--format json`, column `collapse`"


def build(frame: DataFrame, store: ResultStore) -> Table:
    """Four rows per block of runs, in the paper's order; see :func:`skelbench.report.study_rows.build`."""
    study = StudyTable(
        name="target-control",
        title="Targets of masked prediction: linear accuracy in percent, loss and effective rank",
        rows=ROWS,
        labels=(
            Column("target", "Target", leads=True),
            Column("loss", "Loss", shown=False),
            Column("module", "Module", shown=False),
        ),
        against="Over prototypes",
        paper=[
            *(replace(PAPER_COLUMNS[key], shown=False) for key in ("paper_xsub", "paper_xview")),
            PAPER_COLUMNS["paper_mean"],
        ],
        extra=CURVES,
        measure=lambda runs: curves(runs, store),
        notes=tuple(_notes()),
        footnotes={"collapse": COLLAPSED},
    )
    return study_rows.build(study, frame, store)


def curves(runs: DataFrame, store: ResultStore) -> dict[str, Cell]:
    """Masked-prediction loss and effective ranks at start and end, means over seeds (at the end with their standard
    deviation), empty where a seed lacks them; and what collapsed, by seed."""
    seeds = [_ends(read_metrics(RunDir(store.root / name))) for name in runs["run"]]
    mean = {key: float(np.mean([seed[key] for seed in seeds])) for key in seeds[0]}
    at_end = ("loss_end", "rank_end", "rank_encoder") if len(seeds) > 1 else ()
    spread = {key: float(np.std([seed[key] for seed in seeds], ddof=1)) for key in at_end}
    collapsed = runs[runs["collapse"].notna()]
    found = [f"seed {seed}: {what}" for seed, what in zip(collapsed["seed"], collapsed["collapse"], strict=True)]
    return {key: Cell(value, spread.get(key)) for key, value in mean.items()} | {
        "loss_fall": Cell(mean["loss_start"] / mean["loss_end"] if mean["loss_end"] > 0 else None),
        "rank_end": Cell(mean["rank_end"], spread.get("rank_end"), footnotes=("collapse",) if found else ()),
        "collapse": Cell("; ".join(found) or None),
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
    """Means of the first :data:`START` and the last :data:`END` of the logged values, one at least; NaN without."""
    logged = curve.dropna().to_numpy(dtype=float)
    if not len(logged):
        return np.nan, np.nan
    first, last = (max(1, round(share * len(logged))) for share in (START, END))
    return float(logged[:first].mean()), float(logged[-last:].mean())


def _notes() -> Iterator[str]:
    yield (
        "Targets: raw joint coordinates (squared error, a decoder); the teacher's projected features (squared error; "
        "+ head: with a predictor head); its distribution over prototypes (cross-entropy), which is SLiM. Modules are "
        "dropped before probing; the paper's decoder has 5 blocks, a smaller preset's fewer."
    )
    yield (
        f"Start, end: means of the first {100 * START:.0f} % and last {100 * END:.0f} % of what was logged. Losses "
        "have different units, and cross-entropy cannot fall below the teacher's entropy: compare the falls of squared "
        "errors. Rank: effective rank of the branch's outputs at masked positions, 1 = one direction, at most their "
        "number (coordinates: three per frame of a token); of encoder: of its pooled features, at the end."
    )
    printed = {
        row["metric"]: row["value"] for row in published.load("target_control", protocol="pretraining", split="")
    }
    fall = float(f"{printed['mfp_loss_start'] / printed['mfp_loss_end']:.2g}")  # the paper prints two digits
    yield (
        "Paper: NTU-60, mean of X-Sub and X-View, 100 epochs at the full size (preset `ablation`), one pre-training "
        f"run. Features without predictor there: loss {printed['mfp_loss_start']:.3g} to "
        f"{printed['mfp_loss_end']:.2g} (about {fall:,.0f} times), rank {printed['rank_masked']:.2f}."
    )
