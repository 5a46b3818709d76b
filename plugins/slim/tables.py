"""The SLiM paper's ablations as tables, and its rows of tables that compare any methods, in its order and with its
results.

If the paper does not specify a setting, a note names our assumption.
"""

from __future__ import annotations

from skelbench.reporting.columns import ColumnTable
from skelbench.reporting.downstream import DEGRADED as DEGRADED_NOTE
from skelbench.reporting.downstream import FILLED, NOISE, conditions
from skelbench.reporting.linear import GROUPS
from skelbench.reporting.study_rows import PAPER_COLUMNS, Printed, Row, StudyTable, variants
from skelbench.reporting.table import Column
from skelbench.views.skeleton.grid import BUDGETS

_BOTH_SPLITS = (PAPER_COLUMNS["paper_xsub"], PAPER_COLUMNS["paper_xview"])
_NTU60 = "Paper: NTU-60, 100 epochs at the full size (preset `ablation`), one pre-training run; not measured here."


def _labels(**headers: str) -> tuple[Column, ...]:
    return tuple(Column(key, header, leads=True) for key, header in headers.items())


def _budgets(method: str, spelling: str, *tokens: int, planned: bool = True, suffix: str = "") -> list[Row]:
    """Rows of a method, one per number of temporal tokens."""
    return [
        Row(
            method=method,
            grid=BUDGETS[number],
            planned=planned,
            printed=Printed("slim-token_budget", spelling, f"{number}x25" + (suffix if number == 8 else "")),
        )
        for number in tokens
    ]


# Table 1: names of plugins -> methods as the paper spells them. PSTL is misprinted there.
LINEAR = [
    Row(method=method, labels={"group": group}, planned=False, printed=Printed("slim-linear", spelling, "joint"))
    for group, methods in zip(
        GROUPS,
        (
            {"gl-transformer": "GL-Transformer", "macdiff": "MacDiff", "igm": "IGM", "usdrl": "USDRL", "hsp": "HSP"},
            {
                "cpm": "CPM",
                "cmd": "CMD",
                "aimclr": "AimCLR",
                "rvtclr": "RVTCLR",
                "pstl": "PTSL",
                "hysp": "HYSP",
                "halp": "HaLP",
                "actclr": "ActCLR",
            },
            {"skeletonmae": "SkeletonMAE", "mamp": "MAMP", "sjepa": "S-JEPA", "gfp": "GFP", "amr": "AMR"},
            {"slim": "SLiM"},
        ),
        strict=True,
    )
    for method, spelling in methods.items()
]

TOKEN_BUDGET = [
    *_budgets("skeletonmae", "SkeletonMAE", 8, 15, 30),
    *_budgets("mamp", "MAMP", 8, 15, 30),
    *_budgets("sjepa", "S-JEPA", 30, planned=False),
    *_budgets("gfp", "GFP", 30, planned=False),
    Row(
        method="slim",
        variant="half-batch",
        grid=BUDGETS[8],
        planned=False,
        printed=Printed("slim-token_budget", "SLiM", "8x25, batch 384"),
    ),
    *_budgets("slim", "SLiM", 8, 15, 30, suffix=", batch 768"),
]

# Table 9: for all methods except SLiM the protocol of their own papers, mostly fine-tuning.
TRANSFER = [
    Row(method=method, planned=False, printed=Printed("slim-transfer", spelling, f"from {source} xsub"))
    for source in ("ntu60", "ntu120")
    for method, spelling in {
        "longt-gan": "LongT-GAN",
        "isc": "ISC",
        "cmd": "CMD",
        "macdiff": "MacDiff",
        "igm": "IGM",
        "skeletonmae": "SkeletonMAE",
        "mamp": "MAMP",
        "sjepa": "S-JEPA",
        "slim": "SLiM",
    }.items()
]


def _columns(
    table: str,
    spelling: str,
    columns: dict[str, str],
    method: str = "slim",
    *,
    variant: str = "",
    stream: str = "joint",
) -> list[Row]:
    """Published results of a method: column -> its name in the published table."""
    labels = {"stream": stream}
    return [
        Row(
            method=method,
            variant=variant,
            labels=labels | {"column": column},
            planned=False,
            printed=Printed(f"slim-{table}", spelling, printed),
        )
        for column, printed in columns.items()
    ]


# Table 2 (a): by each paper's own fine-tuning. (b): 1-NN of the frozen encoder.
SEMI = [
    row
    for spelling in ("CPM", "CMD", "HYSP", "HaLP", "HiCo", "USDRL", "SkeletonMAE", "MAMP", "S-JEPA", "GFP", "SLiM")
    for row in _columns(
        "semi", spelling, {"semi@1": "1%", "semi@10": "10%"}, spelling.lower().replace("s-jepa", "sjepa")
    )
]
RETRIEVAL = [
    row
    for spelling in ("LongT-GAN", "P&C", "ISC", "HaLP", "HiCo", "SkeAttnCLR", "MAMP", "GFP", "SLiM")
    for row in _columns(
        "retrieval", spelling, {"accuracy": "joint"}, "pclust" if spelling == "P&C" else spelling.lower()
    )
]
RETRIEVAL += _columns("retrieval", "UmURL", {"accuracy": "joint+bone+motion"}, "umurl", stream="joint + bone + motion")

# Tables 11 and 12. Fractions of 25 joints: 3, 5 and 8 are 0.12, 0.2 and 0.32.
_CLEAN = {"clean": "clean"}
_DECLARED, _PARENT, _ZERO = (
    {f"{kind}_{share}": f"{words} {joints}/25" for share, joints in (("0.12", 3), ("0.2", 5), ("0.32", 8))}
    for kind, words in (("missing", "declared missing"), ("parent-fill", "parent fill"), ("zero-fill", "zero fill"))
)
_NOISE = {f"noise_{sigma}": f"noise {sigma}" for sigma in ("0.01", "0.03", "0.05")}
ROBUSTNESS = _columns("robustness", "SLiM", _CLEAN | _DECLARED | _NOISE)
MISSING_REPRESENTATION = _columns("robustness", "SLiM", _CLEAN | _DECLARED | _PARENT | _ZERO)
DEGRADED = [
    row
    for variant, training in (("", "clean"), ("degraded", "degraded"))
    for row in _columns(
        "degraded_pretraining",
        "SLiM",
        {
            column: f"{training} pre-training, {printed}"
            for column, printed in (_CLEAN | _DECLARED | _PARENT | _ZERO | _NOISE).items()
        },
        variant=variant,
    )
]
DEGRADED_PRETRAINING = ColumnTable(
    "degraded-pretraining",
    "Trained on clean and on degraded clips: accuracy in percent",
    conditions("robustness", "missing-representation", usual=(*FILLED, *NOISE)),
    "no run yet: `skelbench study degraded-pretraining` trains slim and slim:degraded and measures both, as "
    "`skelbench eval RUN --protocol robustness,missing-representation` does",
    notes=(DEGRADED_NOTE,),
    titles=("slim", "slim:degraded"),
)

TARGET_CONTROL = variants(
    "slim",
    ("target", "loss", "module"),
    ("coordinates", "MSE", "decoder", "target-coordinates", "coordinates, mse, 5-block decoder"),
    ("features", "MSE", "none", "target-features", "teacher features, mse"),
    ("features + head", "MSE", "predictor", "target-features-predictor", "teacher features, mse, predictor head"),
    ("prototypes", "CE", "none", "", "prototypes, cross-entropy"),
    printed=("slim-target_control", "SLiM"),
)


OBJECTIVE = StudyTable(
    name="objective",
    title="Objective functions: linear accuracy in percent",
    labels=_labels(mfp="MFP", cl="CL", glcl="GLCL"),
    rows=variants(
        "slim",
        ("mfp", "cl", "glcl"),
        ("–", "yes", "–", "cl-only", "cl"),
        ("–", "–", "yes", "glcl-only", "glcl"),
        ("yes", "–", "–", "mfp-only", "mfp"),
        ("yes", "yes", "–", "mfp-cl", "mfp+cl"),
        ("yes", "–", "yes", "", "mfp+glcl"),
        printed=("slim-objective", "SLiM"),
    ),
    against="Over MFP + GLCL",
    paper=_BOTH_SPLITS,
    notes=(
        "MFP: masked feature prediction. GLCL: global-local contrast. CL: GLCL without local views, with global views "
        "of one interval length (our assumption).",
        _NTU60,
    ),
)

_RANGE = "50–90 %"
STM = StudyTable(
    name="stm",
    title="Semantic tube masking: linear accuracy in percent",
    labels=_labels(globals="Global views", locals="Local views", ratio="Mask ratio"),
    rows=variants(
        "slim",
        ("globals", "locals", "ratio"),
        ("none", "tubes", _RANGE, "global-none", "global none, local tube"),
        ("random", "tubes", _RANGE, "global-random", "global random, local tube"),
        ("tubes", "none", _RANGE, "local-none", "global tube, local none"),
        ("tubes", "random", _RANGE, "local-random", "global tube, local random"),
        ("tubes", "tubes", "90 %", "ratio-90", "ratio 0.9"),
        ("tubes", "tubes", "0–50 %", "ratio-0-50", "ratio 0-0.5"),
        ("tubes", "tubes", _RANGE, "", "ratio 0.5-0.9"),
        printed=("slim-stm", "SLiM"),
    ),
    against="Over tubes, 50–90 %",
    paper=_BOTH_SPLITS,
    notes=(
        "Random: independently masked tokens. Global none: no masked tokens to predict, so only GLCL "
        "(`slim:glcl-only`), also in the paper.",
        _NTU60,
    ),
)

SAA = StudyTable(
    name="saa",
    title="Skeleton-aware augmentations: linear accuracy in percent",
    labels=_labels(rotation="Rotation", mirroring="Mirroring", scaling="Scaling"),
    rows=variants(
        "slim",
        ("rotation", "mirroring", "scaling"),
        ("none", "full", "full", "rotation-none", "rotation none"),
        ("limited", "full", "full", "rotation-limited", "rotation limited"),
        ("full", "none", "full", "mirroring-none", "mirroring none"),
        ("full", "limited", "full", "mirroring-limited", "mirroring limited"),
        ("full", "full", "none", "scaling-none", "scaling none"),
        ("full", "full", "limited", "scaling-limited", "scaling limited"),
        ("full", "full", "full", "", "all"),
        printed=("slim-saa", "SLiM"),
    ),
    against="Over all in full",
    paper=_BOTH_SPLITS,
    notes=(
        "Limited (our assumption): rotation within 0.3 rad about every axis, left and right swapped, no reflection, "
        "each coordinate axis scaled by its own factor.",
        _NTU60,
    ),
)

CENTERING = StudyTable(
    name="centering",
    title="Centering of the teacher: linear accuracy in percent",
    labels=_labels(centering="Centering"),
    rows=variants(
        "slim",
        ("centering",),
        ("none", "center-none", ""),
        ("running center", "center-running", ""),
        ("Sinkhorn", "", ""),
    ),
    against="Over Sinkhorn",
)

BATCH = StudyTable(
    name="batch",
    title="Batch size: linear accuracy in percent",
    labels=_labels(batch="Batch of the preset", length="Schedule"),
    rows=variants(
        "slim",
        ("batch", "length"),
        ("half", "as many steps, half the clips", "half-batch-equal-steps", ""),
        ("half", "as many clips, twice the steps", "half-batch", "8x25, batch 384"),
        ("whole", "of the preset", "", "8x25, batch 768"),
        printed=("slim-token_budget", "SLiM"),
    ),
    against="Over whole batch",
    paper=(PAPER_COLUMNS["paper_mean"],),
    shown=("batch_size", "clips_seen"),
    notes=("Paper: NTU-60, mean of X-Sub and X-View, batch 384 and 768, 150 epochs; not measured here.",),
)

RELEASE = StudyTable(
    name="release",
    title="Parts of the released code: linear accuracy in percent",
    labels=_labels(released="Released part"),
    rows=variants(
        "slim",
        ("released",),
        ("views", "release-views", ""),
        ("views, extended", "release-views-extended", ""),
        ("bone scaling", "scaling-as-released", ""),
        ("initial weights", "release-weights", ""),
        ("none", "", ""),
    ),
    against="Over slim",
    notes=(
        "Views: as in preset `release`, with this preset's number of local views. Extended: clips under 150 frames are "
        "played forth and back first.",
    ),
)
