"""The linear probe of HYSP's code: a Möbius-linear layer on features mapped into the Poincaré ball."""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from skelbench.evaluation.native import MOMENTUM
from skelbench.evaluation.native_contrastive import DROPS, AimCLRLinear, Share
from skelbench.evaluation.probe import Heads
from skelbench.models.hyperbolic import MoebiusLinear, RiemannianSGD, moebius_linear
from skelbench.plugin import ProtocolSpec, hookimpl
from skelbench.views.transfer import waiting


@hookimpl
def skelbench_protocols() -> list[ProtocolSpec]:
    return [
        ProtocolSpec(
            name="linear@hysp",
            target=":HYSPLinear",
            summary="linear probe of HYSP's code: a Möbius-linear layer in the Poincaré ball, SGD 10, 100 epochs, "
            "whole clips, no augmentation",
            defaults={"bodies": "all-slots", "bodies_pool": "all-mean", "share": 1.0, "resize": "half-pixel"},
        )
    ]


class HYSPLinear(AimCLRLinear):
    """``linear@hysp``: the probe of HYSP's code (paolomandica/HYSP 7aa7bc0: src/eval_learners.py, net/utils/hyperbolic,
    config/ntu60/eval/eval_xsub.yaml).

    Features are mapped into the ball, a Möbius-linear layer takes them to a point in a ball of as many dimensions as
    there are classes, and the point's coordinates are the logits: between -1 and 1, so that with 60 classes the loss
    stays above 3.1 nats. Its X-View has ``hyperbolic=false, lr=1``, NTU-120's X-Set
    ``hyperbolic=false, batch_size=1024``.

    Our reading: the encoder is in eval mode. The code leaves it in training mode, with dropout 0.5 and batch norm by
    the batch, whose running statistics move although no weight does.
    """

    lr: float = Field(10.0, gt=0, description="at the start, not scaled by the batch size; 1 on NTU-60 X-View")
    batch_size: int = Field(256, ge=2, description="clips per step")
    drops: tuple[Share, ...] = Field((0.6, 0.8), description=DROPS)
    hyperbolic: bool = Field(True, description="Möbius-linear in the ball; false: linear, on features as they are")
    optimizer: Literal["sgd", "riemannian"] = Field(
        "sgd", description="of the bias, a point of the ball: as if it were none (what the code runs), or as geoopt's"
    )

    def classifier(self, width: int, classes: int, generator: torch.Generator, device: torch.device | str) -> nn.Module:
        """Möbius-linear, or linear."""
        if not self.hyperbolic:
            return super().classifier(width, classes, generator, device)
        with waiting():
            return MoebiusLinear(width, classes, generator).to(device)

    def optimiser(self, layer: nn.Module) -> torch.optim.Optimizer:
        """SGD, or Riemannian SGD of the bias."""
        if not self.hyperbolic or self.optimizer == "sgd":
            return super().optimiser(layer)
        groups: list[dict[str, Any]] = [{"params": [layer.weight]}, {"params": [layer.bias], "ball": True}]
        return RiemannianSGD(groups, self.lr, MOMENTUM)

    @property
    def heads(self) -> type[Heads]:
        return _BallHeads if self.hyperbolic else Heads


class _BallHeads(Heads):
    """One Möbius-linear layer."""

    def every(self, x_bD: Tensor) -> Tensor:
        return moebius_linear(x_bD, self.weight_ECD[0], self.bias_EC[0])[:, None]
