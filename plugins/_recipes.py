"""Settings that several of the shipped methods share, as dotted keys of the run spec (torch-free)."""

from skelbench.plugin import Linear, Log, NativeProbe, ProtocolSpec

# Search spaces of `skelbench tune`. Rates and momenta are multiples of the preset's values.
LR_SPACE = {"train.lr": Log("x0.125", "x8")}
RATES_SPACE = LR_SPACE | {"train.weight_decay": Log("x0.1", "x10")}
MOMENTUM_SPACE = {"method.momentum": Log("x0.25", "x4", from_one=True)}
MASKED_SPACE = RATES_SPACE | {"method.mask_ratio": Linear(0.8, 0.95)}
MOTION_SPACE = {"method.tau": Log(0.2, 3.2)}
# Methods with rising weight decay: its final value matters most.
DISTILLED_SPACE = (
    MOMENTUM_SPACE | LR_SPACE | {"train.weight_decay_end": Log(0.04, 1.0), "method.teacher_temp": Log(0.005, 0.08)}
)

# The masked-autoencoder family: AdamW as MAE sets it, tokens dropped, and the setting of MAMP's code (maoyunyao/MAMP).
MAE_RECIPE = {
    "train.batch_size": 128,
    "train.lr": 1e-3,
    "schedule.min_lr": 5e-4,
    "schedule.warmup": 20 / 400,
    "train.weight_decay": 0.05,
    "optimizer.betas": (0.9, 0.95),
}
DROPS_TOKENS = ("drop-tokens", "tokens")
MAE_NATIVE = {
    "encoder": "vit",
    "encoder.cls": False,
    "encoder.temporal": "learned",
    "encoder.norm_eps": 1e-5,
    "grid.frames": 120,
    "grid.patch": 4,
    "train.epochs": 400,
    "train.bodies": "all-slots",
    "method.resize": "half-pixel",
}
MAE_DATA = {"ntu120": {"second_body": "repeat"}}  # its files hold a single person twice
MAE_PROBE = NativeProbe(
    protocol="linear@mamp",
    best_on_test=True,
    settings={"pku1": {"batch_size": 128}, "pku2": {"batch_size": 32, "lr": 0.01}},
    data=MAE_DATA,
)
FP32 = {"train.precision": "fp32"}

# MacDiff and IGM. The encoder reads the diffused input: coordinates standardized by NTU's constants.
DIFFUSION_RECIPE = MAE_RECIPE | {"schedule.min_lr": 1e-5}
DIFFUSION_NATIVE = MAE_NATIVE | {
    "encoder.input_mean": (-0.0058, -0.1333, -0.0246),
    "encoder.input_std": (0.0206**0.5, 0.0805**0.5, 0.0218**0.5),
    "train.bodies": "first",
}

# DINO and iBOT: durations are fractions of the 100 epochs of their code.
MULTI_CROP_RECIPE = {
    "train.batch_size": 768,
    "train.lr": 1.5e-3,  # 5e-4 x batch / 256
    "schedule.min_lr": 1e-6,
    "schedule.warmup": 10 / 100,
    "train.weight_decay": 0.04,
    "train.weight_decay_end": 0.4,
    "optimizer.betas": (0.9, 0.999),
    "train.clip_grad": 3.0,
}
MULTI_CROP_READINGS = (
    "an image method: crops of the clip's duration, SLiM's augmentations, the batch size (lr is 5e-4 x batch / 256), "
    "gradients clipped per sub-network, no drop path; it has no skeleton setting, so native is the shared one"
)

# MoCo on skeletons: SGD with a step schedule, in all families.
MOCO_RECIPE = {
    "optimizer": "sgd",
    "optimizer.momentum": 0.9,
    "schedule": "step",
    "schedule.gamma": 0.1,
    "train.weight_decay": 1e-4,
}

# CrosSCLR's family: SGD as its code sets it (pretrain.py, every config), ST-GCN on 50 frames, all body slots. Without
# batch norm, a rate of 0.1 collapses the features of the ViT to one direction within 120 steps of quick: a tenth of the
# rate there.
GRAPH_CONTRAST_RECIPE = MOCO_RECIPE | {"schedule.milestones": (250 / 300,), "train.batch_size": 128, "train.lr": 0.01}
GRAPH_NATIVE = FP32 | {
    "encoder": "stgcn",
    "grid.frames": 50,
    "grid.patch": 1,
    "train.bodies": "all-slots",
    "train.align": "frames-as-released",
    "method.resize": "half-pixel",
}
GRAPH_CONTRAST_NATIVE = GRAPH_NATIVE | {"train.epochs": 300, "train.lr": 0.1}

# ISC's family (CMD, UmURL, USDRL): 64 frames, 451 epochs, a tenth of the rate for the last hundred.
LONG_STEPS = {"schedule": "step", "schedule.milestones": (351 / 451,), "schedule.gamma": 0.1}
LONG_NATIVE = {"grid.frames": 64, "grid.patch": 1, "train.epochs": 451, "method.resize": "half-pixel"}
LONG_CONTRAST_RECIPE = MOCO_RECIPE | LONG_STEPS | {"train.batch_size": 64, "train.lr": 0.01}
LONG_CONTRAST_NATIVE = LONG_NATIVE | FP32 | {"encoder": "bigru", "train.align": "first-frame-as-released"}
TWO_BRANCH_RECIPE = LONG_STEPS | {"optimizer": "adam", "train.lr": 5e-4, "train.weight_decay": 1e-5}
TWO_BRANCH_NATIVE = LONG_NATIVE | {"train.align": "first-frame-shoulders"}
USDRL_PROBE = NativeProbe(
    protocol="linear@umurl",
    best_on_test=True,
    settings={
        "": {"lr": 0.006, "epochs": 160, "drops": [0.75, 0.875]},
        "ntu60/cross-view": {"lr": 0.03},
        "pku2": {"lr": 0.01, "crop_min": 0.5},
    },
)

# Recurrent autoencoders, as in Predict and Cluster on NTU: 15,000 steps, the rate times 0.95 every thousand.
AUTOENCODER_RECIPE = {
    "optimizer": "adam",
    "schedule": "step",
    "schedule.milestones": tuple(k / 15 for k in range(1, 15)),
    "schedule.gamma": 0.95,
    "train.batch_size": 256,
    "train.lr": 1e-4,
    "train.weight_decay": 0.0,
    "train.clip_grad": 25.0,
}
AUTOENCODER_NATIVE = FP32 | {
    "encoder": "bigru",
    "encoder.bodies": 0,
    "encoder.input_norm": False,
    "encoder.second": "backward",
    "encoder.unit_range": True,
    "grid.frames": 50,
    "grid.patch": 1,
    "train.bodies": "first",
    "train.align": "first-frame-hips",
    "train.epochs": 15,
    "train.iters_per_epoch": 1000,
    "method.resize": "strided",
}

# Released codes preprocess clips in three ways.
# How AimCLR, CrosSCLR, HYSP and PSTL evaluate: the mean of both bodies of a whole clip, empty ones included.
ALL_SLOTS = {"bodies": "all-slots", "bodies_pool": "all-mean", "share": 1.0, "resize": "half-pixel"}
# How ISC, CMD, HiCo and UmURL evaluate: both bodies of a clip in one vector, in the order of their slots.
SIDE_BY_SIDE = {"bodies_pool": "concat", "share": 0.95, "resize": "half-pixel"}
# How the masked-autoencoder family evaluates: center crop; absent bodies are encoded and averaged, too.
MAE_SLOTS = ALL_SLOTS | {"share": 0.95}


def semi(source: str, target: str, how: str, defaults: dict[str, object], version: int = 1) -> list[ProtocolSpec]:
    """``semi@1@SOURCE`` by the class ``target``, and ``semi@10@SOURCE`` by the class ``target`` with 10 appended."""
    return [
        ProtocolSpec(
            name=f"semi@{percent}@{source}",
            target=f"{target}{'' if percent == 1 else percent}",
            summary=f"{percent} % of the labels, fine-tuned by {how}",
            version=version,
            defaults=defaults,
        )
        for percent in (1, 10)
    ]
