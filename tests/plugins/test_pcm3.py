import pytest
import torch
import torch.nn.functional as F
from official import wave
from official_recurrent import clips, sines
from skelbench_plugins.bigru import BiGRU, BiGRUConfig
from skelbench_plugins.pcm3 import PCM3, REGION, PCM3Config

from skelbench.methods import Context, Step
from skelbench.views import View
from skelbench.views.mixing import region_swap
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25

T, H, B, E, K = 64, 16, 4, 6, 8
WAYS = {"swap": 0.9, "fast": 0.3, "whole": 0.1}
PLAIN = {"prompts": False, "distillation": 0.0, "into_decoder": False}


def make(**settings):
    """A tiny PCM3 of the recurrent encoder whose numbers are sines."""

    def encoder():
        return BiGRU(BiGRUConfig(hidden=H), NTU25, Grid(T, 1, 25))

    sizes = {"queue": K, "embedding": E, "decoder_dim": 8, "draws": "batch"}
    method = PCM3(PCM3Config(**sizes | settings), Context(NTU25, Grid(T, 1, 25), encoder))
    method.load_state_dict(sines(method.state_dict()))
    method.queue.keys_KE.copy_(F.normalize(method.queue.keys_KE, dim=1))
    return method.train()


def views():
    keys_R = torch.arange(2 * B)
    return {name: View.of(clips(B, T, k), keys_R=keys_R) for k, name in enumerate(("query", "key", "hidden"))}


def draws(way):
    """In the place of ``step.uniform``: one draw for all clips; ``way`` decides how clips are mixed."""

    def uniform(keys_R, n, op=0):
        u_n = torch.from_numpy(wave((n,), 0.3 + op) * 43758.5453 % 1.0).float()
        if op == REGION:
            u_n[8] = WAYS[way]
        return u_n.expand(len(keys_R), n)

    return uniform


def at(index, way="swap"):
    return Step(index, 9, 0.0, torch.Generator(), draws(way))


FIGURES = ("base", "mixed", "hidden", "filled", "error", "loss", "taught")
GOLDEN = {
    ("swap", "prompts"): (
        (0.016153, 0.024028, 3.800128, 2.586768, 0.742921, 41.918583, 5.77467),
        [-0.08088078, -0.11125834, -0.68286204, -0.68813705],
    ),
    ("fast", "prompts"): (
        (0.016153, 0.108291, 3.800128, 2.586768, 0.742921, 41.493256, 5.265078),
        [-0.05406582, -0.07706454, -0.68286204, -0.68813705],
    ),
    ("whole", "prompts"): (
        (0.016153, 0.020863, 3.800128, 2.586768, 0.742921, 41.406761, 5.266012),
        [-0.05690463, -0.08334762, -0.68286204, -0.68813705],
    ),
    ("swap", "plain"): (
        (0.018371, 0.012283, 3.642752, 2.827807, 0.742921, 36.218048),
        [0.00278088, -0.03341378, -0.01127846, -0.04634725],
    ),
}
"""Figures, and gradients of the first GRU's and of the decoder's first layer."""


@pytest.mark.parametrize(("way", "kind"), GOLDEN)
def test_loss_and_gradient_of_the_public_code(way, kind):
    """Output of JHang2020/PCM3, ``moco.builder_mask_recons.MoCo``, with widths 16, 8 and 4 in place of 1024, 512 and
    256, and with these weights, clips, queue and draws; the loss is computed as in ``pretrain_moco_mask.train``."""
    method = make(**PLAIN if kind == "plain" else {})
    out = method(views(), at(K // B, way))
    figures, gradient = GOLDEN[way, kind]
    for name, expected in zip(FIGURES, figures):
        assert out[name].item() == pytest.approx(expected, rel=1e-4, abs=2e-6), name
    out["loss"].backward()
    weights = method.encoder.first[0].weight_ih_l0.grad[0, :2], method.decoder.enter[0].weight.grad[0, :2]
    assert torch.cat(weights).tolist() == pytest.approx(gradient, rel=2e-3)


def test_the_loss_is_the_formula_term_by_term():
    method, step, batch = make(), at(2, "fast"), views()
    with torch.no_grad():
        out = method(batch, step)
        prompts, uniform = method.prompts, step.uniform

        def feature(encoder, x_BMTJC, name):
            return encoder(View.of(x_BMTJC + prompts.inputs[name][:, None]))

        def embed(pooled_BD, place, head=method.head):
            at_ = int(uniform(torch.zeros(1), 1, op=3 + place)[0, 0].double() * (H - 2))
            pooled_BD = pooled_BD.clone()
            pooled_BD[:, at_ : at_ + 2] += prompts.features["contrast"][:2]
            pooled_BD[:, H + at_ : H + at_ + 2] += prompts.features["contrast"][2:]
            return F.normalize(head(pooled_BD), dim=1)

        partner = (torch.arange(B) + 1 + int(uniform(torch.zeros(1), 1)[0, 0] * (B - 1))) % B
        mixed = region_swap(
            batch["query"], partner, NTU25, uniform, (2, 3), (28, 44), alike=True, op=REGION, fast=0.25, whole=0.25
        )
        hidden = (
            View.of(batch["hidden"].x_BMTJC).with_x(method.hidden(batch["hidden"], step)[..., None].float()).x_BMTJC
        )
        shown = batch["hidden"].x_BMTJC * (1 - hidden)
        encoded = feature(method.encoder, shown, "hidden")
        found = method.decoder(encoded.tokens_RND, batch["hidden"]).unflatten(0, (B, 2))
        filled = shown + found * hidden
        key = embed(feature(method.key_encoder, batch["key"].x_BMTJC, "base").pooled_RD, 5, method.key_head)
        weight = mixed.weight_B[:, None]
        own = {"mixed": F.normalize((1 - weight) * key + weight * key[partner], dim=1)}
        queries = {
            "base": embed(feature(method.encoder, batch["query"].x_BMTJC, "base").pooled_RD, 0),
            "mixed": embed(feature(method.encoder, mixed.view.x_BMTJC, "mixed").pooled_RD, 1),
            "hidden": embed(encoded.pooled_RD, 2),
            "filled": embed(feature(method.encoder, filled, "filled").pooled_RD, 3),
        }
    taught = 0.0
    for name, z in queries.items():
        k, loss = own.get(name, key), 0.0
        for b in range(B):
            scores = torch.stack([z[b] @ x for x in (k[b], *method.queue.keys_KE)]).double()
            loss += float(torch.logsumexp(scores / 0.07, 0) - scores[0] / 0.07) / B
            p = (method.queue.keys_KE @ k[b] / 0.05).double().softmax(0)
            taught += float((p * (p / (scores[1:] / 0.1).softmax(0)).log()).sum()) / B
        assert out[name].item() == pytest.approx(loss, rel=1e-4)
    error = float(((found - batch["hidden"].x_BMTJC) ** 2 * hidden).sum() / hidden.expand_as(found).sum())
    assert out["taught"].item() == pytest.approx(taught, rel=1e-4)
    assert out["error"].item() == pytest.approx(error, rel=1e-4)
    total = sum(out[name].item() for name in queries) + taught + 40 * error
    assert out["loss"].item() == pytest.approx(total, rel=1e-4)
