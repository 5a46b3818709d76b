"""The probe of GL-Transformer's own code."""

import numpy as np
import pytest
import torch

from skelbench.evaluation.native_padded import GLTransformerLinear
from skelbench.pipeline.evaluate import eval_spec, feature_sets
from skelbench.pipeline.pretrain import pretrain
from skelbench.views import Center, Tempo
from skelbench.views.keyed import Keyed

SHORT = GLTransformerLinear(epochs=3, batch_size=16, val_share=0.0)


def test_equals_adam_written_out(make_features):
    features, seed = make_features(n_train=60, classes=4, separation=0.5), 3
    D, C = features.train_x.shape[1], 4
    generator = torch.Generator().manual_seed(seed)
    w = np.zeros((C, D + 1))
    w[:, :D] = 2400**-0.5 / 3**0.5 * torch.randn(C, D, generator=generator).numpy()
    m, v, step, losses = np.zeros_like(w), np.zeros_like(w), 0, []
    for epoch in range(SHORT.epochs):
        x = np.concatenate([features.again(Keyed(seed, epoch), None, ()), np.ones((60, 1))], 1)
        order, losses = torch.randperm(60, generator=generator).numpy(), []
        for chosen in order[:48].reshape(3, 16):
            p = np.exp(x[chosen] @ w.T)
            p /= p.sum(1, keepdims=True)
            losses.append(-np.log(p[range(16), features.train_y[chosen]]).mean())
            p[range(16), features.train_y[chosen]] -= 1
            g, step = p.T @ x[chosen] / 16, step + 1
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            w -= 0.003 * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
    result = SHORT.evaluate(features, seed, "cpu")
    assert result.metrics["train_loss"] == pytest.approx(np.mean(losses), rel=1e-4) and result.metrics["steps"] == 9
    right = (features.test_x @ w[:, :D].T + w[:, D]).argmax(1) == features.test_y
    assert result.metrics["accuracy"] == pytest.approx(right.mean(), abs=1 / 300)


def test_the_frozen_encoder_draws_in_training_passes_and_in_no_others(session, resolved):
    run = pretrain(session, resolved("gl-transformer", native=True, epochs=1, **{"encoder.dropout": 0.3}))
    spec = eval_spec(session.host, run, "linear@gl-transformer")
    assert (spec.resize, spec.share, spec.bodies, spec.align) == ("pad", 1.0, "valid", "frames-with-path")
    assert eval_spec(session.host, run, "linear").resize == "pad", "as it was trained"
    (found,) = feature_sets(session, run, spec).values()
    whole = Center(share=1.0)
    before = torch.random.get_rng_state()
    noisy, same, later = (found.again(Keyed(5, epoch), whole, (), noisy=True) for epoch in (0, 0, 1))
    assert torch.equal(torch.random.get_rng_state(), before), "torch's own generator is left as it was"
    assert np.array_equal(noisy, same) and (np.abs(noisy - later).max(1) > 1e-4).all()
    assert np.array_equal(found.again(Keyed(5, 0), whole, ()), found.train_x) and not np.allclose(noisy, found.train_x)
    assert not np.array_equal(found.again(Keyed(5, 0), Tempo(amount=0.1), ()), found.train_x)
