"""Two dimensions are the complex plane, where Möbius addition is one fraction: a reference in plain Python."""

import math

import pytest
import torch
from skelbench_plugins.hysp.ball import FARTHEST, MoebiusLinear, RiemannianSGD, distance, exp_map, moebius_add

EDGE = 1 - 1e-5


def add(a, b):
    return (a + b) / (1 + a.conjugate() * b)


def turn(a, b, w):
    """Gyration of w by a and b."""
    return (1 + a * b.conjugate()) / (1 + a.conjugate() * b) * w


def kept(z, edge=EDGE):
    return z if abs(z) <= edge else z / abs(z) * edge


def exp0(v):
    return kept(math.tanh(abs(v)) * v / abs(v)) if v else 0j


def points(n, scale=0.5):
    generator = torch.Generator().manual_seed(n)
    return torch.view_as_complex(scale * torch.randn(n, 2, generator=generator, dtype=torch.float64)).tolist()


def tensor(*numbers):
    return torch.view_as_real(torch.tensor(numbers, dtype=torch.complex128))


@pytest.mark.parametrize("scale", [1e-9, 0.3, 2.0, 40.0])
def test_maps_sums_and_distances(scale):
    for u, v in zip(points(20, scale), points(20)):
        x, y = exp0(u), exp0(v)
        torch.testing.assert_close(exp_map(tensor(u).float())[0], tensor(exp0(u))[0], rtol=1e-6, atol=0)
        torch.testing.assert_close(moebius_add(tensor(x), tensor(y))[0], tensor(add(x, y))[0], rtol=1e-12, atol=0)
        far = 2 * math.atanh(min(abs(add(-x, y)), 1 - 1e-7))
        assert float(distance(tensor(x), tensor(y))) == pytest.approx(far, rel=1e-7)
        true = math.acosh(1 + 2 * abs(x - y) ** 2 / ((1 - abs(x) ** 2) * (1 - abs(y) ** 2)))
        assert float(distance(tensor(x), tensor(y), capped=False)) == pytest.approx(true, rel=1e-7)


def test_distances_have_a_limit_and_no_nan():
    v = torch.tensor([[0.0, 0.0], [0.1, 0.0], [9.0, 0.0], [9.0, 0.0]], dtype=torch.float64, requires_grad=True)
    others = exp_map(torch.tensor([[0.0, 0.0], [0.1, 0.0], [0.0, 9.0], [9.0, 0.001]]))
    d = distance(exp_map(v), others)
    (gradient,) = torch.autograd.grad(d.sum(), v)
    assert float(d[2].detach()) == pytest.approx(FARTHEST) and d[3] < FARTHEST and d[0] == 0
    assert gradient.isfinite().all() and not gradient[2].any() and gradient[3].any()
    assert torch.autograd.gradcheck(lambda v: distance(exp_map(v), others.detach()), v[3:].detach().requires_grad_())


def literal_layer(v, rows, bias):
    """HYSP's code: map into the ball, multiply by the matrix with its own formula, add the bias, keep off the
    border."""
    x = [math.tanh(abs(complex(*v))) * part / abs(complex(*v)) for part in v]
    x = [part * min(1, EDGE / math.hypot(*x)) for part in x]
    mx = complex(*(sum(w * part for w, part in zip(row, x)) for row in rows))
    grown = math.tanh(min(15.0, abs(mx) / math.hypot(*x) * math.atanh(math.hypot(*x))))
    return kept(add(grown * mx / abs(mx), bias))


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_a_layer_equals_the_explicit_version(scale):
    layer = MoebiusLinear(2, 2, torch.Generator().manual_seed(3))
    assert layer.weight.abs().max() < 0.02 and 0 < layer.bias.norm() < 0.02  # far from the border
    with torch.no_grad():
        layer.weight.mul_(200)
        layer.bias.mul_(40)
    rows, bias = layer.weight.tolist(), complex(*layer.bias.tolist())
    for v in points(20, scale):
        single = torch.tensor([[v.real, v.imag]]).float()
        found = complex(*layer(single)[0].tolist())
        assert found == pytest.approx(literal_layer(single[0].tolist(), rows, bias), rel=1e-6)


@pytest.mark.parametrize("lr", [0.05, 3.0])
def test_riemannian_sgd_equals_the_explicit_version(lr):
    """geoopt's rsgd.py: gradient times ((1 - |x|^2) / 2)^2, momentum that begins with the plain gradient, a step in a
    straight line that is kept from the border, momentum carried along: turned and scaled."""
    x, goals = complex(0.3, -0.2), points(12, 1.0)
    plain, flat = 0.5, None
    point = torch.nn.Parameter(tensor(x)[0])
    number = torch.nn.Parameter(torch.tensor(plain, dtype=torch.float64)[None])
    optimizer = RiemannianSGD([{"params": [point], "ball": True}, {"params": [number]}], lr)
    momentum, at_border = None, False
    for goal in goals:
        optimizer.zero_grad()
        ((point - tensor(goal)[0]).square().sum() + number.square().sum()).backward()
        optimizer.step()
        gradient = 2 * (x - goal)
        momentum = 0.9 * (gradient if momentum is None else momentum) + gradient * ((1 - abs(x) ** 2) / 2) ** 2
        y = kept(x - lr * momentum)
        at_border |= abs(y) == pytest.approx(EDGE)
        momentum = turn(y, -x, momentum) * (1 - abs(y) ** 2) / (1 - abs(x) ** 2)
        x = y
        flat = 0.9 * (2 * plain if flat is None else flat) + 2 * plain
        plain -= lr * flat
        assert complex(*point.tolist()) == pytest.approx(x, rel=1e-7)
        assert float(number.detach()) == pytest.approx(plain, rel=1e-12)
    assert at_border == (lr > 1)
