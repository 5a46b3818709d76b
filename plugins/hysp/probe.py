"""The linear probe and the fine-tuning of HYSP's code: a Möbius-linear layer on features in the Poincaré ball."""

from typing import Literal

from pydantic import Field
from skelbench_plugins._native import MOMENTUM
from skelbench_plugins._probes import DROPS, LABELS, SteppedLinear, WholeClipFineTune

from skelbench.core.component import Share
from skelbench.evaluation.probe import Heads
from skelbench.views.transfer import waiting

from .ball import MoebiusLinear, RiemannianSGD, moebius_linear


class HYSPLinear(SteppedLinear):
    """``linear@hysp``: the probe of HYSP's code (paolomandica/HYSP 7aa7bc0: src/eval_learners.py, net/utils/hyperbolic,
    config/ntu60/eval/eval_xsub.yaml).

    Features are mapped into the ball. A Möbius-linear layer maps them to a ball with one dimension per class. The
    coordinates of the point are the logits; they are between -1 and 1, so with 60 classes the loss stays above 3.1
    nats. Its X-View has ``hyperbolic=false, lr=1``, NTU-120's X-Set ``hyperbolic=false, batch_size=1024``.

    Our assumption: the encoder is in eval mode. The code leaves it in training mode, with dropout 0.5 and batch norm of
    the batch, so running statistics change although the weights do not.
    """

    weight_std = 0.02
    drops_incomplete = True

    lr: float = Field(
        10.0, gt=0, description="learning rate at the start, not scaled by the batch size; 1 on NTU-60 X-View"
    )
    batch_size: int = Field(256, ge=2, description="clips per step")
    drops: tuple[Share, ...] = Field((0.6, 0.8), description=DROPS)
    hyperbolic: bool = Field(
        True, description="Möbius-linear layer in the ball; false: linear layer on unchanged features"
    )
    optimizer: Literal["sgd", "riemannian"] = Field(
        "sgd",
        description="gradient of the bias, a point of the ball: Euclidean (as in the code), or Riemannian as in geoopt",
    )

    def classifier(self, width, classes, generator, device):
        """Möbius-linear, or linear."""
        if not self.hyperbolic:
            return super().classifier(width, classes, generator, device)
        with waiting():
            return MoebiusLinear(width, classes, generator).to(device)

    def build_optimizer(self, layer):
        """SGD, with Riemannian SGD for the bias if the layer is hyperbolic."""
        if not self.hyperbolic or self.optimizer == "sgd":
            return super().build_optimizer(layer)
        return RiemannianSGD([{"params": [layer.weight]}, {"params": [layer.bias], "ball": True}], self.lr, MOMENTUM)

    @property
    def heads(self):
        return _BallHeads if self.hyperbolic else Heads


class _BallHeads(Heads):
    """One Möbius-linear layer."""

    def every(self, x_bD):
        return moebius_linear(x_bD, self.weight_ECD[0], self.bias_EC[0])[:, None]


class HYSPSemi(WholeClipFineTune):
    """``semi@1@hysp``: semi-supervised learning of HYSP's code (paolomandica/HYSP 7aa7bc0: src/eval_learners.py,
    config/ntu60/eval/eval_xsub.yaml), published for 10 %: SGD with rate 0.1 for the encoder and 10 for the
    Möbius-linear layer of its probe, without decay, batch 256, 100 epochs, a tenth of the rate from epochs 61 and 81,
    whole clips, in training mode. Our assumption: the bias is trained as in its probe; with ``label_share=1`` and
    ``draws=1`` its supervised learning.
    """

    batch_size: int = Field(256, ge=2, description="clips per step; each epoch is cut into batches in the same way")
    head_lr: float = Field(100.0, gt=0, description="the classifier's rate, times lr")
    drops: tuple[Share, ...] = Field(
        (0.6, 0.8), description="fractions of the schedule at which the rate falls to a tenth"
    )
    hyperbolic: bool = Field(True, description="a Möbius-linear layer in the ball; false: a linear layer")

    def classifier(self, width, classes):
        """Möbius-linear, or linear."""
        return MoebiusLinear(width, classes) if self.hyperbolic else super().classifier(width, classes)


class HYSPSemi10(HYSPSemi):
    """``semi@10@hysp``: with 10 %."""

    label_share: float = Field(0.1, gt=0, le=1, description=LABELS)
