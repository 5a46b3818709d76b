"""CPM against its loss written out."""

import math

import pytest
import torch
from skelbench_plugins.cpm import CPM, CPMConfig

from skelbench.methods import Step
from skelbench.methods.contract import Context
from skelbench.models.vit import ViT, ViTConfig
from skelbench.views import View
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25

GRID = Grid(8, 4, 25)


def make(**settings):
    torch.manual_seed(0)
    config = CPMConfig(**{"queue": 8, "embedding": 4} | settings)
    vit = ViTConfig(dim=8, depth=1, heads=2)
    method = CPM(config, Context(NTU25, GRID, lambda: ViT(vit, NTU25, GRID)))
    for head in (method.head, method.key_head, method.predictor):  # as drawn, all embeddings are nearly one
        for p in head.parameters():
            p.data = torch.randn_like(p)
    return method


def views():
    return {name: View.of(torch.randn(3, 2, 8, 25, 3)) for name in ("student", "target")}


def at(index, phase="similarity"):
    return Step(index, 9, 0.0, torch.Generator(), lambda *_: None, phase=phase)


def unit(values):
    length = math.sqrt(sum(v * v for v in values))
    return [v / length for v in values]


def shares(similarities, temperature):
    weights = [math.exp(s / temperature) for s in similarities]
    return [w / sum(weights) for w in weights]


def literal(students, targets, keys, positives):
    """Mean over clips of the divergence of two softmaxes over keys, one number after the other."""
    total = 0.0
    for student, target in zip(students, targets):
        mine, theirs = ([sum(a * b for a, b in zip(unit(x), key)) for key in keys] for x in (student, target))
        near = sorted(range(len(keys)), key=lambda i: -theirs[i])[:positives]
        theirs = [1.0 if i in near else s for i, s in enumerate(theirs)]
        pairs = zip(shares(theirs, 0.05), shares(mine, 0.1))
        total += sum(p * math.log(p / q) for p, q in pairs)
    return total / len(students)


@pytest.mark.parametrize(
    ("phase", "share", "positives"), [("similarity", 0.5, 0), ("mining", 1e-3, 1), ("mining", 0.4, 3)]
)
def test_the_loss_equals_the_explicit_version(phase, share, positives):
    method, seen = make(positives=share), views()
    for index in range(2):
        step = at(index)
        method(views(), step)
        method.after_step(step)
    student, target = seen["student"], seen["target"]
    students = method.predictor(method.head(method.encoder(student).clip_summary(student)))
    targets = method.key_head(method.key_encoder(target).clip_summary(target))
    keys = method.queue.keys_KE[:6].tolist()
    expected = literal(students.tolist(), targets.tolist(), keys, positives)
    assert float(method(seen, at(2, phase))["loss"].detach()) == pytest.approx(expected, rel=1e-4)


def test_without_keys_the_loss_is_zero():
    method = make()
    loss = method(views(), at(0))["loss"]
    loss.backward()
    assert loss == 0 and all(p.grad is None or not p.grad.any() for p in method.parameters())
