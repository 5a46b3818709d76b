"""Metrics that a prototype objective records of its teacher; recording changes no result."""

import math

import pytest
import torch
import torch.nn.functional as F

from skelbench.models import prototype_objective
from skelbench.models.prototype_loss import Sinkhorn, prototype_cross_entropy, teacher_offset
from skelbench.models.prototype_objective import PrototypeObjective

MODES = ["sinkhorn", "running", "none"]
K = 24


def sample(n=40, views=2, dim=6, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def unit(*shape):
        return F.normalize(torch.randn(*shape, generator=generator), dim=-1)

    return [unit(n, views, dim), unit(K, dim), unit(n, dim), unit(K, dim), torch.rand(n, views, generator=generator)]


def objective_of(mode):
    objective = PrototypeObjective(K, mode)
    if mode == "running":
        objective.center.center.copy_(0.3 * torch.randn(K, generator=torch.Generator().manual_seed(5)))
    return objective


def distributions(mode, objective, z, W, temp):
    """The teacher's distributions of all samples, from the whole logits in float64."""
    logits = z.double() @ W.double().T
    if mode == "running":
        logits = logits - objective.center.center.double()
    q = torch.exp(logits / temp)
    for _ in range(3 if mode == "sinkhorn" else 0):
        q = q / q.sum(0, keepdim=True)
        q = q / q.sum(1, keepdim=True)
    return q / q.sum(1, keepdim=True)


def entropy(p):
    return -sum(x * math.log(x) for x in p.tolist() if x > 0)


@pytest.mark.parametrize("mode", MODES)
def test_metrics_equal_explicit_distributions(mode):
    objective, tensors = objective_of(mode), sample()
    objective(*tensors, 0.1)
    q_nK = distributions(mode, objective, tensors[2], tensors[3], 0.1)
    figures = objective.figures()
    assert float(figures["teacher_entropy"]) == pytest.approx(sum(map(entropy, q_nK)) / len(q_nK), rel=1e-4)
    assert float(figures["prototypes_used"]) == pytest.approx(math.exp(entropy(q_nK.mean(0))), rel=1e-4)


@pytest.mark.parametrize("mode", MODES)
def test_loss_and_gradients_are_bitwise_those_of_the_bare_loss(mode):
    objective, tensors = objective_of(mode), sample()
    student = [x.requires_grad_() for x in tensors[:2]]
    centering = {"sinkhorn": Sinkhorn(), "running": objective.center and objective.center.center, "none": None}[mode]
    offset_K = teacher_offset(centering, *tensors[2:4], 0.05)
    alone = prototype_cross_entropy(*tensors, teacher_temp=0.05, student_temp=0.1, offset_K=offset_K)
    loss = objective(*tensors, 0.05)
    objective.figures()
    assert torch.equal(loss, alone)
    for mine, theirs in zip(torch.autograd.grad(loss, student), torch.autograd.grad(alone, student)):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("mode", MODES)
def test_statistics_are_per_step_and_over_all_processes(mode, monkeypatch):
    objective = objective_of(mode)
    assert objective.figures() == {}
    objective(*sample(n=0), 0.1)
    assert objective.figures() == {}
    tensors = sample()
    objective(*tensors, 0.1)
    assert len(objective.figures()) == 2
    others = F.normalize(torch.randn(50, tensors[2].shape[1]), dim=1)
    monkeypatch.setattr(prototype_objective, "gather", lambda x: torch.cat([x, others]))
    of_all = distributions(mode, objective, torch.cat([tensors[2], others]), tensors[3], 0.1)
    if mode != "sinkhorn":  # its offsets depend on this process's samples here
        used = math.log(float(objective.figures()["prototypes_used"]))
        assert used == pytest.approx(entropy(of_all.mean(0)), abs=1e-4)
    objective.update()
    assert objective.figures() == {}
