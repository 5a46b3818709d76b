"""Motion of a view: displacement between frames, and masks that prefer moving tokens (MAMP, sections 3.2 and 3.3).

Unlike the masks of :mod:`skelbench.views.masks` these depend on the coordinates that the method sees, so they are
drawn on the device, inside the step; their token count is constant and the host knows it without asking.

R rows (bodies), T frames, J joints, C = 3, P = T / P_T temporal tokens, N = P * J tokens, K visible tokens of a row.
"""

from __future__ import annotations

import torch
from torch import Tensor

from skelbench.core.errors import SkelbenchError

TINY = 1e-10
"""Keeps logarithms and the division finite where MAMP's code does."""


def displacement(x_RTJC: Tensor, stride: int = 1) -> Tensor:
    """x[t + stride] - x[t] for every frame, same shape; zero in the last ``stride`` frames, which have no later one."""
    moved_RTJC = torch.zeros_like(x_RTJC)
    moved_RTJC[:, :-stride] = x_RTJC[:, stride:] - x_RTJC[:, :-stride]
    return moved_RTJC


def check_stride(stride: int, frames: int) -> None:
    """Raise SkelbenchError if :func:`displacement` is 0 throughout for clips of ``frames`` frames."""
    if stride >= frames:
        raise SkelbenchError(
            f"clips of {frames} frames have no motion over {stride} frames, so there is nothing to predict; lower "
            "motion_stride"
        )


def token_motion(x_RTJC: Tensor, patch: int) -> Tensor:
    """Motion of each token, float32 [R, N]: mean absolute difference to the same joint's token before.

    Coordinates at the same place in two patches are compared, P_T frames apart. The first temporal token has no
    predecessor and gets the motion of the second; with one temporal token there is no motion.
    """
    R, T, J, C = x_RTJC.shape
    x_RPJL = x_RTJC.reshape(R, T // patch, patch, J, C).transpose(2, 3).flatten(3)
    moved_RPJ = (x_RPJL[:, 1:] - x_RPJL[:, :-1]).abs().mean(-1)
    first_RPJ = moved_RPJ[:, :1] if T > patch else x_RPJL.new_zeros(R, 1, J)
    return torch.cat([first_RPJ, moved_RPJ], 1).flatten(1)


def motion_masks(x_RTJC: Tensor, u_RN: Tensor, patch: int, visible: int, tau: float) -> tuple[Tensor, Tensor]:
    """bool [R, N], True = masked, and int64 [R, K] visible tokens, ascending; K = ``visible`` in every row.

    The masked tokens are drawn without replacement with odds exp(s), s = motion / (tau * largest motion of the row) in
    [0, 1 / tau]: log odds plus Gumbel noise made of ``u_RN`` (uniform in [0, 1)), the ``visible`` lowest stay. So the
    odds of the most and the least moving token differ by e^(1 / tau) at most. A row that does not move, and every row
    when ``tau <= 0``, is masked uniformly. Source: MAMP's code (motion_aware_random_masking), constants included; its
    softmax shifts all scores of a row equally, so it is not needed here.
    """
    score_RN = u_RN
    if tau > 0:
        motion_RN = token_motion(x_RTJC, patch)
        odds_RN = motion_RN / (motion_RN.amax(1, keepdim=True) * tau + TINY)
        score_RN = odds_RN - torch.log(-torch.log(u_RN + TINY) + TINY)
    keep_RK = torch.argsort(score_RN, dim=1, stable=True)[:, :visible].sort(dim=1).values
    mask_RN = torch.ones_like(u_RN, dtype=torch.bool).scatter_(1, keep_RK, False)
    return mask_RN, keep_RK
