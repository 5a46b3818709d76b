"""AimCLR: extreme augmentations taught by normal ones (Guo et al., AAAI 2022).

SkeletonCLR, whose softmax over keys is also taught to a strongly augmented view, once as it is and once with its most
energetic features gone; in the second half the nearest keys of all three count as positives. Facts: Levigty/AimCLR,
net/aimclr.py, net/att_drop.py, net/st_gcn.py, feeder/tools.py. B clips, R rows (bodies), T x J cells of a feature map
(stretches of frames x joints), N = T J, D channels, E width of the embedding, n keys.
"""

import torch
import torch.nn.functional as F
from pydantic import Field
from skelbench_plugins._recipes import GRAPH_CONTRAST_NATIVE, GRAPH_CONTRAST_RECIPE, MOMENTUM_SPACE, RATES_SPACE
from torch import Tensor

from skelbench import distributed
from skelbench.methods import MomentumContrast, MomentumContrastConfig, StrongConfig
from skelbench.nn.contrast import cross_entropy, info_nce, nearest, similarities
from skelbench.plugin import Log, MethodSpec, NativeProbe, hookimpl


class AimCLRConfig(StrongConfig, MomentumContrastConfig):
    """Defaults are those of the authors' code."""

    drop_from: float = Field(0.7, gt=0, le=1, description="attention from which joints and features are dropped")
    mining_from: float = Field(0.5, ge=0, le=1, description="share of the schedule without positives among the keys")
    neighbours: int = Field(1, ge=1, description="nearest keys of each query that then become positives")


class AimCLR(MomentumContrast):
    """Momentum contrast, and a strongly augmented view that learns the normal one's distribution over keys."""

    Config = AimCLRConfig
    whole_batch = "what is left of dropped features is scaled by its share of the whole batch"

    @classmethod
    def views(cls, config, grid):
        return {"strong": config.view(grid, *config.strong()), "query": config.view(grid), "key": config.view(grid)}

    def phases(self):
        return [("contrast", 0.0), ("mining", self.config.mining_from)]

    @property
    def clip_width(self):
        return self.encoder.width * (1 + self.encoder.has_class_token)

    def clip_features(self, encoded, view, tokens_RND=None):
        """The mean of all cells, after the class token if there is one; ``tokens_RND`` in the place of the cells."""
        mean_RD = (encoded.tokens_RND if tokens_RND is None else tokens_RND).mean(1)
        return view.per_clip(mean_RD if encoded.cls_RD is None else torch.cat([encoded.cls_RD, mean_RD], 1))

    def training_step(self, views, step):
        query_BE, strong = self.queries(views["query"]), views["strong"]
        encoded = self.encoder(strong)
        dropped_RND = drop_energetic(encoded.tokens_RND, self.context.grid.joints, self.config.drop_from)
        strong_BE, dropped_BE = (
            F.normalize(self.head(self.clip_features(encoded, strong, x_RND)).float(), dim=1)
            for x_RND in (encoded.tokens_RND, dropped_RND)
        )
        key_BE, keys_nE = self.keys(views["key"], step)
        logits, as_is, with_drop = every = [
            similarities(x_BE, key_BE, keys_nE, self.config.temperature) for x_BE in (query_BE, strong_BE, dropped_BE)
        ]
        positive_Bn = None
        if step.phase == "mining":
            near_3Bn = torch.stack([nearest(each[:, 1:], self.config.neighbours) for each in every])
            positive_Bn = F.pad(near_3Bn.any(0), (1, 0), value=True)
        contrast_B = info_nce(logits, positive_Bn)
        taught_B = (cross_entropy(as_is, logits) + cross_entropy(with_drop, logits)) / 2
        contrast, taught = (step.mean(loss_B.sum(), len(loss_B)) for loss_B in (contrast_B, taught_B))
        step.watch("query", query_BE)
        return {"loss": contrast + taught, "contrast": contrast.detach(), "taught": taught.detach()}


def drop_energetic(tokens_RND: Tensor, joints: int, limit: float) -> Tensor:
    """[R, N, D]: 0 for joints and for single features whose attention is ``limit`` or more, the rest scaled up by what
    share of the batch, over all processes, is left.

    Attention is the sigmoid of SimAM's energy (Yang et al., ICML 2021), how far a feature is from its channel's mean
    over all cells; of a joint the mean over its features. No gradient passes through it.
    """
    x_RTJD = tokens_RND.unflatten(1, (-1, joints))
    with torch.no_grad():
        y_RTJD = x_RTJD.float()
        square_RTJD = (y_RTJD - y_RTJD.mean((1, 2), keepdim=True)).square()
        variance_R11D = square_RTJD.sum((1, 2), keepdim=True) / max(1, tokens_RND.shape[1] - 1)
        attention_RTJD = torch.sigmoid(square_RTJD / (4 * (variance_R11D + 1e-4)) + 0.5)
        scale = 1.0
        for kept in (attention_RTJD.mean((1, 3), keepdim=True) < limit, attention_RTJD < limit):
            left, all_ = distributed.all_reduce_sum(torch.stack([kept.sum(), torch.ones_like(kept).sum()]))
            scale = scale * kept * (all_ / left.clamp(min=1))
    return (x_RTJD * scale).flatten(1, 2)


@hookimpl
def skelbench_methods():
    return [
        MethodSpec(
            name="aimclr",
            target=":AimCLR",
            config=":AimCLRConfig",
            summary="a strongly augmented view learns a normal one's similarities to keys; near keys become positives",
            citation="Guo et al., Contrastive Learning from Extremely Augmented Skeleton Sequences for Self-supervised "
            "Action Recognition, AAAI 2022 (arXiv 2112.03590)",
            requires=("cells",),
            readings="as skeletonclr; what is dropped is made up for over the batch of all processes; on an encoder "
            "with a class token the head sees it beside the mean of all tokens, the dropped ones among them at 0",
            recipe=GRAPH_CONTRAST_RECIPE,
            native=GRAPH_CONTRAST_NATIVE,
            imports="skelbench.methods.momentum_contrast:imported",
            probe=NativeProbe(protocol="linear@aimclr", best_on_test=True),
            space=RATES_SPACE | MOMENTUM_SPACE | {"method.temperature": Log(0.03, 0.3)},
            variants={"bone": {"method.stream": "bone"}, "motion": {"method.stream": "motion"}},
        )
    ]
