import threading

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from skelbench.models import prototype_loss
from skelbench.models.prototype_loss import RunningCenter, Sinkhorn, prototype_cross_entropy, teacher_offset

TEMPS = {"student_temp": 0.1, "teacher_temp": 0.04}
MODES = ["none", "center", "sinkhorn"]


def sample(n=13, views=3, dim=6, prototypes=20, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def unit(*shape):
        return F.normalize(torch.randn(*shape, generator=generator, dtype=dtype), dim=-1)

    return {
        "student_z": unit(n, views, dim).requires_grad_(),
        "student_W": (1.3 * unit(prototypes, dim)).requires_grad_(),
        "teacher_z": unit(n, dim),
        "teacher_W": 0.9 * unit(prototypes, dim),
        "weights": torch.rand(n, views, generator=generator, dtype=dtype),
    }


def centering_of(mode, prototypes=20):
    center = 0.2 * torch.randn(prototypes, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    return {"none": None, "center": center, "sinkhorn": Sinkhorn()}[mode]


def sinkhorn_by_loops(logits_nK, temp, iterations=3):
    """Balanced assignments entry by entry on the full matrix, in float64."""
    B, K = logits_nK.shape
    q = [[torch.exp(logits_nK[b, k].double() / temp).item() for b in range(B)] for k in range(K)]
    total = sum(map(sum, q))
    q = [[entry / total for entry in row] for row in q]
    for _ in range(iterations):
        for k in range(K):
            mass = sum(q[k])
            q[k] = [entry / mass / K for entry in q[k]]
        for b in range(B):
            mass = sum(q[k][b] for k in range(K))
            for k in range(K):
                q[k][b] = q[k][b] / mass / B
    return torch.tensor([[q[k][b] * B for k in range(K)] for b in range(B)], dtype=torch.float64)


def plain(centering, student_z, student_W, teacher_z, teacher_W, weights, student_temp, teacher_temp):
    """Logits held, log_softmax, autograd."""
    logits_nK = (teacher_z @ teacher_W.T).detach()
    if isinstance(centering, Sinkhorn):
        target_nK = sinkhorn_by_loops(logits_nK, teacher_temp)
    else:
        target_nK = torch.softmax((logits_nK - (0 if centering is None else centering)) / teacher_temp, 1)
    log_student = torch.log_softmax(student_z @ student_W.T / student_temp, -1)
    return -(target_nK.to(log_student.dtype)[:, None] * log_student).sum(-1).mul(weights).sum()


def chunked(centering, teacher_z, teacher_W, teacher_temp, **others):
    offset_K = teacher_offset(centering, teacher_z, teacher_W, teacher_temp)
    given = {"teacher_z": teacher_z, "teacher_W": teacher_W, "teacher_temp": teacher_temp, "offset_K": offset_K}
    return prototype_cross_entropy(**given, **others)


@pytest.fixture
def rows(monkeypatch):
    """Set the rows of a tile."""
    return lambda number, prototypes=20: monkeypatch.setattr(prototype_loss, "TILE", number * prototypes)


def grads(loss, tensors):
    return torch.autograd.grad(loss, [tensors["student_z"], tensors["student_W"]])


@pytest.mark.parametrize("chunk", [1, 4, 50])
@pytest.mark.parametrize("mode", MODES)
def test_loss_and_gradients_equal_the_plain_version(mode, chunk, rows):
    rows(chunk)
    tensors, centering = sample(), centering_of(mode)
    expected = plain(centering, **tensors, **TEMPS)
    loss = chunked(centering, **tensors, **TEMPS)
    torch.testing.assert_close(loss, expected)
    for got, want in zip(grads(3.0 * loss, tensors), grads(3.0 * expected, tensors)):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("mode", MODES)
def test_gradcheck(mode, rows):
    rows(2, 7)
    tensors = sample(n=5, views=2, dim=3, prototypes=7)
    centering = centering_of(mode, 7)

    def loss(student_z, student_W):
        changed = tensors | {"student_z": student_z, "student_W": student_W}
        return chunked(centering, **changed, **TEMPS)

    assert torch.autograd.gradcheck(loss, (tensors["student_z"], tensors["student_W"]))


@pytest.mark.parametrize("mode", MODES)
def test_factors_in_bfloat16_change_little_of_loss_and_gradients(mode, rows, monkeypatch):
    """Rounding of a GPU in bf16 autocast; benchmarks/prototype_loss.py --rounded has numbers at the paper's size."""
    tensors, centering = sample(64, 2, 64, 500, torch.float32), centering_of(mode, 500)
    rows(20, 500)
    exact = chunked(centering, **tensors, **TEMPS)
    monkeypatch.setattr(prototype_loss, "rounds_products", lambda like: True)
    rounded = chunked(centering, **tensors, **TEMPS)
    assert exact != rounded and abs(rounded - exact) <= 1e-3 * abs(exact)
    for got, want in zip(grads(rounded, tensors), grads(exact, tensors)):
        assert got.dtype == torch.float32 and 1e-4 * want.norm() < (got - want).norm() <= 1e-2 * want.norm()


def test_one_view_needs_no_view_dimension():
    tensors = sample(views=1)
    flat = tensors | {"student_z": tensors["student_z"][:, 0], "weights": tensors["weights"][:, 0]}
    with_views = prototype_cross_entropy(**tensors, **TEMPS)
    without = prototype_cross_entropy(**flat, **TEMPS)
    assert torch.equal(with_views, without)
    assert torch.equal(*(grads(loss, tensors)[0] for loss in (with_views, without)))


@pytest.mark.parametrize("mode", MODES)
def test_no_tensor_is_larger_than_a_tile(mode, rows):
    rows(8, 128)
    tensors = sample(n=64, views=2, dim=4, prototypes=128, dtype=torch.float32)
    centering = centering_of(mode, 128)
    largest = 0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            sizes = [
                leaf.untyped_storage().nbytes() // 4 for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)
            ]
            largest = max(largest, *sizes, 0)
            return out

    with Watch():
        chunked(centering, **tensors, **TEMPS).backward()
    assert largest == 8 * 128  # the whole logits have 64 * 128 elements per view


def test_the_teacher_and_the_weights_get_no_gradient():
    tensors = {name: value.detach().requires_grad_() for name, value in sample().items()}
    chunked(Sinkhorn(), **tensors, **TEMPS).backward()
    assert {name for name, value in tensors.items() if value.grad is not None} == {"student_z", "student_W"}


@pytest.mark.parametrize("mode", MODES)
def test_no_samples_give_zero(mode):
    tensors = sample(n=0)
    loss = chunked(centering_of(mode), **tensors, **TEMPS)
    assert loss.item() == 0.0
    z_grad, W_grad = grads(loss, tensors)
    assert z_grad.shape == (0, 3, 6) and not W_grad.any()


@pytest.mark.parametrize("mode", MODES)
def test_large_logits_neither_overflow_nor_vanish(mode, rows):
    """Gains of 40 at temperature 0.04 give exponents of +-1000; float64 and log-space maths are the reference."""
    rows(4)
    tensors = sample(views=1, dtype=torch.float32)
    tensors["teacher_W"] = 40 * tensors["teacher_W"]
    tensors["student_W"] = (40 * tensors["student_W"].detach()).requires_grad_()
    centering = centering_of(mode)
    loss = chunked(centering, **tensors, **TEMPS)
    log_q = (tensors["teacher_z"] @ tensors["teacher_W"].T).double() / TEMPS["teacher_temp"]
    if mode == "center":
        log_q = log_q - centering / TEMPS["teacher_temp"]
    if mode == "sinkhorn":
        for _ in range(3):
            log_q = log_q - log_q.logsumexp(0)
            log_q = log_q - log_q.logsumexp(1, keepdim=True)
    log_p = torch.log_softmax(
        tensors["student_z"][:, 0].double() @ tensors["student_W"].double().T / TEMPS["student_temp"], 1
    )
    expected = -(torch.softmax(log_q, 1) * log_p).sum(1) @ tensors["weights"][:, 0].double()
    assert torch.isfinite(torch.cat([grad.flatten() for grad in grads(loss, tensors)])).all()
    if mode != "sinkhorn":  # prototypes that no sample can reach in float32 stay unreached there
        assert loss.item() == pytest.approx(expected.item(), rel=1e-3)
    assert torch.isfinite(loss)


@pytest.mark.parametrize(("mode", "products"), [("none", 3 * 3 + 1), ("center", 3 * 3 + 1), ("sinkhorn", 3 * 3 + 4)])
def test_the_loss_runs_on_shapes_and_every_product_is_counted(mode, products, rows):
    """One teacher product (Sinkhorn three more); per view logits and two gradients."""
    rows(5)
    tensors = {name: value.detach().to("meta") for name, value in sample(dtype=torch.float32).items()}
    tensors["student_z"].requires_grad_()
    tensors["student_W"].requires_grad_()
    centering = centering_of(mode)
    centering = centering.to("meta") if isinstance(centering, torch.Tensor) else centering
    with FlopCounterMode(display=False) as counter:
        chunked(centering, **tensors, **TEMPS).backward()
    assert tensors["student_W"].grad.shape == (20, 6)
    assert counter.get_total_flops() == 2 * products * 13 * 6 * 20


@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_sinkhorn_offsets_give_the_balanced_assignment(iterations, rows):
    rows(5)
    tensors = sample()
    z, W = tensors["teacher_z"], tensors["teacher_W"]
    expected = sinkhorn_by_loops(z @ W.T, 0.04, iterations)
    offset_K = Sinkhorn(iterations).offsets(z, W, 0.04)
    torch.testing.assert_close(torch.softmax(z @ W.T / 0.04 + offset_K, 1), expected)


class Ranks:
    """An all-reduce between threads: every caller gets the sum over all of them."""

    def __init__(self, world):
        self.barrier, self.values, self.lock = threading.Barrier(world), [], threading.Lock()

    def all_reduce(self, x):
        with self.lock:
            self.values.append(x)
        self.barrier.wait()
        total = sum(self.values[1:], start=self.values[0])
        if self.barrier.wait() == 0:
            self.values.clear()
        self.barrier.wait()
        return total

    def run(self, function, *per_rank):
        results = [None] * len(per_rank[0])

        def work(rank):
            results[rank] = function(*(values[rank] for values in per_rank))

        threads = [threading.Thread(target=work, args=(rank,)) for rank in range(len(results))]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        return results


@pytest.mark.parametrize("parts", [(7, 6), (13, 0), (4, 1, 8)])
def test_ranks_with_parts_of_the_batch_agree_with_one_process(parts, monkeypatch):
    tensors = sample()
    z, W = tensors["teacher_z"], tensors["teacher_W"]
    pieces = z.split(parts)
    alone, one = Sinkhorn().offsets(z, W, 0.04), RunningCenter(20)
    one.update(z, W)
    ranks = Ranks(len(parts))
    monkeypatch.setattr(prototype_loss, "all_reduce_sum", ranks.all_reduce)
    offsets = ranks.run(lambda piece: Sinkhorn().offsets(piece, W, 0.04), pieces)
    for offset_K in offsets:
        torch.testing.assert_close(offset_K, alone)

    centers = [RunningCenter(20) for _ in parts]
    ranks.run(lambda center, piece: center.update(piece, W), centers, pieces)
    for center in centers:
        torch.testing.assert_close(center.center, one.center)


def test_running_center_is_the_moving_average_of_mean_logits():
    center, of_logits, expected = RunningCenter(20), RunningCenter(20), torch.zeros(20)
    for seed in range(4):
        tensors = sample(n=5 + seed, dtype=torch.float32, seed=seed)
        z, W = tensors["teacher_z"], tensors["teacher_W"]
        center.update(z, W)
        expected = 0.9 * expected + 0.1 * (z @ W.T).mean(0)
        torch.testing.assert_close(center.center, expected)
        of_logits.update(z @ W.T)
        torch.testing.assert_close(of_logits.center, expected)
    before = center.center.clone()
    center.update(z[:0], W)
    assert torch.equal(center.center, before)
    assert set(center.state_dict()) == {"center"}
