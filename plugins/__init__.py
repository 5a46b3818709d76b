"""The methods that ship with skelbench, announced exactly as a stranger's package would (torch-free)."""

from skelbench_plugins.slim_paper import (  # noqa: F401 (hooks)
    skelbench_published,
    skelbench_rows,
    skelbench_studies,
    skelbench_tables,
)

from skelbench.plugin import MethodSpec, hookimpl

# The masked-autoencoder family: AdamW as MAE sets it, tokens dropped, and the setting of MAMP's code (maoyunyao/MAMP).
_MAE_RECIPE = {
    "train.batch_size": 128,
    "train.lr": 1e-3,
    "train.min_lr": 5e-4,
    "train.warmup": 20 / 400,
    "train.weight_decay": 0.05,
    "train.betas": (0.9, 0.95),
}
_DROPS_TOKENS = {"encoder.mask_token": False}
_MAE_NATIVE = {
    "encoder.cls": False,
    "encoder.temporal": "learned",
    "encoder.norm_eps": 1e-5,
    "grid.frames": 120,
    "grid.patch": 4,
    "train.epochs": 400,
    "train.bodies": "all-slots",
    "method.resize": "half-pixel",
}
_FP32 = {"train.precision": "fp32"}

# DINO and iBOT: durations are shares of the 100 epochs of their code.
_MULTI_CROP_RECIPE = {
    "train.batch_size": 768,
    "train.lr": 1.5e-3,  # 5e-4 x batch / 256
    "train.min_lr": 1e-6,
    "train.warmup": 10 / 100,
    "train.weight_decay": 0.04,
    "train.weight_decay_end": 0.4,
    "train.betas": (0.9, 0.999),
    "train.clip_grad": 3.0,
}
_MULTI_CROP_READINGS = (
    "an image method: crops of the clip's duration, SLiM's augmentations, the batch size (lr is 5e-4 x batch / 256), "
    "gradients clipped per sub-network, no drop path; it has no skeleton setting, so native is the shared one"
)

# SLiM's ablations by name (tables "objective", "stm", "saa", "target-control" and "token-budget" of the paper).
_SLIM_VARIANTS = {
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
    "centre-running": {"method.centering": "running"},
    "centre-none": {"method.centering": "none"},
    # Batch 384 instead of 768 in the paper's setting: as many clips (twice the steps), or as many steps.
    "half-batch": {"train.batch_size": "x0.5"},
    "half-batch-equal-steps": {"train.batch_size": "x0.5", "clips_seen": "x0.5"},
}


@hookimpl
def skelbench_methods():
    return [
        MethodSpec(
            name="slim",
            target="skelbench_plugins.slim:Slim",
            config="skelbench_plugins.slim:SlimConfig",
            summary="masked feature prediction with global-local contrast on compact tokens",
            citation="Do et al., Less is More: Compact-Token Masked Feature Prediction, 2026 (arXiv 2603.10648)",
            needs={"encoder.mask_token": True},
            recipe={
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
            variants=_SLIM_VARIANTS,
        ),
        MethodSpec(
            name="dino",
            target="skelbench_plugins.dino:DINO",
            config="skelbench_plugins.dino:DINOConfig",
            summary="match class tokens of global and local crops with an EMA teacher's of the global ones",
            citation="Caron et al., Emerging Properties in Self-Supervised Vision Transformers, ICCV 2021 "
            "(arXiv 2104.14294)",
            readings=_MULTI_CROP_READINGS,
            recipe=_MULTI_CROP_RECIPE,
            needs=_DROPS_TOKENS,
        ),
        MethodSpec(
            name="ibot",
            target="skelbench_plugins.ibot:IBOT",
            config="skelbench_plugins.ibot:IBOTConfig",
            summary="DINO, and the teacher's prototype distribution predicted at hidden tokens",
            citation="Zhou et al., iBOT: Image BERT Pre-Training with Online Tokenizer, ICLR 2022 (arXiv 2111.07832)",
            readings=_MULTI_CROP_READINGS,
            recipe=_MULTI_CROP_RECIPE,
            needs={"encoder.mask_token": True},
        ),
        MethodSpec(
            name="skeletonmae",
            target="skelbench_plugins.skeletonmae:SkeletonMAE",
            config="skelbench_plugins.skeletonmae:SkeletonMAEConfig",
            summary="reconstruct the coordinates of 90 % randomly masked tokens with a decoder",
            citation="Wu et al., SkeletonMAE, ICMEW 2023 (arXiv 2209.02399), in the plain-ViT form of MAMP's code",
            recipe=_MAE_RECIPE,
            needs=_DROPS_TOKENS,
            native=_MAE_NATIVE | _FP32,
            imports="skelbench_plugins.skeletonmae:imported",
        ),
        MethodSpec(
            name="mamp",
            target="skelbench_plugins.mamp:MAMP",
            config="skelbench_plugins.mamp:MAMPConfig",
            summary="predict the motion of masked tokens, hiding those that move most",
            citation="Mao et al., Masked Motion Predictors are Strong 3D Action Representation Learners, ICCV 2023 "
            "(arXiv 2308.07092)",
            recipe=_MAE_RECIPE,
            needs=_DROPS_TOKENS,
            native=_MAE_NATIVE | _FP32,
            imports="skelbench_plugins.mamp:imported",
        ),
        MethodSpec(
            name="amr",
            target="skelbench_plugins.amr:AMR",
            config="skelbench_plugins.amr:AMRConfig",
            summary="reconstruct 90 % masked tokens with cross-attending queries, weighted by motion energy",
            citation="Adaptive Masked Reconstruction, CVPR 2026 (arXiv 2606.11450)",
            readings="optimiser, batch size, epochs and the decoder's width and heads are MAMP's: the paper names none",
            recipe=_MAE_RECIPE,
            needs=_DROPS_TOKENS,
            native=_MAE_NATIVE,
        ),
        MethodSpec(
            name="macdiff",
            target="skelbench_plugins.macdiff:MacDiff",
            config="skelbench_plugins.macdiff:MacDiffConfig",
            imports="skelbench_plugins.macdiff:imported",
            summary="denoise the whole clip, conditioned on the encoder's view of 10 % of its tokens",
            citation="Wu et al., MacDiff: Unified Skeleton Modeling with Masked Conditional Diffusion, ECCV 2024 "
            "(arXiv 2409.10473)",
            recipe=_MAE_RECIPE | {"train.min_lr": 1e-5},
            needs=_DROPS_TOKENS,
            # The encoder sees what is diffused: coordinates standardised by NTU's constants (MacDiffConfig).
            native=_MAE_NATIVE
            | {
                "encoder.input_mean": (-0.0058, -0.1333, -0.0246),
                "encoder.input_std": (0.0206**0.5, 0.0805**0.5, 0.0218**0.5),
                "train.bodies": "first",
            },
        ),
        MethodSpec(
            name="sjepa",
            target="skelbench_plugins.sjepa:SJEPA",
            config="skelbench_plugins.sjepa:SJEPAConfig",
            summary="predict an EMA encoder's features of the untransformed clip at 90 % hidden tokens",
            citation="Abdelfattah and Alahi, S-JEPA: A Joint Embedding Predictive Architecture for Skeletal Action "
            "Recognition, ECCV 2024",
            recipe=_MAE_RECIPE | {"train.batch_size": 256, "train.warmup": 20 / 1200},
            needs=_DROPS_TOKENS,
            native=_MAE_NATIVE | {"train.epochs": 1200, "method.momentum": 0.9999},
        ),
        MethodSpec(
            name="gfp",
            target="skelbench_plugins.gfp:GFP",
            config="skelbench_plugins.gfp:GFPConfig",
            summary="predict learned motion features of joints and body with a compact decoder",
            readings="batch size and the decoder's width and heads are MAMP's: the paper names none",
            citation="Sun et al., Towards Efficient General Feature Prediction in Masked Skeleton Modeling, ICCV 2025 "
            "(arXiv 2509.03609)",
            recipe=_MAE_RECIPE,
            needs=_DROPS_TOKENS,
            native=_MAE_NATIVE,
        ),
        MethodSpec(
            name="untrained",
            target="skelbench_plugins.untrained:Untrained",
            summary="control: the encoder as initialised, never trained",
            trains=False,
            needs=_DROPS_TOKENS,
        ),
    ]
