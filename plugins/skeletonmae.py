"""SkeletonMAE: reconstruct masked joint coordinates (Wu et al., ICMEW 2023).

The form that the comparisons of MAMP, S-JEPA, GFP and SLiM call SkeletonMAE: a plain ViT, 90 % of the tokens masked
at random, visible tokens only through the encoder, a decoder over the full grid, and the mean squared error of
coordinates standardised per token. Facts: MAMP's repository (maoyunyao/MAMP, model_mae); R bodies, N tokens.
"""

from typing import Literal

from pydantic import Field

from skelbench.method import Config, Method
from skelbench.nn.decoder import MaskedDecoder
from skelbench.nn.losses import masked_mse, patch_standardise
from skelbench.nn.tokenizer import patchify
from skelbench.skeleton.spec import Free, RandomTokens, Rotate, ViewSpec


class SkeletonMAEConfig(Config):
    """Defaults are those of MAMP's re-run; the decoder depth is the one of its NTU-120 and PKU scripts."""

    mask_ratio: float = Field(0.9, gt=0, lt=1, description="share of tokens hidden from the encoder")
    keep: Literal["int", "round"] = Field("int", description="visible tokens: int(N (1 - r)) as MAMP's code, or round")
    decoder_dim: int = Field(256, description="decoder width")
    decoder_depth: int = Field(5, description="decoder blocks (MAMP: 3 on NTU-60, 5 on NTU-120 and PKU-MMD)")
    decoder_heads: int = Field(8, description="decoder attention heads")
    rotation_deg: float = Field(17.18873385, description="rotation limit about every axis; 0.3 rad in MAMP's feeder")
    crop_min: float = Field(0.5, description="shortest crop, share of the clip")
    crop_frames: int = Field(64, description="crops are at least this many frames, if the clip has them")


class SkeletonMAE(Method):
    """Masked coordinate reconstruction."""

    Config = SkeletonMAEConfig
    roles = {"encoder": "student", "decoder": "decoder"}

    def __init__(self, config, context):
        super().__init__(config, context)
        self.encoder = context.encoder()
        self.decoder = MaskedDecoder(
            context.width,
            config.decoder_dim,
            config.decoder_depth,
            config.decoder_heads,
            grid=context.grid,
            out_dim=context.grid.patch * 3,
            norm_eps=1e-5,
        )

    @classmethod
    def views(cls, config, grid):
        turn = Rotate(p=1.0, vertical_deg=config.rotation_deg, tilt_deg=config.rotation_deg)
        crop = Free(lo=config.crop_min, hi=1.0, whole_frames=True, min_frames=config.crop_frames)
        mask = RandomTokens(lo=config.mask_ratio, hi=config.mask_ratio, keep=config.keep)
        return {"clip": ViewSpec(frames=grid.frames, crop=crop, augment=(turn,), resize="half-pixel", mask=mask)}

    def training_step(self, views, step):
        view = views["clip"]
        visible = self.encoder(view, keep_RK=view.keep_RK)
        predicted_RNL = self.decoder(visible.tokens_RND, view.keep_RK)
        target_RNL = patch_standardise(patchify(view.x_RTJC, self.context.grid.patch))
        return {"loss": step.mean(*masked_mse(predicted_RNL, target_RNL, view.mask_RN))}

    def inference_encoder(self):
        return self.encoder
