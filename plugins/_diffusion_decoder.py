"""Denoising diffusion for tokens: noise schedule, time features, and a decoder modulated by an encoder's tokens.

The form of MacDiff (ECCV 2024; Wenrui-Shen/MacDiff at 692888f). Shapes: R rows (bodies), S diffusion steps, T frames,
J joints, N = P * J tokens, K visible tokens, D decoder width, Z width of the conditioning tokens, E time features.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from skelbench.models.initial import xavier_linear
from skelbench.models.tokenizer import Tokenizer, put
from skelbench.models.vit import Block, ViTConfig
from skelbench.views.skeleton.grid import Grid

LARGEST_BETA = 0.999
"""No step replaces more of the signal's power than this (Nichol and Dhariwal, 2021)."""


def cumulative_alphas(steps: int, tau: float = 1.0) -> list[float]:
    """Fraction of the signal's power that is left after each of ``steps`` steps, decreasing.

    The curve is (1 + tau) c(0) (1 - t) - tau c(t) with c(t) = cos^2((t + 0.008) / 1.008 * pi / 2): ``tau`` 1 is
    MacDiff's inverse cosine (steep at both ends, flat between: most steps have medium noise), 0 a straight line, -1
    the usual cosine.
    """

    def curve(t: float) -> float:
        cosine, first = (math.cos((at + 0.008) / 1.008 * math.pi / 2) ** 2 for at in (t, 0.0))
        return (1 + tau) * first * (1 - t) - tau * cosine

    remaining, alphas = 1.0, []
    for step in range(steps):
        remaining *= 1 - min(LARGEST_BETA, 1 - curve((step + 1) / steps) / curve(step / steps))
        alphas.append(remaining)
    return alphas


class NoiseSchedule(nn.Module):
    """x_t = sqrt(a_t) x + sqrt(1 - a_t) noise, with a from :func:`cumulative_alphas`."""

    signal_S: Tensor
    noise_S: Tensor

    def __init__(self, steps: int, tau: float = 1.0) -> None:
        super().__init__()
        alphas = cumulative_alphas(steps, tau)
        self.register_buffer("signal_S", torch.tensor([math.sqrt(a) for a in alphas]), persistent=False)
        self.register_buffer("noise_S", torch.tensor([math.sqrt(1 - a) for a in alphas]), persistent=False)

    def forward(self, x_RTJC: Tensor, noise_RTJC: Tensor, step_R: Tensor) -> Tensor:
        """Return ``x_RTJC`` after ``step_R`` diffusion steps (int64 [R], 0 = one step)."""
        signal_R, share_R = self.signal_S[step_R], self.noise_S[step_R]
        return signal_R.view(-1, 1, 1, 1) * x_RTJC + share_R.view(-1, 1, 1, 1) * noise_RTJC


def time_features(step_R: Tensor, width: int) -> Tensor:
    """float32 [R, width]: cosines, then sines, of the step at ``width / 2`` rates from 1 down to about 1e-4."""
    rate = torch.exp(torch.arange(width // 2, device=step_R.device) * (-math.log(10000.0) / (width // 2)))
    angle = step_R[:, None].float() * rate
    return torch.cat([angle.cos(), angle.sin()], 1)


class Modulation(nn.Module):
    """A layer norm whose output is scaled and shifted, first by the diffusion time, then by each token's condition.

    z_s (t_s norm(x) + t_b) + z_b, with (z_s, z_b) and (t_s, t_b) linear in the condition and in the time features.
    """

    def __init__(self, dim: int, dim_z: int, dim_t: int, eps: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim, eps=eps)
        self.fc_z, self.fc_t = nn.Linear(dim_z, 2 * dim), nn.Linear(dim_t, 2 * dim)

    def forward(self, x_RND: Tensor, z_RNZ: Tensor, t_RE: Tensor) -> Tensor:
        """[R, N, D]."""
        z_scale, z_shift = self.fc_z(z_RNZ).chunk(2, -1)
        t_scale, t_shift = self.fc_t(t_RE).unsqueeze(1).chunk(2, -1)
        return z_scale * (t_scale * self.norm(x_RND) + t_shift) + z_shift


class ModulatedBlock(nn.Module):
    """A transformer block with :class:`Modulation` in place of both norms."""

    def __init__(self, config: ViTConfig, dim_z: int, dim_t: int) -> None:
        super().__init__()
        plain = Block(config)
        norm1, norm2 = (Modulation(config.dim, dim_z, dim_t, config.norm_eps) for _ in range(2))
        self.norm1, self.attn, self.norm2, self.mlp = norm1, plain.attn, norm2, plain.mlp

    def forward(self, x_RND: Tensor, z_RNZ: Tensor, t_RE: Tensor) -> Tensor:
        """[R, N, D]."""
        x_RND = x_RND + self.attn(self.norm1(x_RND, z_RNZ, t_RE))
        return x_RND + self.mlp(self.norm2(x_RND, z_RNZ, t_RE))


class DiffusionDecoder(nn.Module):
    """Predicts the noise in a whole noisy body from all of its tokens and the encoder's features of a few of them.

    Args:
        dim_in: Z, width of the encoder's tokens.
        dim, depth, heads, norm_eps: of the decoder's own blocks (no class token, learned positions).
        grid: the full-length grid.
        time_width: E, even.
    """

    def __init__(
        self, dim_in: int, dim: int, depth: int, heads: int, grid: Grid, time_width: int = 64, norm_eps: float = 1e-5
    ) -> None:
        super().__init__()
        self.config = ViTConfig(dim=dim, depth=depth, heads=heads, norm_eps=norm_eps, temporal="learned", cls=False)
        self.time_width = time_width
        self.tokenizer = Tokenizer(grid, dim, learned_time=True)
        self.blocks = nn.ModuleList(ModulatedBlock(self.config, dim_in, time_width) for _ in range(depth))
        self.norm = nn.LayerNorm(dim, eps=norm_eps)
        self.predict = nn.Linear(dim, grid.patch * 3)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize as the encoder: Xavier-uniform matrices, zero biases, trunc-normal (0.02) embeddings."""
        self.apply(xavier_linear)
        self.tokenizer.reset_parameters()

    def forward(
        self, noisy_RTJC: Tensor, tokens_RKZ: Tensor, keep_RK: Tensor, step_R: Tensor, informed_R: Tensor
    ) -> Tensor:
        """Predicted noise of every token, [R, N, patch * 3].

        The condition of a visible token is the encoder's output there (``keep_RK``, int64 [R, K], says where), of
        a masked token the mean over the visible; rows that are not ``informed_R`` (bool [R]) have zeros for condition.
        """
        x_RND = self.tokenizer(noisy_RTJC)
        mean_RNZ = tokens_RKZ.mean(1, keepdim=True).expand(-1, x_RND.shape[1], -1)
        z_RNZ = put(tokens_RKZ, keep_RK, mean_RNZ) * informed_R[:, None, None]
        t_RE = time_features(step_R, self.time_width)
        for block in self.blocks:
            x_RND = block(x_RND, z_RNZ, t_RE)
        return self.predict(self.norm(x_RND))
