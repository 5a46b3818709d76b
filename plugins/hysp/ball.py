"""The Poincaré ball of curvature -1: what geoopt computes (manifolds/stereographic, optim/rsgd.py), without it.

A vector of the tangent space at the origin is mapped into the ball, whose border is infinitely far away. Numbers are
float64, because float32 has too few digits near the border. Shapes: ... rows, D width, B clips, C classes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

MARGIN = {torch.float32: 4e-3}
"""Least distance of points from the border, by precision; 1e-5 in float64."""
SHARE = 1 - 1e-7
"""Largest norm of the difference of two points, as a fraction of the radius."""
FARTHEST = 2 * math.atanh(SHARE)
"""The resulting largest distance, 16.8; there is no gradient beyond it."""


def project(x: Tensor) -> Tensor:
    """[..., D]: points that are too near the border, or beyond it, moved inside.

    >>> project(torch.tensor([3.0, 4.0], dtype=torch.float64))
    tensor([0.6000, 0.8000], dtype=torch.float64)
    """
    limit = 1 - MARGIN.get(x.dtype, 1e-5)
    return x * (limit / _norm(x)).clamp(max=1)


def exp_map(v: Tensor) -> Tensor:
    """float64 [..., D]: the exponential map of tangent vectors v at the origin; the result has norm tanh|v|.

    >>> exp_map(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7616], dtype=torch.float64)
    """
    return project(_inside(v.double()))


def distance(x: Tensor, y: Tensor, capped: bool = True) -> Tensor:
    """[...]: distances between points of the ball.

    ``capped``: distances are at most :data:`FARTHEST`, without gradient there, as in geoopt. Near the border this limit
    is reached soon: 1e-5 from it, two points 2.6 degrees apart have this distance.

    >>> x = exp_map(torch.tensor([[1.0, 0.0], [-9.0, 0.0]]))
    >>> distance(x, torch.zeros(2, dtype=torch.float64))  # twice the length of the tangent vector, which is cut off
    tensor([ 2.0000, 12.2061], dtype=torch.float64)
    >>> distance(x[1], -x[1]), distance(x[1], -x[1], capped=False)
    (tensor(16.8112, dtype=torch.float64), tensor(24.4121, dtype=torch.float64))
    """
    rest = (1 - x.square().sum(-1)) * (1 - y.square().sum(-1))
    share = torch.linalg.vector_norm(x - y, dim=-1) / rest.sqrt()
    return 2 * (share.clamp(max=math.sinh(FARTHEST / 2)) if capped else share).asinh()


def moebius_add(x: Tensor, y: Tensor) -> Tensor:
    """[..., D]: the sum of points of the ball; not commutative.

    >>> moebius_add(torch.tensor([0.5]), torch.tensor([0.5]))
    tensor([0.8000])
    """
    xx, yy, xy = (_dot(a, b) for a, b in ((x, x), (y, y), (x, y)))
    return ((1 + 2 * xy + yy) * x + (1 - xx) * y) / (1 + 2 * xy + xx * yy).clamp(min=1e-15)


def moebius_linear(x_BD: Tensor, weight_CD: Tensor, bias_C: Tensor) -> Tensor:
    """float64 [B, C], points of the ball: :func:`exp_map` of ``x_BD`` through a Möbius-linear layer (Ganea et al.,
    Hyperbolic Neural Networks, NeurIPS 2018), whose bias is a point as well.

    The product with the matrix is computed in the tangent space, before the points are mapped into the ball and limited
    at its border.

    >>> moebius_linear(torch.tensor([[0.5, 0.0]]), torch.eye(2), torch.zeros(2))
    tensor([[0.4621, 0.0000]], dtype=torch.float64)
    """
    v_BD = x_BD.double()
    v_BD = v_BD * (math.atanh(1 - 1e-5) / _norm(v_BD)).clamp(max=1)
    return project(moebius_add(_inside(F.linear(v_BD, weight_CD.double())), bias_C.double()))


class MoebiusLinear(nn.Module):
    """A layer of :func:`moebius_linear` whose weights begin small, far from the border (HYSP's code).

    >>> MoebiusLinear(8, 3)(torch.randn(2, 8)).shape
    torch.Size([2, 3])
    """

    def __init__(self, width: int, classes: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        std = 0.01 / math.sqrt(2 * classes * width)
        self.weight = nn.Parameter(std * torch.randn(classes, width, generator=generator))
        self.bias = nn.Parameter(exp_map(torch.randn(classes, generator=generator) / 400).float())

    def forward(self, x_BD: Tensor) -> Tensor:
        """Features [B, D] -> logits, float64 [B, C]."""
        return moebius_linear(x_BD, self.weight, self.bias)


class RiemannianSGD(torch.optim.Optimizer):
    """SGD with momentum; parameters of groups with ``ball=True`` are points of the ball, each a vector.

    Their gradient is Riemannian, a step that leaves the ball ends at the border, and momentum is transported with the
    point. As in geoopt, momentum begins with the plain gradient, so the first step is nearly doubled.

    >>> point = nn.Parameter(torch.tensor([0.0, 0.5], dtype=torch.float64))
    >>> optimizer = RiemannianSGD([{"params": [point], "ball": True}], lr=1.0, momentum=0.0)
    >>> point.square().sum().backward()
    >>> optimizer.step()
    >>> point.detach()  # 0.5 - 1.0 x ((1 - 0.5 ** 2) / 2) ** 2
    tensor([0.0000, 0.3594], dtype=torch.float64)
    """

    def __init__(self, groups: Iterable[dict[str, Any]], lr: float, momentum: float = 0.9) -> None:
        super().__init__(groups, {"lr": lr, "momentum": momentum, "ball": False})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Make one update by the existing gradients."""
        for group in self.param_groups:
            for x in group["params"]:
                scale = (1 - _dot(x, x)) / 2 if group["ball"] else 1.0
                state = self.state[x]
                if not state:
                    state["momentum"] = x.grad.clone()
                momentum = state["momentum"].mul_(group["momentum"]).add_(x.grad * scale**2)
                y = x - group["lr"] * momentum
                if group["ball"]:
                    y = project(y)
                    momentum.copy_(_gyration(y, -x, momentum) * (1 - _dot(y, y)) / (1 - _dot(x, x)))
                x.copy_(y)


def _gyration(u: Tensor, v: Tensor, w: Tensor) -> Tensor:
    """Return the gyration of ``w`` by ``u`` and ``v``: -(u + v) + (u + (v + w))."""
    uu, vv, uv, uw, vw = (_dot(a, b) for a, b in ((u, u), (v, v), (u, v), (u, w), (v, w)))
    turned = (vw * (1 + 2 * uv) - uw * vv) * u - (vw * uu + uw) * v
    return w + 2 * turned / (1 + 2 * uv + uu * vv).clamp(min=1e-15)


def _inside(v: Tensor) -> Tensor:
    """Return :func:`exp_map` without its limit at the border."""
    norm = _norm(v)
    return norm.clamp(max=15).tanh() * (v / norm)


def _norm(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp(min=1e-15)


def _dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum(-1, keepdim=True)
