"""Fine-tuning: learning, steps, hidden test labels, and resuming."""

import math
import os
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch
from skelbench_plugins.aimclr import AimCLRSemi
from torch.nn import functional as F

from skelbench.core.errors import Interrupted
from skelbench.evaluation.finetune import FineTune, SemiSupervised, Supervised
from skelbench.evaluation.finetune_fit import Fit, Part
from skelbench.models.vit import ViT, ViTConfig
from skelbench.plugin import ProtocolSpec
from skelbench.testing.downstream import CLASSES, GRID, TRAIN, Postures
from skelbench.views.skeleton.topology import NTU25

QUICK = {"epochs": 10, "min_steps": 0, "batch_size": 12, "lr": 1e-2}


@pytest.fixture(scope="module")
def postures(tmp_path_factory):
    return Postures(tmp_path_factory.mktemp("postures"), ProtocolSpec(name="made", target=":None"))


@pytest.fixture
def tuned(postures):
    """``tuned(cls, **settings)``: its result on clips that lie far apart, or on ``task``."""

    def tune(cls=FineTune, task=None, progress=None, seed=0, **settings):
        task = task or postures.task(postures.sides())
        return cls(**QUICK | settings).evaluate_encoder(task, seed, "cpu", progress)

    return tune


@pytest.fixture
def fit(postures):
    """``fit(**settings)``: a fit of all training clips that has not begun."""

    def make(**settings):
        task = postures.task(postures.sides())
        part = Part("all-train", 0, np.arange(TRAIN), np.arange(0))
        return Fit(task, task.source(), FineTune(**QUICK | settings), part, seed=0)

    return make


def same(one, other):
    assert one.metrics == other.metrics and one.curve == other.curve
    assert np.array_equal(one.predictions["predicted"], other.predictions["predicted"])


# ------------------------------------------------------------------------------------------------ what it measures
def test_postures_are_learned_and_an_epoch_is_chosen_on_training_clips(tuned):
    result = tuned(val_share=0.2)
    assert result.metrics["accuracy"] == 1 and result.metrics["accuracy_selected"] > 0.9
    assert "accuracy_best_on_test" not in result.metrics
    first, second = ([row for row in result.curve if row["fit"] == name] for name in ("all-train", "held-out"))
    assert len(first) == len(second) == 10 and "test_accuracy" in first[-1] and "val_accuracy" not in first[0]
    (chosen,) = [row for row in second if "test_accuracy" in row]
    best = max(second, key=lambda row: (row["val_accuracy"], -row["val_loss"], -row["step"]))
    assert chosen == best and result.metrics["selected_step"] == chosen["step"]
    assert result.metrics["accuracy_selected"] == chosen["test_accuracy"]


def test_finetuning_starts_from_the_trained_or_initial_encoder(postures):
    def first_weight(cls):
        task = postures.task(postures.sides())
        part = Part("all-train", 0, np.arange(TRAIN), np.arange(0))
        return next(Fit(task, task.source(), cls(), part, 0).model.encoder.parameters())

    task = postures.task(postures.sides())
    for cls, trained in ((FineTune, True), (Supervised, False)):
        assert torch.equal(first_weight(cls), next(task.encoder(trained).parameters()))
    assert not torch.equal(first_weight(FineTune), first_weight(Supervised))


def test_few_label_results_are_means_over_recorded_lists(tuned):
    result = tuned(SemiSupervised, label_share=0.4, draws=3, epochs=3, val_share=0.3)
    assert result.predictions["predicted"].shape[0] == 3
    assert result.metrics["n_train"] == len(result.details["labels"]) * 8 / 3
    assert result.metrics["accuracy_sd"] >= 0
    assert len({each["sha256"] for each in result.details["labels"]}) == 3
    assert all(each["sha256"][:12] in "".join(result.notes) for each in result.details["labels"])
    assert {row["draw"] for row in result.curve} == {0, 1, 2}


def test_only_labeled_clips_are_used(postures, tuned, monkeypatch):
    seen = []
    step = Fit.train_step
    monkeypatch.setattr(
        Fit, "train_step", lambda self, view, batch: (seen.extend(self.ids_n[batch]), step(self, view, batch))
    )
    tuned(SemiSupervised, label_share=0.01, draws=2, epochs=2, val_share=0.0)
    assert len(set(seen)) <= 2 * CLASSES and len(seen) == 2 * 2 * CLASSES


@pytest.mark.parametrize(
    ("cls", "settings"),
    [(FineTune, {}), (Supervised, {}), (SemiSupervised, {"label_share": 0.3, "draws": 2}), (AimCLRSemi, {"draws": 1})],
)
def test_labels_of_test_clips_have_no_effect(postures, tuned, cls, settings):
    sides = postures.sides()
    permuted = replace(sides, test_y=np.random.default_rng(1).permutation(sides.test_y))
    how = {"epochs": 2, "val_share": 0.2, "best_on_test": True, **settings}
    result, other = (tuned(cls, task=postures.task(each), **how) for each in (sides, permuted))
    assert np.array_equal(result.predictions["predicted"], other.predictions["predicted"])
    assert [row["train_loss"] for row in result.curve] == [row["train_loss"] for row in other.curve]
    assert result.metrics["train_loss"] == other.metrics["train_loss"]
    assert result.metrics.get("selected_step") == other.metrics.get("selected_step")


# ------------------------------------------------------------------------------------------------ by what it steps
def test_layer_decay_follows_the_literal_rule(postures):
    encoder, head = ViT(ViTConfig(dim=16, depth=3, heads=2), NTU25, GRID), torch.nn.Linear(32, 4)
    groups = FineTune(layer_decay=0.5, head_lr=2.0, weight_decay=1.0).groups(encoder, head)
    found = {p: (g["lr_scale"], g["weight_decay"]) for g in groups for p in g["params"]}
    for name, parameter in encoder.named_parameters():
        # maoyunyao/MAMP, util/lr_decay.py: what makes tokens is layer 0, block k is k + 1, the rest is the last one
        block = int(name.split(".")[1]) + 1 if name.startswith("blocks.") else 4 if name.startswith("norm.") else 0
        assert found[parameter] == (0.5 ** (4 - block), float(parameter.ndim > 1)), name
    assert [found[p] for p in head.parameters()] == [(2.0, 1.0), (2.0, 0.0)]
    assert len(found) == len(list(encoder.parameters())) + 2


def test_the_first_steps_equal_a_literal_loop(postures, fit):
    """AdamW with a group per parameter, warm-up and cosine, smoothed targets written out."""
    mine = fit(drop_path=0.0, weight_decay=0.1, label_smoothing=0.2, layer_decay=0.7, warmup=0.2, min_lr=1e-4)
    theirs = fit(drop_path=0.0).model
    named = dict(theirs.named_parameters())
    depth = len(theirs.encoder.blocks)

    def scale(name):
        layer = 0 if name.startswith("encoder.") else depth + 1
        layer = int(name.split(".")[2]) + 1 if ".blocks." in name else layer
        return 0.7 ** (depth + 1 - (depth + 1 if name.startswith("encoder.norm") else layer))

    groups = [{"params": [p], "scale": scale(n), "weight_decay": 0.1 * (p.ndim > 1)} for n, p in named.items()]
    optimizer = torch.optim.AdamW(groups, lr=1.0)
    theirs.train()
    warm = 4
    for step, (batch, view) in enumerate([*mine.batches()]):
        mine.train_step(view, batch)
        rate = 1e-2 * (step + 1) / warm
        for group in optimizer.param_groups:
            group["lr"] = rate * group["scale"]
        target = F.one_hot(torch.from_numpy(mine.y_n[batch]), CLASSES) * 0.8 + 0.2 / CLASSES
        loss = -(target * theirs(view).log_softmax(1)).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for (name, p), q in zip(mine.model.named_parameters(), theirs.parameters()):
        if name.endswith("qkv.bias"):  # gradients of keys are rounding errors, and Adam keeps their sign
            p, q = (torch.cat([x.chunk(3)[0], x.chunk(3)[2]]) for x in (p, q))
        assert torch.allclose(p, q, atol=1e-6), name
    rates = [mine.trainer.rate(step) for step in range(mine.total)]
    assert rates[10] == pytest.approx(1e-4 + (1e-2 - 1e-4) * (1 + math.cos(math.pi * 6 / 16)) / 2)


def test_frozen_trains_only_the_classifier(fit):
    made = fit(frozen=True, head_hidden=8)
    before = {name: x.clone() for name, x in made.model.state_dict().items()}
    for batch, view in made.batches():
        made.train_step(view, batch)
    moved = {name for name, x in made.model.state_dict().items() if not torch.equal(x, before[name])}
    assert moved and all(name.startswith("head.") for name in moved)


# ------------------------------------------------------------------------------------------------ stopped
def stopped_at(monkeypatch, step, number):
    """A signal before step ``step`` of the second fit."""
    train = Fit.train_step

    def train_or_stop(self, view, batch):
        if self.step == step and self.part.name == "held-out":
            os.kill(os.getpid(), number)
        return train(self, view, batch)

    monkeypatch.setattr(Fit, "train_step", train_or_stop)


def test_stopped_by_a_signal_and_continued_to_the_same_bits(postures, tuned, monkeypatch):
    how = {"epochs": 3, "val_share": 0.2, "drop_path": 0.3, "best_on_test": True}
    whole, told = tuned(**how), []
    task = postures.task(postures.sides())
    with (
        monkeypatch.context() as patch,
        pytest.raises(Interrupted, match="state saved in .*same command again") as stop,
    ):
        stopped_at(patch, 3, signal.SIGTERM)
        tuned(task=task, **how)
    assert stop.value.exit_code == 130 and task.state.exists()
    same(tuned(task=task, progress=lambda done, total: told.append((done, total)), **how), whole)
    assert told[0][0] > told[0][1] / 3 and told[-1][0] == told[-1][1]


def test_a_damaged_state_is_reported_and_not_used(postures, tuned, monkeypatch, caplog):
    how = {"epochs": 3, "val_share": 0.2}
    whole, task = tuned(**how), postures.task(postures.sides())
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        stopped_at(patch, 2, signal.SIGINT)
        tuned(task=task, **how)
    content = task.state.read_bytes()
    task.state.write_bytes(content[: len(content) // 2])
    same(tuned(task=task, **how), whole)
    assert "this evaluation starts again" in caplog.text
