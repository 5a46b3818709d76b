"""CMD: momentum contrast in three streams that teach each other what is similar (Mao et al., ECCV 2022).

Joints, motion and bones of one augmented view go to an encoder each. A stream tells a clip from the keys of its own
queue; besides, over the keys nearest to a clip in one stream, the others learn that stream's distribution. Facts:
maoyunyao/CMD, moco/builder_cmd.py. B clips, E width of the embedding, n keys that are in a queue, k nearest ones.
"""

import re
from itertools import permutations

import torch
from pydantic import Field
from skelbench_plugins._recipes import FP32, LONG_NATIVE, LONG_STEPS, MOCO_RECIPE, MOMENTUM_SPACE, RATES_SPACE
from torch import nn

from skelbench.errors import SkelbenchError
from skelbench.methods import STREAMS, DistortedConfig, StreamContrast
from skelbench.methods.imported import Imported, tensor_of
from skelbench.nn.contrast import cosines, divergence, info_nce, similarities
from skelbench.plugin import Log, MethodSpec, NativeProbe, hookimpl


class CMDConfig(DistortedConfig):
    """Defaults are those of the authors' code."""

    queue: int = Field(16384, ge=1, description="keys in each queue")
    embedding: int = Field(128, ge=1, description="width of the embeddings")
    momentum: float = Field(0.999, ge=0, le=1, description="of the key encoders, constant")
    temperature: float = Field(0.07, gt=0, description="of the softmax over keys")
    teacher_temperature: float = Field(0.05, gt=0, description="of the distribution that another stream learns")
    student_temperature: float = Field(0.1, gt=0, description="of the distribution that learns it")
    nearest: float = Field(
        0.5, gt=0, le=1, description="nearest keys that a stream teaches, as a share of the queue: 8192 of 16384"
    )
    distillation: float = Field(1.0, ge=0, description="weight of what streams teach each other")


class CMD(StreamContrast):
    """Streams that tell clips from earlier ones and learn each other's distribution over the nearest of them."""

    Config = CMDConfig

    def heads(self, width):
        return nn.ModuleDict({stream: _head(width, self.config.embedding) for stream in STREAMS})

    def training_step(self, views, step):
        config, clips = self.config, views["query-joint"].clips
        query, key, keys = self.embeddings(views, step)
        alike = {s: similarities(query[s], key[s], keys[s], 1.0) for s in STREAMS}
        contrast_B = torch.stack([info_nce(alike[s] / config.temperature) for s in STREAMS]).sum(0)
        taught_B = torch.zeros_like(contrast_B)
        if nearest := min(round(config.nearest * config.queue), len(keys["joint"])):
            for teacher, student in permutations(STREAMS, 2):
                near_Bk, index_Bk = cosines(key[teacher], keys[teacher]).topk(nearest, 1)
                student_Bk = alike[student][:, 1:].gather(1, index_Bk)
                taught_B = taught_B + divergence(
                    student_Bk / config.student_temperature, near_Bk / config.teacher_temperature
                )
        contrast, taught = (step.mean(x_B.sum(), clips) for x_B in (contrast_B, taught_B))
        return {"loss": contrast + config.distillation * taught, "contrast": contrast, "distillation": taught}


def _head(width, embedding):
    last = nn.Linear(width, embedding)
    nn.init.xavier_uniform_(last.weight)  # of the last layer alone: the code initialises before it puts the first there
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), last)


_FILE = re.compile(r"encoder_q(?:_(motion|bone))?\.(?:encoder\.gru|(input_norm))\.(\w+?)(?:_l(\d+)(_reverse)?)?")
_OTHER = ("encoder_k", "queue", "encoder_q.fc.", "encoder_q_motion.fc.", "encoder_q_bone.fc.")
"""What is of no use once training is over."""


def imported(state, options) -> Imported:
    """The three encoders of a checkpoint of the authors' code; z is up in its clips, y here."""
    first = tensor_of(state, "encoder_q.encoder.gru.weight_ih_l0", "3 H x L", lambda s: len(s) == 2 and s[1] % 6 == 0)
    for stream in STREAMS[1:]:
        tensor_of(state, f"encoder_q_{stream}.encoder.gru.weight_ih_l0", "3 H x L", lambda s: s == tuple(first.shape))
    number_L = torch.arange(first.shape[1]).view(-1, 3, 2)
    from_L, sign_L = number_L[:, [0, 2, 1]].flatten(), torch.ones(number_L.shape)
    sign_L[:, 2] = -1.0  # our (x, y, z) are its (x, z, -y)
    weights, layers = {}, set()
    for name, x in state.items():
        match = _FILE.fullmatch(name)
        if match is None:
            if not name.startswith(_OTHER):
                raise SkelbenchError(f"its tensor {name!r} is of another model")
            continue
        stream, norm, part, layer, second = match.groups()
        encoder = f"{stream}_encoder" if stream else "encoder"
        if norm:
            flipped = part in ("weight", "running_mean")
            x = x if x.dim() == 0 else x[from_L] * (sign_L.flatten() if flipped else 1.0)
            weights[f"{encoder}.input_norm.{part}"] = x
            continue
        layers.add(layer)
        x = x[:, from_L] if (part, layer) == ("weight_ih", "0") else x
        weights[f"{encoder}.{'second' if second else 'first'}.{layer}.{part}_l0"] = x
    settings = {"encoder.hidden": first.shape[0] // 3, "encoder.depth": len(layers)}
    return Imported(settings, weights, tuple(name for name in state if name.startswith(_OTHER)))


@hookimpl
def skelbench_methods():
    return [
        MethodSpec(
            name="cmd",
            target=":CMD",
            config=":CMDConfig",
            imports=":imported",
            probe=NativeProbe(protocol="linear@cmd", best_on_test=True),
            summary="momentum contrast of joints, motion and bones, which teach each other what is similar; probed on "
            "joints alone, the encoder has been taught by all three",
            citation="Mao et al., CMD: Self-supervised 3D Action Representation Learning with Cross-modal Mutual "
            "Distillation, ECCV 2022 (arXiv 2208.12448)",
            readings="only keys that have been written are negatives or teach; the nearest keys are half of the queue "
            "at any size; clips are not cut to their first 300 frames; shared: three encoders of the shared kind, a "
            "clip's present bodies averaged. A result on joints alone is of an encoder trained beside bones and motion",
            recipe=MOCO_RECIPE | LONG_STEPS | {"train.batch_size": 64, "train.lr": 0.01},
            native=LONG_NATIVE | FP32 | {"encoder": "bigru", "train.align": "first-frame-as-released"},
            space=RATES_SPACE | MOMENTUM_SPACE | {"method.temperature": Log(0.03, 0.3)},
            variants={"no-distillation": {"method.distillation": 0.0}},
        )
    ]
