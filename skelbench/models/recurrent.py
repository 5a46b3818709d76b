"""Shared parts of recurrent encoders, decoders and critics: clips as sequences of frames, padded at their end.

Shapes: R rows (bodies, or clips with concatenated bodies), T frames, J joints, C = 3, L numbers of a frame, H width
of a GRU, D width of a feature.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from skelbench.models.encoder import Encoded, real_frames, side_by_side
from skelbench.models.precision import no_autocast
from skelbench.views.view import View

TINY = 1e-6
"""Smallest range of a coordinate in meters; a coordinate that varies less is not scaled."""


class GRU(nn.GRU):
    """PyTorch's GRU, always in the precision of its weights: within bfloat16 autocast GPUs run recurrent layers in
    float16, where small gradients underflow.

    >>> with torch.autocast("cpu", torch.bfloat16):
    ...     GRU(2, 3)(torch.zeros(1, 4, 2, dtype=torch.bfloat16))[0].dtype
    torch.float32
    """

    def forward(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """[R, T, H] and the last states, as :class:`torch.nn.GRU`."""
        weight = next(self.parameters())
        with no_autocast(weight):
            hx = None if hx is None else hx.to(weight.dtype)
            out: tuple[Tensor, Tensor] = super().forward(input.to(weight.dtype), hx)
            return out


def unit_range(x_RTJC: Tensor, real_RT: Tensor | None = None) -> Tensor:
    """Scale every coordinate of a body to [-1, 1] by its minimum and maximum over joints and frames; same shape. 0 for
    a constant coordinate and in padding (shlizee/Predict-Cluster, preprocess/ntu_preprocess_pytorch.py: NaN there).

    >>> unit_range(torch.tensor([0.0, 1.0, 4.0]).view(1, 3, 1, 1)).flatten()
    tensor([-1.0000, -0.5000,  1.0000])
    """
    low = high = x_RTJC
    if real_RT is not None:
        padding = ~real_RT[:, :, None, None]
        low, high = x_RTJC.masked_fill(padding, torch.inf), x_RTJC.masked_fill(padding, -torch.inf)
    low, high = low.amin((1, 2), keepdim=True), high.amax((1, 2), keepdim=True)
    varies = high - low > TINY
    if real_RT is not None:
        varies = varies & ~padding
    return torch.where(varies, 2 * (x_RTJC - low) / (high - low).clamp(min=TINY) - 1, 0.0)


def flattened(view: View, x_RTJC: Tensor, encoded: Encoded, bodies: int) -> tuple[Tensor, Tensor | None]:
    """Return ``x_RTJC`` of the bodies of ``view`` as frames [R, T, L], one row per row of ``encoded``; and the mask
    of real frames, bool [R, T] or None. L = 3 J, times ``bodies`` for an encoder that reads several bodies."""
    if not encoded.per_clip:
        return x_RTJC.flatten(2), view.real_RT
    x_BMTJC = side_by_side(view.with_x(x_RTJC), bodies)
    return x_BMTJC.transpose(1, 2).flatten(2), real_frames(view)


def turned(x_RTH: Tensor, real_RT: Tensor | None) -> Tensor:
    """Real frames in reverse, padding after them where it was; its own inverse.

    >>> turned(torch.tensor([1.0, 2.0, 0.0]).view(1, 3, 1), torch.tensor([[True, True, False]])).flatten()
    tensor([2., 1., 0.])
    """
    if real_RT is None:
        return x_RTH.flip(1)
    t_T = torch.arange(x_RTH.shape[1], device=x_RTH.device)
    at_RT = torch.where(real_RT, real_RT.sum(1, keepdim=True) - 1 - t_T, t_T)
    return x_RTH.gather(1, at_RT[:, :, None].expand_as(x_RTH))


def last_real(x_RTH: Tensor, real_RT: Tensor | None) -> Tensor:
    """Return the last frame that is not padding, [R, H].

    >>> last_real(torch.tensor([1.0, 2.0, 0.0]).view(1, 3, 1), torch.tensor([[True, True, False]])).flatten()
    tensor([2.])
    """
    if real_RT is None:
        return x_RTH[:, -1]
    at_R11 = (real_RT.sum(1) - 1).clamp(min=0)[:, None, None]
    return x_RTH.gather(1, at_R11.expand(-1, 1, x_RTH.shape[2]))[:, 0]


def frame_mean(x_RT: Tensor, real_RT: Tensor | None) -> Tensor:
    """[R]: mean over the frames that are not padding."""
    if real_RT is None:
        return x_RT.mean(1)
    return (x_RT * real_RT).sum(1) / real_RT.sum(1).clamp(min=1)


class FrameDecoder(nn.Module):
    """A GRU of the feature's width that starts from the feature, and a linear layer to the numbers of a frame;
    initialized as in shlizee/Predict-Cluster, NTU_demo.ipynb (uniform in +- 0.04).

    >>> decoder = FrameDecoder(numbers=6, width=8)
    >>> decoder(torch.randn(2, 8), torch.zeros(2, 5, 6)).shape
    torch.Size([2, 5, 6])
    >>> decoder(torch.randn(2, 8), torch.zeros(2, 6), frames=4).shape
    torch.Size([2, 4, 6])
    """

    def __init__(self, numbers: int, width: int) -> None:
        super().__init__()
        self.gru = GRU(numbers, width, batch_first=True)
        self.out = nn.Linear(width, numbers)
        for parameter in self.gru.parameters():
            if parameter.dim() == 2:
                nn.init.xavier_uniform_(parameter)
        for parameter in self.out.parameters():  # small, or the decoder would diverge from its first frame
            nn.init.uniform_(parameter, -0.04, 0.04)

    def forward(self, state_RD: Tensor, x: Tensor, frames: int | None = None) -> Tensor:
        """Return frames [R, T, L]; the GRU starts from ``state_RD`` and reads ``x`` [R, T, L].

        With ``frames`` = T, ``x`` [R, L] is the first frame. Each next frame is the previous one plus the output of the
        GRU for it. The state is reset to ``state_RD`` in each frame, so only the feature carries information.
        """
        if frames is not None:
            return self._held(state_RD, x, frames)
        y_RTD: Tensor = self.gru(x, state_RD[None].contiguous())[0]
        return self.out(y_RTD)

    def _held(self, state_RD: Tensor, first_RL: Tensor, frames: int) -> Tensor:
        weights = dict(self.gru.named_parameters())
        state_RD = state_RD.to(first_RL.dtype)
        reset_R, update_R, new_R = F.linear(state_RD, weights["weight_hh_l0"], weights["bias_hh_l0"]).chunk(3, 1)
        frame_RL, outputs = first_RL, []
        for _ in range(frames):
            gates_R = F.linear(frame_RL, weights["weight_ih_l0"], weights["bias_ih_l0"])
            to_reset_R, to_update_R, to_new_R = gates_R.chunk(3, 1)
            keep_RD = torch.sigmoid(to_update_R + update_R)
            fresh_RD = torch.tanh(to_new_R + torch.sigmoid(to_reset_R + reset_R) * new_R)
            frame_RL = frame_RL + self.out(fresh_RD + keep_RD * (state_RD - fresh_RD))
            outputs.append(frame_RL)
        return torch.stack(outputs, 1)
