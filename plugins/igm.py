"""IGM: a clip generated from features must have the same features when it is encoded again (Lin et al., ECCV 2024).

No code is published, and only the formulas of the paper are known here: all else follows MacDiff, by the same group, or
is our assumption. A generator denoises the clip, conditioned on the encoder's tokens. Its estimate of the clip without
noise is encoded again, and must have the clip's feature (feature idempotency) and the clip's similarities to earlier
clips (distribution idempotency). An adapter subtracts from a token the tokens similar to it. B clips, R bodies, N
tokens, K visible ones, D width, L values of a token, n earlier clips.
"""

import torch
import torch.nn.functional as F
from pydantic import Field
from skelbench_plugins._diffusion import MaskedDiffusion, MaskedDiffusionConfig
from skelbench_plugins._recipes import DIFFUSION_NATIVE, DIFFUSION_RECIPE, DROPS_TOKENS, MASKED_SPACE

from skelbench.models.contrast import KeyQueue, cosines, divergence
from skelbench.models.tokenizer import unpatchify
from skelbench.plugin import Log, MethodSpec, NativeProbe, hookimpl


class IGMConfig(MaskedDiffusionConfig):
    """Defaults are MacDiff's; others are our assumption."""

    high_pass: float = Field(
        0.5, ge=0, description="eta: fraction of the common part of similar tokens that the adapter removes"
    )
    feature_weight: float = Field(1.0, ge=0, description="weight of feature idempotency (our assumption)")
    distribution_weight: float = Field(1.0, ge=0, description="weight of distribution idempotency (our assumption)")
    queue: int = Field(16384, ge=1, description="number of features of earlier clips (our assumption: CMD's)")
    temperature: float = Field(
        0.1, gt=0, description="temperature of the generated clip's similarities (our assumption: CMD's)"
    )
    teacher_temperature: float = Field(
        0.05, gt=0, description="temperature of the clip's own similarities (our assumption: CMD's)"
    )
    limit: float = Field(
        4.0,
        gt=0,
        description="limit of the estimates of the clip, in standard deviations, as in samplers (our assumption)",
    )


class IGM(MaskedDiffusion):
    """MacDiff with an adapter, and two terms on the estimate of the clip."""

    Config = IGMConfig

    def __init__(self, config, context):
        super().__init__(config, context)
        self.queue = KeyQueue(config.queue, context.width)

    @classmethod
    def views(cls, config, grid):
        """Add a view whose mask chooses the encoded tokens of the estimate, independently of the tokens behind the
        estimate."""
        views = super().views(config, grid)
        again = views["source"].model_copy(update={"augment": ()})
        return views | {"target-generated": again}

    def training_step(self, views, step):
        source, generated, config = views["source"], views["target-generated"], self.config
        denoised = self.denoise(views, step, self.adapt)
        again = self.encoder(generated.with_x(self.estimate(denoised)), keep_RK=generated.keep_RK)
        # Tokens only: the generator does not get the class token, so all clips could have the same one.
        feature_BD, again_BD = (
            F.normalize(view.per_clip(encoded.tokens_RND.mean(1)).float(), dim=1)
            for view, encoded in ((source, denoised.source), (generated, again))
        )
        feature_BD = feature_BD.detach()
        for name, x_BD in (("source", feature_BD), ("generated", again_BD)):
            step.watch(name, x_BD)

        # Weight by the signal that the generator got: small for noisy bodies, 0 without condition.
        seen_R = self.schedule.signal_S[denoised.step_R].square() * denoised.informed_R
        terms = {"feature_idempotency": 1 - (feature_BD * again_BD).sum(1)}
        keys_nD = self.queue.written(step.index, step.clips(source))
        if len(keys_nD):
            again_Bn, feature_Bn = cosines(again_BD, keys_nD), cosines(feature_BD, keys_nD)
            apart_B = divergence(again_Bn / config.temperature, feature_Bn / config.teacher_temperature)
        else:
            apart_B = torch.zeros_like(terms["feature_idempotency"])
        terms["distribution_idempotency"] = apart_B
        means = {name: step.mean((x_B[source.clip_R] * seen_R).sum(), source.rows) for name, x_B in terms.items()}
        step.keep("features", feature_BD)
        losses = denoised.losses | means
        penalty = config.feature_weight * means["feature_idempotency"]
        penalty = penalty + config.distribution_weight * means["distribution_idempotency"]
        return losses | {"loss": losses["loss"] + penalty}

    def adapt(self, visible_RKD):
        """(1 + eta) z - eta softmax(z z^T / sqrt(D)) z of the tokens z of a body."""
        smooth_RKD = F.scaled_dot_product_attention(visible_RKD, visible_RKD, visible_RKD)
        return (1 + self.config.high_pass) * visible_RKD - self.config.high_pass * smooth_RKD

    def estimate(self, denoised):
        """float32 [R, T, J, 3], meters: the clip as one step of denoising leaves it."""
        grid, standard = self.context.grid, self.standardize
        noise_RTJC = unpatchify(denoised.predicted_RNL.float(), grid.patch, grid.joints)
        signal_R, share_R = (x_S[denoised.step_R] for x_S in (self.schedule.signal_S, self.schedule.noise_S))
        x_RTJC = (denoised.noisy_RTJC - share_R.view(-1, 1, 1, 1) * noise_RTJC) / signal_R.view(-1, 1, 1, 1)
        return x_RTJC.clamp(-self.config.limit, self.config.limit) * standard.std_C + standard.mean_C

    def after_step(self, step):
        self.queue.push(step.index, step.kept("features"))


@hookimpl
def skelbench_methods():
    return [
        MethodSpec(
            name="igm",
            spelling="IGM",
            target=":IGM",
            config=":IGMConfig",
            probe=NativeProbe(protocol="linear@macdiff", best_on_test=True),
            summary="MacDiff plus idempotence: a clip generated from features has the same features",
            citation="Lin et al., Idempotent Unsupervised Representation Learning for Skeleton-Based Action "
            "Recognition, ECCV 2024 (arXiv 2410.20349)",
            readings="no code is published; from the paper: noise predicted from a condition that an adapter filters, "
            "and two idempotency terms on an estimate by one step. All else is MacDiff's (masks, loss on masked "
            "tokens, decoder, optimizer, epochs, bodies, probe) or ours: the estimate is cut off; 10 % of its tokens "
            "are encoded, without a time and weighted by the part of the signal that was left, in place of the time "
            "and noise that the paper tells the encoder; a feature is the mean of its tokens, a clip's own without "
            "gradient; distributions are softmaxes over a queue, compared by KL; eta, weights, temperatures and queue",
            recipe=DIFFUSION_RECIPE,
            requires=DROPS_TOKENS,
            native=DIFFUSION_NATIVE,
            space=MASKED_SPACE | {"method.distribution_weight": Log(0.1, 10.0)},
            variants={
                "no-feature": {"method.feature_weight": 0.0},
                "no-distribution": {"method.distribution_weight": 0.0},
                "no-idempotency": {"method.feature_weight": 0.0, "method.distribution_weight": 0.0},
            },
        )
    ]
