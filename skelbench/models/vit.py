"""ViT of the method comparisons: pre-norm, over joint-by-time patches (SLiM, appendix A).

Shapes: R rows (bodies), T frames, J joints, C = 3, P temporal tokens, N = P * J patch tokens, K visible tokens, S
class and register tokens, n = S + N (or S + K) tokens in a block, D width.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field, PositiveFloat, model_validator
from torch import Tensor, nn

from skelbench.core.component import Grown
from skelbench.models.attention import Attention, rope_table
from skelbench.models.encoder import ABILITIES, Encoded, Encoder, Standardization
from skelbench.models.initial import trunc_normal, trunc_normal_linear, xavier_linear
from skelbench.models.layers import Mlp, SwiGLU, set_drop_path
from skelbench.models.tokenizer import Standardize, Tokenizer, take
from skelbench.plugin import EncoderSpec, hookimpl
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import Topology
from skelbench.views.view import View


class ViTConfig(Grown):
    """The ViT of SLiM's appendix A; of the masked-autoencoder family with ``temporal="learned"``, ``cls=False``.

    >>> ViTConfig(dim=64, depth=3, heads=2).pooled
    'cls+mean'
    """

    ADDED = frozenset({"initial"})

    dim: int = Field(256, ge=1, description="Width of a token.")
    depth: int = Field(8, ge=1, description="Number of transformer blocks.")
    heads: int = Field(8, ge=1, description="Attention heads of a block; dim is a multiple of it.")
    mlp_ratio: float = Field(4.0, gt=0, description="Hidden units of the feed-forward part, as a multiple of dim.")
    mlp: Literal["gelu", "swiglu"] = "gelu"
    """Feed-forward part: GELU, or SwiGLU with two thirds of the hidden units, rounded up to a multiple of 8."""
    temporal: Literal["rope", "learned"] = "rope"
    """Temporal position: rope = rotate queries and keys of patch tokens; learned = add a learned vector."""
    rope_base: float = Field(10000.0, gt=1, description="Base of the rotation frequencies of RoPE.")
    cls: bool = Field(True, description="Whether there is a class token.")
    cls_position: bool = Field(False, description="Whether a learned position is added to the class token.")
    registers: int = Field(0, ge=0, description="Number of register tokens.")
    readout: Literal["auto", "cls", "mean", "cls+mean"] = "auto"
    """Feature of a body: class token, mean patch token, or both. auto = both, or the mean without a class token."""
    qkv_bias: bool = Field(True, description="Whether queries, keys and values have a bias.")
    norm_eps: float = Field(1e-6, gt=0, description="Epsilon of the layer norms.")
    drop_path: float = Field(0.0, ge=0, lt=1, description="Probability that a block is skipped in training.")
    input_mean: tuple[float, float, float] | None = None
    """Mean of x, y, z (m), subtracted from the input; None = the input is used unchanged."""
    input_std: tuple[PositiveFloat, PositiveFloat, PositiveFloat] | None = None
    """Standard deviation of x, y, z (m), which divides the input; None = as input_mean."""
    initial: Literal["xavier", "dinov2"] = "xavier"
    """Initial weights: Xavier-uniform as in masked autoencoders, or truncated normal (0.02) as in DINOv2 and in SLiM's
    released code."""

    @model_validator(mode="after")
    def _consistent(self) -> ViTConfig:
        if self.dim % self.heads:
            raise ValueError(f"dim {self.dim} cannot be split into {self.heads} heads; choose a multiple")
        if self.temporal == "rope" and self.dim // self.heads % 2:
            raise ValueError(f"RoPE needs an even width per head, not {self.dim // self.heads}")
        if self.cls_position and not self.cls:
            raise ValueError("cls_position needs a class token; set cls=true")
        if "cls" in self.readout and not self.cls:
            raise ValueError(f"readout {self.readout!r} needs a class token; set cls=true or readout='mean'")
        if (self.input_mean is None) != (self.input_std is None):
            raise ValueError("input_mean and input_std belong together; set both or neither")
        return self

    @property
    def mlp_hidden(self) -> int:
        """Hidden units of the feed-forward part."""
        if self.mlp == "gelu":
            return int(self.dim * self.mlp_ratio)
        hidden = int(self.dim * self.mlp_ratio * 2 / 3)
        return hidden + -hidden % 8

    @property
    def prefix(self) -> int:
        """Tokens in front of the patch tokens: class token and registers."""
        return int(self.cls) + self.registers

    @property
    def pooled(self) -> Literal["cls", "mean", "cls+mean"]:
        """``readout`` with "auto" resolved."""
        if self.readout == "auto":
            return "cls+mean" if self.cls else "mean"
        return self.readout


class Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        dim, eps = config.dim, config.norm_eps
        self.norm1 = nn.LayerNorm(dim, eps=eps)
        self.attn = Attention(dim, config.heads, config.qkv_bias)
        self.norm2 = nn.LayerNorm(dim, eps=eps)
        self.mlp = (Mlp if config.mlp == "gelu" else SwiGLU)(dim, config.mlp_hidden)
        self.drop_path: nn.Module = nn.Identity()

    def forward(self, x_RnD: Tensor, rope: Tensor | None = None, first: bool = False) -> Tensor:
        """Return tokens [R, n, D]; with ``first`` [R, 1, D]: only the first token, which attends to all tokens."""
        kept_RnD = x_RnD[:, :1] if first else x_RnD
        x_RnD = kept_RnD + self.drop_path(self.attn(self.norm1(x_RnD), rope, first))
        return x_RnD + self.drop_path(self.mlp(self.norm2(x_RnD)))


class ViT(Encoder):
    """``ViT(config, topology, grid)``: see :class:`ViTConfig` for its options.

    >>> from skelbench.views.skeleton.topology import NTU25
    >>> vit = ViT(ViTConfig(dim=16, depth=1, heads=2), NTU25, Grid(frames=16, patch=8, joints=25))
    >>> encoded = vit(View.of(torch.randn(2, 1, 16, 25, 3)))
    >>> encoded.tokens_RND.shape, encoded.pooled_RD.shape, encoded.cls_RD.shape
    (torch.Size([2, 50, 16]), torch.Size([2, 32]), torch.Size([2, 16]))
    """

    abilities = frozenset(ABILITIES) - {"fuse-streams"}
    prepared_state = ("tokenizer.mask_token",)
    config: ViTConfig

    def __init__(self, config: ViTConfig, topology: Topology, grid: Grid) -> None:
        super().__init__(config, topology, grid)
        dim = config.dim
        self.width = dim
        self.features = dim * (1 + (config.pooled == "cls+mean"))
        self.has_class_token = config.cls
        self.summarizes = config.cls
        self.tokenizer = Tokenizer(
            grid,
            dim,
            learned_time=config.temporal == "learned",
            class_position=config.cls_position,
            standardize=Standardize(*self.standardization) if self.standardization else None,
        )
        self.cls_token = nn.Parameter(torch.empty(dim)) if config.cls else None
        self.registers = nn.Parameter(torch.empty(config.registers, dim)) if config.registers else None
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.depth))
        self.set_drop_path(config.drop_path)
        self.norm = nn.LayerNorm(dim, eps=config.norm_eps)
        self.reset_parameters()

    @property
    def standardization(self) -> Standardization | None:
        mean, std = self.config.input_mean, self.config.input_std
        return None if mean is None or std is None else Standardization(mean, std)

    def prepare(self, requires: frozenset[str]) -> None:
        """A mask token of zeros for "replace-tokens", else none."""
        mask_token = nn.Parameter(torch.zeros(self.norm.weight.shape)) if "replace-tokens" in requires else None
        self.tokenizer.mask_token = mask_token

    def stem(self) -> tuple[nn.Parameter, ...]:
        """The patch projection."""
        return tuple(self.tokenizer.project.parameters())

    def layers(self) -> list[list[nn.Parameter]]:
        """Return parameters by layer: tokenizer, each block, last norm (as main_finetune.py of maoyunyao/MAMP)."""
        parts = [list(block.parameters()) for block in self.blocks] + [list(self.norm.parameters())]
        later = {parameter for part in parts for parameter in part}
        return [[parameter for parameter in self.parameters() if parameter not in later], *parts]

    def set_drop_path(self, rate: float) -> bool:
        """Set the drop-path rate of both branches of every block; return whether there is more than one block."""
        set_drop_path(list(self.blocks), rate)
        return len(self.blocks) > 1

    def reset_parameters(self) -> None:
        """Initialize matrices and tokens by the setting ``initial``, biases with 0, the tokenizer by its own rule."""
        dinov2 = self.config.initial == "dinov2"
        self.apply(trunc_normal_linear if dinov2 else xavier_linear)
        self.tokenizer.reset_parameters()
        for token in (self.cls_token, self.registers):
            if token is not None:
                trunc_normal(token, 1e-6 if dinov2 else 0.02)

    def forward(
        self, view: View, mask_RN: Tensor | None = None, keep_RK: Tensor | None = None, summary: bool = False
    ) -> Encoded:
        """See :meth:`Encoder.forward`. Rows do not see each other. For a ``summary`` the last block computes only the
        class token, which is then the readout; there are no tokens.

        In eval mode the level "cls4+mean" holds the class tokens of the last four blocks, each through the final norm,
        and the mean token: 5 D wide (the readout of SLiM's released probe)."""
        if mask_RN is not None and keep_RK is not None:
            raise ValueError("give mask_RN or keep_RK, not both")
        config, rope = self.config, None
        x_RND = self.tokenizer(view.x_RTJC, mask_RN)
        if keep_RK is not None:
            keep_RK = keep_RK.flatten(1)
            x_RND = take(x_RND, keep_RK)
        if config.temporal == "rope":
            token_RN = torch.arange(x_RND.shape[1], device=x_RND.device)[None] if keep_RK is None else keep_RK
            time_RN = token_RN.div(self.grid.joints, rounding_mode="floor")
            rope = rope_table(time_RN, config.dim // config.heads, config.rope_base, config.prefix)
        x_RnD = torch.cat([*self._prefix(len(x_RND)), x_RND], 1) if config.prefix else x_RND
        *before, last = self.blocks
        classes = []  # class tokens of the three blocks before the last
        for place, block in enumerate(before):
            x_RnD = block(x_RnD, rope)
            if config.cls and not self.training and place >= len(before) - 3:
                classes.append(x_RnD[:, 0].clone())  # a slice would keep all tokens in memory
        x_RnD = self.norm(last(x_RnD, rope, first=summary and self.summarizes))
        tokens_RND, cls_RD = x_RnD[:, config.prefix :], x_RnD[:, 0] if config.cls else None
        if summary and cls_RD is not None:
            return Encoded(tokens_RND=tokens_RND, pooled_RD=cls_RD, cls_RD=cls_RD)
        parts = {"cls": lambda: x_RnD[:, 0], "mean": lambda: tokens_RND.mean(1)}
        pooled_RD = torch.cat([parts[name]() for name in config.pooled.split("+")], 1)
        levels = {}
        if len(classes) == 3:
            levels["cls4+mean"] = torch.cat([*map(self.norm, classes), parts["cls"](), parts["mean"]()], 1)
        return Encoded(tokens_RND=tokens_RND, pooled_RD=pooled_RD, cls_RD=cls_RD, levels=levels)

    def _prefix(self, rows: int) -> list[Tensor]:
        tokens = []
        if self.cls_token is not None:
            position = self.tokenizer.joint_embed[-1] if self.config.cls_position else 0.0
            tokens.append((self.cls_token + position).expand(rows, 1, -1))
        if self.registers is not None:
            tokens.append(self.registers.expand(rows, -1, -1))
        return tokens

    def closed_form_macs(self, grid: Grid, visible: int | None = None) -> dict[str, int]:
        """See :meth:`Encoder.closed_form_macs`: ``embed``, ``attention``, ``mlp`` of one body."""
        config, dim = self.config, self.width
        tokens = (grid.tokens if visible is None else visible) + config.prefix
        products = 2 if config.mlp == "gelu" else 3
        return {
            "embed": grid.tokens * grid.patch * 3 * dim,
            "attention": config.depth * (4 * dim**2 * tokens + 2 * dim * tokens**2),
            "mlp": config.depth * products * dim * config.mlp_hidden * tokens,
        }


@hookimpl
def skelbench_encoders() -> list[EncoderSpec]:
    return [
        EncoderSpec(
            name="vit",
            target=":ViT",
            config=":ViTConfig",
            summary="pre-norm ViT over frame-patch x joint tokens; temporal RoPE or learned positions",
            presets={"small": {"dim": 64, "depth": 3, "heads": 2}, "quick": {"dim": 64, "depth": 2, "heads": 2}},
        )
    ]
