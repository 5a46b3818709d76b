"""The encoder all token methods share: a pre-norm ViT over joint-by-time patches (paper, appendix A).

Shapes: R rows (bodies), T frames, J joints, C = 3, P temporal tokens, N = P * J patch tokens, K visible tokens,
S class and register tokens, n = S + N (or S + K) tokens in a block, D width.
"""

from __future__ import annotations

import torch
from timm.layers import AttentionRope, DropPath, Mlp, SwiGLU
from torch import Tensor, nn

from skelbench.nn.config import ViTConfig
from skelbench.nn.encoder import Encoded, Encoder
from skelbench.nn.rope import rope_table
from skelbench.nn.tokenizer import Tokenizer, take
from skelbench.skeleton.grid import Grid
from skelbench.skeleton.topology import Topology
from skelbench.views.view import View


class Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, config: ViTConfig, drop_path: float = 0.0) -> None:
        super().__init__()
        dim, eps = config.dim, config.norm_eps
        self.norm1 = nn.LayerNorm(dim, eps=eps)
        self.attn = AttentionRope(
            dim, config.heads, qkv_bias=config.qkv_bias, num_prefix_tokens=config.prefix, rotate_half=True
        )
        self.norm2 = nn.LayerNorm(dim, eps=eps)
        self.mlp = (Mlp if config.mlp == "gelu" else SwiGLU)(dim, config.mlp_hidden)
        self.drop_path = DropPath(drop_path) if drop_path else nn.Identity()

    def forward(self, x_RnD: Tensor, rope: Tensor | None = None) -> Tensor:
        """``rope``: table of the patch tokens from :func:`~skelbench.nn.rope.rope_table`, or None."""
        x_RnD = x_RnD + self.drop_path(self.attn(self.norm1(x_RnD), rope))
        return x_RnD + self.drop_path(self.mlp(self.norm2(x_RnD)))

    @staticmethod
    def closed_form_macs(config: ViTConfig, tokens: int) -> dict[str, int]:
        """Matrix products of one block on ``tokens`` tokens."""
        dim = config.dim
        products = 2 if config.mlp == "gelu" else 3
        return {
            "attention": 4 * dim**2 * tokens + 2 * dim * tokens**2,
            "mlp": products * dim * config.mlp_hidden * tokens,
        }


class ViT(Encoder):
    """``ViT(config, topology, grid)``: see :class:`~skelbench.nn.config.ViTConfig` for the forms it takes."""

    config: ViTConfig

    def __init__(self, config: ViTConfig, topology: Topology, grid: Grid) -> None:
        super().__init__(config, topology, grid)
        dim = config.dim
        self.width = dim
        self.features = dim * (1 + (config.pooled == "cls+mean"))
        self.tokenizer = Tokenizer(config, grid)
        self.cls_token = nn.Parameter(torch.empty(dim)) if config.cls else None
        self.registers = nn.Parameter(torch.empty(config.registers, dim)) if config.registers else None
        drops = [config.drop_path * i / max(1, config.depth - 1) for i in range(config.depth)]
        self.blocks = nn.ModuleList(Block(config, drop) for drop in drops)
        self.norm = nn.LayerNorm(dim, eps=config.norm_eps)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier-uniform matrices, zero biases, trunc-normal (0.02) embeddings and tokens, zero mask token; the patch
        projection keeps PyTorch's default."""
        self.apply(xavier_linear)
        tokenizer = self.tokenizer
        tokenizer.project.reset_parameters()  # a convolution in the ancestors' code: their Xavier rule passes it over
        for embedding in (tokenizer.joint_embed, tokenizer.time_embed, self.cls_token, self.registers):
            if embedding is not None:
                nn.init.trunc_normal_(embedding, std=0.02)
        if tokenizer.mask_token is not None:
            nn.init.zeros_(tokenizer.mask_token)

    def forward(self, view: View, mask_RN: Tensor | None = None, keep_RK: Tensor | None = None) -> Encoded:
        """See :meth:`Encoder.forward`. Rows do not see each other."""
        if mask_RN is not None and keep_RK is not None:
            raise ValueError("give mask_RN or keep_RK, not both")
        config = self.config
        x_RND = self.tokenizer(view.x_RTJC, mask_RN)
        R, N, D = x_RND.shape
        time_1N = torch.arange(N, device=x_RND.device).div(self.grid.joints, rounding_mode="floor").unsqueeze(0)
        if keep_RK is not None:
            x_RND = take(x_RND, keep_RK)
            time_1N = keep_RK.div(self.grid.joints, rounding_mode="floor")
        rope = rope_table(time_1N, D // config.heads, config.rope_base) if config.temporal == "rope" else None

        x_RnD = torch.cat([*self._prefix(R), x_RND], 1) if config.prefix else x_RND
        for block in self.blocks:
            x_RnD = block(x_RnD, rope)
        x_RnD = self.norm(x_RnD)

        tokens_RND = x_RnD[:, config.prefix :]
        cls_RD = x_RnD[:, 0] if config.cls else None
        parts = {"cls": lambda: cls_RD, "mean": lambda: tokens_RND.mean(1)}
        pooled_RD = torch.cat([parts[name]() for name in config.pooled.split("+")], 1)
        return Encoded(tokens_RND=tokens_RND, pooled_RD=pooled_RD, cls_RD=cls_RD)

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
        tokens = (grid.tokens if visible is None else visible) + self.config.prefix
        block = Block.closed_form_macs(self.config, tokens)
        embed = grid.tokens * grid.patch * 3 * self.config.dim
        return {"embed": embed} | {part: self.config.depth * macs for part, macs in block.items()}


def xavier_linear(module: nn.Module) -> None:
    """Initialise linear layers as the masked-autoencoder family does: Xavier-uniform, zero bias."""
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
