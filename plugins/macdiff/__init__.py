"""MacDiff: masked conditional diffusion (Wu et al., ECCV 2024).

The encoder sees 10 % of the tokens of a slightly noisy copy of the clip. A decoder receives the whole clip diffused to
a random time and predicts the noise, conditioned token by token on the encoder's output: the visible tokens' own, their
mean elsewhere. Facts: the official release as kept in a fork (Wenrui-Shen/MacDiff, commit 692888f). All draws are keyed
by body, so a rank sees its own bodies and a batch split over ranks changes nothing. R bodies, N tokens, L values of a
token.
"""

from math import isclose, isfinite
from typing import Literal

from pydantic import Field, PositiveFloat
from skelbench_plugins._recipes import DROPS_TOKENS, MAE_NATIVE, MAE_RECIPE, MASKED_SPACE

from skelbench.errors import SkelbenchError
from skelbench.methods.contract import Method
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
from skelbench.methods.masked_autoencoder import MaskedAutoencoderConfig, rotated_view
from skelbench.nn.losses import masked_mse
from skelbench.nn.tokenizer import Standardise, patchify
from skelbench.plugin import Log, MethodSpec, NativeProbe, hookimpl
from skelbench.views import Noise, Same
from skelbench.views.keyed import box_muller, pick

from .diffusion import DiffusionDecoder, NoiseSchedule
from .uniformity import token_uniformity

TIME, NOISE = 0, 1
"""``op`` of the draws for diffusion time and dropped conditions, and for the noise to predict."""

DECODER = {
    "decoder_embed.proj": "tokenizer.project",
    "decoder_pos_embed": "tokenizer.joint_embed",
    "decoder_temp_embed": "tokenizer.time_embed",
    "decoder_blocks": "blocks",
    "decoder_norm": "norm",
    "decoder_pred": "predict",
}
"""Names of the official decoder and ours; what is inside a block has the same names."""


class MacDiffConfig(MaskedAutoencoderConfig):
    """Defaults are those of the official code on NTU RGB+D."""

    keep: Literal["int", "round"] = Field("round", description="visible tokens: round(N (1 - r)), or int as in MAMP")
    decoder_depth: int = Field(5, ge=1, description="decoder blocks: 5 in the code; 3 give the paper's headline result")
    source_noise: float = Field(
        0.005, ge=0, description="noise of the encoder's copy of the clip", json_schema_extra={"unit": "m"}
    )
    mean: tuple[float, float, float] = Field(
        (-0.0058, -0.1333, -0.0246),
        description="mean of x, y, z of the diffused clip: NTU's (our reading on other data; PKU-II in the code: "
        "-0.0459, -0.0680, 1.3642)",
    )
    variance: tuple[PositiveFloat, PositiveFloat, PositiveFloat] = Field(
        (0.0206, 0.0805, 0.0218), description="their variance: NTU's (PKU-II in the code: 0.2356, 0.2351, 1.9492)"
    )
    diffusion_steps: int = Field(1000, ge=1, description="steps of the diffusion")
    schedule_tau: float = Field(
        1.0, ge=-1, le=1, description="noise schedule: 1 inverse cosine, 0 linear, -1 cosine in the signal's power"
    )
    time_width: int = Field(64, ge=2, multiple_of=2, description="features of the diffusion time")
    condition_drop: float = Field(0.1, ge=0, le=1, description="chance that a body's whole condition is zero")
    uniformity: float = Field(0.02, ge=0, description="weight of the token-uniformity term (in the code only)")


class MacDiff(Method):
    """Masked conditional diffusion."""

    Config = MacDiffConfig
    roles = {"encoder": "student", "decoder": "decoder"}
    whole_batch = ""

    def __init__(self, config, context):
        super().__init__(config, context)
        self.encoder = context.encoder()
        self._check_standardisation()
        self.decoder = DiffusionDecoder(
            context.width, **config.decoder_sizes, grid=context.grid, time_width=config.time_width
        )
        self.schedule = NoiseSchedule(config.diffusion_steps, config.schedule_tau)
        self.standardise = Standardise(config.mean, [variance**0.5 for variance in config.variance])

    def _check_standardisation(self):
        """Encoder and target see the clip standardised alike, unless the encoder sees it as it is (shared setting)."""
        encoder, c = self.encoder.standardisation, self.config
        if encoder is None:
            return
        mine = [*c.mean, *(variance**0.5 for variance in c.variance)]
        if not all(isclose(a, b, rel_tol=1e-3) for a, b in zip(mine, [*encoder.mean, *encoder.std])):
            raise SkelbenchError(
                "encoder.input_mean and input_std do not agree with method.mean and variance: "
                f"{encoder.mean} and {encoder.std} (squared: the variance), {c.mean} and {c.variance}; --set both alike"
            )

    @classmethod
    def views(cls, config, grid):
        target, noise = rotated_view(config, grid), Noise(p=1.0, std=config.source_noise)
        copy = {"crop": Same(parent="target"), "inherit": True, "augment": (noise,), "mask": config.random_mask}
        return {"target": target, "source": target.model_copy(update=copy)}

    def training_step(self, views, step):
        source, c = views["source"], self.config
        x_RTJC, keys_R = self.standardise(views["target"].x_RTJC), views["target"].keys_R
        u_R2 = step.uniform(keys_R, 2, op=TIME)
        step_R, informed_R = pick(u_R2[:, 0], c.diffusion_steps), u_R2[:, 1] >= c.condition_drop
        values = x_RTJC.shape[1:].numel()
        noise_RTJC = box_muller(step.uniform(keys_R, values + values % 2, op=NOISE))[:, :values].view_as(x_RTJC)

        visible_RKD = self.encoder(source, keep_RK=source.keep_RK).tokens_RND
        noisy_RTJC = self.schedule(x_RTJC, noise_RTJC, step_R)
        predicted_RNL = self.decoder(noisy_RTJC, visible_RKD, source.keep_RK, step_R, informed_R)
        step.watch("masked", lambda: predicted_RNL[source.mask_RN])
        noise_RNL = patchify(noise_RTJC, self.context.grid.patch)
        denoising = step.mean(*masked_mse(predicted_RNL, noise_RNL, source.mask_RN))
        uniformity = step.mean(token_uniformity(visible_RKD).sum(), source.rows)
        loss = denoising + c.uniformity * uniformity
        return {"loss": loss, "denoising": denoising, "uniformity": uniformity}


def imported(state, options) -> Imported:
    """A checkpoint of the official code; see :mod:`skelbench.methods.imported`."""
    check_record(options)
    rest, model = leftovers(state, ENCODER, DECODER), model_arguments(options)
    if model.get("self_shift"):
        raise SkelbenchError("it was trained on clips centred one by one (self_shift), which no encoder here does")
    settings, weights = encoder_of(state, options)
    if "decoder_pred.weight" in state:
        more, decoder = decoder_of(state, options, DECODER, "decoder_embed.proj.weight")
        settings, weights = settings | more, weights | decoder
        of_time = tensor_of(state, "decoder_blocks.0.norm1.fc_t.weight", "2 D x features", lambda s: len(s) == 2)
        settings["method.time_width"] = of_time.shape[1]
    if "input_mean" in model:
        mean = _three(model, "input_mean")
        settings |= {"encoder.input_mean": mean, "method.mean": mean}
    if "input_var" in model:
        variances = _three(model, "input_var")
        if min(variances) <= 0:
            raise SkelbenchError(f"its own record says input_var={variances}; variances are positive")
        std = [variance**0.5 for variance in variances]
        settings |= {"encoder.input_std": std, "method.variance": variances}
    known = {"uncond_ratio": "condition_drop", "lambda_loss_uni": "uniformity", "diff_steps": "diffusion_steps"}
    settings |= {f"method.{name}": model[option] for option, name in known.items() if option in model}
    return Imported(settings, weights, rest)


def _three(model, name) -> list[float]:
    """Three finite numbers that the file recorded; else :class:`SkelbenchError`."""
    values = model[name]
    numbers = isinstance(values, (list, tuple)) and all(type(value) in (int, float) for value in values)
    if not numbers or len(values) != 3 or not all(isfinite(value) for value in values):
        raise SkelbenchError(f"its own record says {name}={values!r}; three finite numbers are expected")
    return list(values)


@hookimpl
def skelbench_methods() -> list[MethodSpec]:
    return [
        MethodSpec(
            name="macdiff",
            target=":MacDiff",
            config=":MacDiffConfig",
            imports=":imported",
            probe=NativeProbe(protocol="linear@macdiff", best_on_test=True),
            summary="denoise the whole clip, conditioned on the encoder's view of 10 % of its tokens",
            citation="Wu et al., MacDiff: Unified Skeleton Modeling with Masked Conditional Diffusion, ECCV 2024 "
            "(arXiv 2409.10473)",
            recipe=MAE_RECIPE | {"schedule.min_lr": 1e-5},
            requires=DROPS_TOKENS,
            # The encoder sees what is diffused: coordinates standardised by NTU's constants (MacDiffConfig).
            native=MAE_NATIVE
            | {
                "encoder.input_mean": (-0.0058, -0.1333, -0.0246),
                "encoder.input_std": (0.0206**0.5, 0.0805**0.5, 0.0218**0.5),
                "train.bodies": "first",
            },
            space=MASKED_SPACE | {"method.uniformity": Log("x0.1", "x10")},
        )
    ]
