"""MAMP: predict the motion of masked joints, hiding the joints that move (Mao et al., ICCV 2023).

SkeletonMAE with two changes: which tokens are hidden is drawn with odds that grow with their motion, and the target is
the displacement to a later frame instead of the coordinates. Facts: the authors' repository (maoyunyao/MAMP,
model_mamp); R bodies, T frames, J joints, N tokens, K visible tokens.
"""

from pydantic import Field
from skelbench_plugins._recipes import DROPS_TOKENS, FP32, MAE_NATIVE, MAE_PROBE, MAE_RECIPE, MASKED_SPACE, MOTION_SPACE

from skelbench.methods import Imported, MaskedAutoencoder, MaskedAutoencoderConfig, rotated_view
from skelbench.methods.imported import masked_autoencoder
from skelbench.plugin import MethodSpec, hookimpl
from skelbench.views.masks import some_visible
from skelbench.views.motion import check_stride, displacement, motion_masks


class MAMPConfig(MaskedAutoencoderConfig):
    """Defaults are those of the authors' code."""

    tau: float = Field(
        0.80, description="temperature of motion-aware masking (MAMP: 0.80, on NTU-120 0.75); 0 = uniform masking"
    )
    motion_stride: int = Field(1, ge=1, description="the target is x[t + stride] - x[t]; the last frames have none")


class MAMP(MaskedAutoencoder):
    """Masked motion prediction."""

    Config = MAMPConfig

    def __init__(self, config, context):
        super().__init__(config, context)
        check_stride(config.motion_stride, context.grid.frames)
        self.visible = some_visible(context.grid.tokens, config.mask_ratio, config.keep)

    @classmethod
    def views(cls, config, grid):
        return {"clip": rotated_view(config, grid)}

    def training_step(self, views, step):
        view, grid = views["clip"], self.context.grid
        u_RN = step.uniform(view.keys_R, grid.tokens)
        mask_RN, keep_RK = motion_masks(view.x_RTJC, u_RN, grid.patch, self.visible, self.config.tau)
        moved_RTJC = displacement(view.x_RTJC, self.config.motion_stride)
        return {"loss": self.reconstruct(view, keep_RK, mask_RN, moved_RTJC, step)}


def imported(state, options) -> Imported:
    """A checkpoint of ``model_mamp``; see :func:`skelbench.methods.imported.masked_autoencoder`."""
    names = {"mask_ratio": "mask_ratio", "motion_aware_tau": "tau", "motion_stride": "motion_stride"}
    return masked_autoencoder(state, options, "model_mamp", names)


@hookimpl
def skelbench_methods() -> list[MethodSpec]:
    return [
        MethodSpec(
            name="mamp",
            spelling="MAMP",
            target=":MAMP",
            config=":MAMPConfig",
            summary="predict the motion of masked tokens, hiding those that move most",
            citation="Mao et al., Masked Motion Predictors are Strong 3D Action Representation Learners, ICCV 2023 "
            "(arXiv 2308.07092)",
            recipe=MAE_RECIPE,
            requires=DROPS_TOKENS,
            native=MAE_NATIVE | FP32,
            imports=":imported",
            probe=MAE_PROBE,
            space=MASKED_SPACE | MOTION_SPACE,
        )
    ]
