"""Targets of masked tokens and the KoLeo term, each against a loop."""

import pytest
import torch
from literal_prototypes import cross_entropy, hidden_loss
from skelbench_plugins.slim.koleo import koleo
from skelbench_plugins.slim.method import SlimConfig
from skelbench_plugins.slim.targets.coordinates import CoordinateTarget
from skelbench_plugins.slim.targets.features import FeatureTarget, PredictedFeatureTarget
from skelbench_plugins.slim.targets.prototypes import PrototypeTarget
from torch import nn

from skelbench.core.component import Spec
from skelbench.methods.contract import Context, Step
from skelbench.methods.target import Hidden
from skelbench.views import View
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25


def test_koleo_by_loops():
    x = torch.randn(9, 5, dtype=torch.float64, requires_grad=True)
    unit = [row / row.norm() for row in x]
    terms = [min((a - b).norm() for j, b in enumerate(unit) if j != i).log() for i, a in enumerate(unit)]
    expected = -sum(terms) / 9
    loss = koleo(x)
    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(
        torch.autograd.grad(loss, x)[0], torch.autograd.grad(expected, x)[0], rtol=1e-5, atol=1e-6
    )


def test_koleo_separates_neighbors_and_handles_duplicates():
    x = torch.tensor([[1.0, 0.0], [1.0, 0.05], [0.0, 1.0]], requires_grad=True)
    (grad,) = torch.autograd.grad(koleo(x), x)
    assert grad[1, 1] < 0 < grad[0, 1]
    twins = torch.ones(4, 3, requires_grad=True)
    loss = koleo(twins)
    assert torch.isfinite(loss) and torch.isfinite(torch.autograd.grad(loss, twins)[0]).all()


TARGETS = {
    "prototypes": PrototypeTarget,
    "coordinates": CoordinateTarget,
    "features": FeatureTarget,
    "features-predictor": PredictedFeatureTarget,
}
SIZES = {"prototypes": 12, "head_hidden": 10, "bottleneck": 6, "decoder_dim": 8, "decoder_depth": 1, "decoder_heads": 2}
GRID, WIDTH, ROWS = Grid(8, 4, 25), 7, 4
STEP = Step(3, 10, 0.3, torch.Generator(), lambda *args: None)


def make(name, centering="running"):
    """The target in double precision, its EMA twin unlike its student, its center not zero."""
    torch.manual_seed(1)
    config = SlimConfig(target=name, centering=centering, **SIZES)
    target = TARGETS[name](config, Context(NTU25, GRID, nn.Identity, WIDTH, WIDTH), Spec()).double()
    with torch.no_grad():
        for key, value in (*target.named_parameters(), *target.named_buffers()):
            if key.startswith("teacher") or key.endswith("center"):
                value.add_(0.3 * torch.randn_like(value))
    return target


def hidden(counts=(3, 0, 11, 50), step=STEP):
    """Features and coordinates of four rows, with these numbers of masked tokens."""
    generator = torch.Generator().manual_seed(2)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    order_RN = torch.rand(ROWS, GRID.tokens, generator=generator).argsort(1)
    mask_RN = order_RN < torch.tensor(counts)[:, None]
    view = View(
        normal(ROWS, 8, 25, 3), torch.arange(ROWS), ROWS, 1, mask_RN=mask_RN, masked_I=mask_RN.flatten().nonzero()[:, 0]
    )
    features = [normal(ROWS, GRID.tokens, WIDTH).requires_grad_() for _ in range(2)]
    return Hidden(view, *features, 0.05, step)


def token_loss(name, target, seen):
    """The loss of token n of row r, from the formula."""

    def unit(x):
        return x / x.square().sum().sqrt()

    def prototypes(r, n):
        student, teacher = target.head(seen.student_RND[r, n]), target.teacher_head(seen.teacher_RND[r, n].detach())
        teacher_K = target.teacher_head.prototypes
        return cross_entropy(student, teacher, target.head.prototypes, teacher_K, 0.05, target.objective.center.center)

    def features(r, n):
        said = unit(target.head(seen.student_RND[r, n]))
        if name == "features-predictor":
            first, _, second = target.predictor
            x = first.weight @ said + first.bias
            said = unit(second.weight @ (x * 0.5 * (1 + torch.erf(x / 2**0.5))) + second.bias)
        return 2 - 2 * said @ unit(target.teacher_head(seen.teacher_RND[r, n].detach()))

    def coordinates(r, n):
        every_1N = torch.arange(GRID.tokens)[None]
        said = target.decoder(seen.student_RND[r : r + 1], every_1N)[0, n]
        time, joint = divmod(n, 25)
        real = [seen.view.x_RTJC[r, 4 * time + t, joint, c] for t in range(4) for c in range(3)]
        return sum((a - b) ** 2 for a, b in zip(said, real)) / 12

    return {"prototypes": prototypes, "coordinates": coordinates}.get(name, features)


@pytest.mark.parametrize("name", TARGETS)
def test_loss_and_gradients_equal_the_loop(name):
    found, losses = [], []
    for literal in (False, True):
        target, seen = make(name), hidden()
        if literal:
            loss = ROWS * hidden_loss(seen.view.mask_RN, token_loss(name, target, seen))
        else:
            loss = target(seen)
        loss.backward()
        assert seen.teacher_RND.grad is None
        losses.append(loss.detach())
        grads = {key: p.grad for key, p in target.named_parameters() if p.requires_grad}
        found.append(grads | {"student": seen.student_RND.grad})
        assert not any(
            p.requires_grad or p.grad is not None for key, p in target.named_parameters() if "teacher" in key
        )
    torch.testing.assert_close(*losses)
    assert found[0].keys() == found[1].keys() and all(
        grad.any() for key, grad in found[0].items() if "mask_token" not in key
    )
    for key, grad in found[1].items():
        torch.testing.assert_close(found[0][key], grad, rtol=1e-4, atol=1e-5, msg=lambda m, k=key: f"{k}: {m}")


@pytest.mark.parametrize("name", TARGETS)
def test_without_masked_tokens_loss_and_gradients_are_zero(name):
    target, seen = make(name, centering="sinkhorn"), hidden(counts=(0, 0, 0, 0))
    loss = target(seen)
    loss.backward()
    assert loss == 0 and loss.dim() == 0
    for key, p in (*target.named_parameters(), ("student", seen.student_RND)):
        assert not p.requires_grad or (p.grad is not None and not p.grad.any()), key
