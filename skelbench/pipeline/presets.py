"""Presets belong to the harness: every method shrinks the same way (torch-free).

A preset scales the encoder, prototypes, heads, batch, learning rate and clips seen, and settings that only make sense
at the full size: a short schedule needs a faster EMA teacher, and few prototypes a sharper one; docs/appendix.md has
the reasons. The learning rate is for Adam; a method with SGD keeps its own. Settings that a method does not have are
skipped. Sizes of an encoder per preset are in ``EncoderSpec.presets``; a plugin's own settings in
``MethodSpec.presets``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.plugin.descriptors import EncoderSpec, ProtocolSpec

SHIPPED = frozenset({"skelbench", "skelbench_plugins"})
"""Packages to whose settings the names below refer."""
_REDUCED: Mapping[str, Any] = {
    "method.prototypes": 256,
    "method.head_hidden": 128,
    "method.bottleneck": 64,
    "method.embedding": 128,
    "method.teacher_temp": 0.04,
    "method.mfp_weight": 0.03,
    "method.momentum": 0.96,
    "method.patch_lr": 1.0,
    "method.local_counts": (1, 1, 1),
    "method.local_views": 4,
    "method.queue": 512,
    "method.decoder_dim": 64,
    "method.decoder_depth": 2,
    "method.decoder_heads": 2,
    "method.target_hidden": 128,
    "method.target_hidden_global": 256,
    "method.target_dim": 64,
    "train.batch_size": 16,
    "train.lr": 2e-3,
    "schedule.min_lr": 1e-6,
}

_SHARP = {"method.teacher_temp": 0.01, "method.teacher_temp_start": 0.01}
_SLOW = {"method.momentum": 0.99, "train.lr": 1e-3}
EXCEPTIONS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "queue": {"small": {"method.momentum": 0.995}, "quick": {"method.momentum": 0.99}},
    "sinkhorn": {"small": _SHARP, "quick": _SHARP},
    "features": {"small": _SLOW, "quick": _SLOW},
}
"""Exceptions for a method with a ``queue`` of keys (full for most of the schedule, with a slow key encoder), with
``sinkhorn`` targets, or whose masked tokens predict the ``features`` of an EMA teacher, without prototypes."""

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": {},
    "ablation": {"train.epochs": 100.0},
    "small": {**_REDUCED, "clips_seen": 40_000},
    "quick": {**_REDUCED, "method.local_counts": (0, 1, 0), "clips_seen": 10_000},
}

BLURB: Mapping[str, str] = {
    "paper": "published encoder size; 150 epochs, or the method's own with --native",
    "ablation": "published encoder size and 100 epochs, as in the paper's ablations",
    "small": "reduced encoder and schedule for 2 CPU cores; not the paper's setting",
    "quick": "a smaller encoder and a quarter of small's schedule, for a first look; not the paper's setting",
}


def own_of(about: EncoderSpec | ProtocolSpec, preset: str) -> Mapping[str, Any]:
    """Settings of an encoder or protocol for ``preset``; SkelbenchError if it names unknown presets."""
    for name in about.presets:
        if name not in PRESETS:
            raise SkelbenchError(f"presets of {about.name}: {did_you_mean(name, list(PRESETS), 'preset')}")
    return about.presets.get(preset, {})


SETTING: Mapping[str, str] = {
    "shared": "shared: the encoder, token grid and bodies of every method",
    "native": "native: the method's own encoder and bodies, and its grid and schedule unless changed; "
    "not comparable with shared rows",
}
