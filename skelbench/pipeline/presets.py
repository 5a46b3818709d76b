"""Presets belong to the harness: every method shrinks alike (torch-free).

``paper``: the published encoder size and 150 epochs, or, natively, the method's own schedule (default with a GPU).
``ablation``: the same for 100 epochs, the schedule of the paper's ablations and target controls.
``small``: a real experiment on two CPU cores in under 40 minutes.
``quick``: a quarter of that, for a first look in minutes (default without a GPU).

A preset scales the encoder, the prototypes and projection heads, the batch, the learning rate and the clips seen, and
with them what only makes sense at the full size: an EMA momentum of 0.994 looks back over 2 % of the paper's steps, so
fewer steps want a faster teacher, embeddings are as wide for their batch as published (UmURL: 8 features per clip; the
covariances of more keep features small), and with a few hundred prototypes a teacher at temperature 0.07 drifts to
uniform assignments (measured: the masked loss stays near log K), at 0.04 it does not. Sinkhorn evens targets out
besides: at 0.04 those of SLiM's class tokens say nothing of the clip for most of a short schedule, at 0.01 they do;
with a running centre 0.04 is better (DINO). The batch is small because steps are what a short schedule lacks: at 16
clips, not 32, as many clips teach the contrast of SLiM more, and in minutes SkeletonMAE and GFP. Fewer local views,
half of SLiM's, and heads twice as wide as the encoder (published: eight times), make a step cheaper and teach as much.
The patch projection learns as fast as the rest. Masked feature prediction weighs 0.03: over the first steps its
gradient in the encoder is up to 22 times that of the contrast, and a short schedule does not outgrow what it learns
first, which body and which view a token is of. docs/results.md has the figures of all of these.
A method with a queue of keys wants it to be full for most of the schedule and its key encoder slower than that: where
keys of a few steps ago are told from new ones by their age, clips need not be (SkeletonCLR's loss after 120 steps of
quick: 2.7 nats at momentum 0.95, 5.0 at 0.998, with 512 keys).
Where hidden tokens are to predict a teacher's features themselves (S-JEPA), a fast teacher and its student run after
each other into few dimensions; at momentum 0.99 and half the rate it learns more.
The learning rate is that of Adam and its kin; a method with SGD keeps its own. Keys that a method's config does not
have are skipped, so a method without prototypes needs nothing; how large an encoder is in a preset it says itself
(``EncoderSpec.presets``). A name that a plugin's own config declares may mean anything, and is left alone: what of a
preset is otherwise for such a method it says itself (``MethodSpec.presets``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.plugin.descriptors import EncoderSpec, ProtocolSpec

SHIPPED = frozenset({"skelbench", "skelbench_plugins"})
"""Packages whose settings the names below mean."""
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
"""``small`` and ``quick``, which differ in the clips seen and what follows from them."""

_SHARP = {"method.teacher_temp": 0.01, "method.teacher_temp_start": 0.01}
_SLOW = {"method.momentum": 0.99, "train.lr": 1e-3}
EXCEPTIONS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "queue": {"small": {"method.momentum": 0.995}, "quick": {"method.momentum": 0.99}},
    "sinkhorn": {"small": _SHARP, "quick": _SHARP},
    "features": {"small": _SLOW, "quick": _SLOW},
}
"""What of a preset is otherwise, for a method that has a ``queue`` of keys, whose targets are ``sinkhorn``'s unless it
is told so, or in which hidden tokens predict the ``features`` of an EMA teacher, without prototypes."""

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": {},
    "ablation": {"train.epochs": 100.0},
    "small": {**_REDUCED, "clips_seen": 40_000},
    "quick": {**_REDUCED, "clips_seen": 10_000},
}

BLURB: Mapping[str, str] = {
    "paper": "published encoder size; 150 epochs, or the method's own with --native",
    "ablation": "published encoder size and 100 epochs, as in the paper's ablations",
    "small": "reduced encoder and schedule for 2 CPU cores; not the paper's setting",
    "quick": "a quarter of small's schedule, for a first look; not the paper's setting",
}


def own_of(about: EncoderSpec | ProtocolSpec, preset: str) -> Mapping[str, Any]:
    """What an encoder or protocol has for ``preset``; SkelbenchError where it names presets that there are not, which
    would have no effect."""
    for name in about.presets:
        if name not in PRESETS:
            raise SkelbenchError(f"presets of {about.name}: {did_you_mean(name, list(PRESETS), 'preset')}")
    return about.presets.get(preset, {})


SETTING: Mapping[str, str] = {
    "shared": "shared: the encoder, token grid and bodies of every method",
    "native": "native: the method's own encoder and bodies, and its grid and schedule unless changed; "
    "not comparable with shared rows",
}
