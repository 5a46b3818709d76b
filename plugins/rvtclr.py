"""RVTCLR: momentum contrast that also learns which of two clips has the same tempo (Zhu et al., ICCV 2023).

SkeletonCLR at two tempos, the first half of a clip or every other frame of it. A strongly augmented query agrees with
its key at either tempo. In a second embedding it is nearer to the key of its own tempo. A view that is encoded part by
part learns the query's softmax over keys. In the second half of the schedule the nearest keys are positives. Facts:
Zhuysheng/RVTCLR, net/skeletonclr.py, net/st_gcn.py, their processor and feeder. B clips, R rows (bodies), T x J cells
of a feature map, S body parts, D channels, E width of an embedding, n keys.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from skelbench_plugins._recipes import GRAPH_CONTRAST_NATIVE, GRAPH_CONTRAST_RECIPE, MOMENTUM_SPACE, RATES_SPACE
from torch import Tensor, nn

from skelbench.core.errors import SkelbenchError
from skelbench.methods import MomentumContrast, MomentumContrastConfig
from skelbench.models.batch_norm import GlobalBatchNorm
from skelbench.models.contrast import cross_entropy, info_nce, nearest, similarities
from skelbench.models.heads import contrast_head
from skelbench.plugin import Log, MethodSpec, NativeProbe, hookimpl
from skelbench.views import AxisDrop, Blur, Noise


class RVTCLRConfig(MomentumContrastConfig):
    """Defaults follow the authors' code."""

    margin: float = Field(1.0, ge=0, description="least difference of logits between the same tempo and the other")
    mining_from: float = Field(0.5, ge=0, le=1, description="fraction of the schedule without positives among the keys")
    neighbors: int = Field(1, ge=1, description="number of nearest keys of query and parts that become positives")
    blur: Literal["released", "normalized"] = Field(
        "released", description="weights of the blur as released, summing to up to 5, or summing to 1"
    )


class RVTCLR(MomentumContrast):
    """Momentum contrast over two tempos; the head returns embeddings of appearance and of motion, concatenated."""

    Config = RVTCLRConfig
    roles = MomentumContrast.roles | {"parts": "head", "part_head": "head"}
    whole_batch = "features of body parts are normalized by the whole batch"

    def __init__(self, config, context):
        grid, width = context.grid, context.width
        self.frames = grid.frames // 2 // grid.patch * grid.patch
        if not self.frames:
            raise SkelbenchError(
                f"method rvtclr reads half of {grid.frames} frames, which is less than a patch of {grid.patch}; "
                "choose --clip-length and --patch so that there are at least two patches"
            )
        super().__init__(config, context)
        self.parts = PartRelation(width, context.topology)
        self.part_head = contrast_head(width, config.embedding)

    def make_head(self, width):
        return _initialized(nn.Linear(width, 2 * self.config.embedding))

    @classmethod
    def views(cls, config, grid):
        strong = Noise(std=0.01), Blur(normalized=config.blur == "normalized"), AxisDrop(p=0.5)
        return {"query": config.view(grid, *strong), "key": config.view(grid), "whole": config.view(grid)}

    def phases(self):
        return [("contrast", 0.0), ("mining", self.config.mining_from)]

    def training_step(self, views, step):
        config, query, key = self.config, views["query"], views["key"]
        clip_keys_R = query.keys_R - query.rows_R % query.bodies
        fast_R = step.uniform(clip_keys_R, 1)[:, 0] < 0.5
        with torch.no_grad():
            other_BE, other_motion_BE = self.pair(self.key_encoder, self.key_head, self.at_tempo(key, ~fast_R))
            same_BE, same_motion_BE = self.pair(self.key_encoder, self.key_head, self.at_tempo(key, fast_R))
        keys_nE = self.queue.written(step.index, step.clips(key))
        step.keep("keys", other_BE)
        query_BE, motion_BE = self.pair(self.encoder, self.head, self.at_tempo(query, fast_R))
        cells_RND = self.encoder(views["whole"]).tokens_RND
        part_BD = views["whole"].per_clip(self.parts(cells_RND.unflatten(1, (-1, self.context.grid.joints))))
        part_BE = F.normalize(self.part_head(part_BD).float(), dim=1)

        logits, other_tempo, parts = (
            similarities(x_BE, y_BE, keys_nE, config.temperature)
            for x_BE, y_BE in ((query_BE, same_BE), (query_BE, other_BE), (part_BE, same_BE))
        )
        positive_Bn = None
        if step.phase == "mining":
            near_2Bn = torch.stack([nearest(logits_of[:, 1:], config.neighbors) for logits_of in (logits, parts)])
            positive_Bn = F.pad(near_2Bn.any(0), (1, 0), value=True)
        nearer_B = (motion_BE * (same_motion_BE - other_motion_BE)).sum(1) / config.temperature
        losses = {
            "contrast": info_nce(logits, positive_Bn) + info_nce(other_tempo, positive_Bn),
            "tempo": F.relu(config.margin - nearer_B),
            "taught": cross_entropy(parts, logits),
        }
        step.watch("query", query_BE)
        means = {name: step.mean(loss_B.sum(), len(loss_B)) for name, loss_B in losses.items()}
        return {"loss": sum(means.values())} | means

    def at_tempo(self, view, fast_R):
        """``view`` at half its length: every other frame where ``fast_R``, else the first half."""
        slow_RTJC, fast_RTJC = view.x_RTJC[:, : self.frames], view.x_RTJC[:, : 2 * self.frames : 2]
        return view.with_x(torch.where(fast_R[:, None, None, None], fast_RTJC, slow_RTJC))

    def pair(self, encoder, head, view):
        """Unit vectors [B, E] each: appearance and motion."""
        both_BE = head(self.clip_features(encoder(view), view)).float().chunk(2, 1)
        return tuple(F.normalize(x_BE, dim=1) for x_BE in both_BE)


class PartRelation(nn.Module):
    """[R, T, J, D] -> [R, D]: means over the joints of each body part pass two layers; a residual adds a sum over time,
    weighted by the similarity of frames of the parts' mean; then the mean of all."""

    def __init__(self, width, topology):
        super().__init__()
        share_SJ = torch.zeros(len(topology.parts), topology.num_joints)
        for part, joints in enumerate(topology.parts.values()):
            share_SJ[part, list(joints)] = 1 / len(joints)
        self.register_buffer("share_SJ", share_SJ, persistent=False)
        half = width // 2
        self.excite = nn.Sequential(nn.Linear(width, half, bias=False), nn.ReLU(), nn.Linear(half, width, bias=False))
        self.value, self.query, self.key = (nn.Linear(width, half) for _ in range(3))
        self.out, self.norm = nn.Linear(half, width), GlobalBatchNorm(width)
        _initialized(self)

    def forward(self, x_RTJD: Tensor) -> Tensor:
        x_RSTD = self.excite(torch.einsum("rtjd,sj->rstd", x_RTJD, self.share_SJ))
        mean_RTD = x_RSTD.mean(1)
        related_RTT = (self.query(mean_RTD) @ self.key(mean_RTD).transpose(1, 2)).softmax(2)
        y_RSTD = self.out(related_RTT[:, None] @ self.value(x_RSTD))
        return (x_RSTD + self.norm(y_RSTD.movedim(3, 1)).movedim(1, 3)).mean((1, 2))


def _initialized(module):
    """Normal (0.02) matrices, batch norm around 1, as in the code, where a later initialization overwrites the norm's
    zeros."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear | GlobalBatchNorm):
            nn.init.normal_(layer.weight, float(isinstance(layer, GlobalBatchNorm)), 0.02)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return module


@hookimpl
def skelbench_methods():
    return [
        MethodSpec(
            name="rvtclr",
            spelling="RVTCLR",
            target=":RVTCLR",
            version=2,
            config=":RVTCLRConfig",
            summary="momentum contrast and classification of the tempo of clips, with views of body parts",
            citation="Zhu et al., Modeling the Relative Visual Tempo for Self-supervised Skeleton-based Action "
            "Recognition, ICCV 2023",
            requires=("cells", "short-views"),
            readings="as skeletonclr; every clip draws its tempo (the code: exactly half of a batch has each); half a "
            "clip consists of whole patches of frames; an empty body slot has no noise (--native: it has, as in the "
            "code); with a class token, appearance and motion come from it, parts from the tokens",
            recipe=GRAPH_CONTRAST_RECIPE,
            native=GRAPH_CONTRAST_NATIVE | {"grid.frames": 100},
            probe=NativeProbe(protocol="linear@aimclr", best_on_test=True),
            space=RATES_SPACE | MOMENTUM_SPACE | {"method.temperature": Log(0.03, 0.3)},
            variants={"bone": {"method.stream": "bone"}, "motion": {"method.stream": "motion"}},
        )
    ]
