"""Presets belong to the harness: every method shrinks alike (torch-free).

``paper``: every method at its published size and schedule (default with a GPU).
``small``: a real experiment on two CPU cores in under 40 minutes.
``quick``: a first look in under 5 minutes (default without a GPU).

A preset scales the encoder, the prototypes and projection heads, the batch, the learning rate and the clips seen.
Keys that a method's or encoder's config does not have are skipped, so a method without prototypes needs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "paper": MappingProxyType({}),
        "small": MappingProxyType(
            {
                "encoder.dim": 64,
                "encoder.depth": 4,
                "encoder.heads": 4,
                "method.prototypes": 1024,
                "method.head_hidden": 256,
                "method.bottleneck": 64,
                "method.decoder_dim": 64,
                "method.decoder_depth": 3,
                "method.decoder_heads": 4,
                "train.batch_size": 64,
                "train.lr": 1e-3,
                "train.min_lr": 1e-6,
                "clips_seen": 96_000,
            }
        ),
        "quick": MappingProxyType(
            {
                "encoder.dim": 48,
                "encoder.depth": 3,
                "encoder.heads": 3,
                "method.prototypes": 512,
                "method.head_hidden": 192,
                "method.bottleneck": 48,
                "method.decoder_dim": 48,
                "method.decoder_depth": 2,
                "method.decoder_heads": 3,
                "train.batch_size": 64,
                "train.lr": 1e-3,
                "train.min_lr": 1e-6,
                "clips_seen": 16_000,
            }
        ),
    }
)

BLURB: Mapping[str, str] = MappingProxyType(
    {
        "paper": "published size and schedule",
        "small": "reduced encoder and schedule for 2 CPU cores; not the paper's setting",
        "quick": "a first look at a tiny size; not the paper's setting",
    }
)
