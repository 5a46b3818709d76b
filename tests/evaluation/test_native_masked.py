"""The probe of the masked-autoencoder family's own code."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from skelbench.core.errors import SkelbenchError
from skelbench.evaluation.native_masked import MacDiffLinear, MampLinear
from skelbench.evaluation.probe import stratified
from skelbench.views.keyed import Keyed

SHORT = MampLinear(epochs=4, batch_size=16)


def evaluate(features, config=SHORT, seed=3, **kwargs):
    return config.evaluate(features, seed, "cpu", **kwargs)


def reference(features, config, seed, index):
    """Per epoch (train loss, running mean, running variance, weight, bias), written out in float64."""
    D, C, batch = features.train_x.shape[1], features.num_classes, config.batch_size
    generator = torch.Generator().manual_seed(seed)
    weight = (0.01 * torch.randn(C, D, generator=generator)).double().numpy()
    bias, v_weight, v_bias = np.zeros(C), np.zeros((C, D)), np.zeros(C)
    mean, var = np.zeros(D), np.ones(D)
    steps = len(index) // batch
    for epoch in range(config.epochs):
        x = features.again(Keyed(seed, epoch), None, ()).astype(np.float64)
        order = index[torch.randperm(len(index), generator=generator).numpy()]
        losses = []
        for i in range(steps):
            chosen = order[i * batch : (i + 1) * batch]
            mu, sigma2 = x[chosen].mean(0), x[chosen].var(0)
            mean, var = 0.9 * mean + 0.1 * mu, 0.9 * var + 0.1 * sigma2 * batch / (batch - 1)
            z = (x[chosen] - mu) / np.sqrt(sigma2 + 1e-6)
            logits = z @ weight.T + bias
            p = np.exp(logits - logits.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            y = features.train_y[chosen]
            losses.append(-np.log(p[np.arange(batch), y]).mean())
            p[np.arange(batch), y] -= 1
            v_weight = 0.9 * v_weight + p.T @ z / batch
            v_bias = 0.9 * v_bias + p.sum(0) / batch
            end = config.epochs * (1 - config.rest)
            now = epoch + i / steps
            lr = config.lr * (1 + math.cos(math.pi * now / end)) / 2 if now < end else 0.0
            weight, bias = weight - lr * v_weight, bias - lr * v_bias
        yield np.mean(losses), lambda x, W=weight, b=bias, m=mean, v=var: (x - m) / np.sqrt(v + 1e-6) @ W.T + b


@pytest.mark.parametrize("config", [SHORT, SHORT.model_copy(update={"rest": 0.5})], ids=["mamp", "rest"])
def test_equals_the_formulas_written_out(make_features, config):
    """Batch statistics in training, running ones in evaluation, momentum, cosine per step, last batch dropped."""
    features = make_features(n_train=115, classes=4, separation=0.5)
    result = evaluate(features, config)
    kept, held = stratified(features.train_y, 0.1, 3)
    for fit, index in (("all-train", np.arange(115)), ("held-out", kept)):
        rows = [row for row in result.curve if row["fit"] == fit]
        assert [row["epoch"] for row in rows] == [1, 2, 3, 4]
        assert [row["step"] for row in rows] == [len(index) // 16 * e for e in (1, 2, 3, 4)]
        for row, (train_loss, logits) in zip(rows, reference(features, config, 3, index), strict=True):
            assert row["train_loss"] == pytest.approx(train_loss, rel=1e-4)
            right = logits(features.test_x).argmax(1) == features.test_y
            assert row["test_accuracy"] == pytest.approx(right.mean(), abs=1 / 300)
            if fit == "held-out":
                z = logits(features.train_x[held])
                loss = np.log(np.exp(z).sum(1)) - z[np.arange(len(held)), features.train_y[held]]
                assert row["val_loss"] == pytest.approx(loss.mean(), rel=1e-4)
    last = [row for row in result.curve if row["fit"] == "all-train"][-1]
    assert result.metrics["accuracy"] == pytest.approx(last["test_accuracy"])
    assert result.metrics["train_loss"] == last["train_loss"] and result.metrics["steps"] == 28


def test_one_pass_per_epoch_serves_both_probes(make_features):
    features = make_features()
    asked = []

    def again(keyed, crop, augment, dropout=0.0, progress=None, noisy=False):
        asked.append((keyed.seed, keyed.step, crop, augment, dropout))
        return features.again(keyed, crop, augment, dropout, progress, noisy)

    seen = []
    config = MacDiffLinear(epochs=3, batch_size=32)
    evaluate(dataclasses.replace(features, again=again), config, 7, progress=lambda *done: seen.append(done))
    assert [(seed, step) for seed, step, *_ in asked] == [(7, 0), (7, 1), (7, 2)]
    _, _, crop, (turn,), dropout = asked[0]
    assert (crop.lo, crop.hi, crop.whole_frames, crop.min_frames, dropout) == (0.5, 1.0, True, 64, 0.3)
    assert (turn.p, turn.vertical_deg, turn.tilt_deg) == (1.0, pytest.approx(math.degrees(0.3)), turn.vertical_deg)
    assert seen == [(100 * k, 600) for k in range(1, 7)]


@pytest.mark.parametrize("epoch", [0.0, 0.5, 33.25, 99.5])
def test_mamp_decays_to_the_end(epoch):
    assert MampLinear().rate(epoch) == pytest.approx(0.1 * (1 + math.cos(math.pi * epoch / 100)) / 2)


def test_macdiff_rests_for_the_last_tenth():
    config = MacDiffLinear()
    assert config.rate(45) == pytest.approx(0.05) and config.rate(89.9) > 0
    assert [config.rate(epoch) for epoch in (90, 90.5, 99.9)] == [0, 0, 0]
    short = MacDiffLinear(epochs=10)
    assert short.rate(8.9) > 0 and short.rate(9) == 0


def test_small_sets_and_what_cannot_be_probed(make_features):
    small = evaluate(make_features(n_train=40), MampLinear(epochs=2))
    assert small.metrics["steps"] == 2 and "batches of 40 clips, all there are" in small.notes[0]
    single = evaluate(make_features(n_train=5), MampLinear(epochs=2))
    assert any("no checkpoint was selected" in note for note in single.notes)
    assert "accuracy_selected" not in evaluate(make_features(), MampLinear(epochs=2, val_share=0)).metrics
    features = make_features()
    with pytest.raises(SkelbenchError, match="newly augmented training clips in every epoch"):
        evaluate(dataclasses.replace(features, again=None))
    with pytest.raises(SkelbenchError, match="at least 2 training clips"):
        evaluate(make_features(n_train=1))
    broken = dataclasses.replace(features, again=lambda *_: np.full((200, 16), np.nan, dtype=np.float32))
    with pytest.raises(SkelbenchError, match="not finite in epoch 0"):
        evaluate(broken)
