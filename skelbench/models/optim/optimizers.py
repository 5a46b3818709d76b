"""PyTorch's optimizers, with their own settings only. Schedules set learning rate and weight decay."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import torch
from pydantic import Field

from skelbench.plugin.component import Component
from skelbench.plugin.plugin_errors import lacking

Groups = list[dict[str, Any]]
Beta = Annotated[float, Field(ge=0, lt=1)]


class Optimizer(Component):
    """Base class of optimizers. Your own optimizer is a subclass with a ``kind``.

    >>> class RMSprop(Optimizer):
    ...     kind = "rmsprop"
    ...     adaptive = True
    ...     alpha: float = Field(0.99, ge=0, lt=1, description="decay of the squared gradients")
    ...
    ...     def build(self, groups, lr, weight_decay):
    ...         return torch.optim.RMSprop(groups, lr=lr, alpha=self.alpha, weight_decay=weight_decay)
    >>> type(RMSprop().build([{"params": [torch.nn.Parameter(torch.zeros(1))]}], 1e-3, 0.0)).__name__
    'RMSprop'
    """

    family: ClassVar[str] = "optimizers"
    adaptive: ClassVar[bool] = False
    """Whether steps are scaled by the gradient's size, as the learning rates of the presets assume."""

    def build(self, groups: Groups, lr: float, weight_decay: float) -> torch.optim.Optimizer:
        """The optimizer of ``groups``; ``lr`` and ``weight_decay`` of every group are set before each step."""
        raise lacking(self, "build(self, groups, lr, weight_decay)")


class Adam(Optimizer):
    """Adam, weight decay added to the gradient."""

    kind = "adam"
    adaptive = True
    betas: tuple[Beta, Beta] = Field((0.9, 0.999), description="decay rates of the two moments")

    def build(self, groups: Groups, lr: float, weight_decay: float) -> torch.optim.Optimizer:
        return torch.optim.Adam(groups, lr=lr, betas=self.betas, weight_decay=weight_decay, fused=_fusable(groups))


class AdamW(Adam):
    """Adam with decoupled weight decay."""

    kind = "adamw"

    def build(self, groups: Groups, lr: float, weight_decay: float) -> torch.optim.Optimizer:
        return torch.optim.AdamW(groups, lr=lr, betas=self.betas, weight_decay=weight_decay, fused=_fusable(groups))


def _fusable(groups: Groups) -> bool:
    """Whether one kernel can update all parameters, instead of a dozen passes over each parameter."""
    parameters = [parameter for group in groups for parameter in group["params"]]
    return all(p.device.type in ("cpu", "cuda") and p.is_floating_point() for p in parameters)


class SGD(Optimizer):
    """Stochastic gradient descent with momentum, weight decay added to the gradient."""

    kind = "sgd"
    momentum: float = Field(0.9, ge=0, lt=1, description="decay of the momentum; 0 = none")
    nesterov: bool = Field(False, description="Nesterov's form of the momentum")

    def build(self, groups: Groups, lr: float, weight_decay: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(groups, lr=lr, momentum=self.momentum, nesterov=self.nesterov, weight_decay=weight_decay)
