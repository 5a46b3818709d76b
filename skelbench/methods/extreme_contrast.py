"""AimCLR's objective, which is also the first stage of ActCLR: a strongly augmented view learns from a normal one.

Facts: Levigty/AimCLR, net/aimclr.py, net/att_drop.py. B clips, R rows (bodies), T x J cells of a feature map (stretches
of frames x joints), N = T J, D channels, E width of the embedding, n keys.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from skelbench.core import distributed
from skelbench.methods.contract import Config, Step
from skelbench.methods.momentum_contrast import MomentumContrast, MomentumContrastConfig
from skelbench.methods.view_settings import StrongConfig
from skelbench.models.contrast import cross_entropy, info_nce, nearest, similarities
from skelbench.models.encoder import Encoded
from skelbench.views import View


class ExtremeContrastConfig(StrongConfig, MomentumContrastConfig):
    """Defaults follow AimCLR's code.

    >>> ExtremeContrastConfig(neighbors=2).drop_from
    0.7
    """

    drop_from: float = Field(0.7, gt=0, le=1, description="attention at or above which joints and features are dropped")
    neighbors: int = Field(1, ge=1, description="number of nearest keys of each query that become positives")


class ExtremeContrast(MomentumContrast):
    """Momentum contrast, and a strongly augmented view that learns the normal one's distribution over keys.

    >>> ExtremeContrast.whole_batch
    'what is left of dropped features is scaled by its share of the whole batch'
    """

    Config: type[Config] = ExtremeContrastConfig
    whole_batch = "what is left of dropped features is scaled by its share of the whole batch"

    @property
    def clip_width(self) -> int:
        return self.encoder.width * (1 + self.encoder.has_class_token)

    def clip_features(self, encoded: Encoded, view: View, tokens_RND: Tensor | None = None) -> Tensor:
        """The mean of all cells, after the class token if there is one; ``tokens_RND`` in the place of the cells."""
        mean_RD = (encoded.tokens_RND if tokens_RND is None else tokens_RND).mean(1)
        return view.per_clip(mean_RD if encoded.cls_RD is None else torch.cat([encoded.cls_RD, mean_RD], 1))

    def embedding(self, encoded: Encoded, view: View, tokens_RND: Tensor | None = None) -> Tensor:
        """float32 [B, E], unit vectors of :meth:`clip_features`."""
        return F.normalize(self.head(self.clip_features(encoded, view, tokens_RND)).float(), dim=1)

    def contrast(self, strong: View, query: View, key: View, step: Step, mining: bool) -> dict[str, Tensor]:
        """Return the loss: InfoNCE of the normal view, and two divergences of the strong view from it, one of them
        without its most energetic features. With ``mining`` the nearest keys of all three are positives too."""
        query_BE, encoded = self.queries(query), self.encoder(strong)
        dropped_RND = drop_energetic(encoded.tokens_RND, self.context.grid.joints, self.config.drop_from)
        strong_BE, dropped_BE = (self.embedding(encoded, strong, x) for x in (encoded.tokens_RND, dropped_RND))
        key_BE, keys_nE = self.keys(key, step)
        logits, as_is, with_drop = every = [
            similarities(x_BE, key_BE, keys_nE, self.config.temperature) for x_BE in (query_BE, strong_BE, dropped_BE)
        ]
        positive_Bn = None
        if mining:
            near_3Bn = torch.stack([nearest(logits[:, 1:], self.config.neighbors) for logits in every])
            positive_Bn = F.pad(near_3Bn.any(0), (1, 0), value=True)
        contrast_B = info_nce(logits, positive_Bn)
        taught_B = (cross_entropy(as_is, logits) + cross_entropy(with_drop, logits)) / 2
        contrast, taught = (step.mean(loss_B.sum(), len(loss_B)) for loss_B in (contrast_B, taught_B))
        step.watch("query", query_BE)
        return {"loss": contrast + taught, "contrast": contrast.detach(), "taught": taught.detach()}


def drop_energetic(tokens_RND: Tensor, joints: int, limit: float) -> Tensor:
    """[R, N, D]: features with joints and single features of attention ``limit`` or more set to 0; the rest is
    divided by the fraction of the batch, over all processes, that is left.

    Attention is the sigmoid of SimAM's energy (Yang et al., ICML 2021): the distance of a feature from its channel's
    mean over all cells; for a joint the mean over its features. No gradient passes through it.

    >>> drop_energetic(torch.ones(1, 4, 2), joints=2, limit=0.7).sum()
    tensor(8.)
    """
    x_RTJD = tokens_RND.unflatten(1, (-1, joints))
    with torch.no_grad():
        y_RTJD = x_RTJD.float()
        square_RTJD = (y_RTJD - y_RTJD.mean((1, 2), keepdim=True)).square()
        variance_R11D = square_RTJD.sum((1, 2), keepdim=True) / max(1, tokens_RND.shape[1] - 1)
        attention_RTJD = torch.sigmoid(square_RTJD / (4 * (variance_R11D + 1e-4)) + 0.5)
        scale: float | Tensor = 1.0
        for mask in (attention_RTJD.mean((1, 3), keepdim=True) < limit, attention_RTJD < limit):
            counts, all_ = distributed.all_reduce_sum(torch.stack([mask.sum(), torch.ones_like(mask).sum()]))
            scale = scale * mask * (all_ / counts.clamp(min=1))
    return (x_RTJD * scale).flatten(1, 2)
