"""Joints that are missing, and tokens that are doubtful, are hidden in the way in which an encoder learned it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from skelbench.core.errors import SkelbenchError
from skelbench.evaluation.hidden import encode, hidden_tokens
from skelbench.models.encoder import Encoded, Encoder
from skelbench.models.vit import ViT, ViTConfig
from skelbench.testing.clips import clip_batch, view_of
from skelbench.views.builder import ViewBuilder, evaluation_spec
from skelbench.views.degradations import MissingJoints, Poses, degraded
from skelbench.views.keyed import Keyed
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import COCO17, NTU25

GRID = Grid(frames=16, patch=4, joints=25)
BODIES = [[1, 1], [1, 0], [1, 0]]


class Seen(Encoder):
    """Its features are what was hidden from it: 1 for a token that it sees."""

    width, features = 1, GRID.tokens

    def __init__(self):
        super().__init__(None, NTU25, GRID)

    def forward(self, view, mask_RN=None, keep_RK=None):
        seen_RN = torch.ones(view.rows, GRID.tokens)
        if mask_RN is not None:
            seen_RN = (~mask_RN).float()
        if keep_RK is not None:
            seen_RN = torch.zeros(view.rows, GRID.tokens).scatter(1, keep_RK.flatten(1), 1.0)
            self.lines = keep_RK.dim() == 3
        return Encoded(tokens_RND=seen_RN[:, :0, None], pooled_RD=seen_RN)


def missing(share=0.2, topology=NTU25, large=0.0):
    """A view of degraded clips; ``large`` is put where joints are missing."""
    batch = clip_batch(topology, [20, 9, 31])
    batch = degraded(batch, [MissingJoints(share=share)], topology, 3, 0)
    lost_BJ = Poses.of(batch, topology).lost(share)
    rows_B = torch.as_tensor(3 * batch.length * batch.bodies)
    batch.frames_FJ[lost_BJ.repeat_interleave(rows_B, 0)] = large
    grid = GRID._replace(joints=topology.num_joints)
    view = ViewBuilder({"v": evaluation_spec(grid)}, topology, grid.patch)(batch, Keyed(0, 0))["v"]
    return view, lost_BJ[view.clip_R]


def vit(ability, **config):
    torch.manual_seed(0)
    encoder = ViT(ViTConfig(dim=16, depth=2, heads=2, **config), NTU25, GRID).eval()
    encoder.prepare(frozenset({ability}))
    if encoder.tokenizer.mask_token is not None:
        torch.nn.init.normal_(encoder.tokenizer.mask_token)
    return encoder


@pytest.mark.parametrize("hiding", ["replace-tokens", "drop-tokens", "drop-lines"])
def test_missing_joints_are_hidden_from_the_encoder_in_every_patch(hiding):
    view, lost_RJ = missing()
    encoder = Seen()
    seen_RPJ = encode(encoder, view, hiding, GRID.patch).pooled_RD.unflatten(1, (4, 25))
    assert torch.equal(seen_RPJ.bool(), ~lost_RJ[:, None].expand(-1, 4, -1))
    assert (lost_RJ.sum(1) == 5).all()
    if hiding != "replace-tokens":
        assert encoder.lines == (hiding == "drop-lines")


@pytest.mark.parametrize("hiding", ["replace-tokens", "drop-tokens", "drop-lines"])
@pytest.mark.parametrize("cls", [True, False])
def test_coordinates_of_missing_joints_have_no_effect(hiding, cls):
    encoder = vit(hiding, cls=cls)
    with torch.no_grad():
        plain, far = (encode(encoder, missing(large=large)[0], hiding, GRID.patch) for large in (0.0, 1e6))
        blind = encoder(missing(large=1e6)[0]).pooled_RD
    assert torch.equal(plain.pooled_RD, far.pooled_RD) and plain.pooled_RD.isfinite().all()
    assert not torch.allclose(plain.pooled_RD, blind, atol=1e-2), "an encoder that is not told sees them"


def test_an_encoder_that_cannot_hide_tokens_is_rejected_with_advice():
    with pytest.raises(SkelbenchError, match="neither a mask token nor .*parent-fill or zero-fill"):
        encode(Seen(), missing()[0], "", GRID.patch)
    view = view_of(NTU25, GRID, BODIES)
    assert torch.equal(encode(Seen(), view).pooled_RD, torch.ones(4, GRID.tokens))


def doubtful(topology=COCO17, frames=16, real=None, seed=0):
    grid = Grid(frames, 4, topology.num_joints)
    sure = torch.rand(4, frames, topology.num_joints, generator=torch.Generator().manual_seed(seed))
    return view_of(topology, grid, BODIES, confidence_RTJ=sure, real_RT=real)


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.7])
def test_tokens_of_low_mean_confidence_are_hidden(threshold):
    real_RT = torch.arange(16) < torch.tensor([16, 7, 10, 16])[:, None]
    view = doubtful(real=real_RT)
    view = replace(view, confidence_RTJ=view.confidence_RTJ * real_RT[..., None])
    hidden_RN = hidden_tokens(view, 4, threshold)
    some = set()
    for r in range(4):
        for p in range(4):
            frames = [t for t in range(4 * p, 4 * p + 4) if real_RT[r, t]]
            for j in range(17):
                mean = np.mean([view.confidence_RTJ[r, t, j].item() for t in frames]) if frames else 1.0
                assert bool(hidden_RN[r, p * 17 + j]) == (mean < threshold)
                some.add(mean < threshold)
    assert some == {True, False}
    assert hidden_tokens(view, 4) is None


@pytest.mark.parametrize("cls", [True, False])
def test_bodies_with_different_numbers_of_tokens_are_encoded_independently(cls):
    view, encoder = doubtful(NTU25), vit("drop-tokens", cls=cls)
    hidden_RN = hidden_tokens(view, 4, 0.5)
    assert len((~hidden_RN).sum(1).unique()) > 1
    with torch.no_grad():
        together = encode(encoder, view, "drop-tokens", 4, 0.5)
        for r in range(4):
            row = replace(view, x_RTJC=view.x_RTJC[r : r + 1], rows_R=view.rows_R[r : r + 1], confidence_RTJ=None)
            alone = encoder(row, keep_RK=(~hidden_RN[r]).nonzero().T)
            torch.testing.assert_close(together.pooled_RD[r], alone.pooled_RD[0])
            torch.testing.assert_close(together.tokens_RND[r].mean(0), alone.tokens_RND[0].mean(0))
