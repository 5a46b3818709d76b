"""GFP: general feature prediction with a compact decoder and learned targets (Sun et al., ICCV 2025).

The encoder sees the tokens that motion-aware masking leaves visible. A decoder averages the filled grid over longer
and longer windows of time and predicts few features: of each joint over windows of 5, 10 and 30 of 30 tokens, and of
the whole clip. Small networks compute the targets from the motion of the unmasked clip; they are trained together with
the encoder, and VICReg's variance and covariance terms prevent collapse. No code is published; where the paper is not
specific, the code says *our assumption*. R bodies, T frames, J joints, M outputs per body, E width of a target, n =
rows times outputs.
"""

from typing import Literal

import torch
from pydantic import Field, field_validator
from skelbench_plugins._recipes import DROPS_TOKENS, MAE_NATIVE, MAE_RECIPE, MASKED_SPACE, MOTION_SPACE

from skelbench.methods import MaskedAutoencoderConfig, Method, rotated_view
from skelbench.plugin import MethodSpec, hookimpl
from skelbench.views.masks import visible_tokens
from skelbench.views.motion import check_stride, displacement, motion_masks

from .pyramid import PyramidDecoder, TargetGenerator
from .vicreg import spread


class GFPConfig(MaskedAutoencoderConfig):
    """Defaults are the paper's where it is known, else MAMP's code."""

    tau: float = Field(0.8, description="temperature of motion-aware masking (our assumption: MAMP's on NTU-60)")
    windows: tuple[int, ...] = Field(
        (6, 3, 1),
        min_length=1,
        description="windows of time per local level: 5, 10 and 30 of 30 tokens; the same windows of 8 or 15 tokens "
        "overlap a little (our assumption)",
    )
    decoder_depth: int = Field(
        2, ge=1, description="blocks of the first level, others have one (our assumption: what the paper's FLOPs imply)"
    )
    target_hidden: int = Field(
        512, ge=1, description="hidden width of the local levels' target networks, 3-layer MLPs (our assumption: GELU)"
    )
    target_hidden_global: int = Field(2048, ge=1, description="hidden width of the global level's target network")
    target_dim: int = Field(512, ge=1, description="width of a target (our assumption: what the paper's FLOPs imply)")
    motion_stride: int | None = Field(
        None, ge=1, description="frames between which motion is measured; none = one token (our assumption)"
    )
    prediction_weight: float = Field(5.0, description="lambda of the prediction loss")
    prediction_channels: Literal["mean", "sum"] = Field(
        "mean",
        description="over a target's channels the squared error is averaged, or summed as the formula's norm says "
        "(our assumption: summed, it outweighs the variance term E times and the targets shrink)",
    )
    covariance_weight: float = Field(
        5.0, description="alpha of the covariance term, over a level's outputs of all bodies (our assumption)"
    )
    variance_weight: float = Field(1.0, description="beta of the variance term, over the same")
    gamma: float = Field(1.0, gt=0, description="standard deviation below which the variance term acts")

    @field_validator("windows")
    @classmethod
    def _from_fine_to_coarse(cls, windows):
        if min(windows) < 1 or list(windows) != sorted(windows, reverse=True):
            raise ValueError(f"windows {windows} must be 1 or more and not grow from one level to the next")
        return windows


class GFP(Method):
    """Prediction of learned motion features. Each rank sees its own bodies; variances are over all ranks."""

    Config = GFPConfig
    roles = {"encoder": "student", "decoder": "decoder", "targets": "target"}
    whole_batch = "variance and covariance of its targets are over the whole batch"

    def __init__(self, config, context):
        super().__init__(config, context)
        grid, c = context.grid, config
        self.stride = c.motion_stride or grid.patch
        check_stride(self.stride, grid.frames)
        self.visible = visible_tokens(grid.tokens, c.mask_ratio, c.keep)
        self.encoder = context.encoder()
        self.decoder = PyramidDecoder(
            context.width, **c.decoder_sizes, counts=c.windows, grid=grid, out_dim=c.target_dim, norm_eps=1e-5
        )
        self.targets = TargetGenerator(c.windows, grid, c.target_hidden, c.target_hidden_global, c.target_dim)

    @classmethod
    def views(cls, config, grid):
        return {"clip": rotated_view(config, grid)}

    def training_step(self, views, step):
        view, grid, c = views["clip"], self.context.grid, self.config
        u_RN = step.uniform(view.keys_R, grid.tokens)
        _, keep_RK = motion_masks(view.x_RTJC, u_RN, grid.patch, self.visible, c.tau)
        predicted = self.decoder(self.encoder(view, keep_RK=keep_RK).tokens_RND, keep_RK)
        step.watch("masked", lambda: torch.cat([p.flatten(0, 1) for p in predicted]))
        targets = self.targets(displacement(view.x_RTJC, self.stride))
        error = sum((p.float() - t.float()).square().sum() for p, t in zip(predicted, targets))
        outputs = view.rows * sum(t.shape[1] for t in targets)
        channels = c.target_dim if c.prediction_channels == "mean" else 1
        prediction = step.mean(error / channels, outputs)
        # Over bodies and positions: one network, without position input, computes all targets of a level.
        spreads = [spread(t.flatten(0, 1), c.gamma) for t in targets]
        variance, covariance = (sum(getattr(s, name) for s in spreads) for name in ("variance", "covariance"))
        loss = c.prediction_weight * prediction + c.covariance_weight * covariance + c.variance_weight * variance
        out = {"loss": loss, "prediction": prediction, "variance": variance, "covariance": covariance}
        return out | {"target_std": sum(s.std for s in spreads) / len(spreads)}


@hookimpl
def skelbench_methods() -> list[MethodSpec]:
    return [
        MethodSpec(
            name="gfp",
            version=2,
            spelling="GFP",
            target=":GFP",
            config=":GFPConfig",
            summary="predict learned motion features of joints and body with a compact decoder",
            readings="batch size and the decoder's width and heads are MAMP's: the paper names none",
            citation="Sun et al., Towards Efficient General Feature Prediction in Masked Skeleton Modeling, ICCV 2025 "
            "(arXiv 2509.03609)",
            recipe=MAE_RECIPE,
            requires=DROPS_TOKENS,
            native=MAE_NATIVE,
            space=MASKED_SPACE | MOTION_SPACE,
        )
    ]
