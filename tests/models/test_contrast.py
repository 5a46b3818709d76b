import math

import pytest
import torch
from torch.nn.functional import normalize

from skelbench.models.contrast import KeyQueue, cross_entropy, divergence, info_nce, nearest, similarities


def made(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def logits_Bn():
    query, key, keys = (normalize(made(size, 8, seed=size), dim=1) for size in (5, 6, 9))
    return similarities(query, key[:5], keys, 0.07)


def test_column_0_is_the_clips_own_key(logits_Bn):
    query, key, keys = (normalize(made(size, 8, seed=size), dim=1) for size in (5, 6, 9))
    for b in range(5):
        for n, other in enumerate([key[b], *keys]):
            assert logits_Bn[b, n] == pytest.approx(float(query[b] @ other) / 0.07, rel=1e-5, abs=1e-5)
    assert similarities(query, key[:5], keys[:0], 0.07).shape == (5, 1), "before anything is written"


@pytest.mark.parametrize("several", ["mean", "sum"])
def test_info_nce_with_one_and_several_positives(logits_Bn, several):
    positive_Bn = made(5, 10, seed=3) > 0.8
    positive_Bn[:, 0] = True
    for b, loss in enumerate(info_nce(logits_Bn, positive_Bn, several).tolist()):
        total = sum(math.exp(x) for x in logits_Bn[b].tolist())
        chances = [math.exp(x) / total for x, yes in zip(logits_Bn[b].tolist(), positive_Bn[b]) if yes]
        logs = [math.log(chance) for chance in chances]
        expected = -math.log(sum(chances)) if several == "sum" else -sum(logs) / len(logs)
        assert loss == pytest.approx(expected, rel=1e-4)
    only_key = torch.zeros_like(positive_Bn)
    only_key[:, 0] = True
    assert torch.allclose(info_nce(logits_Bn, only_key, several), info_nce(logits_Bn))


def test_distillation_gradients_reach_only_the_student(logits_Bn):
    student, teacher = logits_Bn.clone().requires_grad_(), (logits_Bn.flip(0) * 0.5).requires_grad_()
    p, q = teacher.softmax(1), student.softmax(1)
    assert torch.allclose(divergence(student, teacher), (p * (p / q).log()).sum(1), atol=1e-5)
    assert torch.allclose(cross_entropy(student, teacher), -(p * q.log()).sum(1), atol=1e-4)
    assert torch.allclose(divergence(student, student), torch.zeros(5), atol=1e-6)
    gradients = [torch.autograd.grad(loss(student, teacher).sum(), student)[0] for loss in (divergence, cross_entropy)]
    assert torch.allclose(*gradients, atol=1e-6)
    divergence(student, teacher).sum().backward()
    assert teacher.grad is None


def test_nearest_keys_have_the_largest_logits(logits_Bn):
    chosen = nearest(logits_Bn, 3)
    for b in range(5):
        assert set(chosen[b].nonzero()[:, 0].tolist()) == set(logits_Bn[b].argsort(descending=True)[:3].tolist())
    assert nearest(logits_Bn, 99).all() and nearest(logits_Bn[:, :0], 4).shape == (5, 0)


@pytest.mark.parametrize("size,clips", [(24, 4), (10, 4), (3, 4), (1, 1)])
def test_a_queue_holds_only_the_last_written_keys(size, clips):
    queue, written = KeyQueue(size, 2), []
    for step in range(10):
        held = {tuple(row) for row in queue.written(step, clips).tolist()}
        assert held == {tuple(row) for row in written[-size:]}, step
        keys = made(clips, 2, seed=step)
        queue.push(step, keys)
        written += keys.tolist()
