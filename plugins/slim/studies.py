"""The SLiM paper's comparisons as studies (torch-free).

Without a GPU each is a first look at the tiny size; with one it has the paper's: 150 epochs for the comparison of
token budgets, 100 for ablations and target controls, as the paper says.
"""

from __future__ import annotations

from skelbench.studies.study import Study


def _ablation(name: str, *variants: str, figure: str = "") -> Study:
    """The named variants of SLiM, and SLiM itself, at 8 tokens."""
    return Study(
        name=name,
        table=name,
        figure=figure,
        preset="quick",
        gpu_preset="ablation",
        sets={"tokens": 8},
        grid={"method": (*(f"slim:{variant}" for variant in variants), "slim")},
    )


TOKEN_BUDGET = Study(
    name="token-budget",
    table="token-budget",
    figure="token-budget",
    preset="quick",
    gpu_preset="paper",
    # The longest trials come last of a seed: what is there early is most of the table.
    grid={"tokens": (8, 15, 30), "method": ("skeletonmae", "mamp", "slim")},
)

TARGET_CONTROL = _ablation(
    "target-control",
    "target-coordinates",
    "target-features",
    "target-features-predictor",
    figure="target-control",
)

OBJECTIVE = _ablation(
    "objective",
    "cl-only",
    "glcl-only",
    "mfp-only",
    "mfp-cl",
)

STM = _ablation(
    "stm",
    "global-none",
    "global-random",
    "local-none",
    "local-random",
    "ratio-90",
    "ratio-0-50",
)

SAA = _ablation(
    "saa",
    "rotation-none",
    "rotation-limited",
    "mirroring-none",
    "mirroring-limited",
    "scaling-none",
    "scaling-limited",
)

CENTRING = _ablation(
    "centring",
    "centre-none",
    "centre-running",
)

BATCH = _ablation(
    "batch",
    "half-batch",
    "half-batch-equal-steps",
)
