"""An encoder family at its smallest size, and what its checks share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from skelbench.core.spec import validated
from skelbench.models.encoder import Encoded, Encoder, evaluating
from skelbench.plugin.descriptors import Descriptor
from skelbench.plugin.host import Host
from skelbench.testing.check import Failed, Skipped
from skelbench.testing.clips import differs, view_of
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25, Topology
from skelbench.views.view import View

GRID = Grid(32, 8, NTU25.num_joints)
GRIDS = (GRID, Grid(16, 4, NTU25.num_joints), Grid(24, 8, NTU25.num_joints), Grid(64, 8, NTU25.num_joints))
VALID = ((1, 0), (1, 1), (1, 0))
"""Which bodies of three clips are there: four rows of encoders that see one body at a time."""
GRANULARITIES = 3
"""Asked of an encoder that makes them of its tokens."""
ROUNDING = 1e-4
"""Share of the largest feature by which two passes may differ that sum in another order."""


@dataclass
class EncoderSubject:
    """An encoder family at its smallest size: that of its preset ``quick`` where it has one."""

    host: Host
    descriptor: Descriptor

    @cached_property
    def config(self) -> Any:
        """Validated settings."""
        values = dict(getattr(self.descriptor, "presets", {}).get("quick", {}))
        return validated(self.host.config(self.descriptor), values, "encoder")

    @cached_property
    def cls(self) -> Any:
        """What the target names."""
        return self.host.load(self.descriptor)

    def make(self, grid: Grid = GRID, topology: Topology = NTU25, seed: int = 0) -> Encoder:
        """A freshly initialised encoder in eval mode."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.cls(self.config, topology, grid).eval()

    @cached_property
    def encoder(self) -> Encoder:
        """The one that most checks look at; none changes it."""
        return self.make()

    @cached_property
    def view(self) -> View:
        """Three clips, one with two bodies."""
        return self.make_view()

    def make_view(
        self, grid: Grid = GRID, topology: Topology = NTU25, valid: Sequence[Sequence[int]] = VALID, **fields: Any
    ) -> View:
        """A view as the encoder wants it."""
        return view_of(topology, grid, valid, **{"stream": self.encoder.stream, **fields})

    def needs(self, ability: str) -> Encoder:
        """An encoder prepared for ``ability``; skips the check if it does not claim it."""
        if ability not in self.encoder.abilities:
            raise Skipped(f"it does not claim {ability!r}")
        encoder = self.make()
        encoder.prepare(frozenset({ability}))
        return encoder


def run(encoder: Encoder, view: View, **how: Any) -> Encoded:
    with evaluating(encoder):
        return encoder(view, **how)


def outputs_of(encoded: Encoded) -> dict[str, Tensor]:
    named = {"tokens_RND": encoded.tokens_RND, "pooled_RD": encoded.pooled_RD, "cls_RD": encoded.cls_RD}
    named |= {f"levels[{name!r}]": level for name, level in encoded.levels.items()}
    return {name: x for name, x in named.items() if x is not None}


def check_same(a: Encoded, b: Encoded, what: str, look: str, tolerance: float = ROUNDING) -> None:
    """Fails with ``what`` was expected where the outputs of two passes differ."""
    first, second = outputs_of(a), outputs_of(b)
    for name in second:
        if name not in first or (apart := differs(first[name], second[name], tolerance)):
            shapes = list(first[name].shape), list(second[name].shape)
            seen = f"{name} differs by {apart:.1%}" if shapes[0] == shapes[1] else f"{name} is {shapes[0]}, {shapes[1]}"
            raise Failed(what, seen, look)
