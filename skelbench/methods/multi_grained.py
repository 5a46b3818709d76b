"""Shared parts of USDRL and its successors: four views of a clip agree in three decorrelated embeddings.

Facts: wengwanjiang/USDRL @7e83bb6, pretrain.py and model/loss.py; its successor wengwanjiang/FoundSkelModel @945fe91.
VICReg's terms hold within each view, Barlow Twins' between each two. B clips of all processes, E width of an embedding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, Literal

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from skelbench.methods.contract import Context, Method, Step
from skelbench.methods.view_settings import DistortedConfig
from skelbench.models.decorrelation import barlow, covariance, cross_correlation, variance_hinge
from skelbench.models.encoder import Encoded
from skelbench.models.heads import initialize_mlp, projector
from skelbench.models.optim.groups import one_group
from skelbench.views import View, ViewSpec
from skelbench.views.skeleton.grid import Grid

VIEWS = 4
LEVELS = {"time": 0.5, "space": 0.5, "instance": 1.0}
"""Weights of the three embeddings."""


class MultiGrainedConfig(DistortedConfig):
    """Defaults follow USDRL's code, except ``resize``.

    >>> MultiGrainedConfig(correlation=0.0).covariance
    1.0
    """

    stream: Literal["joint", "bone", "motion"] = Field("joint", description="stream that it is trained on")
    head_hidden: int = Field(2048, ge=1, description="width of the projectors; the instance's embedding has twice that")
    similarity: float = Field(5.0, ge=0, description="weight of squared distances between a clip's views")
    variance: float = Field(5.0, ge=0, description="weight of the hinge on each feature's spread")
    covariance: float = Field(1.0, ge=0, description="weight of squared covariances between features")
    correlation: float = Field(1e-3, ge=0, description="weight of Barlow Twins' terms; 0 in the successor's code")
    off_diagonal: float = Field(0.005, ge=0, description="weight of correlations between different features")


class MultiGrained(Method):
    """Base class: a subclass encodes the views and calls :meth:`decorrelate`.

    >>> class Plain(MultiGrained):
    ...     def training_step(self, views, step):
    ...         return self.decorrelate(self.encoder(views["clip"]), views["clip"], step)
    """

    Config = MultiGrainedConfig
    roles = {"encoder": "student", "projectors": "head"}
    whole_batch = "correlations of features are computed over the whole batch"
    min_clips = 2

    def __init__(self, config: MultiGrainedConfig, context: Context) -> None:
        super().__init__(config, context)
        self.encoder = context.encoder()
        hidden = config.head_hidden
        heads = {level: projector(context.width, hidden, hidden) for level in ("time", "space")}
        heads["instance"] = projector(context.summary_width, hidden, 2 * hidden)
        for mlp in heads.values():
            initialize_mlp(mlp)
        self.projectors = nn.ModuleDict(heads)

    @classmethod
    def views(cls, config: Any, grid: Grid) -> dict[str, ViewSpec]:
        """One kind of view, four of each clip."""
        return {"clip": config.view(grid, count=VIEWS, stream=config.stream)}

    def optim_groups(self) -> Iterator[dict[str, Any]]:
        """Return one group: weight decay for all parameters, biases and norms too, as in the code."""
        return one_group(self)

    def decorrelate(self, encoded: Encoded, view: View, step: Step) -> dict[str, Tensor]:
        """Return the loss and its terms, from the encoded four views."""
        config = self.config
        parts = (*encoded.time_and_space(self.context.grid.joints), encoded.summary_RD)
        features = {level: encoded.of_clips(x_RD, view) for level, x_RD in zip(LEVELS, parts)}

        total: dict[str, Tensor] = {}
        for level, weight in LEVELS.items():
            of_clips_BVD = features[level].unflatten(0, (VIEWS, -1)).transpose(0, 1)
            embeddings = [
                self.projectors[level](x_BD).float() for x_BD in step.gather(of_clips_BVD, gradient=True).unbind(1)
            ]
            for name, value in self._terms(embeddings).items():
                total[name] = total.get(name, 0) + weight * value
        step.watch("instance", embeddings[-1])
        return {"loss": sum(getattr(config, name) * value for name, value in total.items()), **total}

    def _terms(self, embeddings: Sequence[Any]) -> dict[str, Any]:
        """Terms of a level from embeddings [B, E] of all views: the first three agree with their mean and the last."""
        *earlier, last_BE = embeddings
        center_BE = sum(earlier) / len(earlier)
        terms = {
            "similarity": sum(F.mse_loss(x_BE, last_BE) + F.mse_loss(x_BE, center_BE) for x_BE in earlier),
            "variance": sum(map(variance_hinge, embeddings)),
            "covariance": sum(map(covariance, embeddings)),
        }
        if self.config.correlation:
            # The code divides by unbiased deviations but by B: a feature's correlation with itself is 1 - 1 / B there.
            shrunk = 1 - 1 / len(last_BE)
            terms["correlation"] = sum(
                barlow(shrunk * cross_correlation(a_BE, b_BE, eps=1e-12), self.config.off_diagonal)
                for a_BE, b_BE in combinations(embeddings, 2)
            )
        return terms
