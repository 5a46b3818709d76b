"""CrosSCLR: momentum contrast in three streams that find each other's positives (Li et al., CVPR 2021).

Joints, motion and bones of one augmented view go to an encoder each, which distinguishes a clip from the keys of its
own queue. In the second half the key nearest to a clip in one stream is a positive in the other streams too, and
products of two streams' similarities are further logits. Facts: LinguoLi/CrosSCLR, net/crossclr_3views.py and its
processor. B clips, D width of a clip's features, E of an embedding, n keys in a queue, K positions of the queue.
"""

import re
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from skelbench_plugins._recipes import GRAPH_CONTRAST_NATIVE, GRAPH_CONTRAST_RECIPE, MOMENTUM_SPACE, RATES_SPACE
from torch import nn

from skelbench.core.errors import SkelbenchError
from skelbench.methods import STREAMS, Imported, ShearedConfig, StreamContrast
from skelbench.methods.imported import tensor_of
from skelbench.methods.momentum_contrast import graph_name, graph_settings
from skelbench.models.contrast import info_nce, nearest, similarities
from skelbench.models.heads import contrast_head
from skelbench.plugin import Log, MethodSpec, NativeProbe, hookimpl


class CrosSCLRConfig(ShearedConfig):
    """Defaults follow the authors' code, except ``head`` and ``keys``."""

    mining_from: float = Field(0.5, ge=0, le=1, description="fraction of the schedule without exchange between streams")
    neighbors: int = Field(
        1, ge=1, description="number of nearest keys of one stream that are later positives of another"
    )
    context: bool = Field(True, description="use products of two streams' similarities to a key as further logits")
    head: Literal["own", "nested-as-released"] = Field(
        "own", description="separate heads of motion and bones, or one layer each before the head of joints"
    )
    keys: Literal["all", "motion-as-released"] = Field(
        "all",
        description="key encoders that are updated while neighbors are positives: of all streams, or of motion only",
    )


class CrosSCLR(StreamContrast):
    """Momentum contrast in three streams, later with positives from another stream."""

    Config = CrosSCLRConfig

    def heads(self, width):
        head = super().heads(width)
        if self.config.head == "nested-as-released":
            for stream in STREAMS[1:]:
                head[stream] = nn.Sequential(*contrast_head(width, width)[:2], head["joint"])
        return head

    def phases(self):
        return [("alone", 0.0), ("mining", self.config.mining_from)]

    def training_step(self, views, step):
        clips = views["query-joint"].clips
        query, key, keys = self.embeddings(views, step)
        alike = {s: similarities(query[s], key[s], keys[s], 1.0) for s in STREAMS}
        if step.phase == "alone":
            loss = {s: info_nce(alike[s] / self.config.temperature) for s in STREAMS}
        else:
            loss = {s: sum(self.mined(alike[s], alike[o]) for o in STREAMS if o != s) / 2 for s in STREAMS}
        means = {f"contrast_{s}": step.mean(loss_B.sum(), clips) for s, loss_B in loss.items()}
        return {"loss": sum(means.values())} | means

    def mined(self, alike_Bn, other_Bn):
        """InfoNCE of one stream, float32 [B]; positives are a clip's own key and its nearest keys in the other
        stream."""
        near_Bn = nearest(other_Bn[:, 1:], self.config.neighbors)
        logits, positive = [alike_Bn], [F.pad(near_Bn, (1, 0), value=True)]
        if self.config.context:
            logits.append(alike_Bn[:, 1:] * other_Bn[:, 1:])
            positive.append(near_Bn)
        return info_nce(torch.cat(logits, 1) / self.config.temperature, torch.cat(positive, 1))

    def followers(self, step):
        return ("motion",) if step.phase == "mining" and self.config.keys == "motion-as-released" else STREAMS


_FILE = re.compile(r"encoder_([qk])(?:_(motion|bone))?\.(.+)")
_QUEUES = ("queue", "queue_motion", "queue_bone")


def imported(state, options) -> Imported:
    """Return the content of a checkpoint of the authors' code: three encoders, heads, their copies and the queues;
    or only encoders and classifiers."""
    settings, weights, left_out = graph_settings(state), {}, []
    for stream in STREAMS[1:]:
        if graph_settings(state, f"encoder_q_{stream}.") != settings:
            raise SkelbenchError(f"its encoder of {stream} has another size than the encoder of joints")
    trained = "queue" in state  # otherwise a classifier replaces the head
    for name, x in state.items():
        match = _FILE.fullmatch(name)
        if match is None:
            if not name.startswith(("queue", "queue_ptr")):
                raise SkelbenchError(f"its tensor {name!r} belongs to another model")
            continue
        twin, stream, rest = match.groups()
        ours, key = graph_name(rest), "key_" if twin == "k" else ""
        if ours is None:
            continue
        part, _, inner = ours.partition(".")
        if part == "head" and not trained:
            left_out.append(name)
        elif part == "encoder" and not key:
            weights[f"{f'{stream}_' if stream else ''}encoder.{inner}"] = x
        else:
            weights[f"{key}{part}.{stream or 'joint'}.{inner}"] = x
    if trained:
        keys = [tensor_of(state, name, "E x K", lambda s: len(s) == 2) for name in _QUEUES]
        weights["queue.keys_KE"] = torch.cat([keys_EK.T for keys_EK in keys], 1)
        settings |= {"method.embedding": keys[0].shape[0], "method.queue": keys[0].shape[1]}
        settings["method.head"] = "nested-as-released" if "head.motion.2.0.weight" in weights else "own"
    return Imported(settings, weights, tuple(left_out))


@hookimpl
def skelbench_methods():
    return [
        MethodSpec(
            name="crosclr",
            spelling="CrosSCLR",
            target=":CrosSCLR",
            version=2,
            config=":CrosSCLRConfig",
            imports=":imported",
            probe=NativeProbe(protocol="linear@aimclr", best_on_test=True),
            summary="momentum contrast of joints, motion and bones, which find positives for each other",
            citation="Li et al., 3D Human Action Representation Learning via Cross-View Consistency Pursuit, CVPR 2021 "
            "(arXiv 2104.14466)",
            readings="as skeletonclr; three encoders of the run's kind; only --native has the code's nested heads and "
            "its two key encoders that are frozen once neighbors are positives (the published numbers have both); the "
            "code's linear probe averages three heads that are trained together, ours are trained separately and "
            "summed. A result on joints only is from an encoder trained together with bones and motion",
            recipe=GRAPH_CONTRAST_RECIPE,
            native=GRAPH_CONTRAST_NATIVE | {"method.head": "nested-as-released", "method.keys": "motion-as-released"},
            space=RATES_SPACE | MOMENTUM_SPACE | {"method.temperature": Log(0.03, 0.3)},
            variants={"no-context": {"method.context": False}, "no-mining": {"method.mining_from": 1.0}},
        )
    ]
