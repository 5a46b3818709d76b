"""Errors of local linear interpolation of masked tokens: independent random masks against connected tubes.

A point is a joint in one frame (coordinates) or one token (features). Ridge regression on the training clips predicts
each masked point from its nearest visible points: the same joint twice before and twice after, and the four nearest
joints along the bones at the same time. All coordinates of a point share the weights. The second moments of the points
give the squared error over all clips, so every mask is scored on every clip at once.

R rows (bodies), P temporal tokens, J joints, N = P * J tokens; t times of a point: frames, or temporal tokens;
U = t * J points, D numbers of a point; Q masks; S points that a masked one is predicted from; h masked points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.sparse.csgraph import shortest_path
from torch import Tensor

from skelbench.core.errors import SkelbenchError
from skelbench.evaluation.features import PreparedClips
from skelbench.reporting.diagnostics.frozen import Frozen
from skelbench.views.keyed import Keyed
from skelbench.views.masks import TOKENS, MaskRows
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import Topology
from skelbench.views.tubes import Tube

REACH = 2
"""Number of visible points of the same joint before and after: two give a position and a velocity."""
NEAREST = 4
"""Number of visible joints at the same time: the largest number of bones at one joint of Kinect's skeleton."""
RIDGE = 1e-6
"""Added to the diagonal of the normal equations, as a fraction of each point's own variance."""
LEAST = 1e-6
"""Smallest fraction of the mean token's variance; tokens below it have nothing to predict and are skipped."""
CHUNK = 1 << 15
"""Number of masked points whose weights are computed at a time. No influence on the result."""


@dataclass(frozen=True)
class Points:
    """Second moments, [U, U] float64, of the points to fill in, about their training means."""

    fit_UU: Tensor
    """Mean over the training rows of the product of two points' deviations, summed over D."""
    test_UU: Tensor
    """Mean over the test rows, with deviations from the *training* means: its diagonal is the error of the mean."""
    per_token: int
    """Points along time in one token: frames of a patch, or 1."""
    times: int
    joints: int

    @classmethod
    def of(cls, fit: Iterable[Tensor], test: Iterable[Tensor], joints: int, per_token: int) -> Points:
        """Compute it from batches of training and test rows, each [R, U, D] with time u // J, joint u % J."""
        mean_UD, fit_UU = _moments(fit)
        _, test_UU = _moments(test, mean_UD)
        return cls(fit_UU, test_UU, per_token, len(fit_UU) // joints, joints)

    @property
    def variance_N(self) -> Tensor:
        """Error of the mean on test rows, by token: the unit of relative errors."""
        return self.by_token(self.test_UU.diagonal())

    def by_token(self, of_U: Tensor) -> Tensor:
        """Sum over the points of every token."""
        return of_U.view(-1, self.per_token, self.joints).sum(1).flatten()


def _moments(batches: Iterable[Tensor], mean_UD: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Mean [U, D] (if not given) and second moments [U, U] about it, float64."""
    rows, total, products = 0, torch.zeros(()), torch.zeros(())
    for x_RUD in batches:
        x_RUD = x_RUD.double()
        if mean_UD is not None:
            x_RUD = x_RUD - mean_UD
        flat = x_RUD.transpose(1, 2).flatten(0, 1)
        rows, total, products = rows + len(x_RUD), total + x_RUD.sum(0), products + flat.T @ flat
    if mean_UD is not None:
        return mean_UD, products / rows
    mean_UD = total / rows
    return mean_UD, products / rows - mean_UD @ mean_UD.T


def by_distance(topology: Topology) -> Tensor:
    """int64 [J, J - 1]: for each joint the others by the number of bones between, the lower index first."""
    distance_JJ = torch.from_numpy(shortest_path(topology.differences != 0, directed=False, unweighted=True))
    return torch.argsort(distance_JJ, dim=1, stable=True)[:, 1:]


def matched_masks(ratio: float, masks: int, times: int, topology: Topology, seed: int = 0) -> tuple[Tensor, Tensor]:
    """(tubes, random tokens), bool [Q, N] each, True = masked; mask q of either kind hides equally many tokens.

    Tubes follow Semantic Tube Masking with target ratio ``ratio``; they often hide fewer. As many independently drawn
    tokens are hidden in the second mask.
    """
    keys_Q, tokens = torch.arange(masks), times * topology.num_joints
    keyed = Keyed(seed, 0)
    grid = Grid(times, 1, topology.num_joints)
    request = MaskRows(Tube(lo=ratio, hi=ratio), grid, keys_Q, torch.zeros_like(keys_Q))
    tube_QN = Tube.draw_all([request], topology, keyed)[0].mask_RN
    order_QN = torch.argsort(keyed.uniform(keys_Q, tokens, op=TOKENS), dim=1, stable=True)
    first_QN = torch.arange(tokens) < tube_QN.sum(1, keepdim=True)
    return tube_QN, torch.zeros_like(tube_QN).scatter_(1, order_QN, first_QN)


def support(visible_QtJ: Tensor, order_JK: Tensor) -> tuple[Tensor, Tensor]:
    """Points that each masked point is predicted from, int64 [Q, t, J, S] (time * J + joint), and a mask of existing
    ones, bool.

    S = 2 * REACH + NEAREST: the nearest visible ones of the same joint before and after it, and at its own time the
    first visible joints of ``order_JK`` (:func:`by_distance`). Values at visible points have no meaning.
    """
    Q, t, J = visible_QtJ.shape
    device = visible_QtJ.device
    # The k-th visible time of every joint, and how many there are up to each time.
    place_QtJ = torch.argsort((~visible_QtJ).byte(), dim=1, stable=True)
    upto_QtJ = visible_QtJ.cumsum(1)
    joint_J, time_t1 = torch.arange(J, device=device), torch.arange(t, device=device)[:, None]
    indices, theres = [], []
    for step in range(-REACH, REACH):
        rank_QtJ = upto_QtJ + step
        theres.append((rank_QtJ >= 0) & (rank_QtJ < upto_QtJ[:, -1:]))
        indices.append(place_QtJ.gather(1, rank_QtJ.clamp(0, t - 1)) * J + joint_J)
    seen_QtJK = visible_QtJ[:, :, order_JK]
    first_QtJK = torch.argsort((~seen_QtJK).byte(), dim=3, stable=True)[..., :NEAREST]
    theres += seen_QtJK.gather(3, first_QtJK).unbind(3)
    joints_QtJK = order_JK.expand(Q, t, -1, -1).gather(3, first_QtJK)
    indices += (time_t1[..., None] * J + joints_QtJK).unbind(3)
    return torch.stack(indices, -1), torch.stack(theres, -1)


def squared_errors(points: Points, index_hS: Tensor, there_hS: Tensor, target_h: Tensor) -> Tensor:
    """Mean squared error over the test rows, [h] float64, of points ``target_h`` predicted from their support."""
    errors = []
    for index, neighbors, target in zip(index_hS.split(CHUNK), there_hS.split(CHUNK), target_h.split(CHUNK)):
        normal_hSS, right_hS = _among(points.fit_UU, index, neighbors, target)
        # A missing point, or one that never moves, gets weight 0.
        own_hS = normal_hSS.diagonal(dim1=1, dim2=2)
        own_hS += torch.where(own_hS > 0, RIDGE * own_hS, 1.0)
        weight_hS = torch.linalg.solve(normal_hSS, right_hS)
        own_hSS, crossed_hS = _among(points.test_UU, index, neighbors, target)
        crossed_h = (weight_hS * crossed_hS).sum(1)
        squared_h = torch.einsum("hs,hsz,hz->h", weight_hS, own_hSS, weight_hS)
        errors.append((points.test_UU[target, target] - 2 * crossed_h + squared_h).clamp(min=0))
    return torch.cat(errors)


def _among(moments_UU: Tensor, index_hS: Tensor, there_hS: Tensor, target_h: Tensor) -> tuple[Tensor, Tensor]:
    """Moments of the supports' points with each other [h, S, S] and with their target [h, S]; 0 for absent ones."""
    both_hSS = there_hS[:, :, None] & there_hS[:, None, :]
    among_hSS = torch.where(both_hSS, moments_UU[index_hS[:, :, None], index_hS[:, None, :]], 0.0)
    return among_hSS, torch.where(there_hS, moments_UU[index_hS, target_h[:, None]], 0.0)


def score(points: Points, mask_QN: Tensor, order_JK: Tensor) -> dict[str, Any]:
    """Error under the masks ``mask_QN``: ``error`` (mean over a mask's masked tokens of squared error over variance,
    then over masks), its 95 % ``interval`` over masks, and ``rms`` (root of a masked point's mean squared error, in the
    points' own unit)."""
    device, J = points.fit_UU.device, points.joints
    variance_N = points.variance_N
    counts_N = variance_N > LEAST * variance_N.mean()
    order_JK = order_JK.to(device)
    shares, squares, hidden_points = [], 0.0, 0
    for mask_N in mask_QN.to(device):  # one at a time: a mask has thousands of masked points
        visible_tJ = ~mask_N.view(-1, J).repeat_interleave(points.per_token, 0)
        hidden_h = (~visible_tJ).flatten().nonzero()[:, 0]
        index_hS, there_hS = (part.flatten(0, 2)[hidden_h] for part in support(visible_tJ[None], order_JK))
        squared_h = squared_errors(points, index_hS, there_hS, hidden_h)
        squared_U = torch.zeros_like(points.fit_UU[0]).index_copy_(0, hidden_h, squared_h)
        scored_N = mask_N & counts_N
        if bool(scored_N.any()):
            shares.append((points.by_token(squared_U)[scored_N] / variance_N[scored_N]).mean())
        squares, hidden_points = squares + float(squared_h.sum()), hidden_points + len(hidden_h)
    if not shares:
        raise SkelbenchError("no masked token varies from clip to clip, so there is nothing to fill in")
    share_Q = torch.stack(shares)
    error = float(share_Q.mean())
    half = 1.96 * float(share_Q.std()) / math.sqrt(len(share_Q)) if len(share_Q) > 1 else 0.0
    return {"error": error, "interval": [error - half, error + half], "rms": math.sqrt(squares / hidden_points)}


def coordinates(clips: PreparedClips, ids: np.ndarray, report: Callable[[int], Any]) -> Iterator[Tensor]:
    """Yield the coordinates [R, U, 3] of the clips ``ids`` in batches."""
    for view in clips.views(ids):
        yield view.x_RTJC.flatten(1, 2)
        report(view.clips)


def of(
    subject: PreparedClips | Frozen,
    sides: tuple[np.ndarray, np.ndarray],
    ratios: Sequence[float],
    masks: int,
    progress: Callable[..., Any],
) -> dict[str, Any]:
    """Return the record of the test on the coordinates of clips, or on the token features that a frozen encoder has of
    unmasked views; ``sides``: training and test clips.

    A row per target ratio: ``ratio``, ``coverage`` (the same for both kinds), and the scores of ``random`` and ``tube``
    masks.
    """
    clips, batches, per_token = (
        (subject.clips, subject.tokens, 1)
        if isinstance(subject, Frozen)
        else (subject, partial(coordinates, subject), subject.grid.patch)
    )
    (fit, test), topology, rows = sides, clips.store.topology, []
    with progress(total=len(fit) + len(test), label="moments", unit="clips") as report:
        points = Points.of(batches(fit, report), batches(test, report), clips.grid.joints, per_token)
    order_JK = by_distance(topology)
    with progress(total=2 * masks * len(ratios), label="interpolation", unit="masks") as report:
        for ratio in ratios:
            tube_QN, random_QN = matched_masks(ratio, masks, points.times // per_token, topology)
            row: dict[str, Any] = {"ratio": ratio, "coverage": float(tube_QN.double().mean())}
            for kind, mask_QN in (("random", random_QN), ("tube", tube_QN)):
                row[kind] = score(points, mask_QN, order_JK)
                report(masks)
            rows.append(row)
    return {"train_clips": len(fit), "test_clips": len(test), "rows": rows}
