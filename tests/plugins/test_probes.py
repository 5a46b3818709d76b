"""Linear probes of released codes: each equals the code's loop written out, and no test label reaches the training."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from skelbench_plugins.aimclr import AimCLRLinear
from skelbench_plugins.cmd import CMDLinear
from skelbench_plugins.gl_transformer import GLTransformerLinear
from skelbench_plugins.hico import HiCoLinear
from skelbench_plugins.hysp.probe import HYSPLinear
from skelbench_plugins.isc import ISCLinear
from skelbench_plugins.mamp import MampLinear
from skelbench_plugins.pstl import PSTLLinear
from skelbench_plugins.umurl import UmURLLinear

from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import validated
from skelbench.evaluation.probe import stratified
from skelbench.pipeline.evaluate import eval_spec
from skelbench.views.keyed import Keyed

FAMILY = pytest.mark.parametrize("kind", [AimCLRLinear, CMDLinear, UmURLLinear, HiCoLinear])
SHORT = MampLinear(epochs=4, batch_size=16)


@pytest.mark.parametrize(
    ("config", "code"),
    [
        # LE_Processor.adjust_lr counts epochs from 1: 0.1 ** (epoch > 80)
        (AimCLRLinear(), [3.0 * 0.1 ** (epoch > 80) for epoch in range(1, 101)]),
        # adjust_learning_rate of CMD and UmURL counts them from 0: a tenth for every milestone that is not above
        *(
            (kind(), [0.1 * 0.1 ** sum(epoch >= m for m in (50, 70)) for epoch in range(80)])
            for kind in (CMDLinear, ISCLinear)
        ),
        (HiCoLinear(), [2.0 * 0.1 ** sum(epoch >= m for m in (50, 70)) for epoch in range(80)]),
        (UmURLLinear(), [0.03 * 0.1 ** sum(epoch >= m for m in (120, 140)) for epoch in range(150)]),
        # USDRL's loop runs 10 epochs more than its setting
        (
            UmURLLinear(lr=0.006, epochs=160, drops=[0.75, 0.875]),
            [0.006 * 0.1 ** sum(epoch >= m for m in (120, 140)) for epoch in range(160)],
        ),
        (HYSPLinear(), [10 * 0.1 ** sum(epoch >= m for m in (60, 80)) for epoch in range(100)]),
    ],
    ids=["aimclr", "cmd", "isc", "hico", "umurl", "usdrl", "hysp"],
)
def test_the_learning_rate_falls_as_in_the_codes(config, code):
    assert [config.rate(epoch) for epoch in range(config.epochs)] == pytest.approx(code)
    assert [config.rate(epoch + 0.999) for epoch in range(config.epochs)] == pytest.approx(code)


def stepped(config, features, seed, index):
    """Weight and bias after every epoch, in float64: softmax regression by SGD with momentum, written out."""
    D, C, n = features.train_x.shape[1], features.num_classes, len(index)
    generator = torch.Generator().manual_seed(seed)
    std = 0.02 if type(config) is AimCLRLinear else 0.01
    weight, bias = std * torch.randn(C, D, generator=generator).double().numpy(), np.zeros(C)
    v_weight, v_bias = np.zeros((C, D)), np.zeros(C)
    for epoch in range(config.epochs):
        x = features.train_x if config.crop_min == 1 else features.again(Keyed(seed, epoch), None, ())
        order = index[torch.randperm(n, generator=generator).numpy()]
        for start in range(0, n, config.batch_size):
            chosen = order[start : start + config.batch_size]
            if type(config) is AimCLRLinear and len(chosen) < config.batch_size:
                break  # its loader drops the last batch, the others' does not
            logits = x[chosen].astype(np.float64) @ weight.T + bias
            p = np.exp(logits - logits.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            p[np.arange(len(chosen)), features.train_y[chosen]] -= 1
            v_weight = 0.9 * v_weight + p.T @ x[chosen] / len(chosen)
            v_bias = 0.9 * v_bias + p.mean(0)
            lr = config.lr * 0.1 ** sum(epoch >= round(share * config.epochs) for share in config.drops)
            weight, bias = weight - lr * v_weight, bias - lr * v_bias
        yield weight, bias


@FAMILY
def test_equals_sgd_written_out(make_features, kind):
    features = make_features(n_train=115, classes=4, separation=0.5)
    config = kind(epochs=11, batch_size=16, lr=0.05, drops=[0.5])
    result = config.evaluate(features, 3, "cpu")
    kept, _ = stratified(features.train_y, 0.1, 3)
    per_epoch = {"all-train": 115 / 16, "held-out": len(kept) / 16}
    for fit, index in (("all-train", np.arange(115)), ("held-out", kept)):
        rows = [row for row in result.curve if row["fit"] == fit]
        heads = list(stepped(config, features, 3, index))
        steps = int(per_epoch[fit]) if kind is AimCLRLinear else int(np.ceil(per_epoch[fit]))
        assert [(row["epoch"], row["step"]) for row in rows] == [(e, e * steps) for e in (5, 10, 11)]
        for row in rows:
            weight, bias = heads[int(row["epoch"]) - 1]
            right = (features.test_x @ weight.T + bias).argmax(1) == features.test_y
            assert row["test_accuracy"] == pytest.approx(right.mean(), abs=1 / 300)
    weight, bias = list(stepped(config, features, 3, np.arange(115)))[-1]
    logits = features.test_x @ weight.T + bias
    scores = np.exp(logits - logits.max(1, keepdims=True))
    np.testing.assert_allclose(result.scores, scores / scores.sum(1, keepdims=True), rtol=1e-3, atol=1e-5)
    assert result.metrics["accuracy"] == [row["test_accuracy"] for row in result.curve if row["fit"] == "all-train"][-1]
    assert result.metrics["accuracy_best_on_test"] >= result.metrics["accuracy"]


def test_pstl_probe_equals_the_codes_loop(make_features):
    """Adam at the rate of PyTorch's cosine, which steps after every epoch (procedure.py, RecognitionProcessor)."""
    features = make_features(n_train=115, classes=4, separation=0.5)
    config = PSTLLinear(epochs=7, batch_size=16)
    result = config.evaluate(features, 3, "cpu")
    D, C, generator = features.train_x.shape[1], 4, torch.Generator().manual_seed(3)
    weight_CD = torch.nn.init.xavier_normal_(torch.empty(C, D), generator=generator).double().requires_grad_()
    bias_C = torch.zeros(C, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([weight_CD, bias_C], lr=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 7)
    x_nD, y_n = torch.from_numpy(features.train_x).double(), torch.from_numpy(features.train_y)
    for epoch in range(7):
        assert config.rate(epoch + 0.5) == pytest.approx(scheduler.get_last_lr()[0])
        for chosen in torch.randperm(115, generator=generator).split(16):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(x_nD[chosen] @ weight_CD.T + bias_C, y_n[chosen]).backward()
            optimizer.step()
        scheduler.step()
    scores = (torch.from_numpy(features.test_x).double() @ weight_CD.T + bias_C).detach().softmax(1)
    np.testing.assert_allclose(result.scores, scores, rtol=1e-3, atol=1e-5)
    assert [row["step"] for row in result.curve if row["fit"] == "all-train"] == [8 * k for k in range(1, 8)]


def masked(features, config, seed, index):
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
def test_the_masked_family_equals_the_formulas_written_out(make_features, config):
    """Batch statistics in training, running ones in evaluation, momentum, cosine per step, last batch dropped."""
    features = make_features(n_train=115, classes=4, separation=0.5)
    result = config.evaluate(features, 3, "cpu")
    kept, held = stratified(features.train_y, 0.1, 3)
    for fit, index in (("all-train", np.arange(115)), ("held-out", kept)):
        rows = [row for row in result.curve if row["fit"] == fit]
        assert [row["epoch"] for row in rows] == [1, 2, 3, 4]
        assert [row["step"] for row in rows] == [len(index) // 16 * e for e in (1, 2, 3, 4)]
        for row, (train_loss, logits) in zip(rows, masked(features, config, 3, index), strict=True):
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


@pytest.mark.parametrize("epoch", [0.0, 0.5, 33.25, 99.5])
def test_mamp_decays_to_the_end(epoch):
    assert MampLinear().rate(epoch) == pytest.approx(0.1 * (1 + math.cos(math.pi * epoch / 100)) / 2)


def test_gl_transformer_probe_equals_explicit_adam(make_features):
    short = GLTransformerLinear(epochs=3, batch_size=16, val_share=0.0)
    features, seed = make_features(n_train=60, classes=4, separation=0.5), 3
    D, C = features.train_x.shape[1], 4
    generator = torch.Generator().manual_seed(seed)
    w = np.zeros((C, D + 1))
    w[:, :D] = 2400**-0.5 / 3**0.5 * torch.randn(C, D, generator=generator).numpy()
    m, v, step, losses = np.zeros_like(w), np.zeros_like(w), 0, []
    for epoch in range(short.epochs):
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
    result = short.evaluate(features, seed, "cpu")
    assert result.metrics["train_loss"] == pytest.approx(np.mean(losses), rel=1e-4) and result.metrics["steps"] == 9
    right = (features.test_x @ w[:, :D].T + w[:, D]).argmax(1) == features.test_y
    assert result.metrics["accuracy"] == pytest.approx(right.mean(), abs=1 / 300)


@pytest.mark.parametrize("kind", [AimCLRLinear, CMDLinear, PSTLLinear, MampLinear, GLTransformerLinear, HYSPLinear])
def test_no_label_of_a_test_clip_reaches_the_training(make_features, kind):
    features = make_features(separation=0.3)
    config = kind(epochs=6, batch_size=64)
    other = dataclasses.replace(features, test_y=(features.test_y + 1) % 5)
    one, two = (config.evaluate(each, 0, "cpu") for each in (features, other))
    assert np.array_equal(one.scores, two.scores)
    for before, after in zip(one.curve, two.curve, strict=True):
        assert {**before, "test_accuracy": 0} == {**after, "test_accuracy": 0}
    assert one.metrics["selected_step"] == two.metrics["selected_step"]


def test_small_datasets_and_impossible_probes(make_features):
    small = MampLinear(epochs=2).evaluate(make_features(n_train=40), 0, "cpu")
    assert small.metrics["steps"] == 2 and "batches of all 40 clips" in small.notes[0]
    single = MampLinear(epochs=2).evaluate(make_features(n_train=5), 0, "cpu")
    assert any("no checkpoint was selected" in note for note in single.notes)
    features = make_features()
    broken = dataclasses.replace(features, again=lambda *_: np.full((200, 16), np.nan, dtype=np.float32))
    for wrong, message in (
        (dataclasses.replace(features, again=None), "augments training clips"),
        (make_features(n_train=1), "at least 2 training clips"),
        (broken, "not finite"),
    ):
        with pytest.raises(SkelbenchError, match=message):
            SHORT.evaluate(wrong, 0, "cpu")
    with pytest.raises(SkelbenchError, match="drops.0=120 is not valid"):
        validated(UmURLLinear, {"drops": [120, 140]}, "protocol linear@umurl")


def test_clips_are_prepared_as_in_the_codes(session, resolved):
    run = resolved("untrained")
    slots, concatenated = ("all-slots", "all-mean"), ("valid", "concat")
    for name, expected in {
        "aimclr": (*slots, 1.0),
        "hysp": (*slots, 1.0),
        "pstl": (*slots, 1.0),
        "mamp": (*slots, 0.95),
        "macdiff": (*slots, 0.95),
        "cmd": (*concatenated, 0.95),
        "isc": (*concatenated, 0.95),
        "hico": (*concatenated, 0.95),
        "umurl": (*concatenated, 1.0),
    }.items():
        spec = eval_spec(session.host, run, f"linear@{name}")
        assert (spec.bodies, spec.bodies_pool, spec.share, spec.resize) == (*expected, "half-pixel"), name
