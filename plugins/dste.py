"""DSTE: convolution and dense-shift attention over a clip's frames and over its joints (Weng et al., AAAI 2025).

Facts: wengwanjiang/USDRL @7e83bb6, model/DSTE.py. B clips, M body slots, T frames, J joints, D width of a branch, n
tokens of a branch: T, or K = M * J.
"""

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from skelbench.core.component import Spec
from skelbench.models.initial import trunc_normal, trunc_normal_linear
from skelbench.models.layers import DropPath, set_drop_path
from skelbench.models.two_branch import Branches, Embedding, TwoBranchEncoder, embedding_macs, sine_positions
from skelbench.plugin import EncoderSpec, hookimpl


class DSTEConfig(Spec):
    """Defaults follow USDRL's code."""

    dim: int = Field(1024, ge=2, description="width of each branch; features are twice as wide")
    depth: int = Field(2, ge=1, description="layers of each branch")
    heads: int = Field(1, ge=1, description="attention heads")
    bodies: int = Field(2, ge=1, description="body slots of a clip, concatenated")
    conv_weight: float = Field(0.5, ge=0, le=1, description="fraction of the convolution path in a layer's output")
    gap: int = Field(4, ge=1, description="one token in this number takes no part in the dense shift")
    drop_path: float = Field(0.1, ge=0, lt=1, description="probability that a clip skips a residual path")

    @model_validator(mode="after")
    def _consistent(self):
        if self.dim % self.heads or self.dim % 2:
            raise ValueError(f"dim {self.dim} must be even and a multiple of {self.heads} heads")
        return self


class DSTE(TwoBranchEncoder):
    """``DSTE(config, topology, grid)``: sine positions in time, learned ones in space, added before every layer."""

    Config = DSTEConfig

    def __init__(self, config, topology, grid):
        super().__init__(config, topology, grid, config.dim, config.bodies)
        joints = config.bodies * grid.joints
        self.embed = Embedding(config.bodies, grid, config.dim)
        self.register_buffer("time_TD", sine_positions(grid.frames, config.dim), persistent=False)
        self.space_KD = nn.Parameter(torch.empty(joints, config.dim))
        self.time, self.space = (
            nn.ModuleList(Layer(tokens, config) for _ in range(config.depth)) for tokens in (grid.frames, joints)
        )
        self.apply(_initialize)
        trunc_normal(self.space_KD)

    def set_drop_path(self, rate):
        for layers in (self.time, self.space):
            set_drop_path(list(layers), rate)
        return self.config.depth > 1

    def branches(self, x_BMTJC):
        time_BTD, space_BKD = self.embed(x_BMTJC)
        for time, space in zip(self.time, self.space):
            time_BTD, space_BKD = time(time_BTD + self.time_TD), space(space_BKD + self.space_KD)
        return Branches(time_BTD, space_BKD)

    def closed_form_macs(self, grid, visible=None):
        """MACs of one clip: ``embed``, and the layers of each branch."""
        config, dim = self.config, self.config.dim
        parts = {"embed": embedding_macs(self.bodies, grid, dim)}
        for name, n in (("time", grid.frames), ("space", self.bodies * grid.joints)):
            conv, shift = n * dim**2, 2 * n**2 * dim
            attention, mlp = 4 * n * dim**2 + 2 * n**2 * dim, 4 * n * dim**2
            parts[name] = config.depth * (conv + shift + 3 * (attention + mlp))
        return parts


class Layer(nn.Module):
    """Weighted mean of a path with a convolution and a path with dense shifts, which share one attention.

    The convolution reads one token at a time. As in the code, attention reads the sum of its output and the input,
    but is added to the input only, and the path ends with an MLP without a residual.
    """

    still_n: Tensor

    def __init__(self, tokens: int, config: DSTEConfig) -> None:
        from timm.layers import Attention, Mlp  # slow to import

        super().__init__()
        self.config = config
        self.attn = Attention(config.dim, config.heads, qkv_bias=True)
        self.drop_path = DropPath(config.drop_path)
        self.conv = nn.Linear(config.dim, config.dim)
        self.shift = Mlp(tokens, tokens, act_layer=nn.ReLU)
        self.conv_norm1, self.conv_norm2, self.shift_norm1, self.shift_norm2 = (
            nn.LayerNorm(config.dim) for _ in range(4)
        )
        self.conv_mlp, self.shift_mlp = (Mlp(config.dim, 2 * config.dim) for _ in range(2))
        still_n = torch.arange(tokens) % config.gap == 0
        self.register_buffer("still_n", still_n, persistent=False)

    def forward(self, x_BnD):
        """Same shape."""
        share = self.config.conv_weight
        return share * self.convolved(x_BnD) + (1 - share) * self.shifted(x_BnD)

    def convolved(self, x_BnD):
        y_BnD = x_BnD + torch.relu(self.conv(x_BnD))
        y_BnD = x_BnD + self.drop_path(self.attn(self.conv_norm1(y_BnD)))
        return self.drop_path(self.conv_mlp(self.conv_norm2(y_BnD)))

    def shifted(self, x_BnD):
        """Mean of a pre-norm layer on the tokens and on their dense shift; the shift mixes all tokens except every
        ``gap``-th one with all others."""
        mixed_BnD = x_BnD + self.shift(x_BnD.transpose(1, 2)).transpose(1, 2)
        mixed_BnD = torch.where(self.still_n[:, None], x_BnD, mixed_BnD)
        return (self._attended(mixed_BnD) + self._attended(x_BnD)) / 2

    def _attended(self, x_BnD):
        x_BnD = x_BnD + self.drop_path(self.attn(self.shift_norm1(x_BnD)))
        return x_BnD + self.drop_path(self.shift_mlp(self.shift_norm2(x_BnD)))


def _initialize(module: nn.Module) -> None:
    """Trunc-normal (0.02) linear layers with zero biases; the projection to queries and the convolution have PyTorch's
    initial weights."""
    if isinstance(module, Layer):  # its linear layers come first
        nn.init.xavier_uniform_(module.attn.qkv.weight)
        module.conv.reset_parameters()
    else:
        trunc_normal_linear(module)


@hookimpl
def skelbench_encoders():
    return [
        EncoderSpec(
            name="dste",
            target=":DSTE",
            config=":DSTEConfig",
            summary="convolution and dense-shift attention over frames and over joints of both bodies, max over tokens",
            presets={"small": {"dim": 64}, "quick": {"dim": 48}},
        )
    ]
