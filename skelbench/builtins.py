"""Where skelbench itself announces things: modules and packages, read as plugin files and not imported."""

from skelbench.plugin import (
    EncoderSpec,
    FigureSpec,
    TableSpec,
    TargetSpec,
    hookimpl,
)

PLACES: tuple[str, ...] = (
    "skelbench.builtins",
    "skelbench.data.synthetic.dataset",
    "skelbench.evaluate.knn",
    "skelbench.evaluate.linear",
    "skelbench.evaluate.native",
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
def skelbench_encoders():
    return [
        EncoderSpec(
            name="vit",
            target="skelbench.nn.vit:ViT",
            config="skelbench.nn.config:ViTConfig",
            summary="pre-norm ViT over frame-patch x joint tokens; temporal RoPE or learned positions",
            presets={"small": {"dim": 64, "depth": 3, "heads": 2}, "quick": {"dim": 48, "depth": 2, "heads": 2}},
        )
    ]


@hookimpl
def skelbench_targets():
    return [
        TargetSpec(
            name="prototypes",
            target="skelbench.methods.targets.prototypes:PrototypeTarget",
            summary="the teacher's distribution over prototypes, by cross-entropy (SLiM)",
        ),
        TargetSpec(
            name="coordinates",
            target="skelbench.methods.targets.coordinates:CoordinateTarget",
            summary="raw joint coordinates, by squared error, through a decoder",
        ),
        TargetSpec(
            name="features",
            target="skelbench.methods.targets.features:FeatureTarget",
            summary="the teacher's projected features, by squared error, no extra module",
        ),
        TargetSpec(
            name="features-predictor",
            target="skelbench.methods.targets.features:PredictedFeatureTarget",
            summary="the teacher's projected features, by squared error, through a predictor head",
        ),
    ]


@hookimpl
def skelbench_tables():
    return [
        TableSpec(
            name="linear",
            target="skelbench.report.linear:table",
            summary="every evaluated run: accuracy with interval, paired test against the untrained encoder, cost",
        ),
        TableSpec(
            name="token-budget",
            target="skelbench.report.token_budget:table",
            summary="methods at 8, 15, 30 temporal tokens: accuracy, cost, drop against 30; published figures beside",
        ),
        TableSpec(
            name="target-control",
            target="skelbench.report.target_control:table",
            summary="one method with several targets of masked prediction: accuracy, fall of the loss, effective rank",
        ),
        TableSpec(
            name="flops",
            target="skelbench.report.flops:table",
            summary="MACs and GFLOPs of encoder, decoder and whole training step at the paper's token grids",
            needs_runs=False,
        ),
        TableSpec(
            name="flops-detail",
            target="skelbench.report.flops_detail:table",
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
