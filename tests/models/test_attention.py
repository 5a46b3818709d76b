"""Attention against timm's, and groups of rows against each group alone."""

import pytest
import torch
from timm.layers import AttentionRope
from torch.nn.attention import SDPBackend, sdpa_kernel

from skelbench.models.attention import Attention, Group, _Heads, _plain, rope_table
from skelbench.models.encoder import Pass, encode_all
from skelbench.models.vit import ViT, ViTConfig
from skelbench.views import View
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25

DIM, HEADS = 24, 3


def gradients(module, *xs):
    return [x.grad for x in (*xs, *module.parameters())]


def tables(time_N, prefix=1):
    """Ours, and sines and cosines side by side as timm has them."""
    angle_Nd = torch.cat([time_N[:, None] * 10000.0 ** (-torch.arange(0, 8, 2) / 8)] * 2, -1)
    return rope_table(time_N[None], 8, 10000.0, prefix), torch.cat([angle_Nd.sin(), angle_Nd.cos()], -1)


@pytest.mark.parametrize("kernel", [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH])
@pytest.mark.parametrize("bias", [True, False])
def test_rotated_attention_and_its_gradients_are_timms(bias, kernel):
    torch.manual_seed(0)
    theirs = AttentionRope(DIM, HEADS, qkv_bias=bias, num_prefix_tokens=1, rotate_half=True)
    ours = Attention(DIM, HEADS, bias)
    ours.load_state_dict(theirs.state_dict())
    x, y = (torch.randn(2, 6, DIM, generator=torch.Generator().manual_seed(1)).requires_grad_() for _ in range(2))
    rope, sin_cos = tables(torch.tensor([0.0, 0, 1, 2, 5]))
    expected = theirs(x, sin_cos)
    with sdpa_kernel(kernel):  # they leave gradients in other orders
        found = ours(y.flatten(0, 1), [Group(2, 6, rope)]).view_as(expected)
        found.square().sum().backward()
    torch.testing.assert_close(found, expected)
    expected.square().sum().backward()
    for mine, other in zip(gradients(ours, y), gradients(theirs, x), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_what_a_compiler_gets_is_what_runs_without_one(dtype):
    rope, _ = tables(torch.tensor([0.0, 3]))
    groups = [Group(2, 3, rope), Group(1, 4)]
    # Channels of a head in halves, as weights have them, and in pairs.
    halves = torch.randn(10, 3 * DIM, dtype=dtype)
    pairs = halves.unflatten(1, (3, HEADS, 2, 4)).clone()
    pairs[:, :2] = pairs[:, :2].transpose(3, 4).reshape(10, 2, HEADS, 2, 4)
    expected = _plain(halves, HEADS, groups[:1] + [Group(1, 4, torch.tensor([1.0, 0]).expand(1, 4, 4, 2))])
    found = _Heads.apply(pairs.flatten(1), HEADS, groups)
    for mine, other in zip(found, expected, strict=True):
        assert mine.dtype == dtype
        torch.testing.assert_close(
            (mine @ mine.mT), (other @ other.mT), rtol=1e-2 if dtype == torch.bfloat16 else 1e-5, atol=1e-5
        )


@pytest.mark.parametrize("temporal", ["rope", "learned"])
def test_passes_together_are_passes_alone(temporal):
    torch.manual_seed(0)
    vit = ViT(ViTConfig(dim=DIM, depth=2, heads=HEADS, temporal=temporal, drop_path=0.5), NTU25, Grid(16, 8, 25)).eval()
    vit.prepare(frozenset({"replace-tokens"}))
    long, short = (View.of(torch.randn(3, 1, frames, 25, 3)) for frames in (16, 8))
    passes = [
        Pass(long, mask_RN=torch.rand(3, 50) < 0.5),
        Pass(short),
        Pass(long, keep_RK=torch.tensor([[1, 4, 30]] * 3)),
    ]
    together, alone = vit(passes), encode_all(vit, passes)
    for mine, other in zip(together, alone, strict=True):
        torch.testing.assert_close(mine.tokens_RND, other.tokens_RND)
        torch.testing.assert_close(mine.pooled_RD, other.pooled_RD)
    sum(encoded.pooled_RD.square().sum() for encoded in together).backward()
    found = {name: p.grad.clone() for name, p in vit.named_parameters()}
    vit.zero_grad()
    sum(encoded.pooled_RD.square().sum() for encoded in alone).backward()
    for name, parameter in vit.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad, rtol=1e-3, atol=1e-4, msg=name)


@pytest.mark.parametrize("temporal", ["rope", "learned"])
@pytest.mark.parametrize("registers", [0, 2])
def test_a_summary_is_the_class_token_of_the_whole_pass(temporal, registers):
    """Alone and beside a whole pass in one list; its value, and the gradients of all parameters."""
    torch.manual_seed(0)
    config = ViTConfig(dim=DIM, depth=2, heads=HEADS, temporal=temporal, registers=registers)
    vit = ViT(config, NTU25, Grid(16, 8, 25)).double()
    vit.prepare(frozenset({"replace-tokens"}))
    vit.double()
    long, short = (View.of(torch.randn(3, 1, frames, 25, 3, dtype=torch.float64)) for frames in (16, 8))
    asked = [Pass(long, mask_RN=torch.rand(3, 50) < 0.5), Pass(short), Pass(long, keep_RK=torch.tensor([[1, 30]] * 3))]

    def cls_and_gradients(made):
        vit.zero_grad()
        (sum(encoded.summary_RD[:, 0].sum() for encoded in made)).backward()
        return [encoded.summary_RD for encoded in made], {name: p.grad.clone() for name, p in vit.named_parameters()}

    expected, gradients = cls_and_gradients([vit(*each[:3]) for each in asked])
    brief = [each._replace(summary=True) for each in asked]
    for made in (encode_all(vit, brief), vit(brief), vit([asked[0], *brief[1:]])):
        found, theirs = cls_and_gradients(made)
        assert made[1].tokens_RND.shape == (3, 0, DIM) and made[1].pooled_RD is made[1].cls_RD
        for mine, other in zip(found, expected, strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-7)
        for name, gradient in gradients.items():
            torch.testing.assert_close(theirs[name], gradient, rtol=1e-4, atol=1e-6, msg=name)
