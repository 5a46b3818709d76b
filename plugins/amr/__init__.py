"""AMR: adaptive masked reconstruction with a sparse decoder (CVPR 2026).

As SkeletonMAE, 90 % of the tokens are masked at random and only the visible ones are encoded. The decoder is a small
set of learned queries, one for a joint over several temporal tokens, that attend to the visible tokens and not to each
other; errors weigh more where a joint moves. No code is published; what the paper does not specify is marked
*our assumption*. R bodies, T frames, J joints, N tokens, L values of a token.
"""

from typing import Literal

from pydantic import Field, PositiveInt
from skelbench_plugins._recipes import DROPS_TOKENS, MAE_NATIVE, MAE_RECIPE, MASKED_SPACE

from skelbench.methods import MaskedAutoencoderConfig, Method, rotated_view
from skelbench.models.losses import patch_standardize
from skelbench.models.tokenizer import patchify
from skelbench.plugin import MethodSpec, hookimpl

from .energy import energy_weights
from .query import QueryDecoder


class AMRConfig(MaskedAutoencoderConfig):
    """Defaults are the paper's where it is known, else the family's (MAMP's code)."""

    keep: Literal["int", "round"] = Field("int", description="visible tokens: int or round (assumption: MAMP's int)")
    decoder_depth: int = Field(5, ge=1, description="decoder blocks (our assumption: what the paper's FLOPs imply)")
    query_frames: int = Field(
        24,
        ge=1,
        description="frames of a joint per query: r = 6 of 30 tokens; on a grid that is not divisible, the longest "
        "shorter stretch: 3 of 15 tokens, 2 of 8 (our assumption: frames, not tokens, stay as published)",
    )
    memory_positions: bool = Field(
        True,
        description="add learned positions to the visible tokens that queries attend to (our assumption: rotary "
        "encoders keep no absolute time)",
    )
    target: Literal["token", "raw"] = Field(
        "token", description="coordinates standardized per token, or in meters (our assumption: as in MAMP's code)"
    )
    loss_tokens: Literal["all", "masked"] = Field(
        "all", description="tokens in the loss (our assumption: the formula has no mask)"
    )
    windows: tuple[PositiveInt, ...] = Field((4, 8, 12), min_length=1, description="frames of the energy windows")
    focal_k: float = Field(
        1.0, ge=0, description="k of the weight 1 / (1 + k mean / energy) (our assumption: 1, half weight at the mean)"
    )
    focal_fuse: Literal["mean", "max", "product"] = Field(
        "mean", description="how the windows' weights become one (our assumption)"
    )
    focal_mean: Literal["body", "joint"] = Field(
        "body", description="mean energy over the whole body or each joint alone (our assumption: hands over trunk)"
    )
    focal_eps: float = Field(
        1e-6, gt=0, description="added to the energy (our assumption: 1 mm)", json_schema_extra={"unit": "m^2"}
    )


class AMR(Method):
    """Masked reconstruction by cross-attending queries, weighted by motion energy. Each rank sees its own bodies."""

    Config = AMRConfig
    roles = {"encoder": "student", "decoder": "decoder"}
    whole_batch = ""

    def __init__(self, config, context):
        super().__init__(config, context)
        self.encoder = context.encoder()
        self.decoder = QueryDecoder(
            context.width,
            **config.decoder_sizes,
            ratio=config.query_frames // context.grid.patch,
            grid=context.grid,
            out_dim=context.grid.patch * 3,
            memory_positions=config.memory_positions,
        )

    @classmethod
    def views(cls, config, grid):
        return {"clip": rotated_view(config, grid, config.random_mask)}

    def training_step(self, views, step):
        view, c, patch = views["clip"], self.config, self.context.grid.patch
        visible = self.encoder(view, keep_RK=view.keep_RK)
        predicted_RNL = self.decoder(visible.tokens_RND, view.keep_RK)
        step.watch("masked", lambda: predicted_RNL[view.mask_RN])
        target_RNL = patchify(view.x_RTJC, patch)
        if c.target == "token":
            target_RNL = patch_standardize(target_RNL)
        weight_RTJ = energy_weights(view.x_RTJC, c.windows, c.focal_k, c.focal_fuse, c.focal_mean, c.focal_eps)
        weight_RNL = patchify(weight_RTJ.unsqueeze(-1).expand_as(view.x_RTJC), patch)
        error_RN = (weight_RNL * (predicted_RNL.float() - target_RNL).square()).mean(-1)
        if c.loss_tokens == "masked":
            return {"loss": step.mean((error_RN * view.mask_RN).sum(), view.mask_RN.sum())}
        return {"loss": step.mean(error_RN.sum(), error_RN.numel())}


@hookimpl
def skelbench_methods() -> list[MethodSpec]:
    return [
        MethodSpec(
            name="amr",
            spelling="AMR",
            target=":AMR",
            config=":AMRConfig",
            summary="reconstruct 90 % masked tokens with cross-attention queries, weighted by motion energy",
            citation="Adaptive Masked Reconstruction, CVPR 2026 (arXiv 2606.11450)",
            readings="optimizer, batch size, epochs and the decoder's width and heads are MAMP's: the paper names none",
            recipe=MAE_RECIPE,
            requires=DROPS_TOKENS,
            native=MAE_NATIVE,
            space=MASKED_SPACE,
        )
    ]
