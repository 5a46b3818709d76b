"""SkeletonMAE: reconstruct masked joint coordinates (Wu et al., ICMEW 2023).

The form that the comparisons of MAMP, S-JEPA, GFP and SLiM call SkeletonMAE: a plain ViT, 90 % of the tokens masked
at random, visible tokens only through the encoder, a decoder over the full grid, and the mean squared error of
coordinates standardized per token. Facts: MAMP's repository (maoyunyao/MAMP, model_mae).
"""

from skelbench_plugins._recipes import DROPS_TOKENS, FP32, MAE_NATIVE, MAE_PROBE, MAE_RECIPE, MASKED_SPACE

from skelbench.methods import Imported, MaskedAutoencoder, MaskedAutoencoderConfig, rotated_view
from skelbench.methods.imported import masked_autoencoder
from skelbench.plugin import MethodSpec, hookimpl


class SkeletonMAEConfig(MaskedAutoencoderConfig):
    """Defaults follow MAMP's re-run."""


class SkeletonMAE(MaskedAutoencoder):
    """Masked coordinate reconstruction."""

    Config = SkeletonMAEConfig

    @classmethod
    def views(cls, config, grid):
        return {"clip": rotated_view(config, grid, config.random_mask)}

    def training_step(self, views, step):
        view = views["clip"]
        return {"loss": self.reconstruct(view, view.keep_RK, view.mask_RN, view.x_RTJC, step)}


def imported(state, options) -> Imported:
    """A checkpoint of ``model_mae``; see :func:`skelbench.methods.imported.masked_autoencoder`."""
    return masked_autoencoder(state, options, "model_mae", {"mask_ratio": "mask_ratio"})


@hookimpl
def skelbench_methods() -> list[MethodSpec]:
    return [
        MethodSpec(
            name="skeletonmae",
            spelling="SkeletonMAE",
            target=":SkeletonMAE",
            config=":SkeletonMAEConfig",
            summary="reconstruct the coordinates of 90 % randomly masked tokens with a decoder",
            citation="Wu et al., SkeletonMAE, ICMEW 2023 (arXiv 2209.02399), in the plain-ViT form of MAMP's code",
            recipe=MAE_RECIPE,
            requires=DROPS_TOKENS,
            native=MAE_NATIVE | FP32,
            imports=":imported",
            probe=MAE_PROBE,
            space=MASKED_SPACE,
        )
    ]
