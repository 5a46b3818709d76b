"""Shared parts of SkeletonMAE and MAMP: a masked autoencoder without its mask and prediction target.

Facts: MAMP's repository (maoyunyao/MAMP, model_mae and model_mamp). R rows (bodies), T frames, J joints, C = 3,
N tokens, K visible tokens of a row, L = P_T * 3 values of a token.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import Tensor

from skelbench.methods.contract import Config, Context, Method, Step
from skelbench.models.decoder import MaskedDecoder
from skelbench.models.losses import masked_mse, patch_standardize
from skelbench.models.tokenizer import patchify
from skelbench.views import Augment, Free, Mask, RandomTokens, Rotate, View, ViewSpec
from skelbench.views.skeleton.grid import Grid


class MaskedConfig(Config):
    """Settings of masking, decoder and crop, as in MAMP's code; depth as in its NTU-120 and PKU-MMD scripts.

    >>> config = MaskedConfig(mask_ratio=0.75, decoder_depth=3)
    >>> config.view(Grid(frames=64, patch=8, joints=25), mask=config.random_mask).mask.lo
    0.75
    """

    mask_ratio: float = Field(0.9, gt=0, lt=1, description="fraction of masked tokens")
    keep: Literal["int", "round"] = Field("int", description="visible tokens: int(N (1 - r)) as MAMP's code, or round")
    decoder_dim: int = Field(256, ge=1, description="decoder width")
    decoder_depth: int = Field(5, ge=1, description="decoder blocks (MAMP: 3 on NTU-60, 5 on NTU-120 and PKU-MMD)")
    decoder_heads: int = Field(8, ge=1, description="decoder attention heads")
    crop_min: float = Field(0.5, description="shortest crop, fraction of the clip")
    crop_frames: int = Field(64, ge=1, description="crops are at least this many frames, if the clip has them")
    resize: Literal["ends", "half-pixel"] = Field("ends", description="resampling to T frames; MAMP: half-pixel")

    @property
    def decoder_sizes(self) -> dict[str, int]:
        """Return width, blocks and heads as arguments of a decoder."""
        return {"dim": self.decoder_dim, "depth": self.decoder_depth, "heads": self.decoder_heads}

    @property
    def random_mask(self) -> RandomTokens:
        """Return a mask of independent tokens, with the same number in every body."""
        return RandomTokens(lo=self.mask_ratio, hi=self.mask_ratio, keep=self.keep)

    def view(self, grid: Grid, *augment: Augment, mask: Mask | None = None) -> ViewSpec:
        """One randomly cropped and augmented view of the clip, full length."""
        crop = Free(lo=self.crop_min, hi=1.0, whole_frames=True, min_frames=self.crop_frames)
        return ViewSpec(frames=grid.frames, crop=crop, augment=augment, resize=self.resize, mask=mask)


class MaskedAutoencoderConfig(MaskedConfig):
    """Defaults follow MAMP's code.

    >>> MaskedAutoencoderConfig(rotation_deg=30).decoder_sizes
    {'dim': 256, 'depth': 5, 'heads': 8}
    """

    rotation_deg: float = Field(17.18873385, description="rotation limit about every axis; 0.3 rad in MAMP's feeder")


def rotated_view(config: MaskedAutoencoderConfig, grid: Grid, mask: Mask | None = None) -> ViewSpec:
    """One randomly cropped and rotated view of the clip, full length.

    >>> rotated_view(MaskedAutoencoderConfig(rotation_deg=30), Grid(frames=64, patch=8, joints=25)).augment
    (Rotate(p=1.0, vertical_deg=30.0, tilt_deg=30.0),)
    """
    rotation = Rotate(p=1.0, vertical_deg=config.rotation_deg, tilt_deg=config.rotation_deg)
    return config.view(grid, rotation, mask=mask)


class MaskedAutoencoder(Method):
    """Encoder on the visible tokens, decoder on the full grid, squared error of standardized masked tokens.

    A subclass chooses the masked tokens (in ``views`` or in its step) and calls :meth:`reconstruct`.

    >>> class Random(MaskedAutoencoder):
    ...     @classmethod
    ...     def views(cls, config, grid):
    ...         return {"masked": rotated_view(config, grid, config.random_mask)}
    ...
    ...     def training_step(self, views, step):
    ...         view = views["masked"]
    ...         return {"loss": self.reconstruct(view, view.keep_RK, view.mask_RN, view.x_RTJC, step)}
    """

    Config = MaskedAutoencoderConfig
    roles = {"encoder": "student", "decoder": "decoder"}
    whole_batch = ""

    def __init__(self, config: MaskedAutoencoderConfig, context: Context) -> None:
        super().__init__(config, context)
        grid = context.grid
        self.encoder = context.encoder()
        self.decoder = MaskedDecoder(
            context.width, **config.decoder_sizes, grid=grid, out_dim=grid.patch * 3, norm_eps=1e-5
        )

    def reconstruct(self, view: View, keep_RK: Tensor, mask_RN: Tensor, y_RTJC: Tensor, step: Step) -> Tensor:
        """Mean loss over the masked tokens (``mask_RN`` True) of the global batch, predicting ``y_RTJC`` from the
        tokens ``keep_RK`` of ``view``."""
        visible = self.encoder(view, keep_RK=keep_RK)
        predicted_RNL = self.decoder(visible.tokens_RND, keep_RK)
        step.watch("masked", lambda: predicted_RNL[mask_RN])
        target_RNL = patch_standardize(patchify(y_RTJC, self.context.grid.patch))
        return step.mean(*masked_mse(predicted_RNL, target_RNL, mask_RN))
