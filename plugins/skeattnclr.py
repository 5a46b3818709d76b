"""SkeAttnCLR: contrast of salient and other cells of a mixed clip (Hua et al., IJCAI 2023).

Momentum contrast, and attention over the cells of a view with a region from another clip: the feature of salient cells
agrees with the key's salient cells and differs from the other cells of its clip, and vice versa. Facts:
GitHubOfHyl97/SkeAttnCLR, net/SkeAttnCLR.py, net/utils/AttnMask.py, processor/pretrain_SkeAttnLWL.py. B clips, R rows
(bodies), N cells (stretches of frames x joints; a class token is one more), D channels, E width of embeddings, n keys.
"""

import torch
import torch.nn.functional as F
from pydantic import Field
from skelbench_plugins._recipes import GRAPH_CONTRAST_NATIVE, GRAPH_CONTRAST_RECIPE, MOMENTUM_SPACE, RATES_SPACE
from torch import nn

from skelbench.core import distributed
from skelbench.core.errors import SkelbenchError
from skelbench.methods import MomentumContrast, MomentumContrastConfig
from skelbench.methods.imported import Imported, tensor_of
from skelbench.methods.momentum_contrast import graph_name, graph_settings
from skelbench.models.contrast import info_nce, similarities
from skelbench.models.ema import ema_update
from skelbench.models.schedule import cosine
from skelbench.plugin import Log, MethodSpec, NativeProbe, hookimpl
from skelbench.views.mixing import region_swap, rolled, stretches

PARTS = 3, 4
"""Body parts of a region, of five."""


class SkeAttnCLRConfig(MomentumContrastConfig):
    """Defaults follow the authors' code."""

    momentum: float = Field(
        0.996, ge=0, le=1, description="EMA momentum of the key encoder, rising to 1 along a cosine"
    )
    temperature: float = Field(0.2, gt=0, description="temperature of the softmax over keys")
    salient: float = Field(
        0.5, ge=0, le=1, description="weight of the salient loss; the loss of other cells has 1 - salient; 1 for NTU-60"
    )
    slope: float = Field(2.0, gt=0, description="slope of the sigmoid that turns attention into a mask")
    heads: int = Field(8, ge=1, description="heads of the attention over cells")
    frames: tuple[float, float] = Field((0.25, 0.4375), description="frames of a region, as fractions: 16 to 28 of 64")
    batch_region: bool = Field(False, description="one region for all clips of a batch, as in the code")


class SkeAttnCLR(MomentumContrast):
    """Three contrasts: of whole clips, of salient cells, of other cells; one head, a predictor for each contrast."""

    Config = SkeAttnCLRConfig
    roles = MomentumContrast.roles | {"attention": "head", "predictor": "head"}
    whole_batch = "clips are mixed with others of their batch, and heads normalize by it"
    min_clips = 2

    def __init__(self, config, context):
        super().__init__(config, context)
        width = self.clip_width
        self.attention = CellAttention(width, config.heads, config.slope)
        self.predictor = nn.ModuleDict({part: _mlp(config.embedding, width) for part in ("whole", "salient", "rest")})

    @classmethod
    def views(cls, config, grid):
        return {"query": config.view(grid), "key": config.view(grid)}

    @property
    def clip_width(self):
        return self.encoder.width

    def make_head(self, width):
        return _mlp(width, width, self.config.embedding)

    def clip_features(self, encoded, view, mask_RND=None):
        """The mean of all cells, each channel weighted by its ``mask_RND``."""
        cells_RND = cells(encoded)
        return view.per_clip((cells_RND if mask_RND is None else cells_RND * mask_RND).mean(1))

    def predicted(self, part, feature_BD):
        """float32 [B, E], unit vectors of a query."""
        return F.normalize(self.predictor[part](self.head(feature_BD)).float(), dim=1)

    def training_step(self, views, step):
        query, key, topology = views["query"], views["key"], self.context.topology
        partner_B = rolled(query.clips, step.once(query, op=1))
        limits = stretches(query.x_RTJC.shape[1], self.config.frames)
        alike = self.config.batch_region
        mixed = region_swap(query, partner_B, topology, step.uniform, PARTS, limits, alike=alike).view

        # Heads normalize over the batch of all processes, so clips are gathered before the heads.
        whole_BE = self.predicted("whole", step.gather(self.clip_features(self.encoder(query), query), gradient=True))
        encoded = self.encoder(mixed)
        mask_RND = self.attention(cells(encoded))
        salient_BE, rest_BE = (
            self.predicted(part, step.gather(self.clip_features(encoded, mixed, mask), gradient=True))
            for part, mask in (("salient", mask_RND), ("rest", 1 - mask_RND))
        )
        with torch.no_grad():
            encoded = self.key_encoder(key)
            key_BE, salient_key_BE, rest_key_BE = (
                F.normalize(self.key_head(step.gather(self.clip_features(encoded, key, mask))).float(), dim=1)
                for mask in (None, mask_RND, 1 - mask_RND)
            )
        keys_nE = self.queue.written(step.index, step.clips(key))
        step.keep("keys", key_BE[distributed.own_share(len(key_BE))])
        temperature = self.config.temperature

        def contrast(query_BE, own_BE, *away_BE):
            """InfoNCE with the clip's own key; negatives are the queue and other parts of the same clip."""
            logits = similarities(query_BE, own_BE, keys_nE, temperature)
            away = [(query_BE * x_BE.detach()).sum(1, keepdim=True) / temperature for x_BE in away_BE]
            return info_nce(torch.cat([logits, *away], 1)).mean()

        whole_loss = contrast(whole_BE, key_BE)
        salient = contrast(salient_BE, salient_key_BE, rest_BE)
        rest = contrast(rest_BE, rest_key_BE, salient_BE)
        step.watch("query", whole_BE)
        loss = whole_loss + self.config.salient * salient + (1 - self.config.salient) * rest
        return {"loss": loss, "whole": whole_loss.detach(), "salient": salient.detach(), "rest": rest.detach()}

    def after_step(self, step):
        momentum = cosine(self.config.momentum, 1.0, step.fraction)
        ema_update(self.key_encoder, self.encoder, momentum)
        ema_update(self.key_head, self.head, momentum)
        self.queue.push(step.index, step.kept("keys"))


def cells(encoded):
    """[R, N, D]: the tokens, after the class token if there is one."""
    if encoded.cls_RD is None:
        return encoded.tokens_RND
    return torch.cat([encoded.cls_RD[:, None], encoded.tokens_RND], 1)


class CellAttention(nn.Module):
    """[R, N, D] in (0, 1): how salient each channel of each cell is, by self-attention over the cells of a row."""

    def __init__(self, width: int, heads: int, slope: float) -> None:
        super().__init__()
        if width % heads:
            raise SkelbenchError(f"method.heads={heads} does not divide the encoder's width of {width}; choose another")
        self.heads, self.slope = heads, slope
        self.norm = nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        for layer in (self.qkv, self.project):
            _initialize(layer)

    def forward(self, x_RND):
        q, k, v = self.qkv(self.norm(x_RND)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return torch.sigmoid(self.slope * self.project(attended))


def _mlp(width, hidden, out=None):
    """Linear, batch norm, ReLU, linear, without biases (BYOL's head)."""
    layers = nn.Linear(width, hidden, bias=False), nn.BatchNorm1d(hidden), nn.Linear(hidden, out or width, bias=False)
    for layer in layers:
        _initialize(layer)
    return nn.Sequential(*layers[:2], nn.ReLU(), layers[2])


def _initialize(layer):
    """Initialize all layers as the code does: normal (0.02), norms around 1."""
    nn.init.normal_(layer.weight, 1.0 if isinstance(layer, nn.BatchNorm1d) else 0.0, 0.02)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


_PARTS = {"predictor": "whole", "predictor_s": "salient", "predictor_p": "salient"}
_PARTS |= {"predictor_ns": "rest", "predictor_c": "rest"}
"""Predictors by the names that the code makes them with and those that it asks for."""
_ATTENTION = {"neck.norm0": "norm", "neck.Attn.qkv": "qkv", "neck.Attn.proj": "project"}


def _ours(name):
    """Our name of a tensor; None = it is not needed here."""
    first, _, rest = name.partition(".")
    module, _, last = rest.rpartition(".")
    twin = "key_" if first == "encoder_k" else ""
    if name == "queue_z":
        return "queue.keys_KE"
    if first.startswith("queue") or rest.startswith("backbone.fc."):
        return None
    if first in _PARTS:
        return f"predictor.{_PARTS[first]}.{rest.removeprefix('mlp.')}"
    if first not in ("encoder_q", "encoder_k"):
        raise SkelbenchError(f"its tensor {name!r} belongs to another model")
    if rest.startswith("backbone."):
        ours = graph_name(rest.removeprefix("backbone."))
        return ours and twin + ours
    if module in _ATTENTION and not twin:
        return f"attention.{_ATTENTION[module]}.{last}"
    return f"{twin}head.{rest.removeprefix('neck.proj.mlp.')}" if rest.startswith("neck.proj.") else None


def imported(state, options) -> Imported:
    """A checkpoint of the authors' code: encoder, head, attention, predictors, EMA copies and queue; or only the
    encoder."""
    settings = graph_settings(state, "encoder_q.backbone.") | {"encoder.partition": "directed"}
    pretraining = "queue_z" in state
    ours = {name: _ours(name) for name in state}
    used = {name: target for name, target in ours.items() if target and (pretraining or target.startswith("encoder."))}
    weights = {target: state[name] for name, target in used.items()}
    for renamed_to, x in weights.items():
        if renamed_to.startswith(("head.", "key_head.", "predictor.")) and x.dim() == 3:
            weights[renamed_to] = x[:, :, 0]
    if pretraining:
        keys_EK = tensor_of(state, "queue_z", "E x K", lambda s: len(s) == 2)
        weights["queue.keys_KE"] = keys_EK.T
        settings |= {"method.embedding": keys_EK.shape[0], "method.queue": keys_EK.shape[1]}
    return Imported(settings, weights, tuple(name for name in state if name not in used))


@hookimpl
def skelbench_methods():
    return [
        MethodSpec(
            name="skeattnclr",
            spelling="SkeAttnCLR",
            target=":SkeAttnCLR",
            version=2,
            config=":SkeAttnCLRConfig",
            summary="momentum contrast of salient and other parts of mixed clips, separated by attention",
            citation="Hua et al., Part Aware Contrastive Learning for Self-Supervised Action Recognition, IJCAI 2023 "
            "(arXiv 2305.00666)",
            requires=("cells",),
            readings="as skeletonclr; a partner is any other clip of the batch (the code never draws the one before); "
            "two predictors that the code uses but never creates are taken to be two that it creates but never uses; "
            "the losses of both parts have equal weights, as on NTU-120 and PKU-MMD (variant ntu60 and --native: only "
            "the salient loss); regions are drawn for every clip (--native: one per batch) and swapped in the stream "
            "itself; the cosine of the momentum begins with the first epoch, not the second; a class token is one more "
            "cell",
            recipe=GRAPH_CONTRAST_RECIPE,
            native=GRAPH_CONTRAST_NATIVE
            | {
                "grid.frames": 64,
                "encoder.base": 64,
                "encoder.partition": "directed",
                "method.batch_region": True,
                "method.salient": 1.0,
            },
            imports=":imported",
            probe=NativeProbe(
                protocol="linear@aimclr", best_on_test=True, settings={"": {"epochs": 150, "drops": (0.4, 2 / 3)}}
            ),
            space=RATES_SPACE | MOMENTUM_SPACE | {"method.temperature": Log(0.06, 0.6)},
            variants={
                "ntu60": {"method.salient": 1.0},
                "bone": {"method.stream": "bone"},
                "motion": {"method.stream": "motion"},
            },
        )
    ]
