"""Projection heads. Shapes: ... rows, D input width, E bottleneck width, K prototypes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from skelbench.models.initial import trunc_normal


def projection_mlp(dim_in: int, hidden: int, dim_out: int) -> nn.Sequential:
    """Three linear layers with GELU between them; DINOv2's initialization is set by :func:`initialize_mlp`.

    >>> projection_mlp(8, 16, 4)(torch.randn(2, 8)).shape
    torch.Size([2, 4])
    """
    return nn.Sequential(
        nn.Linear(dim_in, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, dim_out)
    )


def initialize_mlp(mlp: nn.Sequential) -> None:
    """Trunc-normal (0.02) matrices, zero biases (DINOv2).

    >>> mlp = projection_mlp(8, 16, 4)
    >>> initialize_mlp(mlp)
    >>> float(mlp[0].bias.detach().abs().sum())
    0.0
    """
    for layer in mlp:
        if isinstance(layer, nn.Linear):
            trunc_normal(layer.weight)
            nn.init.zeros_(layer.bias)


def projector(dim_in: int, hidden: int, dim_out: int, bias: bool = True) -> nn.Sequential:
    """Three linear layers, batch norm and ReLU between them (Barlow Twins, VICReg).

    It normalizes by the rows that it is given: give it the *global* batch (``step.gather(x, gradient=True)``), so that
    every process has the same statistics without synchronizing them.

    >>> projector(8, 16, 4)(torch.randn(3, 8)).shape
    torch.Size([3, 4])
    """
    return nn.Sequential(
        nn.Linear(dim_in, hidden, bias),
        nn.BatchNorm1d(hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden, bias),
        nn.BatchNorm1d(hidden),
        nn.ReLU(),
        nn.Linear(hidden, dim_out, bias),
    )


def perceptron(dim_in: int, hidden: int, dim_out: int) -> nn.Sequential:
    """Linear, batch norm, ReLU, linear (BYOL). Like :func:`projector`, it needs the global batch.

    >>> perceptron(8, 16, 4)(torch.randn(3, 8)).shape
    torch.Size([3, 4])
    """
    return nn.Sequential(nn.Linear(dim_in, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, dim_out))


def contrast_head(width: int, embedding: int) -> nn.Sequential:
    """Linear, ReLU, linear; weights from N(0, 0.02), zero biases (CrosSCLR and its descendants).

    >>> contrast_head(8, 4)(torch.randn(2, 8)).shape
    torch.Size([2, 4])
    """
    layers = nn.Linear(width, width), nn.Linear(width, embedding)
    for layer in layers:
        nn.init.normal_(layer.weight, std=0.02)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(layers[0], nn.ReLU(), layers[1])


def recurrent_head(width: int, embedding: int) -> nn.Sequential:
    """Linear, ReLU, linear with PyTorch's default weights in the first and Xavier weights in the last layer (ISC,
    CMD, HaLP, PCM3): these codes initialize before they add the first layer.

    >>> [layer.out_features for layer in recurrent_head(8, 4)[::2]]
    [8, 4]
    """
    last = nn.Linear(width, embedding)
    nn.init.xavier_uniform_(last.weight)
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), last)


def xavier_head(dim_in: int, hidden: int, dim_out: int) -> nn.Sequential:
    """Linear, ReLU, linear, with Xavier's uniform weights in both and PyTorch's biases (HiCo, SCD-Net).

    >>> xavier_head(8, 16, 4)(torch.randn(2, 3, 8)).shape
    torch.Size([2, 3, 4])
    """
    layers = nn.Linear(dim_in, hidden), nn.Linear(hidden, dim_out)
    for layer in layers:
        nn.init.xavier_uniform_(layer.weight)
    return nn.Sequential(layers[0], nn.ReLU(), layers[1])


class PrototypeHead(nn.Module):
    """Three-layer MLP to a unit bottleneck vector, and weight-normalized prototypes (DINOv2; paper, appendix A).

    ``head(x)`` and ``head.prototypes`` are separate because the loss never forms their product
    (:func:`~skelbench.models.prototype_loss.prototype_cross_entropy`). At D = 256 matrices and biases are 22,024,448
    parameters; the gain, one per prototype, adds K. With ``gain`` False it stays at 1 (DINO, iBOT).

    >>> head = PrototypeHead(8, hidden=16, bottleneck=4, prototypes=32)
    >>> head(torch.randn(2, 8)).shape, head.prototypes.shape
    (torch.Size([2, 4]), torch.Size([32, 4]))
    """

    def __init__(
        self, dim_in: int, hidden: int = 2048, bottleneck: int = 256, prototypes: int = 65536, gain: bool = True
    ) -> None:
        super().__init__()
        self.mlp = projection_mlp(dim_in, hidden, bottleneck)
        self.prototype_direction = nn.Parameter(torch.empty(prototypes, bottleneck))
        self.prototype_gain = nn.Parameter(torch.empty(prototypes, 1), requires_grad=gain)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Trunc-normal (0.02) matrices, zero biases, prototypes as PyTorch's linear layers, unit gains (DINOv2)."""
        initialize_mlp(self.mlp)
        nn.init.kaiming_uniform_(self.prototype_direction, a=5**0.5)
        nn.init.ones_(self.prototype_gain)

    def forward(self, x: Tensor) -> Tensor:
        """Bottleneck: [..., D] -> unit vectors [..., E], in at least float32."""
        x = self.mlp(x)
        return F.normalize(x.to(torch.promote_types(x.dtype, torch.float32)), dim=-1)

    @property
    def prototypes(self) -> Tensor:
        """[K, E]: unit directions times gain, computed at each access."""
        return torch._weight_norm(self.prototype_direction, self.prototype_gain, 0)  # one kernel each way
