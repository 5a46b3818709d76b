"""One fit of an encoder and a classifier that can be stopped and continued to the same bits.

Shapes: n clips, B clips of a batch, D width of a clip's features, C classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from skelbench.core.errors import Diverged, SkelbenchError
from skelbench.core.hashing import derive_seed
from skelbench.data.store.source import ClipSource
from skelbench.evaluation.downstream import Downstream
from skelbench.evaluation.features import Builder
from skelbench.evaluation.finetune_settings import FineTuneSettings
from skelbench.evaluation.probe import ProbeTrainer
from skelbench.models.encoder import Encoder, evaluating
from skelbench.views.keyed import Keyed
from skelbench.views.prefetch import prefetched
from skelbench.views.transfer import fetch, send, waiting
from skelbench.views.view import View

SCORED = 256
"""Clips of a batch in evaluation."""
ROWS = 50
"""Rows of the curve of a fit."""

Rest = Callable[["Fit"], None]
"""``rest(fit)`` between two batches: to save, to report, to stop."""


@dataclass(frozen=True)
class Part:
    """Clips of one fit, as indices of training clips."""

    name: Literal["all-train", "held-out"]
    draw: int
    """Index of the list of labels."""
    train_n: np.ndarray
    held_n: np.ndarray
    """Clips on which an epoch is chosen; empty for the fit "all-train"."""


class Classifier(nn.Module):
    """An encoder and a head on its clip features."""

    def __init__(self, task: Downstream, settings: FineTuneSettings, like: View) -> None:
        super().__init__()
        self.task, self.settings = task, settings
        self.encoder: Encoder = task.encoder(settings.trained)
        with evaluating(self.encoder):
            width = task.clip_features(self.encoder, like).shape[1]
        hidden = settings.head_hidden
        last = settings.classifier(hidden or width, task.num_classes)
        bends = [settings.hidden(width, hidden), nn.BatchNorm1d(hidden), nn.ReLU()] if hidden else []
        with waiting():
            self.head = nn.Sequential(*bends, last).to(task.device)

    def forward(self, view: View, noise: torch.Generator | None = None) -> Tensor:
        """Logits [B, C]. In training mode ``noise`` draws the dropout on tokens."""
        dropout = self.settings.dropout if self.training else 0.0
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.settings.frozen):
            x_BD = self.task.clip_features(self.encoder, view, dropout, noise)
        return self.head(x_BD)

    def train(self, mode: bool = True) -> Classifier:
        """Set the training mode, as far as the settings ask for it."""
        super().train(mode)
        if self.settings.frozen:
            self.encoder.eval()
        elif mode and self.settings.encoder_mode == "eval":
            self.encoder.eval()  # not the head: its batch norm would keep its initial statistics
            for module in self.encoder.modules():  # cuDNN has no gradients of recurrent layers in eval mode
                if isinstance(module, nn.RNNBase):
                    module.train(not module.dropout)
        return self


class Fit:
    """A fit of ``part``, from its first step or from the state given to :meth:`load`."""

    def __init__(self, task: Downstream, source: ClipSource, settings: FineTuneSettings, part: Part, seed: int) -> None:
        self.task, self.source, self.settings, self.part, self.seed = task, source, settings, part, seed
        self.ids_n, self.y_n = task.train_ids[part.train_n], task.train_y[part.train_n]
        self.held_ids, self.held_y = task.train_ids[part.held_n], torch.from_numpy(task.train_y[part.held_n])
        self.test_ids = task.test_ids
        n = len(self.ids_n)
        self.per_epoch, self.epochs, self.total = settings.per_epoch(n), settings.epochs_of(n), settings.steps_of(n)
        if n < 2 and settings.head_hidden:
            raise SkelbenchError("a head with batch norm needs at least 2 labeled clips, there is 1: head_hidden=0")
        self.training_views, self.plain_views = task.builder(*settings.views()), task.builder()
        torch.manual_seed(derive_seed(seed, "init"))
        self.model = Classifier(task, settings, task.views(source, self.plain_views, self.ids_n[:1]))
        self.model.encoder.set_drop_path(settings.drop_path)
        groups = settings.groups(self.model.encoder, self.model.head)
        schedule = settings.schedule()
        optimizer = settings.build_optimizer(groups)
        self.trainer = ProbeTrainer(optimizer, lambda step: schedule.lr(settings.lr, step, self.total))
        self.tests_always = settings.best_on_test and part.name == "all-train"
        self.scored = 0
        self.sums_2 = torch.zeros(2, dtype=torch.float64, device=task.device)
        """Loss and correct predictions of the epoch so far."""
        self.rows: list[dict[str, Any]] = []
        self.highest = 0.0
        """Highest accuracy on test clips, if they are scored after every epoch."""
        self.best: dict[str, Any] = {}
        """Row of the curve, and weights, of the epoch that is best on held-out clips."""

    @property
    def step(self) -> int:
        """Number of updates so far."""
        return self.trainer.step

    def state(self) -> dict[str, Any]:
        """State between two batches, for :meth:`load`."""
        names = ("step", "scored", "sums_2", "rows", "highest", "best")
        modules = {"model": self.model.state_dict(), "optimizer": self.trainer.optimizer.state_dict()}
        return {**{name: getattr(self, name) for name in names}, **modules}

    def load(self, state: dict[str, Any]) -> None:
        """Continue from the result of :meth:`state`."""
        self.model.load_state_dict(state["model"])
        self.trainer.optimizer.load_state_dict(state["optimizer"])
        self.trainer.step, self.scored, self.highest = state["step"], state["scored"], state["highest"]
        self.rows, self.best = list(state["rows"]), dict(state["best"])
        self.sums_2 = state["sums_2"].to(self.task.device)

    def run(self, rest: Rest) -> dict[str, Any]:
        """Train to the end; return ``logits`` [n_test, C] of the last epoch or the one that is best on held-out clips,
        its ``accuracy`` and ``step``, ``highest`` accuracy on test clips, and ``rows``."""
        while True:
            if self.step == (self.scored + 1) * self.per_epoch:
                self._score(rest)
            if self.step == self.total:
                break
            for batch_B, view in self.batches():
                self.train_step(view, batch_B)
                rest(self)
        row = dict(self.best["row"] if self.best else self.rows[-1])
        if self.best:
            self.model.load_state_dict(self.best["weights"])
        logits_nC = self.logits(self.test_ids, rest)
        row["test_accuracy"] = self.task.score(logits_nC.numpy())[0]["accuracy"]
        by_step = {line["step"]: line for line in (*self.rows, row)}
        figures = {"accuracy": row["test_accuracy"], "step": row["step"]}
        rows = [by_step[step] for step in sorted(by_step)]
        return {"logits": logits_nC, "rows": rows, "highest": max(self.highest, figures["accuracy"]), **figures}

    def _order(self, epoch: int) -> list[np.ndarray]:
        """Batches of ``epoch``, as places in ``ids_n``."""
        generator = torch.Generator().manual_seed(derive_seed(self.seed, "order", epoch))
        return np.array_split(torch.randperm(len(self.ids_n), generator=generator).numpy(), self.per_epoch)

    def batches(self) -> Iterator[tuple[np.ndarray, View]]:
        """Remaining batches of the epoch: places in ``ids_n``, and their view."""
        epoch, first = divmod(self.step, self.per_epoch)
        batches, keyed = self._order(epoch)[first:], Keyed(self.seed, epoch)
        views = self._views(self.training_views, [self.ids_n[batch_B] for batch_B in batches], keyed)
        return zip(batches, views)

    def _views(self, builder: Builder, batches: list[np.ndarray], keyed: Keyed | None = None) -> Iterator[View]:
        """A view of each batch of clips; on a GPU the next is made while it works on this one."""

        def make(i: int) -> dict[str, View]:
            return {"eval": self.task.views(self.source, builder, batches[i], keyed)}

        for _, views in prefetched(make, range(len(batches)), self.task.device):
            yield views["eval"]

    def loss(self, view: View, y_B: Tensor) -> tuple[Tensor, Tensor]:
        """Loss of a batch in training, and its logits [B, C]."""
        seed = derive_seed(self.seed, "noise", self.step)
        torch.manual_seed(seed)  # of the modules' own: dropout, drop path
        logits_BC = self.model(view, torch.Generator(self.task.device).manual_seed(seed))
        return F.cross_entropy(logits_BC, y_B, label_smoothing=self.settings.label_smoothing), logits_BC

    def train_step(self, view: View, batch_B: np.ndarray) -> None:
        """One update by the clips at ``batch_B`` of ``ids_n``."""
        self.model.train()
        y_B = send(torch.from_numpy(self.y_n[batch_B]), self.task.device)

        def backward() -> Tensor:
            loss, logits_BC = self.loss(view, y_B)
            loss.backward()
            return logits_BC.detach()

        logits_BC = self.trainer.update(backward)
        plain = F.cross_entropy(logits_BC, y_B, reduction="sum")
        self.sums_2 += torch.stack([plain, (logits_BC.argmax(1) == y_B).sum()]).double()

    def check_finite(self, x: Tensor | None = None) -> None:
        """Raise :class:`Diverged` if the loss of this epoch, or ``x``, is not finite; waits for the device."""
        if not fetch((self.sums_2[0] if x is None else x).isfinite().all()):
            epoch = max(1, math.ceil(self.step / self.per_epoch))
            raise Diverged(
                f"fine-tuning diverged in epoch {epoch} of {self.epochs} and nothing was written; use a lower learning "
                f"rate than {self.settings.lr:g}: --set lr=...",
                self.step,
            )

    def logits(self, ids_n: np.ndarray, rest: Rest) -> Tensor:
        """float32 [n, C] on the host, of clips as they are evaluated."""
        batches = np.array_split(ids_n, math.ceil(len(ids_n) / SCORED))
        results = []
        with evaluating(self.model):
            for view in self._views(self.plain_views, batches):
                results.append(self.model(view).float())
                rest(self)
        logits_nC = fetch(torch.cat(results))
        self.check_finite(logits_nC)
        return logits_nC

    def _score(self, rest: Rest) -> None:
        """Row of the curve for the epoch that has just ended."""
        self.check_finite()
        loss, right = fetch(self.sums_2 / len(self.ids_n)).tolist()
        epoch = self.scored + 1
        row = {"epoch": float(epoch), "step": self.step, "train_loss": loss, "train_accuracy": right}
        if len(self.held_ids):
            held_nC = self.logits(self.held_ids, rest)
            row["val_loss"] = F.cross_entropy(held_nC, self.held_y).item()
            row["val_accuracy"] = (held_nC.argmax(1) == self.held_y).double().mean().item()
            best = self.best and self.best["row"]
            # The earlier of two equal epochs is kept.
            if not best or (row["val_accuracy"], -row["val_loss"]) > (best["val_accuracy"], -best["val_loss"]):
                weights = {name: x.clone() for name, x in self.model.state_dict().items()}
                self.best = {"row": row, "weights": weights}
        if self.tests_always:
            logits_nC = self.logits(self.test_ids, rest)
            row["test_accuracy"] = self.task.score(logits_nC.numpy())[0]["accuracy"]
            self.highest = max(self.highest, row["test_accuracy"])
        if epoch % math.ceil(self.epochs / ROWS) == 0 or epoch == self.epochs:
            self.rows.append(row)
        self.scored = epoch
        self.sums_2 = torch.zeros_like(self.sums_2)
