"""The probes of the contrastive methods' own codes."""

import dataclasses

import numpy as np
import pytest
import torch

from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import validated
from skelbench.evaluation.native_contrastive import (
    AimCLRLinear,
    CMDLinear,
    HiCoLinear,
    ISCLinear,
    PSTLLinear,
    UmURLLinear,
)
from skelbench.evaluation.probe import stratified
from skelbench.pipeline.evaluate import eval_spec
from skelbench.views.keyed import Keyed

FAMILY = pytest.mark.parametrize("kind", [AimCLRLinear, CMDLinear, UmURLLinear, HiCoLinear])


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
        # USDRL's loop goes on for 10 epochs more than it was told
        (
            UmURLLinear(lr=0.006, epochs=160, drops=[0.75, 0.875]),
            [0.006 * 0.1 ** sum(epoch >= m for m in (120, 140)) for epoch in range(160)],
        ),
    ],
    ids=["aimclr", "cmd", "isc", "hico", "umurl", "usdrl"],
)
def test_the_rate_falls_where_the_codes_let_it(config, code):
    assert [config.rate(epoch) for epoch in range(config.epochs)] == pytest.approx(code)
    assert [config.rate(epoch + 0.999) for epoch in range(config.epochs)] == pytest.approx(code)


def reference(config, features, seed, index):
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
        heads = list(reference(config, features, 3, index))
        steps = int(per_epoch[fit]) if kind is AimCLRLinear else int(np.ceil(per_epoch[fit]))
        assert [(row["epoch"], row["step"]) for row in rows] == [(e, e * steps) for e in (5, 10, 11)]
        for row in rows:
            weight, bias = heads[int(row["epoch"]) - 1]
            right = (features.test_x @ weight.T + bias).argmax(1) == features.test_y
            assert row["test_accuracy"] == pytest.approx(right.mean(), abs=1 / 300)
    weight, bias = list(reference(config, features, 3, np.arange(115)))[-1]
    logits = features.test_x @ weight.T + bias
    scores = np.exp(logits - logits.max(1, keepdims=True))
    np.testing.assert_allclose(result.scores, scores / scores.sum(1, keepdims=True), rtol=1e-3, atol=1e-5)
    assert result.metrics["accuracy"] == [row["test_accuracy"] for row in result.curve if row["fit"] == "all-train"][-1]
    assert result.metrics["accuracy_best_on_test"] >= result.metrics["accuracy"]


def test_pstl_s_probe_is_the_code_s_own_loop(make_features):
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


@FAMILY
def test_classes_that_a_plane_separates_are_told_apart_and_labels_by_chance_are_not(make_features, kind):
    easy = make_features(n_train=300, separation=4.0)
    config = kind(epochs=10, batch_size=64, lr=0.1)
    found = config.evaluate(easy, 0, "cpu").metrics
    assert found["accuracy"] == found["accuracy_selected"] == found["train_accuracy"] == 1
    rng = np.random.default_rng(1)
    permuted = dataclasses.replace(easy, train_y=rng.permutation(easy.train_y))
    assert config.evaluate(permuted, 0, "cpu").metrics["accuracy"] < 0.4  # 5 classes: chance is 0.2


@FAMILY
def test_no_label_of_a_test_clip_reaches_the_training(make_features, kind):
    features = make_features(separation=0.3)
    config = kind(epochs=6, batch_size=64)
    other = dataclasses.replace(features, test_y=(features.test_y + 1) % 5)
    one, two = (config.evaluate(each, 0, "cpu") for each in (features, other))
    assert np.array_equal(one.scores, two.scores)
    for before, after in zip(one.curve, two.curve, strict=True):
        assert {**before, "test_accuracy": 0} == {**after, "test_accuracy": 0}
    assert one.metrics["selected_step"] == two.metrics["selected_step"]


def test_only_cropping_asks_for_another_pass(make_features):
    features = make_features()
    asked = []

    def again(keyed, crop, augment, dropout=0.0, progress=None, noisy=False):
        asked.append((keyed.step, crop, augment, dropout))
        return features.again(keyed, crop, augment, dropout, progress, noisy)

    watched, finished = (dataclasses.replace(features, again=each) for each in (again, None))
    seen = []
    for kind in (AimCLRLinear, UmURLLinear):
        config = kind(epochs=3)
        here = config.evaluate(finished, 0, "cpu", lambda *done: seen.append(done))
        assert here.metrics == config.evaluate(watched, 0, "cpu").metrics and not asked
    assert seen == 2 * [(200 * k, 600) for k in (1, 2, 3)]
    CMDLinear(epochs=2).evaluate(watched, 0, "cpu")
    UmURLLinear(epochs=1, crop_min=0.7).evaluate(watched, 0, "cpu")  # as USDRL's on PKU-MMD II
    assert [(step, crop.lo, crop.hi, crop.whole_frames, crop.min_frames, *rest) for step, crop, *rest in asked] == [
        (0, 0.5, 1.0, True, 64, (), 0.0),
        (1, 0.5, 1.0, True, 64, (), 0.0),
        (0, 0.7, 1.0, True, 64, (), 0.0),
    ]
    with pytest.raises(SkelbenchError, match="newly augmented training clips in every epoch"):
        CMDLinear().evaluate(finished, 0, "cpu")


def test_drops_are_shares_of_the_epochs():
    with pytest.raises(SkelbenchError, match="drops.0=120 is not valid"):
        validated(UmURLLinear, {"drops": [120, 140]}, "protocol linear@umurl")


def test_a_split_smaller_than_a_batch_says_so(make_features):
    result = UmURLLinear(epochs=2).evaluate(make_features(n_train=40), 0, "cpu")
    assert result.metrics["steps"] == 2 and "batches of 40 clips, all there are" in result.notes[0]


def test_clips_are_looked_at_as_the_codes_do(session, resolved):
    run = resolved("untrained")
    ways = {}
    for name in ("linear@aimclr", "linear@cmd", "linear@isc", "linear@umurl", "linear@hico", "linear@pstl"):
        spec = eval_spec(session.host, run, name)
        ways[name] = (spec.bodies, spec.bodies_pool, spec.share, spec.resize)
    assert ways == {
        "linear@aimclr": ("all-slots", "all-mean", 1.0, "half-pixel"),
        "linear@cmd": ("valid", "concat", 0.95, "half-pixel"),
        "linear@isc": ("valid", "concat", 0.95, "half-pixel"),
        "linear@umurl": ("valid", "concat", 1.0, "half-pixel"),
        "linear@hico": ("valid", "concat", 0.95, "half-pixel"),
        "linear@pstl": ("all-slots", "all-mean", 1.0, "half-pixel"),
    }
