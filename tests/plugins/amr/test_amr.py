"""AMR: energy weights and loss by loops, and the queries of every token budget."""

import pytest
import torch
from skelbench_plugins.amr import AMR, AMRConfig
from skelbench_plugins.amr.energy import energy_weights

from skelbench.methods.contract import Context, Step
from skelbench.models.vit import ViT, ViTConfig
from skelbench.views import View
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25


def energies(x_TC, window):
    """One joint, by the definition: a list with the energy of each window."""
    out = []
    for start in range(0, len(x_TC), window):
        points = x_TC[start : start + window].tolist()
        center = [sum(p[c] for p in points) / len(points) for c in range(3)]
        out.append(sum(sum((p[c] - center[c]) ** 2 for c in range(3)) for p in points) / len(points))
    return out


@pytest.mark.parametrize("frames", [24, 22])  # 22: windows of 4, 8 and 12 all end short
@pytest.mark.parametrize("mean_over", ["body", "joint"])
@pytest.mark.parametrize("fuse", ["mean", "max", "product"])
def test_weights_by_loops(frames, mean_over, fuse):
    x = torch.randn(2, frames, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x[:, :, 1] *= 0.1
    windows, k, eps = (4, 8, 12), 0.7, 1e-3
    weights = energy_weights(x.float(), windows, k, fuse, mean_over, eps)
    assert weights.shape == (2, frames, 3)
    for r in range(2):
        found = {(n, j): energies(x[r, :, j], n) for n in windows for j in range(3)}
        for j in range(3):
            for t in range(frames):
                each = []
                for n in windows:
                    pool = [e for i in (range(3) if mean_over == "body" else [j]) for e in found[n, i]]
                    mean = sum(pool) / len(pool)
                    each.append(1 / (1 + k * mean / (found[n, j][t // n] + eps)))
                expected = {"mean": sum(each) / 3, "max": max(each), "product": each[0] * each[1] * each[2]}[fuse]
                assert weights[r, t, j].item() == pytest.approx(expected, rel=1e-4)


GRID = Grid(24, 4, 25)
STEP = Step(0, 1, 0.0, torch.Generator(), lambda *args, **kwargs: None)


def build(**settings):
    torch.manual_seed(0)
    encoder = ViTConfig(dim=16, depth=1, heads=2)
    config = AMRConfig(decoder_dim=16, decoder_depth=1, decoder_heads=2, **settings)
    return AMR(config, Context(NTU25, GRID, lambda: ViT(encoder, NTU25, GRID)))


def view(rows=2):
    generator = torch.Generator().manual_seed(1)
    keep_RK = torch.rand(rows, GRID.tokens, generator=generator).argsort(1)[:, :15].sort(1).values
    mask_RN = torch.ones(rows, GRID.tokens, dtype=torch.bool).scatter(1, keep_RK, False)
    x_BMTJC = torch.randn(rows, 1, 24, 25, 3, generator=generator)
    return View.of(x_BMTJC, keep_RK=keep_RK, mask_RN=mask_RN)


def energy_weight(x_TJC, t, j, k, eps):
    """Mean over windows of 4, 8 and 12 frames of 1 / (1 + k mean / (e + eps)), for one frame and joint."""
    total = 0.0
    for n in (4, 8, 12):
        energy_WJ = torch.stack([w.var(0, unbiased=False).sum(-1) for w in x_TJC.split(n)])
        total += 1 / (1 + k * energy_WJ.mean() / (energy_WJ[t // n, j] + eps)) / 3
    return total


@pytest.mark.parametrize(("target", "loss_tokens"), [("token", "masked"), ("raw", "all")])
def test_loss_by_loops(target, loss_tokens):
    method, clip = build(target=target, loss_tokens=loss_tokens, focal_k=2.0), view()
    loss = method({"clip": clip}, STEP)["loss"]
    with torch.no_grad():
        tokens = method.encoder(clip, keep_RK=clip.keep_RK).tokens_RND
        predicted = method.decoder(tokens, clip.keep_RK)
    total, count = 0.0, 0
    for r in range(2):
        for n in range(GRID.tokens):
            if loss_tokens == "masked" and not clip.mask_RN[r, n]:
                continue
            p, j = divmod(n, 25)
            values = clip.x_RTJC[r, 4 * p : 4 * p + 4, j]
            aim = (values - values.mean()) / (values.var() + 1e-6).sqrt() if target == "token" else values
            for t in range(4):
                error = (predicted[r, n, 3 * t : 3 * t + 3] - aim[t]).square().mean()
                total += energy_weight(clip.x_RTJC[r], 4 * p + t, j, 2.0, 1e-6) * error / 4
            count += 1
    assert loss.item() == pytest.approx(float(total / count), rel=1e-4)


@pytest.mark.parametrize(("tokens", "queries"), [(30, 125), (15, 125), (8, 100)])
def test_every_budget_has_its_queries(tokens, queries, resolved, host):
    from skelbench.training.build import build_method

    made = resolved("amr", tokens=tokens)
    decoder = build_method(made.spec, host, made.store.topology, "meta").decoder
    assert decoder.queries == queries
    assert decoder.queries * decoder.predict.out_features == made.spec.grid.frames * 25 * 3
