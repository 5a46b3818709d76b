"""What skelbench itself announces: the ViT, the synthetic data, probes and tables (torch-free descriptors)."""

from skelbench.plugin import (
    DatasetSpec,
    EncoderSpec,
    FigureSpec,
    ProtocolSpec,
    TableSpec,
    TargetSpec,
    hookimpl,
)

# How the masked-autoencoder family evaluates: absent bodies are encoded and averaged in, its centre crop and resizing.
_MAE_DEFAULTS = {"bodies": "all-slots", "bodies_pool": "all-mean", "share": 0.95, "resize": "half-pixel"}


@hookimpl
def skelbench_encoders():
    return [
        EncoderSpec(
            name="vit",
            target="skelbench.nn.vit:ViT",
            config="skelbench.nn.config:ViTConfig",
            summary="pre-norm ViT over frame-patch x joint tokens; temporal RoPE or learned positions",
        )
    ]


@hookimpl
def skelbench_datasets():
    return [
        DatasetSpec(
            name="synthetic",
            target="skelbench.data.synthetic:open_synthetic",
            summary="forward kinematics on the 25-joint tree, three cameras; made on first use, the same everywhere",
            splits=("cross-subject", "cross-view", "cross-setup"),
            default_split="cross-view",
            licence="generated",
        )
    ]


@hookimpl
def skelbench_protocols():
    return [
        ProtocolSpec(
            name="linear",
            target="skelbench.evaluate.linear:Linear",
            config="skelbench.evaluate.config:LinearConfig",
            summary="linear probe, AdamW to convergence on standardised frozen features (neutral default)",
        ),
        ProtocolSpec(
            name="linear@slim",
            target="skelbench.evaluate.linear:Linear",
            config="skelbench.evaluate.config:SlimLinearConfig",
            summary="linear probe by the SLiM paper's recipe: AdamW 1e-4, batch 256, 10 epochs",
        ),
        ProtocolSpec(
            name="linear@mamp",
            target="skelbench.evaluate.native:AugmentedLinear",
            config="skelbench.evaluate.config:MampLinearConfig",
            summary="linear probe of MAMP's code: batch norm, SGD 0.1, 100 epochs, each on newly augmented clips; "
            "costs about 100 times `linear`",
            defaults={**_MAE_DEFAULTS, "readout": "mean"},
        ),
        ProtocolSpec(
            name="linear@macdiff",
            target="skelbench.evaluate.native:AugmentedLinear",
            config="skelbench.evaluate.config:MacDiffLinearConfig",
            summary="linear probe of MacDiff's code: as linear@mamp, with dropout, on features that keep the joints "
            "apart (J x D wide)",
            defaults={**_MAE_DEFAULTS, "readout": "joints"},
        ),
        ProtocolSpec(
            name="knn",
            target="skelbench.evaluate.knn:Knn",
            config="skelbench.evaluate.config:KnnConfig",
            summary="nearest training clip by cosine similarity, k = 1",
        ),
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
