"""SkeAttnCLR against numbers of the public code with the names of its predictors fixed, and a slow reference."""

import math
from types import SimpleNamespace

import official_graph
import pytest
import skelbench_plugins.skeattnclr as plugin
import torch
from official import in_float64, wave
from skelbench_plugins.skeattnclr import CellAttention, SkeAttnCLR, SkeAttnCLRConfig, imported
from skelbench_plugins.stgcn import STGCN, STGCNConfig

from skelbench.core.errors import SkelbenchError
from skelbench.methods import Step
from skelbench.methods.contract import Context
from skelbench.pipeline.checkpoint_file import fit
from skelbench.views import View
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25

GOLDEN = (1.8645710, 2.2089773, 1.3036442, 334.76893, 28.909365, 26.793287, 2.6674878)
"""Losses of whole clips, salient cells and the rest, norms of :data:`GRADIENTS`: GitHubOfHyl97/SkeAttnCLR (commit
e3f05c6), net/SkeAttnCLR.py in float64, training mode without dropout, with ``predictor_p`` and ``predictor_c`` for
its ``predictor_s`` and ``predictor_ns``, on clips 1 (query) and 2 (key). Frames 8 to 27 of trunk, left arm and right
leg come from the next clip."""
GRADIENTS = ("encoder.blocks.0.time.2.weight", "head.3.weight", "attention.qkv.weight", "predictor.salient.3.weight")
SWAPPED = [j for name in ("trunk", "left arm", "right leg") for j in NTU25.parts[name]]


def state(base=4, out=16, embedding=6, keys=8):
    """A state dict of a pre-training checkpoint: everything but the adjacency, which is all zeros."""

    def mlp(front, width, hidden, last):
        norm = {f"{front}.mlp.1.{x}": (hidden,) for x in ("weight", "bias", "running_mean", "running_var")}
        return {f"{front}.mlp.0.weight": (hidden, width, 1), f"{front}.mlp.3.weight": (last, hidden, 1)} | norm

    layers = official_graph.encoder_shapes(base, out, embedding)
    shapes = {f"backbone.{name}": shape for name, shape in layers.items() if not name.startswith("fc.")}
    shapes |= {f"neck.norm0.{x}": (out,) for x in ("weight", "bias")}
    for layer, width in (("qkv", 3 * out), ("proj", out)):
        shapes |= {f"neck.Attn.{layer}.weight": (width, out), f"neck.Attn.{layer}.bias": (width,)}
    shapes |= {"backbone.fc.weight": (60, out), "backbone.fc.bias": (60,)}
    shapes |= mlp("neck.proj", out, out, embedding) | mlp("neck.proj_obj", out, out, embedding)
    every = {f"encoder_{twin}.{name}": shape for twin in "qk" for name, shape in shapes.items()}
    for front in ("predictor", "predictor_s", "predictor_ns"):
        every |= mlp(front, embedding, out, embedding)
    made = official_graph.numbers(every)
    for queue in ("z", "s", "ns"):
        x = torch.from_numpy(wave((embedding, keys), 2.0)).float()
        made |= {f"queue_{queue}": torch.nn.functional.normalize(x, dim=0), f"queue_ptr_{queue}": torch.zeros(1)}
    return made


def make(encoder=None, **settings):
    grid, config = Grid(64, 1, 25), STGCNConfig(base=4, out=16, dropout=0.0, partition="directed")
    context = Context(NTU25, grid, encoder or (lambda: STGCN(config, NTU25, grid)))
    return SkeAttnCLR(SkeAttnCLRConfig(queue=8, embedding=6, **settings), context)


def swap(view, partner_B, *_, **__):
    x_BMTJC = view.x_BMTJC.clone()
    x_BMTJC[:, :, 8:28, SWAPPED] = x_BMTJC[partner_B][:, :, 8:28, SWAPPED]
    return SimpleNamespace(view=view.with_x(x_BMTJC.flatten(0, 1)))


@pytest.fixture
def stepped(monkeypatch):
    """A step's output and the method, with the weights of :func:`state` and the draws of :data:`GOLDEN`."""
    monkeypatch.setattr(plugin, "region_swap", swap)
    monkeypatch.setattr(plugin, "rolled", lambda clips, u: (torch.arange(clips) + 1) % clips)
    method = make()
    assert fit(method, imported(state(), {}).weights, "state")
    views = {
        name: View.of(official_graph.clips(k, frames=64).double(), keys_R=torch.arange(8))
        for name, k in (("query", 1), ("key", 2))
    }
    draws = Step(2, 9, 0.0, torch.Generator(), lambda keys_R, n, op=0: torch.zeros(len(keys_R), n))
    with in_float64():
        yield method.double()(views, draws), method, views


def test_the_step_equals_the_public_code(stepped):
    out, method, _ = stepped
    out["loss"].backward()
    losses = [float(out[name]) for name in ("whole", "salient", "rest")]
    assert losses == pytest.approx(GOLDEN[:3], rel=1e-4)
    parts = dict(method.named_parameters())
    assert [float(parts[name].grad.norm()) for name in GRADIENTS] == pytest.approx(GOLDEN[3:], rel=5e-3)
    assert float(out["loss"].detach()) == pytest.approx(losses[0] + 0.5 * losses[1] + 0.5 * losses[2], rel=1e-6)


def test_the_loss_equals_a_slow_reference(stepped):
    """One clip after the other: cosines with the own key, the queue and the other part of the same clip."""
    out, method, views = stepped
    mixed = swap(views["query"], torch.tensor([1, 2, 3, 0])).view
    cells_RND = method.encoder(mixed).tokens_RND
    mask_RND = method.attention(cells_RND)
    key_RND = method.key_encoder(views["key"]).tokens_RND
    queue = method.queue.keys_KE
    unit = torch.nn.functional.normalize
    for part, other, mask in (("salient", "rest", mask_RND), ("rest", "salient", 1 - mask_RND)):
        total = 0.0
        feature = (cells_RND * mask).mean(1).view(4, 2, -1).mean(1)
        away = (cells_RND * (1 - mask)).mean(1).view(4, 2, -1).mean(1)
        query = unit(method.predictor[part](method.head(feature)), dim=1)
        away = unit(method.predictor[other](method.head(away)), dim=1)
        keys = unit(method.key_head((key_RND * mask).mean(1).view(4, 2, -1).mean(1)), dim=1)
        for clip in range(4):
            against = [keys[clip], *queue, away[clip]]
            e = [math.exp(float((query[clip] @ x).detach()) / 0.2) for x in against]
            total -= math.log(e[0] / sum(e)) / 4
        assert float(out[part]) == pytest.approx(total, rel=1e-4)


def test_attention_is_plain_attention():
    """Head by head, row by row: softmax of scaled products, projected, squashed."""
    torch.manual_seed(0)
    attention = CellAttention(8, heads=2, slope=3.0)
    torch.nn.init.normal_(attention.qkv.weight)
    torch.nn.init.normal_(attention.project.weight)
    x_RND = torch.randn(2, 5, 8)
    q, k, v = attention.qkv(attention.norm(x_RND)).chunk(3, 2)
    for r in range(2):
        heads = []
        for h in (slice(0, 4), slice(4, 8)):
            weight = (q[r, :, h] @ k[r, :, h].T / 2).softmax(1)
            heads.append(weight @ v[r, :, h])
        expected = 1 / (1 + torch.exp(-3.0 * attention.project(torch.cat(heads, 1))))
        torch.testing.assert_close(attention(x_RND)[r], expected, rtol=1e-5, atol=1e-6)


def test_a_checkpoint_in_either_form_is_read():
    whole = imported(state(), {})
    assert whole.settings == {
        "encoder.base": 4, "encoder.out": 16, "encoder.kernel": 9, "encoder.partition": "directed",
        "method.embedding": 6, "method.queue": 8,
    }  # fmt: skip
    alone = imported({name: x for name, x in state().items() if "q.backbone" in name}, {})
    assert {name.partition(".")[0] for name in alone.weights} == {"encoder"}
    with pytest.raises(SkelbenchError, match=r"its tensor 'other.weight' belongs to another model"):
        imported(state() | {"other.weight": torch.zeros(1)}, {})
