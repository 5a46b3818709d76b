"""Probes trained together are those trained apart, and held-out training subjects choose between them."""

import dataclasses

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from skelbench.evaluation.linear import Linear, fit_linear, standardization
from skelbench.evaluation.probe import Part
from skelbench.evaluation.swept import LinearSwept, held_out

SHORT = LinearSwept(lrs=(1e-3, 1e-2), weight_decays=(0.0, 1.0), epochs=4, min_steps=30, batch_size=64)


@pytest.fixture
def features(make_features):
    made = make_features(n_train=240, classes=4, separation=0.5)
    return dataclasses.replace(made, train_subjects=np.arange(240) // 4 % 10 + 1)


def evaluate(features, config=SHORT, seed=0, **kwargs):
    return config.evaluate(features, seed, "cpu", **kwargs)


def apart(part, num_classes, config, lr, weight_decay, seed):
    """One probe by autograd, torch's own optimizer and scheduler."""
    mean_D, inverse_std_D = standardization(part.x_nD)
    x_nD = (part.x_nD - mean_D) * inverse_std_D
    generator = torch.Generator().manual_seed(seed)
    probe = torch.nn.Linear(x_nD.shape[1], num_classes)
    with torch.no_grad():
        probe.weight.copy_(0.01 * torch.randn(probe.weight.shape, generator=generator))
        probe.bias.zero_()
    optimizer = torch.optim.AdamW(probe.parameters(), lr=lr, weight_decay=weight_decay)
    epochs = -(-len(x_nD) // config.batch_size)
    total = max(config.min_steps, config.epochs * epochs)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total)
    step = 0
    while step < total:
        for batch in torch.randperm(len(x_nD), generator=generator).split(config.batch_size)[: total - step]:
            optimizer.zero_grad()
            F.cross_entropy(probe(x_nD[batch]), part.y_n[batch]).backward()
            optimizer.step()
            decay.step()
            step += 1
    return probe


def test_probes_trained_together_equal_separate_probes(features):
    part = Part.of(features.train_x, features.train_y, "cpu")
    pairs = [(1e-3, 0.0), (1e-2, 1.0), (0.1, 0.1)]
    heads = fit_linear(part, 4, SHORT.recipe(), seed=3, pairs=pairs)
    for weight_CD, bias_C, pair in zip(heads.weight_ECD, heads.bias_EC, pairs):
        probe = apart(part, 4, SHORT, *pair, seed=3)
        torch.testing.assert_close(weight_CD, probe.weight.detach(), rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(bias_C, probe.bias.detach(), rtol=1e-3, atol=1e-5)


def test_the_chosen_setting_is_trained_again_like_linear(features):
    result = evaluate(features, seed=5)
    chosen = {"lr": result.metrics["chosen_lr"], "weight_decay": result.metrics["chosen_weight_decay"]}
    lengths = {"epochs": 4, "min_steps": 30, "batch_size": 64}
    same = Linear(**chosen, **lengths, tolerance=None, val_share=0).evaluate(features, 5, "cpu")
    assert np.array_equal(result.logits, same.logits)
    assert result.metrics["n_train"] == 240 and result.metrics["accuracy"] == same.metrics["accuracy"]


def test_the_best_setting_on_held_out_subjects_is_chosen(features):
    """With the labels of the held-out clips turned, only the rate that learns nothing is right by chance."""
    result = evaluate(features, SHORT.model_copy(update={"lrs": (1e-6, 1e-2), "weight_decays": (0.1,)}))
    assert result.metrics["chosen_lr"] == 1e-2
    sweep = [row for row in result.curve if row["fit"] == "sweep"]
    assert [row["chosen"] for row in sweep] == [False, True]
    assert max(row["val_accuracy"] for row in sweep) == result.metrics["held_out_accuracy"]
    assert not any("test" in name for name in sweep[0])
    assert sweep[1]["test_accuracy"] == result.metrics["accuracy_selected"]
    _, held, _ = held_out(features)
    y = features.train_y.copy()
    y[held] = (y[held] + 1) % 4
    turned = evaluate(dataclasses.replace(features, train_y=y), SHORT.model_copy(update={"lrs": (1e-6, 1e-2)}))
    assert turned.metrics["chosen_lr"] == 1e-6


def test_whole_subjects_are_held_out_the_same_for_every_encoder(features, make_features):
    kept, held, notes = held_out(features)
    subjects = features.train_subjects
    assert not notes and sorted([*kept, *held]) == list(range(240))
    assert len(set(subjects[held])) == 2 and not set(subjects[held]) & set(subjects[kept])
    other = dataclasses.replace(features, train_x=-2 * features.train_x)
    assert np.array_equal(held_out(other)[1], held)


def test_without_subjects_clips_are_held_out_and_a_note_says_so(features):
    result = evaluate(dataclasses.replace(features, train_subjects=None))
    assert any("subjects are not known: settings were chosen on 48 training clips" in note for note in result.notes)
