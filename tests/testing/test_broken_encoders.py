"""Each check of encoders fails an encoder that is broken in that one respect, and says what to mend."""

import re
from dataclasses import replace
from itertools import count

import pytest
import torch
from pydantic import Field
from torch import nn

from skelbench.core.component import Spec
from skelbench.core.errors import SkelbenchError
from skelbench.models.encoder import Encoded
from skelbench.models.vit import ViT, ViTConfig
from skelbench.pipeline.presets import own_of
from skelbench.plugin import EncoderSpec
from skelbench.testing.encoder import CHECKS
from skelbench.testing.encoder.subject import GRID

QUICK = {"quick": {"dim": 16, "depth": 1, "heads": 2}}
SERIAL = count()


class Loose(Spec):
    model_config = Spec.model_config | {"extra": "allow"}


class Misspelt(ViT):
    abilities = frozenset({"drop-token"})


class LooselySet(ViT):
    def __init__(self, config, topology, grid):
        raise AssertionError("its settings are looked at before it is built")


class Unseeded(ViT):
    def __init__(self, config, topology, grid):
        super().__init__(config, topology, grid)
        self.more = nn.Parameter(torch.full((3,), float(next(SERIAL))))


class Wide(ViT):
    def __init__(self, config, topology, grid):
        super().__init__(config, topology, grid)
        self.features = self.width


class OneGrid(ViT):
    def forward(self, view, mask_RN=None, keep_RK=None):
        assert view.x_RTJC.shape[1] == GRID.frames
        return super().forward(view, mask_RN, keep_RK)


class NoSkeleton(ViT):
    def __init__(self, config, topology, grid):
        raise SkelbenchError(f"{topology.name} has no tail")


class After(ViT):
    """Something done to what the ViT returns."""

    def forward(self, view, mask_RN=None, keep_RK=None):
        return self.change(super().forward(view, mask_RN, keep_RK), view)

    def change(self, encoded, view):
        return replace(encoded, pooled_RD=self.pooled(encoded.pooled_RD, view))


class Noisy(After):
    def pooled(self, x_RD, view):
        return x_RD + torch.randn_like(x_RD)


class InPlace(After):
    def pooled(self, x_RD, view):
        view.x_RTJC.mul_(2)
        return x_RD


class Batched(After):
    def pooled(self, x_RD, view):
        return x_RD - x_RD.mean(0)


class Counting(After):
    def pooled(self, x_RD, view):
        return x_RD / view.bodies


class Divides(After):
    def pooled(self, x_RD, view):
        return x_RD / view.x_RTJC.flatten(1).norm(dim=1, keepdim=True)


class Unused(ViT):
    def __init__(self, config, topology, grid):
        super().__init__(config, topology, grid)
        self.forgotten = nn.Linear(3, 3)


class Unregistered(After):
    def __init__(self, config, topology, grid):
        super().__init__(config, topology, grid)
        self.gain = float(torch.rand(()))

    def pooled(self, x_RD, view):
        return x_RD * self.gain


class RandomToken(ViT):
    def prepare(self, requires):
        super().prepare(requires)
        if requires:
            torch.rand(3)


class NoHalf(After):
    def pooled(self, x_RD, view):
        square_R44 = nn.functional.linear(x_RD, self.blocks[0].mlp.fc1.weight.repeat(1, 2)[:16]).view(-1, 4, 4)
        return x_RD * torch.linalg.det(square_R44)[:, None]


class Single(After):
    def pooled(self, x_RD, view):
        return x_RD.float()


class Constant(After):
    def pooled(self, x_RD, view):
        return x_RD * torch.linspace(0, 1, x_RD.shape[1])


class Cheap(ViT):
    def closed_form_macs(self, grid, visible=None):
        return {"all": 2 * sum(super().closed_form_macs(grid, visible).values())}


class KeepsAll(ViT):
    abilities = frozenset({"drop-tokens", "drop-lines"})

    def forward(self, view, mask_RN=None, keep_RK=None):
        return super().forward(view, mask_RN)


class MasksLate(ViT):
    def forward(self, view, mask_RN=None, keep_RK=None):
        encoded = super().forward(view, None, keep_RK)
        if mask_RN is None:
            return encoded
        tokens_RND = torch.where(mask_RN[..., None], self.tokenizer.mask_token, encoded.tokens_RND)
        return replace(encoded, tokens_RND=tokens_RND)


class ClassFirst(After):
    def change(self, encoded, view):
        tokens_RND = torch.cat([encoded.cls_RD[:, None], encoded.tokens_RND], 1)
        return replace(encoded, tokens_RND=tokens_RND)


class Maximum(ViT):
    abilities = frozenset({"cells"})

    def __init__(self, config, topology, grid):
        super().__init__(config, topology, grid)
        self.features = self.width

    def forward(self, view, mask_RN=None, keep_RK=None):
        tokens_RND = super().forward(view).tokens_RND
        return Encoded(tokens_RND=tokens_RND, pooled_RD=tokens_RND.amax(1))


class OneBranch(After):
    def change(self, encoded, view):
        return replace(encoded, levels=dict.fromkeys(("time", "space"), encoded.cls_RD))


class OneGranularity(After):
    granularities = 2

    def change(self, encoded, view):
        return replace(encoded, levels={name: encoded.cls_RD.repeat(1, 2) for name in ("times", "spaces")})


class ManySteps(After):
    def change(self, encoded, view):
        return replace(encoded, by_frame=True)


class OneStream(After):
    abilities = frozenset({"fuse-streams"})

    def pooled(self, x_RD, view):
        return x_RD * {"joint": 1.0, "bone": 1.0, "fused": 1.0}[view.stream]


class Neighbour(ViT):
    """Its summary alone is of the token after the class token."""

    def forward(self, view, mask_RN=None, keep_RK=None, summary=False):
        encoded = super().forward(view, mask_RN, keep_RK)
        first_RD = encoded.tokens_RND[:, 0]
        return replace(encoded, pooled_RD=first_RD, cls_RD=first_RD) if summary else encoded


BROKEN = {
    "announcement": (ViT, "a summary, which .* seen: summary is empty"),
    "form": (Misspelt, "did you mean 'drop-tokens'"),
    "settings": (LooselySet, "no_such_setting=1 was taken; look at model_config of Loose"),
    "seeded": (Unseeded, "seen: more differs; look at how more is initialised"),
    "shapes": (Wide, r"returned pooled_RD of shape \[1, 32\], not \[1, 16\]"),
    "grids": (OneGrid, "AssertionError"),
    "skeletons": (NoSkeleton, "ntu25 has no tail"),
    "deterministic": (Noisy, "pooled_RD differs by .*; look at dropout"),
    "input-kept": (InPlace, "forward changed its coordinates"),
    "clips-apart": (Batched, "pooled_RD of clip 0 differs by .* statistics over the batch"),
    "absent-bodies": (Counting, "an empty body slot changes nothing; seen: pooled_RD differs by"),
    "nothing-moves": (Divides, "pooled_RD is not; look at divisions"),
    "gradients": (Unused, "forgotten.weight gets none"),
    "state": (Unregistered, "pooled_RD differs .* register it"),
    "prepared": (RandomToken, "prepare draws no random numbers"),
    "bf16": (NoHalf, "BFloat16"),
    "dtype": (Single, "pooled_RD is torch.float32"),
    "devices": (Constant, "make tensors with device=x.device"),
    "cost": (Cheap, "the counters disagree .* closed_form_macs"),
    "drop-tokens": (KeepsAll, "seen: tokens_RND|have no effect"),
    "drop-lines": (KeepsAll, "have no effect"),
    "replace-tokens": (MasksLate, "what stands at hidden tokens has no effect"),
    "tokens": (ClassFirst, "100 tokens of 32 frames, .* seen: 101"),
    "cells": (Maximum, "the mean of the cells"),
    "time-and-space": (OneBranch, "features over time apart from those over joints"),
    "granularities": (OneGranularity, "finer features over time apart from coarser ones"),
    "steps": (ManySteps, "features at 32 steps of 32 frames; seen: 100"),
    "short-views": (OneGrid, "AssertionError"),
    "summary": (Neighbour, "the summary of the whole pass; seen: it differs by"),
    "fuse-streams": (OneStream, "KeyError: 'motion'"),
}


@pytest.mark.parametrize(("name", "cls", "said"), [(name, *case) for name, case in BROKEN.items()], ids=BROKEN)
def test_what_is_broken_is_found_and_said(name, cls, said, checked):
    config = f"{__name__}:Loose" if cls is LooselySet else "skelbench.models.vit:ViTConfig"
    presets = {} if cls is LooselySet else QUICK
    target = f"{cls.__module__}:{cls.__name__}"
    result = checked("encoders", EncoderSpec(name="broken", target=target, config=config, presets=presets), name)
    assert result.state == "failed" and re.search(said, result.sentence), (result.state, result.sentence, result.reason)


class Headless(ViT):
    def layers(self):
        return super().layers()[:-1]


def test_layers_that_leave_a_weight_out_are_found(checked):
    target, config = f"{__name__}:Headless", "skelbench.models.vit:ViTConfig"
    result = checked("encoders", EncoderSpec(name="broken", target=target, config=config, presets=QUICK), "form")
    assert result.state == "failed" and re.search("gives norm.* 0 times; give every parameter", result.sentence)


@pytest.mark.parametrize(
    ("presets", "said"),
    [
        ({"smal": {"dim": 16}}, "presets of the harness: paper, .*; seen: smal; look at presets of its EncoderSpec"),
        ({"small": {"dim": "wide"}}, "seen: preset small.dim='wide' is not valid"),
    ],
)
def test_presets_that_have_no_effect_or_are_not_valid_are_found(checked, presets, said):
    """A run is not made with them either."""
    target, config = "skelbench.models.vit:ViT", "skelbench.models.vit:ViTConfig"
    about = EncoderSpec(name="broken", target=target, config=config, presets=QUICK | presets)
    result = checked("encoders", about, "settings")
    assert result.state == "failed" and re.search(said, result.sentence), result.sentence
    if "smal" in presets:
        with pytest.raises(SkelbenchError, match="presets of broken: unknown preset 'smal'; did you mean 'small'"):
            own_of(about, "quick")


class Unset(ViTConfig):
    dim: int = Field("wide")


def test_a_default_that_is_not_valid_is_found(checked):
    about = EncoderSpec(name="broken", target="skelbench.models.vit:ViT", config=f"{__name__}:Unset", presets=QUICK)
    result = checked("encoders", about, "settings")
    assert result.state == "failed" and "settings.dim='wide' is not valid" in result.sentence, result.sentence


def test_there_is_a_broken_encoder_for_every_check():
    assert set(BROKEN) == {check.name for check in CHECKS}
