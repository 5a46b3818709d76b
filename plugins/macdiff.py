"""MacDiff: masked conditional diffusion (Wu et al., ECCV 2024).

The method is in :mod:`skelbench_plugins._diffusion`, which IGM uses too; this file reads its checkpoints.
"""

from dataclasses import replace
from math import isfinite

from pydantic import Field
from skelbench_plugins._diffusion import MASK, MaskedDiffusion, MaskedDiffusionConfig
from skelbench_plugins._probes import RotatedLinear
from skelbench_plugins._recipes import (
    DIFFUSION_NATIVE,
    DIFFUSION_RECIPE,
    DROPS_TOKENS,
    MAE_DATA,
    MAE_SLOTS,
    MASKED_SPACE,
)

from skelbench.core.errors import SkelbenchError
from skelbench.methods.imported import (
    ENCODER,
    Imported,
    check_record,
    decoder_of,
    encoder_of,
    leftovers,
    model_arguments,
    tensor_of,
)
from skelbench.plugin import Log, MethodSpec, NativeProbe, ProtocolSpec, hookimpl
from skelbench.views.motion import motion_masks

DECODER = {
    "decoder_embed.proj": "tokenizer.project",
    "decoder_pos_embed": "tokenizer.joint_embed",
    "decoder_temp_embed": "tokenizer.time_embed",
    "decoder_blocks": "blocks",
    "decoder_norm": "norm",
    "decoder_pred": "predict",
}
"""Names of the official decoder and, after the arrow, ours; names inside a block are equal."""


class MacDiffConfig(MaskedDiffusionConfig):
    """Defaults follow the official code for NTU-120 X-Sub."""

    ADDED = frozenset({"tau"})

    tau: float = Field(0.0, description="temperature of motion-aware masking (X-View and X-Set: 0.8); 0 = uniform")


class MacDiff(MaskedDiffusion):
    """Masked conditional diffusion."""

    Config = MacDiffConfig

    def training_step(self, views, step):
        if self.config.tau > 0:
            target, source, grid = views["target"], views["source"], self.context.grid
            u_RN = step.uniform(target.keys_R, grid.tokens, op=MASK)
            mask_RN, keep_RK = motion_masks(target.x_RTJC, u_RN, grid.patch, source.keep_RK.shape[1], self.config.tau)
            views = {"target": target, "source": replace(source, mask_RN=mask_RN, keep_RK=keep_RK, masked_I=None)}
        return self.denoise(views, step).losses


def imported(state, options) -> Imported:
    """A checkpoint of the official code; see :mod:`skelbench.methods.imported`."""
    check_record(options)
    rest, model = leftovers(state, ENCODER, DECODER), model_arguments(options)
    if model.get("self_shift"):
        raise SkelbenchError("it was trained on clips centered one by one (self_shift), which no encoder here does")
    settings, weights = encoder_of(state, options)
    if "decoder_pred.weight" in state:
        more, decoder = decoder_of(state, options, DECODER, "decoder_embed.proj.weight")
        settings, weights = settings | more, weights | decoder
        of_time = tensor_of(state, "decoder_blocks.0.norm1.fc_t.weight", "2 D x features", lambda s: len(s) == 2)
        settings["method.time_width"] = of_time.shape[1]
    if model:  # defaults of the code are 0 and 1
        mean = _three(model, "input_mean", 0.0)
        settings |= {"encoder.input_mean": mean, "method.mean": mean}
        variances = _three(model, "input_var", 1.0)
        if min(variances) <= 0:
            raise SkelbenchError(f"its own record says input_var={variances}; variances are positive")
        std = [variance**0.5 for variance in variances]
        settings |= {"encoder.input_std": std, "method.variance": variances}
    settings |= {"method.mask_ratio": options["mask_ratio"]} if "mask_ratio" in options else {}
    tau = options.get("motion_aware_tau", -1)  # -1 = uniform
    settings |= {"method.tau": tau} if tau != -1 else {}
    names = {"uncond_ratio": "condition_drop", "lambda_loss_uni": "uniformity", "diff_steps": "diffusion_steps"}
    settings |= {f"method.{name}": model[option] for option, name in names.items() if option in model}
    return Imported(settings, weights, rest)


def _three(model, name, otherwise) -> list[float]:
    """Return three finite numbers of the file, ``otherwise`` if they are missing; raise :class:`SkelbenchError` for
    others."""
    values = model.get(name, [otherwise] * 3)
    numbers = isinstance(values, (list, tuple)) and all(type(value) in (int, float) for value in values)
    if not numbers or len(values) != 3 or not all(isfinite(value) for value in values):
        raise SkelbenchError(f"its own record says {name}={values!r}; three finite numbers are expected")
    return list(values)


class MacDiffLinear(RotatedLinear):
    """``linear@macdiff``: the probe of MacDiff's code (Wenrui-Shen/MacDiff, commit 692888f).

    As MAMP's, but on features of each joint, with dropout, and with a cosine schedule that reaches 0 ten epochs early.
    """

    rest: float = Field(0.1, ge=0, lt=1, description="fraction of the epochs at the end with a learning rate of 0")
    dropout: float = Field(
        0.3, ge=0, lt=1, description="dropout on token features in training, before they are averaged"
    )


@hookimpl
def skelbench_protocols() -> list[ProtocolSpec]:
    return [
        ProtocolSpec(
            name="linear@macdiff",
            target=":MacDiffLinear",
            summary="linear probe of MacDiff's code: as linear@mamp, with dropout, on features of all joints (J x D)",
            defaults=MAE_SLOTS | {"readout": "joints"},
        )
    ]


@hookimpl
def skelbench_methods() -> list[MethodSpec]:
    return [
        MethodSpec(
            name="macdiff",
            spelling="MacDiff",
            target=":MacDiff",
            config=":MacDiffConfig",
            imports=":imported",
            probe=NativeProbe(protocol="linear@macdiff", best_on_test=True, data=MAE_DATA),
            summary="denoise a clip, conditioned on features of 10 % of its tokens",
            citation="Wu et al., MacDiff: Unified Skeleton Modeling with Masked Conditional Diffusion, ECCV 2024 "
            "(arXiv 2409.10473)",
            recipe=DIFFUSION_RECIPE,
            requires=DROPS_TOKENS,
            native=DIFFUSION_NATIVE,
            space=MASKED_SPACE | {"method.uniformity": Log("x0.1", "x10")},
        )
    ]
