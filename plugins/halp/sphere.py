"""Prototypes of unit vectors, and points between a vector and a prototype that is not its nearest.

Facts: anshulbshah/HaLP, moco/generator.py; Riemannian k-means as in geomstats, which it calls. n vectors, B vectors
with G points each, E their width, K prototypes.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from skelbench.models.contrast import cosines
from skelbench.models.precision import no_autocast
from skelbench.views.keyed import pick

ITERATIONS = 50
TINY = 1e-8
"""Constant that the code adds to divisors."""


@torch.no_grad()
def prototypes(x_nE: Tensor, u_K: Tensor) -> Tensor:
    """float32 [K, E]: k-means of unit vectors by angles, with as many clusters as there are uniform draws, in float64.

    In each iteration vectors go to their nearest prototype, and each prototype takes one step along a great circle
    towards the mean of its vectors. It converges to the Frechet mean. A prototype without vectors does not move.
    """
    with no_autocast(x_nE):
        x_nE = x_nE.double()
        prototype_KE = spread_out(x_nE, u_K)
        for _ in range(ITERATIONS):
            cosine_nK = (x_nE @ prototype_KE.T).clamp(-1 + 1e-9, 1)
            own_nK = torch.zeros_like(cosine_nK).scatter_(1, cosine_nK.argmax(1, keepdim=True), 1)
            pull_nK = own_nK / torch.sinc(cosine_nK.acos() / math.pi)
            way_KE = pull_nK.T @ x_nE - (pull_nK * cosine_nK).sum(0)[:, None] * prototype_KE
            way_KE = way_KE / own_nK.sum(0).clamp(min=1)[:, None]
            angle_K1 = way_KE.norm(dim=1, keepdim=True)
            prototype_KE = F.normalize(angle_K1.cos() * prototype_KE + torch.sinc(angle_K1 / math.pi) * way_KE, dim=1)
        return prototype_KE.float()


def spread_out(x_nE: Tensor, u_K: Tensor) -> Tensor:
    """[K, E]: initial prototypes, drawn from the vectors as in k-means++, but by the angle to the nearest drawn
    prototype instead of its square."""
    drawn = [x_nE.index_select(0, pick(u_K[:1], len(x_nE)))]
    apart_n = x_nE.new_full((len(x_nE),), math.inf)
    for u_1 in u_K[1:].split(1):
        apart_n = torch.minimum(apart_n, (x_nE @ drawn[-1][0]).clamp(-1, 1).acos())
        sum_n = apart_n.cumsum(0)
        place_1 = torch.searchsorted(sum_n, u_1 * sum_n[-1:], right=True).clamp(max=len(x_nE) - 1)
        drawn.append(x_nE.index_select(0, place_1))
    return torch.cat(drawn)


@dataclass(frozen=True)
class Points:
    """Unit vectors from + to: ``of_own`` times a vector and ``of_other`` times a prototype."""

    of_own_BG: Tensor
    of_other_BG: Tensor
    other_BG: Tensor
    """int64: which prototype."""
    kept_BG: Tensor
    """float32, 1 where the prototype nearest to the vector is the nearest to the point too, else 0."""

    def cosines(self, query_BE: Tensor, key_BE: Tensor, prototype_KE: Tensor) -> Tensor:
        """float32 [B, G]: cosines of points and queries, one query per vector of the points; gradient reaches the
        queries."""
        own_B1 = (query_BE.float() * key_BE.float()).sum(1, keepdim=True)
        return self.of_own_BG * own_B1 + self.of_other_BG * cosines(query_BE, prototype_KE).gather(1, self.other_BG)


@torch.no_grad()
def points(key_BE: Tensor, prototype_KE: Tensor, u_BG2: Tensor, reach: float) -> Points:
    """Points between each key and prototypes drawn from all except its nearest one.

    A point covers ``1 - reach * u`` of the way to the place that is equally near to both prototypes. The place follows
    from the arctangent of a quotient, as in the code: beyond a right angle it is on the other side of the key.
    """
    near_BK, among_KK = cosines(key_BE, prototype_KE), cosines(prototype_KE, prototype_KE)
    order_BK = near_BK.argsort(1, descending=True)
    first_B1 = order_BK[:, :1]
    other_BG = order_BK[:, 1:].gather(1, pick(u_BG2[..., 0], order_BK.shape[1] - 1))
    cosine_BG = near_BK.gather(1, other_BG)
    quotient_BG = (1 - among_KK[first_B1, other_BG]) / (near_BK.gather(1, first_B1) - cosine_BG + TINY)
    angle_BG = cosine_BG.clamp(-1, 1).acos()
    sine_BG = angle_BG.sin()
    most_BG = torch.atan(sine_BG / (quotient_BG + angle_BG.cos() + TINY)) / (angle_BG + TINY)
    share_BG = (1 - reach * u_BG2[..., 1]) * most_BG
    own_BG, to_BG = (
        ((1 - share_BG) * angle_BG).sin() / (sine_BG + TINY),
        (share_BG * angle_BG).sin() / (sine_BG + TINY),
    )
    length_BG = (own_BG.square() + to_BG.square() + 2 * own_BG * to_BG * cosine_BG).clamp(min=TINY).sqrt()
    own_BG, to_BG = own_BG / length_BG, to_BG / length_BG
    near_BGK = own_BG[..., None] * near_BK[:, None] + to_BG[..., None] * among_KK[other_BG]
    return Points(own_BG, to_BG, other_BG, (near_BGK.argmax(2) == first_B1).float())
