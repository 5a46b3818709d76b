"""ISC: momentum contrast between two representations of a clip (Thoker et al., ACM MM 2021).

Two encoders of different kinds read the same distorted views: a recurrent one the sequence of frames, a graph or
convolutional one all joints. The query of one encoder is matched with the key of the *other* encoder for the clip's
second view, against the other's keys of earlier clips. Facts: fmthoker/skeleton-contrast, moco/builder_inter.py,
main_moco_inter_skeleton.py. B clips, E width of an embedding, n keys in a queue.
"""

from typing import Any

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from skelbench_plugins._probes import CroppedLinear
from skelbench_plugins._recipes import (
    LONG_CONTRAST_NATIVE,
    LONG_CONTRAST_RECIPE,
    MOMENTUM_SPACE,
    RATES_SPACE,
    SIDE_BY_SIDE,
)
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from skelbench.core.errors import SkelbenchError
from skelbench.methods import DistortedConfig, Method
from skelbench.models.contrast import KeyQueue, info_nce, similarities
from skelbench.models.ema import ema_copy, ema_update
from skelbench.models.encoder import ABILITIES
from skelbench.models.heads import recurrent_head
from skelbench.models.optim.groups import one_group
from skelbench.plugin import Log, MethodSpec, NativeProbe, ProtocolSpec, hookimpl

from .files import imported as imported

SIDES = ("first", "second")
READS_BOTH = ("tokens", "time-and-space")
"""Abilities of an encoder with readouts over time and over joints; one is enough."""


class ISCConfig(DistortedConfig):
    """Defaults follow the authors' code, except ``resize`` and ``partner``, which only the published setting has."""

    partner: str = Field(
        "",
        description="encoder of the second representation; empty = the run's own encoder, read out over time and over "
        "joints (our assumption)",
    )
    partner_settings: dict[str, Any] = Field({}, description="settings of the partner, added to its preset: {base=32}")
    queue: int = Field(16384, ge=1, description="keys in each of the two queues")
    embedding: int = Field(128, ge=1, description="width of the embeddings")
    momentum: float = Field(0.999, ge=0, le=1, description="EMA momentum of the key encoders, constant")
    temperature: float = Field(0.07, gt=0, description="temperature of the softmax over keys")

    @model_validator(mode="after")
    def _check(self):
        if self.partner_settings and not self.partner:
            raise ValueError("partner_settings need a second encoder; name it by partner=agcn")
        return self


class ISC(Method):
    """Two encoders with a head each, and copies of both for keys; the two keys of a clip are concatenated in one queue.

    Raises:
        SkelbenchError: there is no partner, and the encoder does not have two readouts.
    """

    Config = ISCConfig
    exchangeable = {"partner": "encoders"}

    def __init__(self, config, context):
        super().__init__(config, context)
        self.encoder = context.encoder()
        self.partner = context.encoder(config.partner, config.partner_settings) if config.partner else None
        widths = [context.width] * 2
        if self.partner is not None:
            widths = [context.summary_width, self.partner.summary_width]
        elif self.encoder.abilities.isdisjoint(READS_BOTH):
            raise SkelbenchError(
                "method isc contrasts two representations: without a partner it needs an encoder that can "
                + " or ".join(ABILITIES[name] for name in READS_BOTH)
                + ", which this one cannot; choose another encoder or name a second one, --set partner=agcn"
            )
        self.head = nn.ModuleList(recurrent_head(width, config.embedding) for width in widths)
        self.key_encoder = nn.ModuleList(ema_copy(encoder, mode="train") for encoder in self.encoders)
        self.key_head = nn.ModuleList(ema_copy(head) for head in self.head)
        self.queue = KeyQueue(config.queue, 2 * config.embedding)
        self.roles = dict.fromkeys(("encoder", "partner") if self.partner is not None else ("encoder",), "student")
        self.roles |= {"head": "head", "key_head": "head", "key_encoder": "teacher"}

    @property
    def encoders(self):
        """Trained encoders: one or two."""
        return [encoder for encoder in (self.encoder, self.partner) if encoder is not None]

    @property
    def whole_batch(self):
        """See :class:`Method`."""
        normed = self.partner is not None and any(isinstance(part, _BatchNorm) for part in self.partner.modules())
        return f"batch norm of its partner {self.config.partner} normalizes by the whole batch" if normed else ""

    def inference_encoders(self):
        return {} if self.partner is None else {"partner": self.partner}

    @classmethod
    def views(cls, config, grid):
        return {"query": config.view(grid), "key": config.view(grid)}

    def training_step(self, views, step):
        query = self._embeddings(self.encoders, self.head, views["query"])
        with torch.no_grad():
            key = self._embeddings(self.key_encoder, self.key_head, views["key"])
        keys = self.queue.written(step.index, step.clips(views["key"])).chunk(2, 1)
        losses = {}
        for side, name in enumerate(SIDES):
            logits_Bn = similarities(query[side], key[1 - side], keys[1 - side], self.config.temperature)
            losses[name] = step.mean(info_nce(logits_Bn).sum(), views["query"].clips)
            step.watch(f"query_{name}", query[side])
        step.keep("keys", torch.cat(key, 1))
        return {"loss": sum(losses.values()), **losses}

    def _embeddings(self, encoders, heads, view):
        """Unit vectors [B, E] of both sides."""
        encoded = [encoder(view) for encoder in encoders]
        features = [output.clip_summary(view) for output in encoded]
        if len(encoded) == 1:
            both = encoded[0].time_and_space(self.context.grid.joints)
            features = [encoded[0].of_clips(x_RD, view) for x_RD in both]
        return [F.normalize(head(x_BD).float(), dim=1) for head, x_BD in zip(heads, features)]

    def optim_groups(self):
        """Return one group: weight decay for all parameters, biases and norms too."""
        return one_group(self)

    def after_step(self, step):
        for key, query in zip((*self.key_encoder, *self.key_head), (*self.encoders, *self.head)):
            ema_update(key, query, self.config.momentum)
        self.queue.push(step.index, step.kept("keys"))


class ISCLinear(CroppedLinear):
    """``linear@isc``: the probe of ISC's code (fmthoker/skeleton-contrast: action_classification.py, its script,
    feeder/feeder_downstream.py), which CMD's probe is based on, for any of its encoders."""


@hookimpl
def skelbench_protocols():
    return [
        ProtocolSpec(
            name="linear@isc",
            target=":ISCLinear",
            summary="linear probe of ISC's code, also used by CMD: SGD 0.1, 80 epochs, new crops in each",
            defaults=SIDE_BY_SIDE,
        )
    ]


@hookimpl
def skelbench_methods():
    return [
        MethodSpec(
            name="isc",
            spelling="ISC",
            target=":ISC",
            version=2,
            config=":ISCConfig",
            imports=":imported",
            probe=NativeProbe(protocol="linear@isc", best_on_test=True),
            summary="momentum contrast between two representations of a clip, such as recurrent and graph-based",
            citation="Thoker et al., Skeleton-Contrastive 3D Action Representation Learning, ACM MM 2021 "
            "(arXiv 2108.03656)",
            readings="shared: one encoder whose two readouts are the two representations, the maximum over patches of "
            "the tokens' mean over joints and the maximum over joints of their mean over patches, a clip's present "
            "bodies averaged (two kinds of encoder cannot be one shared encoder; for two equal encoders: --set "
            "partner=vit); unfilled queue slots are skipped; every head is initialized as the recurrent encoder's; "
            "clips are not cut to their first 300 frames. Its row is the recurrent encoder's, as its README probes it; "
            "the second one's is `skelbench eval RUN --readout partner`",
            recipe=LONG_CONTRAST_RECIPE,
            native=LONG_CONTRAST_NATIVE | {"encoder.input_norm": False, "method.partner": "agcn"},
            space=RATES_SPACE | MOMENTUM_SPACE | {"method.temperature": Log(0.03, 0.3)},
            variants={
                "seq-and-image": {"method.partner": "hcn"},
                "graph-and-image": {"encoder": "agcn", "method.partner": "hcn"},
            },
        )
    ]
