"""CMD: momentum contrast in three streams that distill their similarities to each other (Mao et al., ECCV 2022).

Joints, motion and bones of one augmented view go to an encoder each. Each stream distinguishes a clip from the keys
of its own queue. Over the keys nearest to a clip in one stream, the others learn this stream's distribution. Facts:
maoyunyao/CMD, moco/builder_cmd.py. B clips, E width of the embedding, n keys in a queue, k nearest ones.
"""

import torch
from pydantic import Field
from skelbench_plugins._probes import LABELS, CroppedLinear, SteppedFineTune
from skelbench_plugins._recipes import (
    LONG_CONTRAST_NATIVE,
    LONG_CONTRAST_RECIPE,
    MOMENTUM_SPACE,
    RATES_SPACE,
    SIDE_BY_SIDE,
    semi,
)
from torch import nn

from skelbench.methods import STREAMS, DistortedConfig, StreamContrast
from skelbench.methods.recurrent_contrast import recurrent_encoders
from skelbench.models.contrast import cosines, divergence, info_nce, similarities
from skelbench.models.heads import recurrent_head
from skelbench.plugin import Log, MethodSpec, NativeProbe, ProtocolSpec, hookimpl


class CMDConfig(DistortedConfig):
    """Defaults follow the authors' code."""

    queue: int = Field(16384, ge=1, description="keys in each queue")
    embedding: int = Field(128, ge=1, description="width of the embeddings")
    momentum: float = Field(0.999, ge=0, le=1, description="EMA momentum of the key encoders, constant")
    temperature: float = Field(0.07, gt=0, description="temperature of the softmax over keys")
    teacher_temperature: float = Field(
        0.05, gt=0, description="temperature of the distribution that another stream learns"
    )
    student_temperature: float = Field(0.1, gt=0, description="temperature of the distribution that learns it")
    nearest: float = Field(
        0.5, gt=0, le=1, description="nearest keys that a stream teaches, as a fraction of the queue: 8192 of 16384"
    )
    distillation: float = Field(1.0, ge=0, description="weight of the distillation between streams")


class CMD(StreamContrast):
    """Momentum contrast in three streams, each with distillation to the others over its nearest keys."""

    Config = CMDConfig

    def heads(self, width):
        return nn.ModuleDict({stream: recurrent_head(width, self.config.embedding) for stream in STREAMS})

    def training_step(self, views, step):
        config, clips = self.config, views["query-joint"].clips
        query, key, keys = self.embeddings(views, step)
        alike = {s: similarities(query[s], key[s], keys[s], 1.0) for s in STREAMS}
        contrast_B = torch.stack([info_nce(alike[s] / config.temperature) for s in STREAMS]).sum(0)
        taught_B = torch.zeros_like(contrast_B)
        if nearest := min(round(config.nearest * config.queue), len(keys["joint"])):
            for teacher in STREAMS:
                near_Bk, index_Bk = cosines(key[teacher], keys[teacher]).topk(nearest, 1)
                for student in (stream for stream in STREAMS if stream != teacher):
                    student_Bk = alike[student][:, 1:].gather(1, index_Bk)
                    taught_B = taught_B + divergence(
                        student_Bk / config.student_temperature, near_Bk / config.teacher_temperature
                    )
        contrast, taught = (step.mean(x_B.sum(), clips) for x_B in (contrast_B, taught_B))
        return {"loss": contrast + config.distillation * taught, "contrast": contrast, "distillation": taught}


def imported(state, options):
    """The three encoders of a checkpoint of the authors' code."""
    encoders = {"encoder_q": "encoder"} | {f"encoder_q_{s}": f"{s}_encoder" for s in STREAMS[1:]}
    return recurrent_encoders(state, encoders, ("encoder_k", "queue", *(f"{name}.fc." for name in encoders)))


class CMDLinear(CroppedLinear):
    """``linear@cmd``: the probe of CMD's code (maoyunyao/CMD 6e9a8ac: action_classification_cmd.py, its script,
    feeder_downstream.py). The encoder runs 81 times over the training clips.
    """


class CMDSemi(SteppedFineTune):
    """``semi@1@cmd``: semi-supervised learning of CMD's code (maoyunyao/CMD 6e9a8ac; with ``label_share=1`` and
    ``draws=1`` its transfer): all parameters by SGD 0.01 without decay, batch 64, 80 epochs, a tenth of the rate from
    epochs 51 and 71, crops and no rotation, five lists of int(1 % of n) shuffled clips. The code prints the best epoch
    on test.
    """


class CMDSemi10(CMDSemi):
    """``semi@10@cmd``: with 10 %."""

    label_share: float = Field(0.1, gt=0, le=1, description=LABELS)


@hookimpl
def skelbench_protocols():
    return [
        ProtocolSpec(
            name="linear@cmd",
            target=":CMDLinear",
            summary="linear probe of CMD's code: SGD 0.1, 80 epochs, new crops in each; costs about 80 times `linear`",
            defaults=SIDE_BY_SIDE,
        ),
        *semi("cmd", ":CMDSemi", "CMD's code: SGD 0.01, unstratified lists", SIDE_BY_SIDE),
    ]


@hookimpl
def skelbench_methods():
    return [
        MethodSpec(
            name="cmd",
            spelling="CMD",
            target=":CMD",
            config=":CMDConfig",
            imports=":imported",
            probe=NativeProbe(protocol="linear@cmd", best_on_test=True),
            summary="momentum contrast of joints, motion and bones, with distillation between them",
            citation="Mao et al., CMD: Self-supervised 3D Action Representation Learning with Cross-modal Mutual "
            "Distillation, ECCV 2022 (arXiv 2208.12448)",
            readings="unfilled queue slots are skipped; the nearest keys are half of the queue at any size; "
            "clips are not cut to their first 300 frames; shared: three encoders of the shared kind, a clip's present "
            "bodies averaged. A result on joints only is from an encoder trained together with bones and motion",
            recipe=LONG_CONTRAST_RECIPE,
            native=LONG_CONTRAST_NATIVE,
            space=RATES_SPACE | MOMENTUM_SPACE | {"method.temperature": Log(0.03, 0.3)},
            variants={"no-distillation": {"method.distillation": 0.0}},
        )
    ]
