"""Shared parts of MacDiff and IGM: a few tokens of a clip are encoded, and help to denoise the whole clip.

The encoder reads 10 % of the tokens of a slightly noisy copy of the clip. A decoder receives the whole clip diffused
to a random time and predicts the noise. Its condition at a visible token is the encoder's output for this token, at
other tokens the mean of these outputs. Facts: the official release of MacDiff as kept in a fork (Wenrui-Shen/MacDiff,
commit 692888f). All draws are keyed by body, so a batch that is split over ranks gives the same result. R bodies, N
tokens, K visible ones of a body, D width of a token, L values of a token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isclose
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveFloat
from skelbench_plugins._diffusion_decoder import DiffusionDecoder, NoiseSchedule
from torch import Tensor

from skelbench.core.errors import SkelbenchError
from skelbench.methods.contract import Context, Method, Step
from skelbench.methods.masked_autoencoder import MaskedAutoencoderConfig, rotated_view
from skelbench.models.encoder import Encoded
from skelbench.models.losses import masked_mse
from skelbench.models.precision import no_autocast
from skelbench.models.tokenizer import Standardize, patchify
from skelbench.views import Noise, Same, View, ViewSpec
from skelbench.views.keyed import box_muller, pick
from skelbench.views.skeleton.grid import Grid

TIME, NOISE, MASK = 0, 1, 2
"""``op`` of the draws for diffusion time and dropped conditions, for the noise to predict, and for MacDiff's masks."""


class MaskedDiffusionConfig(MaskedAutoencoderConfig):
    """Defaults follow MacDiff's official code on NTU RGB+D.

    >>> MaskedDiffusionConfig(decoder_depth=3).decoder_sizes
    {'dim': 256, 'depth': 3, 'heads': 8}
    """

    keep: Literal["int", "round"] = Field("round", description="visible tokens: round(N (1 - r)), or int as in MAMP")
    decoder_depth: int = Field(5, ge=1, description="decoder blocks: 5 in the code; 3 give the paper's headline result")
    source_noise: float = Field(
        0.005,
        ge=0,
        description="standard deviation of the noise in the encoder's copy of the clip",
        json_schema_extra={"unit": "m"},
    )
    mean: tuple[float, float, float] = Field(
        (-0.0058, -0.1333, -0.0246),
        description="mean of x, y, z of the diffused clip: NTU's (our assumption on other data; PKU-II in the code: "
        "-0.0459, -0.0680, 1.3642)",
    )
    variance: tuple[PositiveFloat, PositiveFloat, PositiveFloat] = Field(
        (0.0206, 0.0805, 0.0218), description="variance of x, y, z: NTU's (PKU-II in the code: 0.2356, 0.2351, 1.9492)"
    )
    diffusion_steps: int = Field(1000, ge=1, description="steps of the diffusion")
    schedule_tau: float = Field(
        1.0, ge=-1, le=1, description="noise schedule: 1 inverse cosine, 0 linear, -1 cosine in the signal's power"
    )
    time_width: int = Field(64, ge=2, multiple_of=2, description="features of the diffusion time")
    condition_drop: float = Field(0.1, ge=0, le=1, description="probability that a body's whole condition is zero")
    uniformity: float = Field(0.02, ge=0, description="weight of the token-uniformity term (in the code only)")


@dataclass(frozen=True)
class Denoised:
    """Result of :meth:`MaskedDiffusion.denoise`."""

    source: Encoded
    """Encoding of the visible tokens."""
    noisy_RTJC: Tensor
    """The diffused clip, standardized."""
    step_R: Tensor
    """int64: number of diffusion steps, minus 1."""
    informed_R: Tensor
    """bool: whether the decoder had the condition."""
    predicted_RNL: Tensor
    """Noise that the decoder predicts."""
    losses: dict[str, Tensor]
    """``loss``, and its terms ``denoising`` and ``uniformity``."""


class MaskedDiffusion(Method):
    """Masked conditional diffusion. A subclass calls :meth:`denoise` in its step.

    >>> class Plain(MaskedDiffusion):
    ...     def training_step(self, views, step):
    ...         return self.denoise(views, step).losses
    >>> sorted(Plain.views(MaskedDiffusionConfig(), Grid(frames=64, patch=8, joints=25)))
    ['source', 'target']
    """

    Config = MaskedDiffusionConfig
    roles = {"encoder": "student", "decoder": "decoder"}
    whole_batch = ""

    def __init__(self, config: MaskedDiffusionConfig, context: Context) -> None:
        super().__init__(config, context)
        self.encoder = context.encoder()
        self._check_standardization()
        self.decoder = DiffusionDecoder(
            context.width, **config.decoder_sizes, grid=context.grid, time_width=config.time_width
        )
        self.schedule = NoiseSchedule(config.diffusion_steps, config.schedule_tau)
        self.standardize = Standardize(config.mean, [variance**0.5 for variance in config.variance])

    def _check_standardization(self) -> None:
        """Return the constants that standardize the clip, the same for encoder and target, unless the encoder reads
        coordinates unchanged (shared setting)."""
        encoder, c = self.encoder.standardization, self.config
        if encoder is None:
            return
        moments = [*c.mean, *(variance**0.5 for variance in c.variance)]
        if not all(isclose(a, b, rel_tol=1e-3) for a, b in zip(moments, [*encoder.mean, *encoder.std])):
            raise SkelbenchError(
                f"encoder.input_mean and input_std do not agree with method.mean and variance: {encoder.mean} and "
                f"{encoder.std} (squared: the variance), {c.mean} and {c.variance}; set both to the same values"
            )

    @classmethod
    def views(cls, config: MaskedDiffusionConfig, grid: Grid) -> dict[str, ViewSpec]:
        """The clip, and a noisy copy with few visible tokens."""
        target, noise = rotated_view(config, grid), Noise(p=1.0, std=config.source_noise)
        copy = {"crop": Same(parent="target"), "inherit": True, "augment": (noise,), "mask": config.random_mask}
        return {"target": target, "source": target.model_copy(update=copy)}

    def denoise(
        self, views: Mapping[str, View], step: Step, adapt: Callable[[Tensor], Tensor] = lambda visible_RKD: visible_RKD
    ) -> Denoised:
        """Encode the visible tokens of ``source``, diffuse ``target`` and predict its noise from both; masked tokens
        give the loss. ``adapt`` makes the condition from the encoder's tokens."""
        source, c = views["source"], self.config
        assert source.keep_RK is not None and source.mask_RN is not None  # by its mask
        mask_RN = source.mask_RN
        x_RTJC, keys_R = self.standardize(views["target"].x_RTJC), views["target"].keys_R
        u_R2 = step.uniform(keys_R, 2, op=TIME)
        step_R, informed_R = pick(u_R2[:, 0], c.diffusion_steps), u_R2[:, 1] >= c.condition_drop
        values = x_RTJC.shape[1:].numel()
        noise_RTJC = box_muller(step.uniform(keys_R, values + values % 2, op=NOISE))[:, :values].view_as(x_RTJC)

        encoded = self.encoder(source, keep_RK=source.keep_RK)
        visible_RKD = encoded.tokens_RND
        noisy_RTJC = self.schedule(x_RTJC, noise_RTJC, step_R)
        predicted_RNL = self.decoder(noisy_RTJC, adapt(visible_RKD), source.keep_RK, step_R, informed_R)
        step.watch("masked", lambda: predicted_RNL[mask_RN])
        noise_RNL = patchify(noise_RTJC, self.context.grid.patch)
        denoising = step.mean(*masked_mse(predicted_RNL, noise_RNL, mask_RN))
        uniformity = step.mean(token_uniformity(visible_RKD).sum(), source.rows)
        losses = {"loss": denoising + c.uniformity * uniformity, "denoising": denoising, "uniformity": uniformity}
        return Denoised(encoded, noisy_RTJC, step_R, informed_R, predicted_RNL, losses)


def token_uniformity(x_RKD: Tensor) -> Tensor:
    """[R]: mean squared cosine between all pairs of a row's tokens, each with itself included, in float32.

    1 if all tokens have the same direction, 1 / K if all are orthogonal (MacDiff's code).
    """
    x_RKD = F.normalize(x_RKD.to(torch.promote_types(x_RKD.dtype, torch.float32)), dim=-1)
    with no_autocast(x_RKD):
        return (x_RKD @ x_RKD.mT).square().mean((1, 2))
