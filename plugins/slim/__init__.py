"""SLiM (Do et al., 2026): the method, its targets of masked tokens, and the comparisons of its paper: studies, tables
and published results."""

from pathlib import Path
from typing import Any

from skelbench_plugins._recipes import DISTILLED_SPACE, semi

from skelbench.plugin import (
    MethodSpec,
    NativeProbe,
    ProtocolSpec,
    PublishedSpec,
    RowsSpec,
    StudySpec,
    TableSpec,
    TargetSpec,
    hookimpl,
)

_PUBLISHED = Path(__file__).parent / "published"

# Notes on the published results, by the table or figure that shows them.
_NOTES = {
    "linear": {
        "linear": "Paper: SLiM, Table 1 (PSTL is printed PTSL there), or the authors' own repository; joint stream "
        "unless the row says another, at the full size and by each paper's own probe; not measured here.",
    },
    "flops_supp": {
        "flops": "Paper: published in the SLiM paper, not measured here, with mixed conventions: 28.32, 1.97 and "
        "17.70 follow from one (2 bodies, 2 FLOPs per MAC, 74 visible tokens, 5-block decoder, element-wise operations "
        "included), 3.59 and 8.36 do not; by one convention 30x25 without class token costs 4.91 times 8x25 with class "
        "token, not 7.89 times.",
        "flops-detail": "Paper: published in the SLiM paper, not measured here. 28.32, 1.97 and 17.70 follow from one "
        "convention: element-wise operations counted too (matrix products alone make 28.10, 1.96 and 17.59), 74 "
        "visible tokens, 5 decoder blocks, no classification head. 74, because 750 × (1 − 0.9) is cut off below 75 in "
        "MAMP's code; 75 tokens cost 1.99. No convention gives 3.59 and 8.36 as well: the convention of 28.32 gives "
        "5.76 for SLiM at 8x25. 1.57 and 0.64 depend on parts of GFP that are not published.",
    },
    "token_budget": {
        "token-budget": "Paper: SLiM, Table 7; NTU-60, mean of X-Sub and X-View, 150 epochs. Its 28.32 GFLOPs follow "
        "from the convention used here, its 3.59 and 8.36 do not (`skelbench compare --table flops` says more). "
        "slim:half-batch, the paper's batch of 384: from `skelbench study batch` with the same preset.",
    },
    "transfer": {
        "transfer": "Paper: SLiM, Table 9, PKU-MMD II. Its caption says frozen; rows marked fine-tuned are from "
        "encoders that their sources fully fine-tuned; the protocol of IGM's and LongT-GAN's frozen results is not "
        "confirmed. At the full size, not measured here.",
    },
    "semi": {
        "semi": "Paper: SLiM, Table 2 (a): each row by its own paper's fine-tuning and label subsets, which the "
        "columns of 1 and 10 % do not separate; at the full size, not measured here.",
    },
    "retrieval": {
        "retrieval": "Paper: SLiM, Table 2 (b): by its caption 1-NN of the frozen encoder; at the full size, not "
        "measured here.",
    },
    "robustness": {
        name: "Paper: SLiM, Table 11; 150 epochs, one pre-training run, a probe of clean clips; ±: standard deviation "
        "over three corruption draws; not measured here."
        for name in ("robustness", "missing-representation")
    },
    "degraded_pretraining": {
        "degraded-pretraining": "Paper: SLiM, Table 12; 50 epochs, one pre-training run each; ±: standard deviation "
        "over three corruption draws; not measured here.",
    },
    "target_control": {
        "target-control": "SLiM's targets: raw joint coordinates (squared error, a decoder); the teacher's projected "
        "features (squared error; + head: with a predictor head); its distribution over prototypes (cross-entropy), "
        "which is SLiM. Modules are dropped before probing; the paper's decoder has 5 blocks, a smaller preset's "
        "fewer. Paper: NTU-60, mean of X-Sub and X-View, 100 epochs at the full size (preset `ablation`), one "
        "pre-training run. Features without predictor there: loss 0.313 to 3.3e-05 (about 9,500 times), rank 1.12.",
    },
}  # fmt: skip


@hookimpl
def skelbench_published():
    return [
        PublishedSpec(
            name=f"slim-{path.stem}",
            file=str(path),
            summary=f"SLiM paper: {path.stem.replace('_', ' ')}",
            notes=_NOTES.get(path.stem, {}),
        )
        for path in sorted(_PUBLISHED.glob("*.csv"))
    ]


@hookimpl
def skelbench_rows():
    return [
        RowsSpec(
            name="slim-linear",
            table="linear",
            target="skelbench_plugins.slim.tables:LINEAR",
            summary="SLiM paper, Table 1: groups of methods and their published results",
        ),
        RowsSpec(
            name="slim-token-budget",
            table="token-budget",
            target="skelbench_plugins.slim.tables:TOKEN_BUDGET",
            summary="SLiM paper, Table 7: SkeletonMAE, MAMP and SLiM at 8, 15 and 30 tokens, S-JEPA and GFP at 30",
        ),
        RowsSpec(
            name="slim-target-control",
            table="target-control",
            target="skelbench_plugins.slim.tables:TARGET_CONTROL",
            summary="SLiM paper, Table 10: SLiM with four targets of masked prediction",
        ),
        RowsSpec(
            name="slim-transfer",
            table="transfer",
            target="skelbench_plugins.slim.tables:TRANSFER",
            summary="SLiM paper, Table 9: from NTU RGB+D 60 and 120 to PKU-MMD II",
        ),
        *(
            RowsSpec(
                name=f"slim-{table}",
                table=table,
                target=f"skelbench_plugins.slim.tables:{rows}",
                summary=f"SLiM paper, {summary}",
            )
            for table, rows, summary in (
                ("semi", "SEMI", "Table 2 (a): 1 and 10 % of the labels"),
                ("retrieval", "RETRIEVAL", "Table 2 (b): 1-NN"),
                ("robustness", "ROBUSTNESS", "Table 11 (a): missing joints, and noise"),
                (
                    "missing-representation",
                    "MISSING_REPRESENTATION",
                    "Table 11 (b): missing joints marked or filled in",
                ),
                ("degraded-pretraining", "DEGRADED", "Table 12: trained on clean and on degraded clips"),
            )
        ),
    ]


@hookimpl
def skelbench_tables():
    summaries = {
        "objective": "SLiM with masked feature prediction, contrast, or both",
        "stm": "SLiM with other masks of global and local views, and other mask ratios",
        "saa": "SLiM with rotation, mirroring and scaling off, limited or full",
        "centering": "SLiM with the teacher centered by Sinkhorn, by a running center, or not",
        "batch": "SLiM with half the batch, at as many clips and at as many steps",
        "release": "SLiM with the views, bone scaling or initial weights of its released code",
    }
    return [
        TableSpec(name=name, target=f"skelbench_plugins.slim.tables:{name.upper()}", summary=summary, probe="linear")
        for name, summary in summaries.items()
    ] + [
        TableSpec(
            name="degraded-pretraining",
            target="skelbench_plugins.slim.tables:DEGRADED_PRETRAINING",
            summary="slim and slim:degraded on clean and on degraded clips; published results",
            needs_runs=False,
        )
    ]


@hookimpl
def skelbench_studies():
    questions = {
        "token-budget": "SLiM, MAMP and SkeletonMAE with 8, 15 and 30 temporal tokens",
        "target-control": "prediction target of masked tokens: coordinates, teacher features or prototypes",
        "objective": "masked feature prediction, contrast, and both together",
        "stm": "masks of global and local views: none, random or tubes, with different mask ratios",
        "saa": "skeleton-aware rotation, mirroring and scaling: none, conventional, as proposed",
        "centering": "centering of the teacher's prototypes: Sinkhorn, running mean or none",
        "batch": "half the batch size, with equal clips and with equal steps",
        "release": "views, bone scaling and initial weights of SLiM's released code",
        "scaling": "SLiM, DINO and masked methods with four training lengths",
        "linear": "linear accuracy of the methods of the paper's Table 1",
        "semi": "accuracy with 1 and 10 % of the labels",
        "retrieval": "1-NN accuracy: does the nearest training clip show the same action?",
        "transfer": "accuracy on a dataset that the encoder was not trained on",
        "robustness": "SLiM, MAMP and SkeletonMAE on clips with missing joints or noise",
        "missing-representation": "the same methods, with missing joints marked or filled in",
        "degraded-pretraining": "SLiM trained on degraded or on clean clips",
    }
    return [
        StudySpec(name=name, target=f"skelbench_plugins.slim.studies:{name.upper().replace('-', '_')}", summary=summary)
        for name, summary in questions.items()
    ]


# Views of preset "release", except the number of local views.
_RELEASED_VIEWS: dict[str, Any] = {
    "train.center": "body-in-training",
    "method.vertical_deg": 17.18873385,  # 0.3 rad
    "method.tilt_deg": 17.18873385,
    "method.scale_groups": "limbs",
    "method.resize": "release",
    "method.whole_frames": True,
    "method.extend": 150,
    "method.global_mask_p": 0.5,
    "method.clean_pass": False,
    "method.local_mask_p": 1.0,
    "method.local_a_min": (4, 2, 1),
    "method.a_max": 100,
    "method.spans": "ordered",
    "method.stop": "as-released",
    "method.stratified": True,
    "method.noise": True,
}

# Ablations by name (tables "objective", "stm", "saa", "target-control" and "token-budget" of the paper).
VARIANTS: dict[str, dict[str, Any]] = {
    "mfp-only": {"method.glcl_weight": 0.0},
    "mfp-cl": {"method.local_counts": (0, 0, 0), "method.same_length": True},
    "cl-only": {"method.mfp_weight": 0.0, "method.local_counts": (0, 0, 0), "method.same_length": True},
    "glcl-only": {"method.mfp_weight": 0.0},
    "target-coordinates": {"method.target": "coordinates"},
    "target-features": {"method.target": "features"},
    "target-features-predictor": {"method.target": "features-predictor"},
    "global-none": {"method.global_mask": "none"},
    "global-random": {"method.global_mask": "random"},
    "local-none": {"method.local_mask": "none"},
    "local-random": {"method.local_mask": "random"},
    "ratio-90": {"method.global_ratio": (0.9, 0.9), "method.local_ratio": (0.9, 0.9)},
    "ratio-0-50": {"method.global_ratio": (0.0, 0.5), "method.local_ratio": (0.0, 0.5)},
    "rotation-none": {"method.rotation": "none"},
    "rotation-limited": {"method.rotation": "limited"},
    "mirroring-none": {"method.mirroring": "none"},
    "mirroring-limited": {"method.mirroring": "limited"},
    "scaling-none": {"method.scaling": "none"},
    "scaling-limited": {"method.scaling": "limited"},
    "center-running": {"method.centering": "running"},
    "center-none": {"method.centering": "none"},
    # What of the released code matters (table "release").
    "release-views": _RELEASED_VIEWS,
    "release-views-extended": {**_RELEASED_VIEWS, "method.extend_below": 150},
    "scaling-as-released": {"method.scaling": "as-released"},
    "release-weights": {"encoder.initial": "dinov2"},
    # Batch 384 instead of 768 in the paper's setting: as many clips (twice the steps), or as many steps.
    "half-batch": {"train.batch_size": "x0.5"},
    # Section "Corruption-Specific Degraded Pre-training". Our assumption: joints that are filled in have no noise.
    "degraded": {"train.degrade": ({"kind": "noise", "sigma": 0.03}, {"kind": "zero-fill", "share": 0.2})},
    "half-batch-equal-steps": {"train.batch_size": "x0.5", "clips_seen": "x0.5"},
}


@hookimpl
def skelbench_methods() -> list[MethodSpec]:
    return [
        MethodSpec(
            name="slim",
            spelling="SLiM",
            target="skelbench_plugins.slim.method:Slim",
            config="skelbench_plugins.slim.method:SlimConfig",
            summary="masked feature prediction with global-local contrast on compact tokens",
            citation="Do et al., Less is More: Compact-Token Masked Feature Prediction, 2026 (arXiv 2603.10648)",
            requires=("replace-tokens", "tokens", "short-views"),
            imports="skelbench_plugins.slim.released:imported",
            probe=NativeProbe(protocol="linear@slim-release", best_on_test=True),
            recipe={
                "train.batch_size": 768,
                "train.lr": 2e-4,
                "schedule.min_lr": 1e-6,
                "schedule.warmup": 20 / 150,
                "train.weight_decay": 0.04,
                "train.weight_decay_end": 0.2,
                "optimizer.betas": (0.9, 0.999),
                "train.clip_grad": 3.0,
            },
            presets={
                # The harness's preset, with the paper's 20 epochs of warm-up also for 100 epochs.
                "ablation": {"train.epochs": 100.0, "schedule.warmup": 20 / 100},
                # Settings of the authors' announced code (repository KAIST-VICLab/SLiM, commit 2b8bb41), where they
                # differ from the paper's text.
                "release": {
                    "encoder": "vit",
                    "train.iters_per_epoch": 1250,
                    "train.lr_scaling": "sqrt-1024",
                    "train.bodies": "random-valid",
                    "encoder.mlp": "swiglu",
                    "encoder.registers": 4,
                    "encoder.cls_position": True,
                    "encoder.initial": "dinov2",
                    **_RELEASED_VIEWS,
                    "method.local_counts": (1, 2, 1),
                    "method.match_both": True,
                    "method.koleo": 0.1,
                    "method.koleo_clips": 192,
                },
            },
            variants=VARIANTS,
            space=DISTILLED_SPACE,
        )
    ]


@hookimpl
def skelbench_protocols() -> list[ProtocolSpec]:
    at_test = {"center": "clip", "resize": "bin-starts", "share": 0.95}
    summed = at_test | {"bodies_pool": "valid-sum"}
    return [
        ProtocolSpec(
            name="linear@slim-release",
            target="skelbench_plugins.slim.probes:SlimReleaseLinear",
            summary="52 linear layers by SGD as in SLiM's code, best on held-out subjects; costs 30 times `linear`",
            defaults=summed | {"readout": "cls4+mean"},
        ),
        ProtocolSpec(
            name="knn@slim-release",
            target="skelbench.evaluation.knn:Knn",
            summary="nearest training clip by cosine similarity, bodies side by side, frames as in SLiM's code",
            defaults=at_test | {"bodies_pool": "concat"},
        ),
        *semi("slim-release", "skelbench_plugins.slim.probes:SlimReleaseSemi", "SGD as in SLiM's code", summed),
    ]


@hookimpl
def skelbench_targets() -> list[TargetSpec]:
    return [
        TargetSpec(
            name="prototypes",
            target="skelbench_plugins.slim.targets.prototypes:PrototypeTarget",
            summary="the teacher's distribution over prototypes, by cross-entropy (SLiM)",
        ),
        TargetSpec(
            name="coordinates",
            version=2,
            target="skelbench_plugins.slim.targets.coordinates:CoordinateTarget",
            summary="raw joint coordinates, by squared error, through a decoder",
        ),
        TargetSpec(
            name="features",
            version=2,
            target="skelbench_plugins.slim.targets.features:FeatureTarget",
            summary="the teacher's projected features, by squared error, no extra module",
        ),
        TargetSpec(
            name="features-predictor",
            version=2,
            target="skelbench_plugins.slim.targets.features:PredictedFeatureTarget",
            summary="the teacher's projected features, by squared error, through a predictor head",
        ),
    ]
