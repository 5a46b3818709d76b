"""HaLP: artificial positives, hallucinated between a key and prototypes of the queue (Shah et al., CVPR 2023).

Momentum contrast of a clip's two views. The query is also attracted to points between its key and prototypes of the
newest keys, if the key's own prototype is the nearest to the point. Facts: anshulbshah/HaLP @ae460b4,
moco/builder_single_modality_halp.py. B clips, G points of each, E width of the embedding, K prototypes.
"""

from math import ceil

import torch
from pydantic import Field, model_validator
from skelbench_plugins._recipes import LONG_CONTRAST_NATIVE, LONG_CONTRAST_RECIPE, RATES_SPACE
from torch import Tensor

from skelbench.methods import DistortedContrastConfig, RecurrentContrast
from skelbench.plugin import Log, MethodSpec, NativeProbe, Stage, hookimpl

from .sphere import points, prototypes

POINTS, SEEDS = 0, 1
"""``op`` of the draws for points and for the first prototypes."""


class HaLPConfig(DistortedContrastConfig):
    """Defaults follow the authors' scripts for NTU RGB+D."""

    first: float = Field(
        0.0, ge=0, lt=1, description="fraction of the schedule with only momentum contrast; 0 after a run of moco"
    )
    weight: float = Field(2.0, gt=0, description="weight of the hallucinated positives; 1 on PKU-MMD II")
    positives: int = Field(100, ge=1, description="points drawn for each key")
    reach: float = Field(
        0.8,
        ge=0,
        le=1,
        description="largest distance of points from the border between prototypes, as a fraction of the way",
    )
    clusters: int = Field(20, ge=2, description="prototypes")
    newest: int = Field(256, ge=2, description="number of newest keys that are clustered into prototypes")
    every: int = Field(10, ge=1, description="steps between updates of the prototypes")

    @model_validator(mode="after")
    def _enough_keys(self):
        if self.clusters > (keys := min(self.newest, self.queue)):
            raise ValueError(
                f"{self.clusters} clusters of {keys} keys, the newest {self.newest} of a queue of {self.queue}; choose "
                "fewer clusters, or more keys"
            )
        return self


class HaLP(RecurrentContrast):
    """Momentum contrast, and from its second stage on positives between keys and prototypes."""

    Config = HaLPConfig
    whole_batch = "hallucinated positives are averaged over the whole batch"
    queue_fills = 3  # the first positive is hallucinated after the queue was filled twice
    prototype_KE: Tensor

    def __init__(self, config, context):
        super().__init__(config, context)
        self.register_buffer("prototype_KE", torch.zeros(config.clusters, config.embedding))

    def training_step(self, views, step):
        config, clips = self.config, step.clips(views["key"])
        contrast, query_BE, key_BE = self.contrast(views, step)
        since = step.index - self.begins(step.total, clips)
        if since < 0:
            return {"loss": contrast, "contrast": contrast}
        if since % config.every == 0:
            keys_nE = self.queue.newest(step.index, clips, config.newest)
            self.prototype_KE.copy_(prototypes(keys_nE, step.once(views["key"], config.clusters, op=SEEDS)))
        u_BG2 = step.uniform(views["key"].keys_B, 2 * config.positives, op=POINTS).unflatten(1, (-1, 2))
        hallucinated = points(key_BE, self.prototype_KE, u_BG2, config.reach)
        like_BG = hallucinated.cosines(query_BE, key_BE, self.prototype_KE) / config.temperature
        attraction = step.mean((like_BG * hallucinated.kept_BG).sum(), hallucinated.kept_BG.sum())
        kept_mean = step.mean(hallucinated.kept_BG.sum(), hallucinated.kept_BG.numel())
        loss = contrast - config.weight * attraction
        return {"loss": loss, "contrast": contrast, "attraction": attraction, "kept": kept_mean}

    def begins(self, steps, clips):
        """The first step, of ``clips`` clips each, with hallucinated positives: the code waits for two full queues."""
        return max(ceil(self.config.first * steps), 2 * self.config.queue // clips + 1)


@hookimpl
def skelbench_methods():
    return [
        MethodSpec(
            name="halp",
            spelling="HaLP",
            target=":HaLP",
            config=":HaLPConfig",
            imports="skelbench.methods.recurrent_contrast:imported",
            probe=NativeProbe(
                protocol="linear@cmd", best_on_test=True, settings={"": {"lr": 0.005}, "pku2": {"lr": 0.001}}
            ),
            stage=Stage(after=("moco",), alone={"method.first": 200 / 451, "schedule.milestones": (351 / 451,)}),
            summary="momentum contrast with positives generated between a key and prototypes",
            citation="Shah et al., HaLP: Hallucinating Latent Positives for Skeleton-based Self-Supervised Learning of "
            "Actions, CVPR 2023 (arXiv 2304.00387)",
            readings="as moco; k-means: 50 iterations in place of a tolerance, prototypes without keys stay; with "
            "--init-from the queue and the optimizer's momentum start from zero; without it the first 200 / 451 of the "
            "schedule have momentum contrast only; the code cannot read its script's reach for PKU-MMD",
            recipe=LONG_CONTRAST_RECIPE | {"schedule.milestones": (151 / 251,)},
            native=LONG_CONTRAST_NATIVE | {"train.epochs": 251},
            space=RATES_SPACE | {"method.temperature": Log(0.03, 0.3), "method.weight": Log(0.25, 8.0)},
            variants={"bone": {"method.stream": "bone"}, "motion": {"method.stream": "motion"}},
        )
    ]
