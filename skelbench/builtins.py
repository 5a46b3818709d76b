"""Where skelbench itself announces things: modules and packages, read as plugin files and not imported."""

from skelbench.plugin import (
    FigureSpec,
    StudySpec,
    TableSpec,
    hookimpl,
)

PLACES: tuple[str, ...] = (
    "skelbench.builtins",
    "skelbench.data.synthetic.dataset",
    "skelbench.evaluate.knn",
    "skelbench.evaluate.linear",
    "skelbench.evaluate.native",
    "skelbench.nn.vit",
    "skelbench.optim.optimizers",
    "skelbench.optim.schedules",
    "skelbench.skeleton.topology.known",
    "skelbench.views.augmentations",
    "skelbench.views.crops",
    "skelbench.views.masks",
    "skelbench.views.tubes",
)
"""A module; or a package, whose modules are read."""


@hookimpl
def skelbench_tables():
    return [
        TableSpec(
            name="linear",
            target="skelbench.report.builders:linear",
            summary="every evaluated run: accuracy with interval, paired test against the untrained encoder, cost",
        ),
        TableSpec(
            name="token-budget",
            target="skelbench.report.builders:token_budget",
            summary="methods at 8, 15, 30 temporal tokens: accuracy, cost, drop against 30; published figures beside",
        ),
        TableSpec(
            name="target-control",
            target="skelbench.report.builders:target_control",
            summary="SLiM with four targets of masked prediction: accuracy, fall of the loss, effective rank",
        ),
        TableSpec(
            name="objective",
            target="skelbench.report.builders:objective",
            summary="SLiM with masked feature prediction and contrast, alone and together",
        ),
        TableSpec(
            name="stm",
            target="skelbench.report.builders:stm",
            summary="SLiM with other masks of global and local views, and other mask ratios",
        ),
        TableSpec(
            name="saa",
            target="skelbench.report.builders:saa",
            summary="SLiM with rotation, mirroring and scaling off, limited or full",
        ),
        TableSpec(
            name="centring",
            target="skelbench.report.builders:centring",
            summary="SLiM with the teacher centred by Sinkhorn, by a running centre, or not",
        ),
        TableSpec(
            name="batch",
            target="skelbench.report.builders:batch",
            summary="SLiM with half the batch, at as many clips and at as many steps",
        ),
        TableSpec(
            name="flops",
            target="skelbench.report.builders:flops",
            summary="MACs and GFLOPs of encoder, decoder and whole training step at the paper's token grids",
            needs_runs=False,
        ),
        TableSpec(
            name="flops-detail",
            target="skelbench.report.builders:flops_detail",
            summary="GFLOPs of student encoder, decoder, targets and heads, on native token grids and the paper's",
            needs_runs=False,
        ),
    ]


@hookimpl
def skelbench_figures():
    return [
        FigureSpec(
            name="token-budget",
            target="skelbench.report.figures.token_budget:draw",
            summary="accuracy over GFLOPs of the inference encoder, a line per method; published figures beside",
        ),
        FigureSpec(
            name="target-control",
            target="skelbench.report.figures.target_control:draw",
            summary="masked-prediction loss and effective rank over clips seen, per target of masked prediction",
        ),
        FigureSpec(
            name="curves",
            target="skelbench.report.figures.curves:draw",
            summary="loss and effective ranks over clips seen, every trained run",
        ),
    ]


@hookimpl
def skelbench_studies():
    asks = {
        "token-budget": "what fewer temporal tokens cost SLiM, MAMP and SkeletonMAE, all else equal",
        "target-control": "what hidden tokens are made to predict: coordinates, the teacher's features, or prototypes",
        "objective": "masked feature prediction and contrast, alone and together",
        "stm": "semantic tube masking of global and local views: none, random, tubes, and how much is hidden",
        "saa": "skeleton-aware rotation, mirroring and scaling: none, conventional, as proposed",
        "centring": "what keeps the teacher's prototypes in use: Sinkhorn, a running centre, nothing",
        "batch": "half the batch, for as many clips and for as many steps",
    }
    return [
        StudySpec(name=name, target=f"skelbench.studies.library:{name.upper().replace('-', '_')}", summary=summary)
        for name, summary in asks.items()
    ]
