"""Initial weights as in public codes; equal seeds give equal weights in every version of PyTorch."""

from __future__ import annotations

from torch import Tensor, nn


def trunc_normal(x: Tensor, std: float = 0.02) -> Tensor:
    """Fill with normal values of deviation ``std``, in place. Public codes truncate at -2 and 2, which never happens.
    PyTorch's ``nn.init.trunc_normal_`` draws differently in 2.11 and 2.15: a seed would give other weights.

    >>> import torch
    >>> float(trunc_normal(torch.empty(1000)).abs().max()) < 0.2
    True
    """
    return nn.init.normal_(x, std=std)


def xavier_linear(module: nn.Module) -> None:
    """Initialize linear layers as the masked-autoencoder family does: Xavier-uniform, zero bias.

    >>> float(nn.Linear(4, 4).apply(xavier_linear).bias.detach().abs().sum())
    0.0
    """
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


def trunc_normal_linear(module: nn.Module) -> None:
    """Initialize linear layers as DINOv2 does: :func:`trunc_normal`, zero bias."""
    if isinstance(module, nn.Linear):
        trunc_normal(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
