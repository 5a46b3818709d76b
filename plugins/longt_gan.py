"""LongT-GAN: hidden parts of a clip are filled in from its feature, against a critic (Zheng et al., AAAI 2018).

No code is public, and the published numbers come from a private re-implementation: this is our assumption.
A recurrent decoder starts from the feature of the whole clip and reads the visible parts. R rows, T frames, J joints,
C = 3, L numbers of a frame, in [-1, 1].
"""

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from skelbench_plugins._recipes import AUTOENCODER_NATIVE, AUTOENCODER_RECIPE, LR_SPACE
from torch import nn

from skelbench.methods import Method, SequenceConfig
from skelbench.models.optim.groups import one_group
from skelbench.models.recurrent import GRU, FrameDecoder, flattened, last_real, unit_range
from skelbench.plugin import Log, MethodSpec, hookimpl
from skelbench.views.keyed import pick
from skelbench.views.mixing import part_of


class LongTGANConfig(SequenceConfig):
    """All settings are our assumption."""

    hidden_min: float = Field(
        0.2, gt=0, le=1, description="shortest stretch of frames that is hidden, fraction of the clip"
    )
    hidden_max: float = Field(
        0.5, gt=0, le=1, description="longest stretch of frames that is hidden, fraction of the clip"
    )
    parts: float = Field(
        0.5, ge=0, le=1, description="probability of hiding a body part instead of a stretch of frames"
    )
    adversary: float = Field(0.01, ge=0, description="weight of the critic's loss; 0 = inpainting only")
    critic_hidden: int = Field(128, ge=1, description="width of the critic's GRU")

    @model_validator(mode="after")
    def _consistent(self):
        if self.hidden_min > self.hidden_max:
            raise ValueError(f"hidden_min {self.hidden_min} is above hidden_max {self.hidden_max}")
        return self


class LongTGAN(Method):
    """Conditional inpainting of sequences, against a critic with its own optimizer."""

    Config = LongTGANConfig
    roles = {"encoder": "student", "decoder": "decoder", "critic": "head"}
    turns = ("main", "critic")
    whole_batch = ""

    def __init__(self, config, context):
        super().__init__(config, context)
        self.encoder = context.encoder()
        numbers = 3 * context.grid.joints * self.encoder.bodies
        self.decoder = FrameDecoder(numbers, context.summary_width)
        self.critic = Critic(numbers, config.critic_hidden)

    @classmethod
    def views(cls, config, grid):
        return {"clip": config.view(grid)}

    def training_step(self, views, step):
        view = views["clip"]
        main = step.turn == "main"
        with torch.set_grad_enabled(main and torch.is_grad_enabled()):
            encoded = self.encoder(view)
            x_RTL, real_RT = flattened(view, unit_range(view.x_RTJC, view.real_RT), encoded, self.encoder.bodies)
            hidden_RTJ = self.hidden(view, step).float()
            hidden_RTL, _ = flattened(view, hidden_RTJ[..., None].expand_as(view.x_RTJC), encoded, self.encoder.bodies)
            y_RTL = self.decoder(encoded.summary_RD, x_RTL * (1 - hidden_RTL)).float()
            filled_RTL = torch.lerp(x_RTL, y_RTL, hidden_RTL)
        made_R = self.critic(filled_RTL, real_RT).float()
        if not main:
            loss_R = F.softplus(made_R) + F.softplus(-self.critic(x_RTL, real_RT).float())
            return {"loss": step.mean(loss_R.sum(), len(loss_R))}
        error_R = ((y_RTL - x_RTL).square() * hidden_RTL).sum((1, 2)) / hidden_RTL.sum((1, 2)).clamp(min=1)
        error, fooled = (step.mean(each_R.sum(), len(each_R)) for each_R in (error_R, F.softplus(-made_R)))
        return {"loss": error + self.config.adversary * fooled, "inpainting": error, "fooled": fooled}

    def hidden(self, view, step):
        """bool [R, T, J]: a stretch of real frames, or a part of the body in all of them; equal for a clip's bodies."""
        config, topology, (_, frames, _, _) = self.config, self.context.topology, view.x_RTJC.shape
        real_RT = view.real_RT
        if real_RT is None:
            real_RT = torch.ones(view.rows, frames, dtype=torch.bool, device=view.rows_R.device)
        u_R4 = step.uniform(view.keys_R - view.rows_R % view.bodies, 4)
        share_R = config.hidden_min + u_R4[:, 1] * (config.hidden_max - config.hidden_min)
        real_R = real_RT.sum(1)
        length_R = (share_R * real_R).long().clamp(min=1)
        start_R = pick(u_R4[:, 2], real_R - length_R + 1)
        t_T = torch.arange(frames, device=start_R.device)
        stretch_RT = (t_T >= start_R[:, None]) & (t_T < (start_R + length_R)[:, None])
        part_R1 = pick(u_R4[:, 3], len(topology.parts))[:, None]
        part_RJ = part_of(topology, start_R.device) == part_R1
        of_part_R11 = (u_R4[:, 0] < config.parts)[:, None, None]
        return torch.where(of_part_R11, part_RJ[:, None], stretch_RT[:, :, None]) & real_RT[:, :, None]

    def optim_groups(self):
        """Return separate groups for the critic, which has its own optimizer."""
        yield from one_group(nn.ModuleList([self.encoder, self.decoder]))
        for group in one_group(self.critic):
            yield group | {"turn": "critic"}


class Critic(nn.Module):
    """A GRU over the frames and a linear layer: the output is above 0 for sequences classified as real."""

    def __init__(self, numbers, width):
        super().__init__()
        self.gru = GRU(numbers, width, batch_first=True)
        self.out = nn.Linear(width, 1)

    def forward(self, x_RTL, real_RT):
        """[R]."""
        return self.out(last_real(self.gru(x_RTL)[0], real_RT))[:, 0]


@hookimpl
def skelbench_methods():
    return [
        MethodSpec(
            name="longt-gan",
            spelling="LongT-GAN",
            target=":LongTGAN",
            config=":LongTGANConfig",
            summary="inpaint masked frames or body parts from a clip's feature, with a critic",
            citation="Zheng et al., Unsupervised Representation Learning with Long-Term Dynamics for Skeleton Based "
            "Action Recognition, AAAI 2018",
            readings="no code is public: everything except the idea is our assumption. Data, encoder, optimizer and "
            "schedule are Predict and Cluster's, whose authors re-implemented it without details; the encoder sees the "
            "whole clip, the decoder (as wide as the feature) the visible part: a stretch of 20 to 50 % of the frames "
            "or one body part; the error is the mean square where hidden, plus 0.01 of the loss of the critic, which "
            "sees the filled-in clip; steps of both alternate",
            recipe=AUTOENCODER_RECIPE,
            native=AUTOENCODER_NATIVE,
            space=LR_SPACE | {"method.adversary": Log(0.001, 0.1)},
            variants={"inpainting": {"method.adversary": 0.0}},
        )
    ]
