"""Where skelbench itself announces things: modules and packages, read as plugin files and not imported."""

from skelbench.plugin import (
    EncoderSpec,
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
    "skelbench.report.figures.curves",
    "skelbench.report.figures.target_control",
    "skelbench.report.figures.token_budget",
    "skelbench.report.flops",
    "skelbench.report.flops_detail",
    "skelbench.report.linear",
    "skelbench.report.target_control",
    "skelbench.report.token_budget",
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
