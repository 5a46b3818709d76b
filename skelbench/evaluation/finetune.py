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
"""For the harness's presets: at full length fine-tuning would see more clips than the pre-training there. The rates are
the training's and half of it, as the recipe's is too low for so few steps: of UI-PRMD's held-out training subject a run
of ``small`` has 44, 52 and 56 % by ``semi@10`` at 3e-4, 1e-3 and 3e-3."""


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

    The recipe is that of the masked-autoencoder family (maoyunyao/MAMP 09e6252: main_finetune.py, its scripts), the
    only one that is published in full for transformers on skeletons; ours are one linear layer in place of its head
    (``finetune@mamp`` has that), the bodies that are there, and ``min_steps``.

    Metrics: ``accuracy`` (after the last epoch, the headline), ``macro_accuracy``, ``top5_accuracy`` (10 or more
    classes), ``train_accuracy`` and ``train_loss`` (nats, without label smoothing; both of the last epoch's augmented
    batches, in training mode); ``accuracy_selected``: a second fit without a stratified part of the labelled clips, at
    the epoch that is best on that part (ties: the lower loss there), scored on test clips at that epoch alone; with
    ``best_on_test`` ``accuracy_best_on_test``, the maximum over the epochs of the first fit, an upper bound for
    reference only; ``steps``, ``n_train`` (clips whose labels were used). Of several lists of labels all are means, and
    ``accuracy_sd`` is the standard deviation over lists. The hash of every list is in the record's details.
    """

    def evaluate_encoder(
        self, task: Downstream, seed: int, device: torch.device | str, progress: Progress | None = None
    ) -> ProtocolResult:
        """Fit once for every list of labels, and once more for ``accuracy_selected``; continues what was stopped."""
        return fine_tune(task, self, seed, progress)


class Supervised(FineTune):
    """``supervised``: what labels alone give, from the encoder as it was initialised with the run's seed."""

    trained: ClassVar[bool] = False


class SemiSupervised(FineTune):
    """``semi@1``: 1 % of the labels of every class (SLiM's Table of semi-supervised learning; the paper names neither
    its lists nor its fine-tuning)."""

    label_share: float = Field(0.01, gt=0, le=1, description="share of the training clips whose labels are used")
    draws: int = Field(DRAWS, ge=1, description="lists of such clips (`skelbench data labels`), from the first on")


class SemiSupervised10(SemiSupervised):
    """``semi@10``: 10 % of the labels of every class."""

    label_share: float = Field(0.1, gt=0, le=1, description="share of the training clips whose labels are used")
