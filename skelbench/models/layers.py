"""Feed-forward layers and stochastic depth, with the parameter names of timm.

timm's own layers are the same, but importing timm takes as long as torch and 190 MB, since it loads torchvision and
a compiler. Shapes: ... any number of leading dimensions, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch.nn.functional as F
from torch import Tensor, nn


class Mlp(nn.Module):
    """Linear, activation, linear.

    >>> Mlp(8, 32)(torch.randn(2, 5, 8)).shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, dim: int, hidden: int, act: Callable[[], nn.Module] = nn.GELU) -> None:
        super().__init__()
        self.fc1, self.act, self.fc2 = nn.Linear(dim, hidden), act(), nn.Linear(hidden, dim)

    def forward(self, x: Tensor) -> Tensor:
        """[..., D]."""
        return self.fc2(self.act(self.fc1(x)))


class SwiGLU(nn.Module):
    """SiLU of one linear layer times another, then a third (Shazeer, 2020).

    >>> SwiGLU(8, 24)(torch.randn(2, 5, 8)).shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.fc1_g, self.fc1_x, self.fc2 = nn.Linear(dim, hidden), nn.Linear(dim, hidden), nn.Linear(hidden, dim)

    def forward(self, x: Tensor) -> Tensor:
        """[..., D]."""
        return self.fc2(F.silu(self.fc1_g(x)) * self.fc1_x(x))


def set_drop_path(blocks: Sequence[nn.Module], rate: float) -> None:
    """Give each block a ``drop_path`` (:class:`DropPath`) that grows from 0 in the first to ``rate`` in the last; a
    single block has 0, as in timm.

    >>> blocks = [nn.Module(), nn.Module(), nn.Module()]
    >>> set_drop_path(blocks, 0.5)
    >>> [getattr(block.drop_path, "drop_prob", 0.0) for block in blocks]
    [0.0, 0.25, 0.5]
    """
    for place, block in enumerate(blocks):
        drop = rate * place / max(1, len(blocks) - 1)
        block.drop_path = (DropPath(drop) if drop else nn.Identity()).train(block.training)


class DropPath(nn.Module):
    """In training, whole rows are zero with probability ``drop_prob`` and the others scaled up (stochastic depth).

    >>> DropPath(0.5).eval()(torch.ones(2, 1)).flatten()
    tensor([1., 1.])
    """

    def __init__(self, drop_prob: float) -> None:
        super().__init__()
        self.drop_prob = drop_prob

    def forward(self, x: Tensor) -> Tensor:
        """[R, ...]."""
        if not self.training or not self.drop_prob:
            return x
        keep_prob = 1 - self.drop_prob
        return x * x.new_empty((len(x),) + (1,) * (x.dim() - 1)).bernoulli_(keep_prob).div_(keep_prob)
