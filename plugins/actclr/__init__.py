"""ActCLR: moving and static regions of a clip are augmented differently (Lin, Zhang and Liu, CVPR 2023); the second
stage of AimCLR.

The actionlet of a clip is the set of cells that differ from the mean clip. There are three queries: strongly augmented
outside of the actionlet; with other bone lengths and regions of other clips outside of it; mixed with whole other
clips. Each query learns the key's distribution over the nearest keys in the queue. Facts: LanglandsLin/ActCLR,
net/actclr.py, net/st_gcn.py, feeder/tools.py, processor/pretrain_actclr.py. B clips, R rows (bodies), N cells, D
channels, E width of an embedding, n keys.
"""

import torch
import torch.nn.functional as F
from pydantic import Field
from skelbench_plugins._recipes import GRAPH_CONTRAST_NATIVE, GRAPH_CONTRAST_RECIPE, MOMENTUM_SPACE, RATES_SPACE

from skelbench.methods import ExtremeContrast, ExtremeContrastConfig
from skelbench.methods.momentum_contrast import imported as imported_contrast
from skelbench.models.contrast import cosines, divergence
from skelbench.plugin import Log, MethodSpec, NativeProbe, Stage, hookimpl
from skelbench.views import BoneScale, Center, Noise, Pace, ViewSpec

from .actionlet import actionlet, mean_clip, outside
from .mixes import bone_transfer, mix, partner_share, partners

LEVELS = {"all": 0, "many": 100 / 350, "few": 200 / 350, "none": 300 / 350}
"""Strength of augmentation -> fraction of the second stage at which it begins."""
CHANCES = {"all": (1, 1), "many": (5 / 7, 3 / 5), "few": (3 / 7, 1 / 5)}
"""Factors of the probability of each augmentation: (strong view, normal view)."""
SHARES = (0.24, 0.4), (0.08, 0.24)
"""Range of region lengths, as fractions of 50 frames: 12 to 20, and 4 to 12 for regions around actionlets late in
the schedule."""
FEWEST = 8
"""Smallest number of neighbors in the target distribution, if the queue has as many keys: a distribution needs several.
"""


class ActCLRConfig(ExtremeContrastConfig):
    """Defaults follow the authors' code."""

    queue: int = Field(65536, ge=1, description="keys in the queue")
    first: float = Field(
        0.0, ge=0, lt=1, description="fraction of the schedule with AimCLR's objective, the first stage"
    )
    mining_from: float = Field(
        0.5, ge=0, le=1, description="fraction of the first stage without positives among the keys"
    )
    teacher_temperature: float = Field(0.04, gt=0, description="temperature of the key's distribution over keys")
    student_temperature: float = Field(0.1, gt=0, description="temperature of the query's distribution")
    nearest: float = Field(
        0.125,
        gt=0,
        le=1,
        description="nearest keys whose distribution is learned, as a fraction of the queue, at least 8: 8192 of 65536",
    )
    duplicate: float = Field(0.95, description="similarity from which a key in the queue does not count as a neighbor")
    squared: bool = Field(True, description="square the similarities of a query, as in the code")
    steepness: float = Field(
        1 / (128 * 1e-8),
        gt=0,
        description="factor of the gradients that define an actionlet: 1e8 for the mean over 128 clips",
    )
    rounded: bool = Field(False, description="actionlets from rounding errors, a bug of the code of December 2024")
    transferred: bool = Field(False, description="mix joints after their bone lengths were changed, as in the code")
    batch_region: bool = Field(False, description="one mix for all clips of a batch, as in the code")

    def weakened(self, grid, chance, *more, noise=0.01):
        """Return a normal view with each of AimCLR's strong augmentations, and ``more``, at ``chance`` times its
        probability."""
        every = (Noise(std=noise) if isinstance(op, Noise) else op for op in (*self.strong(), *more))
        return self.view(grid, *(op.model_copy(update={"p": chance * op.p}) for op in every))


class ActCLR(ExtremeContrast):
    """Three queries that are changed outside of, around and across actionlets; each learns a key's distribution over
    its neighbors."""

    Config = ActCLRConfig
    whole_batch = "clips are mixed with others of their batch, and compared with its mean"
    min_clips = 2

    @classmethod
    def views(cls, config, grid):
        more = Pace(), BoneScale(p=1.0, lo=0.0, hi=0.5, groups="bones")
        views = {"positive": config.view(grid), "key": config.view(grid)}
        for level, (strong, normal) in CHANCES.items():
            views[f"strong-{level}"] = config.weakened(grid, strong, *more, noise=0.05)
            views[f"normal-{level}"] = config.weakened(grid, normal)
        plain = {"frames": grid.frames, "stream": config.stream, "resize": config.resize}
        return views | {"plain": ViewSpec(crop=Center(share=1.0), **plain)}

    def phases(self):
        first = self.config.first
        stages = [("contrast", 0.0), ("mining", self.config.mining_from * first)] if first else []
        return stages + [(level, first + (1 - first) * share) for level, share in LEVELS.items()]

    def training_step(self, views, step):
        if step.phase in ("contrast", "mining"):
            return self.contrast(views["normal-all"], views["positive"], views["key"], step, step.phase == "mining")
        level = step.phase if step.phase in LEVELS else "all"
        names = (f"strong-{level}", f"normal-{level}", "positive", "key")
        strong, normal, positive, key = (views[name if level != "none" else "plain"] for name in names)
        config, topology = self.config, self.context.topology
        with torch.no_grad():
            anchor_1E, key_BE, keys_nE = self.teach(key, step)
            maps = [self.map(self.head, self.encoder(view), view, anchor_1E) for view in (normal, positive)]
        alike, late = config.batch_region, level in ("few", "none")
        moved = bone_transfer(positive, partners(positive, step, 1), topology)
        around = mix(
            moved, partners(moved, step, 2), topology, step, (1, 2) if late else (2, 3), SHARES[late], alike, op=2
        ).view
        # The code changes bone lengths of joints in place, and of bones and motion in a copy.
        transferred = config.transferred and positive.stream == "joint"
        across_of, partner_B = moved if transferred else positive, partners(positive, step, 3)
        across = mix(across_of, partner_B, topology, step, (2, 3), SHARES[0], alike, op=3)
        share_B1 = partner_share(across, (maps[1] / 0.1).exp())[:, None]
        mixed_key_BE = F.normalize(key_BE * (1 - share_B1) + step.gather(key_BE)[partner_B] * share_B1, dim=1)
        losses = {
            "strong": self.taught(outside(normal, strong, maps[0]), key_BE, keys_nE, step),
            "around": self.taught(outside(moved, around, maps[1]), key_BE, keys_nE, step),
            "across": self.taught(across.view, mixed_key_BE, keys_nE, step),
        }
        figures = {name: loss.detach() for name, loss in losses.items()}
        area = torch.stack([x.mean((1, 2)).sum() for x in maps]).sum()
        figures["actionlet"] = step.mean(area, sum(len(x) for x in maps))
        return {"loss": sum(losses.values()), **figures}

    def teach(self, key, step):
        """Unit vectors: of the mean clip [1, E]; keys [B, E], means of clip and actionlet; queue [n, E]."""
        mean, share_M = mean_clip(key)
        anchor_MD = self.clip_features(self.key_encoder(mean), mean)
        anchor_1E = F.normalize(self.key_head(share_M @ anchor_MD)[None].float(), dim=1)
        encoded = self.key_encoder(key)
        map_RN1 = self.map(self.key_head, encoded, key, anchor_1E).flatten(1)[..., None]
        inside_RND = encoded.tokens_RND * map_RN1 * (map_RN1.shape[1] / (map_RN1.sum(1, keepdim=True) + 1e-5))
        whole_BE, inside_BE = (
            self.key_head(self.clip_features(encoded, key, x_RND)).float() for x_RND in (encoded.tokens_RND, inside_RND)
        )
        key_BE = F.normalize(whole_BE / 2 + inside_BE / 2, dim=1)
        step.keep("keys", key_BE)
        return anchor_1E, key_BE, self.queue.written(step.index, step.clips(key))

    def map(self, head, encoded, view, anchor_1E):
        """Return the actionlet of each body of ``view`` from the output of ``head`` on ``encoded``."""
        return actionlet(
            lambda x_RND: head(self.clip_features(encoded, view, x_RND)),
            encoded.tokens_RND,
            anchor_1E,
            self.context.topology,
            self.config.steepness,
            self.config.rounded,
        )

    def taught(self, view, key_BE, keys_nE, step):
        """Divergence of a query's distribution from the key's, over the keys of the queue nearest to this key."""
        config, query_BE = self.config, self.queries(view)
        near_Bn = cosines(key_BE, keys_nE)
        near_Bn = near_Bn.masked_fill(near_Bn > config.duplicate, -1.0)
        near_Bk, index_Bk = near_Bn.topk(min(max(FEWEST, round(config.nearest * config.queue)), len(keys_nE)), 1)
        query_Bk = cosines(query_BE, keys_nE).gather(1, index_Bk)
        query_Bk = query_Bk.square() if config.squared else query_Bk
        step.watch("query", query_BE)
        loss_B = divergence(query_Bk / config.student_temperature, near_Bk / config.teacher_temperature)
        return step.mean(loss_B.sum(), len(loss_B))


def imported(state, options):
    """Return the content of a checkpoint of AimCLR's layout, as from the first stage; heads may be 1 x 1
    convolutions."""
    return imported_contrast(
        {name: x.flatten(1) if ".fc." in name and x.dim() == 4 else x for name, x in state.items()}, options
    )


@hookimpl
def skelbench_methods():
    return [
        MethodSpec(
            name="actclr",
            version=4,
            spelling="ActCLR",
            target=":ActCLR",
            config=":ActCLRConfig",
            summary="AimCLR's second stage: views mixed outside the moving region learn the key's neighbors",
            citation="Lin et al., Actionlet-Dependent Contrastive Learning for Unsupervised Skeleton-Based Action "
            "Recognition, CVPR 2023",
            requires=("cells",),
            stage=Stage(after=("aimclr",), alone={"method.first": 0.5}),
            readings="as aimclr; without --init-from half of the schedule is AimCLR's objective; actionlets as in the "
            "code until 2024, keys mixed per clip as in the later code; augmentations with falling probability are "
            "drawn for every clip, not once per epoch, and so are mixes (--native: once per batch); the key encoder "
            "keeps AimCLR's weights (the code copies the query encoder); bones shrink by a different factor for each "
            "body; an empty body slot has no noise (--native: it has, as in the code)",
            recipe=GRAPH_CONTRAST_RECIPE,
            native=GRAPH_CONTRAST_NATIVE
            | {
                "train.epochs": 350,
                "schedule.milestones": (250 / 350,),
                "method.batch_region": True,
                "method.transferred": True,
            },
            imports=":imported",
            probe=NativeProbe(
                protocol="linear@aimclr", best_on_test=True, settings={"": {"lr": 24.0, "batch_size": 1024}}
            ),
            space=RATES_SPACE | MOMENTUM_SPACE | {"method.student_temperature": Log(0.05, 0.2)},
            variants={"bone": {"method.stream": "bone"}, "motion": {"method.stream": "motion"}},
        )
    ]
