"""The linear probe of GL-Transformer's code: Adam on features of clips that keep their own pace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from skelbench.evaluation.native import NativeLinear
from skelbench.evaluation.protocol import Features, Progress
from skelbench.plugin import ProtocolSpec, hookimpl
from skelbench.views.crops import Tempo
from skelbench.views.keyed import Keyed


@hookimpl
def skelbench_protocols() -> list[ProtocolSpec]:
    return [
        ProtocolSpec(
            name="linear@gl-transformer",
            target=":GLTransformerLinear",
            summary="linear probe of GL-Transformer's code: Adam 0.003, 120 epochs, each on clips at another pace; "
            "costs about 120 times `linear`",
            defaults={"share": 1.0, "resize": "pad"},
        )
    ]


class GLTransformerLinear(NativeLinear):
    """``linear@gl-transformer``: the probe of GL-Transformer's code (Boeun-Kim/GL-Transformer,
    linear_eval_protocol.py).

    A linear layer on the mean over real frames, Adam at one rate. Training clips are played slower or faster in every
    epoch, so that the encoder runs 121 times over them, and its own dropout stays on meanwhile, as the code has it
    (``model.train()`` in every epoch, whose figures its paper prints): ``noisy``. Weights begin with the spread that
    PyTorch gives 2400 features. Metrics: :class:`~skelbench.evaluation.native.NativeLinear`; the code prints the
    best of
    the epochs after the 60th.
    """

    normalises: ClassVar[bool] = False
    weight_std: ClassVar[float] = (3 * 2400) ** -0.5
    drops_incomplete: ClassVar[bool] = True

    lr: float = Field(0.003, gt=0, description="throughout, not scaled by the batch size")
    batch_size: int = Field(1024, ge=2, description="clips per step, an incomplete last batch is left out")
    epochs: int = Field(120, ge=1, description="passes of the encoder over the training clips: the cost")
    pace: float = Field(0.1, ge=0, lt=1, description="how much slower or faster a training clip is played, at most")
    noisy: bool = Field(True, description="the frozen encoder's dropout is on in training passes; a fault of the code")

    def rate(self, epoch: float) -> float:
        """The same throughout."""
        return self.lr

    def optimiser(self, layer: nn.Module) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(layer.parameters(), lr=self.lr)

    def passes(
        self, features: Features, seed: int, device: torch.device | str, progress: Progress | None
    ) -> Iterator[Tensor]:
        """Clips at another pace in every epoch."""
        for epoch in range(self.epochs):
            keyed, crop = Keyed(seed, epoch), Tempo(amount=self.pace)
            yield self.augmented(features, keyed, crop, progress=progress, noisy=self.noisy)
