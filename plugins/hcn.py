"""Co-occurrence features of joints (HCN, Li et al., IJCAI 2018), as ISC's image-based encoder has them.

Facts: fmthoker/skeleton-contrast, moco/HCN.py. Every joint becomes an image of frames by features; the joints are the
channels of the convolutions that follow, so all joints are seen at once. B clips, M body slots, R = B * M bodies,
T frames, J joints, C channels, I width of a joint's image.
"""

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from skelbench.core.component import Spec
from skelbench.core.errors import SkelbenchError
from skelbench.models.encoder import Encoded, Encoder, side_by_side
from skelbench.plugin import EncoderSpec, hookimpl

HALVED = 16
"""Four times in a row images lose every second frame and feature."""


class HCNConfig(Spec):
    """Defaults follow ISC's code."""

    channels: int = Field(64, ge=2, description="channels of the first convolution; the last has four times as many")
    image: int = Field(64, ge=HALVED, description="features of a joint in a frame: the width of its image")
    dropout: float = Field(0.5, ge=0, lt=1, description="fraction of channels dropped after each of three convolutions")
    bodies: int = Field(2, ge=1, description="body slots of a clip; each feature is the maximum over them")


class HCN(Encoder):
    """``HCN(config, topology, grid)``: one feature per clip, the flattened last image.

    Raises:
        SkelbenchError: clips are too short to be halved four times.
    """

    Config = HCNConfig

    def __init__(self, config, topology, grid):
        super().__init__(config, topology, grid)
        if grid.frames < HALVED:
            raise SkelbenchError(
                f"encoder hcn halves a clip four times, {grid.frames} frames are too few; give --clip-length {HALVED} "
                "or more"
            )
        channels, self.bodies = config.channels, config.bodies
        self.width = self.features = 4 * channels * (grid.frames // HALVED) * (config.image // HALVED)
        self.position, self.motion = (Branch(config, topology.num_joints) for _ in range(2))
        self.joined = nn.Sequential(
            *_convolution(2 * channels, 2 * channels, nn.ReLU(), nn.Dropout2d(config.dropout)),
            *_convolution(2 * channels, 4 * channels, nn.ReLU(), nn.Dropout2d(config.dropout)),
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, view, mask_RN=None, keep_RK=None):
        x_BMTJC = side_by_side(view, self.bodies)
        if x_BMTJC.shape[2] != self.grid.frames:
            raise SkelbenchError(f"encoder hcn reads {self.grid.frames} frames, not {x_BMTJC.shape[2]}")
        x_RCTJ = x_BMTJC.flatten(0, 1).permute(0, 3, 1, 2)
        halves = self.position(x_RCTJ), self.motion(_motion(x_RCTJ))
        largest_BD = self.joined(torch.cat(halves, 1)).flatten(1).unflatten(0, (-1, self.bodies)).amax(1)
        none_BND = largest_BD[:, :0, None].expand(-1, -1, self.width)
        return Encoded(tokens_RND=none_BND, pooled_RD=largest_BD, per_clip=True)

    def closed_form_macs(self, grid, visible=None):
        """MACs of one clip: both branches (``points``, ``images``) and the convolutions that join them."""
        channels, image, pixels = self.config.channels, self.config.image, grid.frames * self.config.image
        half, quarter = (grid.frames // k * (image // k) for k in (2, 4))
        eighth = grid.frames // 8 * (image // 8)
        parts = {
            "points": 2 * grid.frames * grid.joints * channels * (3 + 3 * image),
            "images": 2 * 9 * (pixels * grid.joints + half * channels) * (channels // 2),
            "joined": 9 * (quarter * 4 + eighth * 8) * channels**2,
        }
        return {name: self.bodies * macs for name, macs in parts.items()}


class Branch(nn.Module):
    """Branch for positions or for motion: features of each joint, then of the images of all joints."""

    def __init__(self, config: HCNConfig, joints: int) -> None:
        super().__init__()
        channels = config.channels
        self.points = nn.Sequential(
            nn.Conv2d(3, channels, 1), nn.ReLU(), nn.Conv2d(channels, config.image, (3, 1), padding=(1, 0))
        )
        self.images = nn.Sequential(
            *_convolution(joints, channels // 2), *_convolution(channels // 2, channels, nn.Dropout2d(config.dropout))
        )

    def forward(self, x_RCTJ: Tensor) -> Tensor:
        """[R, 3, T, J] -> [R, C, T / 4, I / 4]."""
        return self.images(self.points(x_RCTJ).permute(0, 3, 2, 1))


def _convolution(before: int, after: int, *then: nn.Module) -> list[nn.Module]:
    return [nn.Conv2d(before, after, 3, padding=1), *then, nn.MaxPool2d(2)]


def _motion(x_RCTJ: Tensor) -> Tensor:
    """Differences of frames, T - 1 of them, resampled to T."""
    step_RLT = x_RCTJ.diff(dim=2).transpose(2, 3).flatten(1, 2)
    step_RLT = F.interpolate(step_RLT, size=x_RCTJ.shape[2], mode="linear", align_corners=False)
    return step_RLT.unflatten(1, (3, -1)).transpose(2, 3)


@hookimpl
def skelbench_encoders():
    return [
        EncoderSpec(
            name="hcn",
            target=":HCN",
            config=":HCNConfig",
            summary="convolutions over all joints at once, of positions and of motion, one feature per clip",
            presets={"small": {"channels": 16, "image": 32}, "quick": {"channels": 8, "image": 16}},
        )
    ]
