"""IGM against its formulas written out: no code is published."""

import math

import pytest
import torch
from skelbench_plugins._diffusion import NOISE, TIME
from skelbench_plugins._diffusion_decoder import cumulative_alphas

from skelbench.views.keyed import box_muller


def stepped(run, steps=3):
    """The run after some steps, so that there are earlier clips, and views and step of the next."""
    for index in range(steps):
        run.train_step(index, run.views(index))
    return run.method.eval(), run.views(steps), run.step_info(steps)


def test_both_terms_from_the_formulas(trainer):
    """Estimate, its cut, tokens encoded again, weights, similarities: body by body and clip by clip."""
    settings = {"condition_drop": 0.3, "uniformity": 0.0, "high_pass": 0.7, "feature_weight": 0.5, "limit": 2.0}
    method, views, step = stepped(trainer("igm", batch_size=6, epochs=4, queue=16, **settings))
    source, target, generated = (views[name] for name in ("source", "target", "target-generated"))
    assert torch.equal(generated.x_RTJC, target.x_RTJC) and not torch.equal(generated.keep_RK, source.keep_RK)
    with torch.no_grad():
        out = method(views, step)
        encoded = method.encoder(source, keep_RK=source.keep_RK)
        u_R2 = step.uniform(target.keys_R, 2, op=TIME)
        noise = box_muller(step.uniform(target.keys_R, 32 * 25 * 3, op=NOISE)).view_as(target.x_RTJC)
        alphas, mean, std = cumulative_alphas(1000), method.standardize.mean_C, method.standardize.std_C
        estimate, weights = torch.empty_like(noise), []
        for r in range(target.rows):
            a, z = alphas[int(1000 * u_R2[r, 0].double())], encoded.tokens_RND[r]
            noisy = math.sqrt(a) * (target.x_RTJC[r] - mean) / std + math.sqrt(1 - a) * noise[r]
            adapted = z + 0.7 * (z - torch.softmax(z @ z.T / math.sqrt(z.shape[1]), 1) @ z)
            time = torch.tensor([int(1000 * u_R2[r, 0].double())])
            informed = u_R2[r : r + 1, 1] >= 0.3
            predicted = method.decoder(noisy[None], adapted[None], source.keep_RK[r : r + 1], time, informed)[0]
            for n in range(100):
                p, j = divmod(n, 25)
                found = (noisy[8 * p : 8 * p + 8, j] - math.sqrt(1 - a) * predicted[n].view(8, 3)) / math.sqrt(a)
                estimate[r, 8 * p : 8 * p + 8, j] = found.clamp(-2, 2) * std + mean
            weights.append(a * float(informed))
        again = method.encoder(generated.with_x(estimate), keep_RK=generated.keep_RK)
        first, second = (source.per_clip(e.tokens_RND.mean(1)) for e in (encoded, again))
        first, second = (x / x.norm(dim=1, keepdim=True) for x in (first, second))
        keys = method.queue.keys_KE
        assert keys.any(1).all(), "the queue is full"
        teacher, student = (first @ keys.T / 0.05).softmax(1), (second @ keys.T / 0.1).softmax(1)
        apart = (teacher * (teacher / student).log()).sum(1)
    rows = list(zip(source.clip_R.tolist(), weights))
    feature = sum(w * float(1 - first[b] @ second[b]) for b, w in rows) / len(rows)
    distribution = sum(w * float(apart[b]) for b, w in rows) / len(rows)
    assert float(out["feature_idempotency"]) == pytest.approx(feature, rel=1e-3)
    assert float(out["distribution_idempotency"]) == pytest.approx(distribution, rel=1e-3)
    total = float(out["denoising"]) + 0.5 * feature + distribution
    assert float(out["loss"]) == pytest.approx(total, rel=1e-4)


def test_without_the_terms_and_the_adapter_it_is_macdiff(trainer):
    off = {"high_pass": 0.0, "feature_weight": 0.0, "distribution_weight": 0.0}
    losses = []
    for name, settings in (("macdiff", {}), ("igm", off)):
        run = trainer(name, batch_size=6, **settings)
        losses.append([float(run.train_step(step, run.views(step))["loss"]) for step in range(2)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
