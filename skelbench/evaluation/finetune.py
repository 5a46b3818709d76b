"""Fine-tuning: the encoder and a classifier trained together, on all labels of the training clips or on a few."""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field

from skelbench.evaluation.downstream import Downstream
from skelbench.evaluation.finetune_run import fine_tune
from skelbench.evaluation.finetune_settings import FineTuneSettings
from skelbench.evaluation.label_subsets import DRAWS
from skelbench.evaluation.protocol import Progress, ProtocolResult
from skelbench.plugin import ProtocolSpec, hookimpl

REDUCED = {
    "small": {"epochs": 30, "min_steps": 300, "lr": 2e-3},
    "quick": {"epochs": 10, "min_steps": 100, "lr": 1e-3},
}
"""Settings for reduced presets, whose few steps need a higher rate: on UI-PRMD ``small`` reaches 44, 52 and 56 % by
``semi@10`` at 3e-4, 1e-3 and 3e-3."""


@hookimpl
def skelbench_protocols() -> list[ProtocolSpec]:
    return [
        ProtocolSpec(
            name="finetune",
            target=":FineTune",
            presets=REDUCED,
            summary="encoder and a linear layer trained together by AdamW with layer decay, 100 epochs or the preset's",
        ),
        ProtocolSpec(
            name="supervised",
            target=":Supervised",
            presets=REDUCED,
            summary="as finetune, from the encoder as it was initialised: what labels alone give",
        ),
        ProtocolSpec(
            name="semi@1",
            target=":SemiSupervised",
            presets=REDUCED,
            summary="as finetune, with 1 % of the labels of every class; mean over five lists of clips",
        ),
        ProtocolSpec(
            name="semi@10",
            target=":SemiSupervised10",
            presets=REDUCED,
            summary="as finetune, with 10 % of the labels of every class; mean over five lists of clips",
        ),
        ProtocolSpec(
            name="transfer@finetune",
            target=":FineTune",
            presets=REDUCED,
            summary="as finetune, on another data set than the run's: --dataset NAME",
            elsewhere=True,
        ),
    ]


class FineTune(FineTuneSettings):
    """The encoder and a classifier on its clip features, trained on newly cropped and rotated clips in every epoch.

    The recipe is that of maoyunyao/MAMP 09e6252 (main_finetune.py and its scripts), with one linear layer as head
    (``finetune@mamp`` has the published head), the bodies that are present, and ``min_steps``.

    Metrics: ``accuracy`` (after the last epoch, the headline), ``macro_accuracy``, ``top5_accuracy`` (10 or more
    classes), ``train_accuracy`` and ``train_loss`` (nats, without label smoothing, of the last epoch's augmented
    batches); ``accuracy_selected``: a second fit without a stratified part of the labelled clips, at the epoch that is
    best on that part (ties: the lower loss); with ``best_on_test`` ``accuracy_best_on_test``, an upper bound;
    ``steps``, ``n_train`` (labelled clips). Of several lists all are means; ``accuracy_sd`` is over lists.
    """

    def evaluate_encoder(
        self, task: Downstream, seed: int, device: torch.device | str, progress: Progress | None = None
    ) -> ProtocolResult:
        """Fit once for every list of labels, and once more for ``accuracy_selected``; continue a stopped fit."""
        return fine_tune(task, self, seed, progress)


class Supervised(FineTune):
    """``supervised``: from the encoder as it was initialized with the run's seed."""

    trained: ClassVar[bool] = False


class SemiSupervised(FineTune):
    """``semi@1``: 1 % of the labels of every class (SLiM; the paper specifies neither lists nor fine-tuning)."""

    label_share: float = Field(0.01, gt=0, le=1, description="share of the training clips whose labels are used")
    draws: int = Field(DRAWS, ge=1, description="lists of such clips (`skelbench data labels`), from the first on")


class SemiSupervised10(SemiSupervised):
    """``semi@10``: 10 % of the labels of every class."""

    label_share: float = Field(0.1, gt=0, le=1, description="share of the training clips whose labels are used")
