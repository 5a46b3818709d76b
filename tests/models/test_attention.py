"""Rotated attention against timm's, and class tokens computed alone."""

import pytest
import torch

from skelbench.models.attention import Attention, rope_table
from skelbench.models.vit import ViT, ViTConfig
from skelbench.views import View
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25

DIM, HEADS = 24, 3


def gradients(module, *xs):
    return [x.grad for x in (*xs, *module.parameters())]


@pytest.mark.parametrize("bias", [True, False])
def test_rotated_attention_and_gradients_equal_timm(bias):
    from timm.layers import AttentionRope

    torch.manual_seed(0)
    theirs = AttentionRope(DIM, HEADS, qkv_bias=bias, num_prefix_tokens=1, rotate_half=True)
    ours = Attention(DIM, HEADS, bias)
    ours.load_state_dict(theirs.state_dict())
    x, y = (torch.randn(2, 6, DIM, generator=torch.Generator().manual_seed(1)).requires_grad_() for _ in range(2))
    time_N = torch.tensor([0.0, 0, 1, 2, 5])
    angle_Nd = torch.cat([time_N[:, None] * 10000.0 ** (-torch.arange(0, 8, 2) / 8)] * 2, -1)
    expected = theirs(x, torch.cat([angle_Nd.sin(), angle_Nd.cos()], -1))
    found = ours(y, rope_table(time_N[None], 8, 10000.0, prefix=1))
    torch.testing.assert_close(found, expected)
    expected.square().sum().backward()
    found.square().sum().backward()
    for mine, other in zip(gradients(ours, y), gradients(theirs, x), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("temporal", ["rope", "learned"])
@pytest.mark.parametrize("registers", [0, 2])
def test_a_summary_is_the_class_token_of_the_whole_pass(temporal, registers):
    """Its value, and the gradients of all parameters."""
    torch.manual_seed(0)
    config = ViTConfig(dim=DIM, depth=2, heads=HEADS, temporal=temporal, registers=registers)
    vit = ViT(config, NTU25, Grid(16, 8, 25))
    vit.prepare(frozenset({"replace-tokens"}))
    vit.double()
    long, short = (View.of(torch.randn(3, 1, frames, 25, 3, dtype=torch.float64)) for frames in (16, 8))
    passes = [(long, torch.rand(3, 50) < 0.5, None), (short,), (long, None, torch.tensor([[1, 30]] * 3))]

    def cls_and_gradients(made):
        vit.zero_grad()
        (sum(encoded.summary_RD[:, 0].sum() for encoded in made)).backward()
        return [encoded.summary_RD for encoded in made], {name: p.grad.clone() for name, p in vit.named_parameters()}

    expected, gradients = cls_and_gradients([vit(*each) for each in passes])
    brief = [vit(*each, summary=True) for each in passes]
    found, theirs = cls_and_gradients(brief)
    assert brief[1].tokens_RND.shape == (3, 0, DIM) and brief[1].pooled_RD is brief[1].cls_RD
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-7)
    for name, gradient in gradients.items():
        torch.testing.assert_close(theirs[name], gradient, rtol=1e-4, atol=1e-6, msg=name)
