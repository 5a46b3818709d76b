"""Small models and a small data set that tests share."""

from pathlib import Path

import numpy as np

TINY = {
    "encoder.dim": 16,
    "encoder.depth": 1,
    "encoder.heads": 2,
}
"""Encoder settings that make a step take milliseconds."""

TINY_METHOD = {
    "slim": {
        "prototypes": 32,
        "head_hidden": 32,
        "bottleneck": 16,
        "decoder_dim": 16,
        "decoder_depth": 1,
        "decoder_heads": 2,
    },
    "dino": {"prototypes": 32, "head_hidden": 32, "bottleneck": 16, "local_views": 2},
    "ibot": {"prototypes": 32, "head_hidden": 32, "bottleneck": 16, "local_views": 2},
    "skeletonmae": {"decoder_dim": 16, "decoder_depth": 1, "decoder_heads": 2},
    "mamp": {"decoder_dim": 16, "decoder_depth": 1, "decoder_heads": 2},
    "amr": {"decoder_dim": 16, "decoder_depth": 1, "decoder_heads": 2},
    "macdiff": {"decoder_dim": 16, "decoder_depth": 1, "decoder_heads": 2},
    "sjepa": {"decoder_dim": 16, "decoder_depth": 1, "decoder_heads": 2},
    "gfp": {
        "decoder_dim": 16,
        "decoder_depth": 1,
        "decoder_heads": 2,
        "target_hidden": 16,
        "target_hidden_global": 32,
        "target_dim": 16,
    },
}

METHODS = tuple(TINY_METHOD)

STILL = {
    "slim": {"momentum": 1.0, "teacher_temp_start": 0.07, "freeze_prototypes": 0.0},
    "dino": {"momentum": 1.0, "centering": "none", "freeze_prototypes": 0.0},
    "ibot": {"momentum": 1.0, "centering": "none", "freeze_prototypes": 0.0, "teacher_temp_start": 0.07},
    "sjepa": {"momentum": 1.0, "centre_momentum": 1.0},
    # A body's motion is nearly noise in the small data: with more to see it is told from another's in fewer steps.
    "mamp": {"mask_ratio": 0.5},
}
"""Settings that hold still what must not move while a method is made to overfit one batch, or let it be fast."""

TEACHERS = {"slim", "dino", "ibot", "sjepa"}
"""Methods with an EMA teacher."""


def write_small_store(
    root: Path, name: str = "small", clips: int = 24, seed: int = 0, topology=None, flat: bool = False
) -> Path:
    """``clips`` clips of 4 classes that differ in which joint moves; every third has a second body.

    ``flat``: 2-D poses with a confidence for every joint.
    """
    from skelbench.data.store.splits import FieldRule
    from skelbench.data.store.writer import StoreWriter
    from skelbench.skeleton.topology import NTU25

    topology = topology or NTU25
    rng = np.random.default_rng(seed)
    pose_JC = rng.normal(0, 0.3, (topology.num_joints, 3)).astype(np.float32)
    with StoreWriter(
        root / name,
        topology=topology,
        classes=("a", "b", "c", "d"),
        splits={"half": FieldRule(field="subject", train="odd")},
        default_split="half",
        lineage="made in a test",
    ) as writer:
        for clip in range(clips):
            label, frames = clip % 4, 20 + 7 * (clip % 5)
            bodies = 1 + (clip % 3 == 0)
            x_MTJC = np.repeat(np.repeat(pose_JC[None, None], frames, 1), bodies, 0).copy()
            wave_T = np.sin(np.linspace(0, 2 * np.pi * (1 + label), frames))
            x_MTJC[:, :, 3 + label] += 0.5 * wave_T[None, :, None]
            x_MTJC += rng.normal(0, 0.02, x_MTJC.shape)
            x_MTJC[..., 2] *= not flat
            confidence_MTJ = rng.uniform(0, 1, x_MTJC.shape[:3]) if flat else None
            subject = 1 + (clip // 4) % 4
            writer.add(x_MTJC.astype(np.float32), label, subject=subject, confidence_MTJ=confidence_MTJ)
    return root / name
