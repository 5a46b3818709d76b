"""PCM3: contrast of clips that are mixed, masked and reconstructed, with prompts (Zhang et al., ACM MM 2023).

Four queries agree with one key and share one queue of negatives: a view, the view mixed with another clip, a view with
hidden body parts, and the same view with these parts reconstructed by a decoder. Each learns the key's distribution
over the queue. Facts: JHang2020/PCM3, moco/builder_mask_recons.py, pretrain_moco_mask.py, utils.py. B clips, R rows, M
body slots, S steps (frames, or patches of them), D width of a feature, E of an embedding, P body parts, n keys written
so far.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from skelbench_plugins._recipes import LONG_CONTRAST_NATIVE, LONG_CONTRAST_RECIPE, RATES_SPACE

from skelbench.core.errors import SkelbenchError
from skelbench.methods import DistortedContrastConfig, RecurrentContrast
from skelbench.models.contrast import cosines, divergence, info_nce, similarities
from skelbench.plugin import Log, MethodSpec, NativeProbe, hookimpl
from skelbench.views import Distort
from skelbench.views.mixing import part_of, region_swap, rolled, stretches

from .parts import Decoder, Prompts

PARTNER, REGION, HIDDEN, OFFSETS = 0, 1, 2, 3
"""``op`` of the draws for partners of mixed clips, regions, hidden parts, and (counting up) for each place of a prompt.
"""
PASSES = ("base", "mixed", "hidden", "filled")
"""The four queries; each has its own prompt at the input."""
PARTS, FRAMES, FAST, WHOLE = (2, 3), (28 / 64, 44 / 64), 0.25, 0.25
"""Regions from another clip: body parts, fraction of frames, probability of double speed and of an average."""


class PCM3Config(DistortedContrastConfig):
    """Defaults follow the authors' code for joints, except ``draws``."""

    teacher_temperature: float = Field(0.05, gt=0, description="temperature of the key's distribution over the queue")
    student_temperature: float = Field(0.1, gt=0, description="temperature of the queries' distributions")
    distillation: float = Field(
        1.0, ge=0, description="weight of the distillation from key to queries; 0 for bones and motion"
    )
    reconstruction: float = Field(40.0, ge=0, description="weight of the squared error of reconstructed parts, m^2")
    prompts: bool = Field(True, description="prompts at the input and at features; none for bones and motion")
    into_decoder: bool = Field(
        True,
        description="let the gradient of the reconstructed view's contrast reach the decoder; not for bones and motion",
    )
    hide: float = Field(0.6, gt=0, lt=1, description="fraction of hidden body parts of the first body")
    hide_frames: int = Field(8, ge=1, description="frames for which the same parts are hidden")
    decoder_dim: int = Field(512, ge=1, description="width of the decoder")
    decoder_depth: int = Field(2, ge=1, description="recurrent layers of the decoder")
    draws: Literal["clip", "batch"] = Field(
        "clip", description="draws of regions and hidden parts: for each clip, or once per step (the code)"
    )


class PCM3(RecurrentContrast):
    """Momentum contrast of four queries, and reconstruction of hidden body parts."""

    Config = PCM3Config
    roles = RecurrentContrast.roles | {"decoder": "decoder"}
    whole_batch = "clips are mixed with others of their batch"
    min_clips = 2

    def __init__(self, config, context):
        super().__init__(config, context)
        grid, joints, encoder = context.grid, context.topology.num_joints, self.encoder
        self.hidden_parts = round(config.hide * len(context.topology.parts))
        if not 0 < self.hidden_parts < len(context.topology.parts):
            raise SkelbenchError(
                f"hide={config.hide:g} hides {self.hidden_parts} of the {len(context.topology.parts)} body parts of "
                f"{context.topology.name}; change it so that some, and not all, are hidden"
            )
        shape = grid.patch if "tokens" in encoder.abilities else 1, joints, 3, encoder.bodies
        self.decoder = Decoder(context.width, config.decoder_dim, config.decoder_depth, shape)
        widths = {"contrast": context.summary_width, "fill": context.width}
        self.prompts = Prompts(PASSES, joints, encoder.bodies, widths) if config.prompts else None

    @classmethod
    def views(cls, config, grid):
        view = config.view(grid, stream=config.stream)
        sheared = view.model_copy(update={"augment": (Distort(zero=0.0, corrupt=0.0),)})
        return {"query": view, "key": view, "hidden": sheared}

    def training_step(self, views, step):
        config, query, hidden = self.config, views["query"], views["hidden"]
        limits, alike = stretches(query.x_RTJC.shape[1], FRAMES), config.draws == "batch"
        partner_B = rolled(query.clips, step.once(query, op=PARTNER))
        mixed = region_swap(
            query, partner_B, self.context.topology, step.uniform, PARTS, limits, alike=alike, op=REGION,
            fast=FAST, whole=WHOLE,
        )  # fmt: skip
        hidden_RTJ1 = self.hidden(hidden, step)[..., None]
        masked = hidden.with_x(hidden.x_RTJC.masked_fill(hidden_RTJ1, 0.0))

        encoded = self.encoder(self.prompted(masked, "hidden"))
        steps_RSD = self.at_random(encoded.steps(self.context.topology.num_joints), "fill", hidden, step, len(PASSES))
        found_RTJC = self.decoder(steps_RSD, masked)
        fill_RTJC = self.decoder(steps_RSD.detach(), masked) if config.into_decoder else found_RTJC.detach()
        filled = masked.with_x(torch.where(hidden_RTJ1, fill_RTJC, masked.x_RTJC))
        queries = {
            "base": self.embedding(query, "base", step),
            "mixed": self.embedding(mixed.view, "mixed", step),
            "hidden": self.projected(encoded.clip_summary(masked), "hidden", hidden, step),
            "filled": self.embedding(filled, "filled", step),
        }
        with torch.no_grad():
            key = views["key"]
            summary_BD = self.key_encoder(self.prompted(key, "base")).clip_summary(key)
            key_BE = self.projected(summary_BD, "key", key, step, self.key_head)
            weight_B1 = mixed.weight_B[:, None]
            mixed_BE = F.normalize(key_BE * (1 - weight_B1) + step.gather(key_BE)[partner_B] * weight_B1, dim=1)
        step.keep("keys", key_BE)
        keys_nE = self.queue.written(step.index, step.clips(key))

        losses = {}
        taught_B = key_BE.new_zeros(query.clips)
        for name, query_BE in queries.items():
            own_BE = mixed_BE if name == "mixed" else key_BE
            alike_Bn = similarities(query_BE, own_BE, keys_nE, 1.0)
            losses[name] = step.mean(info_nce(alike_Bn / config.temperature).sum(), query.clips)
            if config.distillation and len(keys_nE):
                teacher_Bn = cosines(own_BE, keys_nE) / config.teacher_temperature
                taught_B = taught_B + divergence(alike_Bn[:, 1:] / config.student_temperature, teacher_Bn)
        losses["taught"] = step.mean(taught_B.sum(), query.clips)
        error_RTJC = (found_RTJC - hidden.x_RTJC).square() * hidden_RTJ1
        losses["error"] = step.mean(error_RTJC.sum(), 3 * hidden_RTJ1.sum())
        step.watch("query", queries["base"])
        weight = {"taught": config.distillation, "error": config.reconstruction}
        return {"loss": sum(weight.get(name, 1.0) * x for name, x in losses.items()), **losses}

    def hidden(self, view, step):
        """bool [R, T, J]: hidden joints of the first body: random parts, drawn again every few frames."""
        frames, parts = view.x_RTJC.shape[1], len(self.context.topology.parts)
        slot_R = view.rows_R % view.bodies
        stretches = -(-frames // self.config.hide_frames)
        keys_R = torch.zeros_like(view.keys_R) if self.config.draws == "batch" else view.keys_R - slot_R
        u_RSP = step.uniform(keys_R, stretches * parts, op=HIDDEN).unflatten(1, (stretches, parts))
        hidden_RSP = u_RSP.argsort(2).argsort(2) < self.hidden_parts
        hidden_RTP = hidden_RSP.repeat_interleave(self.config.hide_frames, 1)[:, :frames]
        hidden_RTJ = hidden_RTP[:, :, part_of(self.context.topology, view.rows_R.device)]
        return hidden_RTJ & (slot_R == 0)[:, None, None]

    def embedding(self, view, name, step):
        """float32 [B, E], unit vectors of a query."""
        return self.projected(self.encoder(self.prompted(view, name)).clip_summary(view), name, view, step)

    def projected(self, summary_BD, name, view, step, head=None):
        """float32 [B, E], unit vectors; each pass has the prompt of features at another place."""
        place = (*PASSES, "fill", "key").index(name)
        summary_BD = self.at_random(summary_BD, "contrast", view, step, place)
        return F.normalize((head or self.head)(summary_BD).float(), dim=1)

    def prompted(self, view, name):
        return self.prompts.at_input(view, name) if self.prompts else view

    def at_random(self, x_D, name, view, step, place):
        """``x_D`` [..., D] with a prompt of features."""
        return self.prompts.at_features(x_D, name, step.once(view, op=OFFSETS + place)) if self.prompts else x_D


PLAIN = {"method.prompts": False, "method.distillation": 0.0, "method.into_decoder": False}
"""The code's PCM3_woprompt."""


@hookimpl
def skelbench_methods():
    return [
        MethodSpec(
            name="pcm3",
            spelling="PCM3",
            target=":PCM3",
            config=":PCM3Config",
            imports="skelbench.methods.recurrent_contrast:imported",
            probe=NativeProbe(
                protocol="linear@cmd",
                best_on_test=True,
                settings={"": {"batch_size": 1024, "epochs": 100, "drops": [0.2, 0.5, 0.8]}},
            ),
            summary="momentum contrast of intra- and inter-clip mixed views and of reconstructed masked clips",
            citation="Zhang et al., Prompted Contrast with Masked Motion Modeling: Towards Versatile 3D Action "
            "Representation Learning, ACM MM 2023 (arXiv 2308.03975)",
            requires=("steps",),
            readings="unfilled queue slots are skipped; a partner is any other clip of a batch (the code never "
            "takes the previous one); clips are not cut to their first 300 frames; shared: regions and hidden parts "
            "are drawn for each clip, all bodies have the same prompts, the decoder reads the mean token of a patch",
            recipe=LONG_CONTRAST_RECIPE | {"train.batch_size": 128, "train.lr": 0.02},
            native=LONG_CONTRAST_NATIVE | {"train.bodies": "all-slots", "method.draws": "batch"},
            space=RATES_SPACE | {"method.temperature": Log(0.03, 0.3), "method.reconstruction": Log(4.0, 400.0)},
            variants={
                "bone": PLAIN | {"method.stream": "bone"},
                "motion": PLAIN | {"method.stream": "motion"},
                "no-prompts": {"method.prompts": False},
            },
        )
    ]
