import dataclasses

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from skelbench.evaluation.linear import Linear
from skelbench.evaluation.probe import stratified

SHORT = Linear(min_steps=200, tolerance=None)


def evaluate(features, config=None, seed=0, **kwargs):
    return (config or Linear()).evaluate(features, seed, "cpu", **kwargs)


@pytest.mark.parametrize("optimizer, schedule", [("adamw", "cosine"), ("adamw", "constant"), ("sgd", "cosine")])
def test_equals_an_autograd_loop_over_a_torch_module(make_features, optimizer, schedule):
    """The same recipe spelled out with nn.Linear, autograd and torch's own scheduler."""
    features = make_features(n_train=130, classes=4, separation=0.5)
    config = Linear(optimizer=optimizer, schedule=schedule, lr=0.01, weight_decay=0.01, batch_size=32, epochs=6,
                          min_steps=0, tolerance=None)  # fmt: skip
    result = evaluate(features, config, seed=3)

    x, y = torch.from_numpy(features.train_x), torch.from_numpy(features.train_y)
    mean, std = x.mean(0), x.std(0, unbiased=False)
    generator = torch.Generator().manual_seed(3)
    probe = torch.nn.Linear(16, 4)
    with torch.no_grad():
        probe.weight.copy_(0.01 * torch.randn(4, 16, generator=generator))
        probe.bias.zero_()
    kinds = {
        "adamw": lambda: torch.optim.AdamW(probe.parameters(), lr=0.01, weight_decay=0.01),
        "sgd": lambda: torch.optim.SGD(probe.parameters(), lr=0.01, momentum=0.9, weight_decay=0.01),
    }
    stepper = kinds[optimizer]()
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(stepper, 30) if schedule == "cosine" else None
    for epoch in range(1, 7):
        order = torch.randperm(130, generator=generator)
        for batch in order.split(32):
            stepper.zero_grad()
            F.cross_entropy(probe((x[batch] - mean) / std), y[batch]).backward()
            stepper.step()
            if decay:
                decay.step()
        with torch.no_grad():
            loss = F.cross_entropy(probe((x - mean) / std), y).item()
        row = result.curve[epoch - 1]
        assert (row["fit"], row["step"], row["epoch"]) == ("all-train", 5 * epoch, epoch)
        assert row["train_loss"] == pytest.approx(loss, rel=1e-4)
    with torch.no_grad():
        expected = probe((torch.from_numpy(features.test_x) - mean) / std).argmax(1)
    assert result.metrics["accuracy"] == pytest.approx((expected.numpy() == features.test_y).mean(), abs=1 / 300)


def test_standardized_probe_ignores_scale_and_offset_of_every_feature(make_features):
    features = make_features(separation=0.5)
    rng = np.random.default_rng(0)
    scale = rng.choice([-1, 1], 16) * 10.0 ** rng.uniform(-3, 3, 16)
    offset = scale * rng.normal(size=16)
    train_x, test_x = (x * np.abs(scale) + offset for x in (features.train_x, features.test_x))
    moved = dataclasses.replace(features, train_x=train_x, test_x=test_x)
    straight, other = evaluate(features, SHORT), evaluate(moved, SHORT)
    assert other.metrics["train_loss"] == pytest.approx(straight.metrics["train_loss"], rel=1e-3)
    assert other.metrics["accuracy"] == pytest.approx(straight.metrics["accuracy"], abs=1 / 300)
    raw = evaluate(moved, SHORT.model_copy(update={"standardize": False}))
    assert abs(raw.metrics["train_loss"] - straight.metrics["train_loss"]) > 0.05


def test_the_probe_trains_until_the_loss_is_constant(make_features):
    features = make_features(n_train=400, separation=0.3)
    slow = Linear(lr=1e-3, min_steps=500, val_share=0)
    stopped = evaluate(features, slow.model_copy(update={"max_steps": 500}))
    assert stopped.metrics["steps"] == 500 and stopped.metrics["train_loss_fall"] > 1e-3
    assert any("had not converged after 500 steps" in note for note in stopped.notes)
    longer = evaluate(features, slow)
    assert 500 < longer.metrics["steps"] < slow.max_steps and not longer.notes
    assert longer.metrics["train_loss"] < stopped.metrics["train_loss"]


@pytest.mark.parametrize("counts", [[1, 1, 30, 30], [4] * 25, [14] * 20, [2, 2], [1000, 3]])
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_held_out_part_is_stratified(counts, share):
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))
    kept, held = stratified(labels, share, seed=1)
    assert sorted(np.r_[kept, held]) == list(range(len(labels)))
    taken = np.bincount(labels[held], minlength=len(counts))
    assert len(held) <= round(share * len(labels))
    assert (taken < counts).all(), "every class keeps a training clip"
    assert (np.abs(taken - share * np.array(counts)) <= 1).all()
    if min(counts) > 1 / (1 - share):
        assert len(held) == round(share * len(labels))
    if len(held) > 3:
        assert not np.array_equal(held, stratified(labels, share, seed=2)[1])
