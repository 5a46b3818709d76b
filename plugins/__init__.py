"""The methods that ship with skelbench, announced exactly as a stranger's package would (torch-free)."""

from skelbench.plugin import MethodSpec, hookimpl

_VIT = {"encoder.cls": True, "encoder.temporal": "rope", "encoder.mask_token": True}
_MAE_VIT = {"encoder.cls": False, "encoder.temporal": "learned", "encoder.mask_token": False}
_MAE_VIT["encoder.norm_eps"] = 1e-5


@hookimpl
def skelbench_methods():
    return [
        MethodSpec(
            name="slim",
            target="skelbench_plugins.slim:Slim",
            config="skelbench_plugins.slim:SlimConfig",
            summary="masked feature prediction with global-local contrast on compact tokens",
            citation="Do et al., Less is More: Compact-Token Masked Feature Prediction, 2026 (arXiv 2603.10648)",
            native=_VIT
            | {
                "train.epochs": 150,
                "train.batch_size": 768,
                "train.lr": 2e-4,
                "train.min_lr": 1e-6,
                "train.warmup": 20 / 150,
                "train.weight_decay": 0.04,
                "train.weight_decay_end": 0.2,
                "train.betas": (0.9, 0.999),
                "train.clip_grad": 3.0,
            },
            presets={
                # Settings of the authors' announced code (repository KAIST-VICLab/SLiM, commit 2b8bb41), where they
                # differ from the paper's text.
                "release": {
                    "train.iters_per_epoch": 1250,
                    "train.lr_scaling": "sqrt-1024",
                    "train.bodies": "random-valid",
                    "train.centre": "body",
                    "encoder.mlp": "swiglu",
                    "encoder.registers": 4,
                    "encoder.cls_position": True,
                    "method.vertical_deg": 17.18873385,  # 0.3 rad
                    "method.tilt_deg": 17.18873385,
                    "method.scale_groups": "limbs",
                    "method.resize": "bins",
                    "method.extend": 150,
                    "method.global_mask_p": 0.5,
                    "method.clean_pass": False,
                    "method.local_mask_p": 1.0,
                    "method.local_counts": (1, 2, 1),
                    "method.local_a_min": (4, 2, 1),
                    "method.a_max": 100,
                    "method.spans": "ordered",
                    "method.stop": "never",
                    "method.stratified": True,
                    "method.match_both": True,
                    "method.koleo": 0.1,
                    "method.noise": True,
                }
            },
        ),
        MethodSpec(
            name="skeletonmae",
            target="skelbench_plugins.skeletonmae:SkeletonMAE",
            config="skelbench_plugins.skeletonmae:SkeletonMAEConfig",
            summary="reconstruct the coordinates of 90 % randomly masked tokens with a decoder",
            citation="Wu et al., SkeletonMAE, ICMEW 2023 (arXiv 2209.02399), in the plain-ViT form of MAMP's code",
            native=_MAE_VIT
            | {
                "grid.frames": 120,
                "grid.patch": 4,
                "train.epochs": 400,
                "train.batch_size": 128,
                "train.lr": 1e-3,
                "train.min_lr": 5e-4,
                "train.warmup": 20 / 400,
                "train.weight_decay": 0.05,
                "train.betas": (0.9, 0.95),
            },
        ),
        MethodSpec(
            name="untrained",
            target="skelbench_plugins.untrained:Untrained",
            summary="control: the encoder as initialised, never trained",
            trains=False,
            native=_VIT,
        ),
    ]
