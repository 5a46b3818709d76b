"""Studies of the SLiM paper's tables, and our own study of training length (torch-free).

With a GPU the paper's studies have the paper's size: 150 epochs for the comparison of token budgets, 100 for ablations
and target controls. Without a GPU they are tiny.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from skelbench.pipeline.studies.study import Study
from skelbench.reporting.study_rows import Row

from . import tables


def _ablation(name: str, rows: Sequence[Row] | Callable[..., object], figure: str = "") -> Study:
    """The variants of ``rows``, in their order, at 8 tokens."""
    assert not callable(rows)  # these tables declare their rows; a function would make them from existing runs
    return Study(
        name=name,
        table=name,
        figure=figure,
        preset="quick",
        gpu_preset="ablation",
        sets={"tokens": 8},
        grid={"method": tuple(row.title for row in rows)},
    )


TOKEN_BUDGET = Study(
    name="token-budget",
    table="token-budget",
    figure="token-budget",
    preset="quick",
    gpu_preset="paper",
    # The longest trials of a seed are last, so most of the table is filled early.
    grid={
        "tokens": (8, 15, 30),
        "method": tuple(dict.fromkeys(row.title for row in tables.TOKEN_BUDGET if row.planned)),
    },
)
TARGET_CONTROL = _ablation("target-control", tables.TARGET_CONTROL, figure="target-control")
OBJECTIVE = _ablation("objective", tables.OBJECTIVE.rows)
STM = _ablation("stm", tables.STM.rows)
SAA = _ablation("saa", tables.SAA.rows)
CENTERING = _ablation("centering", tables.CENTERING.rows)
BATCH = _ablation("batch", tables.BATCH.rows)
RELEASE = _ablation("release", tables.RELEASE.rows)

SCALING = Study(
    name="scaling",
    table="scaling",
    figure="scaling",
    preset="small",
    sets={"tokens": 8},
    # Separate trainings, not snapshots of one: each completes its learning-rate schedule. The longest are last.
    grid={
        "budget": ("clips=8000", "clips=40000", "clips=160000", "clips=640000"),
        "method": ("gfp", "mamp", "skeletonmae", "dino", "slim"),
    },
)


# Tables over any methods: the paper's rows, in its order.
_OTHERS = ("gl-transformer", "macdiff", "igm", "usdrl", "hsp")
_CONTRASTIVE = ("cpm", "cmd", "aimclr", "rvtclr", "pstl", "hysp", "halp", "actclr")
_MASKED = ("skeletonmae", "mamp", "sjepa", "gfp")


def _over_methods(table: str, *methods: str, probe: tuple[str, ...], **more: Any) -> Study:
    """A study of ``methods`` at 8 tokens, all else equal, with the protocols of ``table``."""
    return Study(
        name=table,
        table=table,
        preset="quick",
        gpu_preset="paper",
        sets={"tokens": 8},
        grid={"method": methods},
        probe=probe,
        **more,
    )


LINEAR = _over_methods("linear", *_OTHERS, *_CONTRASTIVE, *_MASKED, "amr", "slim", probe=("linear", "knn"))
SEMI = _over_methods(
    "semi", "macdiff", "cpm", "cmd", "hysp", "halp", "hico", "usdrl", *_MASKED, "slim", probe=("semi@1", "semi@10")
)
RETRIEVAL = _over_methods(
    "retrieval",
    *("longt-gan", "pclust", "isc", "halp", "hico", "umurl", "skeattnclr", "mamp", "gfp", "slim"),
    probe=("retrieval",),
)
ROBUSTNESS = _over_methods("robustness", "skeletonmae", "mamp", "slim", probe=("robustness",))
MISSING_REPRESENTATION = _over_methods(
    "missing-representation", "skeletonmae", "mamp", "slim", probe=("missing-representation",)
)
DEGRADED_PRETRAINING = _over_methods(
    "degraded-pretraining", "slim:degraded", "slim", probe=("robustness", "missing-representation")
).model_copy(update={"gpu_preset": "ablation"})
TRANSFER = _over_methods(
    "transfer",
    *("longt-gan", "isc", "cmd", "macdiff", "igm", "skeletonmae", "mamp", "sjepa", "slim"),
    probe=("linear", "knn"),
    then="skelbench eval RUN --protocol transfer --dataset NAME",
)
