"""Fine-tuning: the encoder and a classifier trained together, on all labels of the training clips or on a few."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any, ClassVar

import numpy as np
import torch
from pydantic import Field

from skelbench.core import distributed
from skelbench.core.errors import Diverged, Interrupted, SkelbenchError
from skelbench.core.hashing import derive_seed
from skelbench.core.signals import stop_requested
from skelbench.core.threads import fastest_threads, limit_threads, threads_are_named, usable_cores
from skelbench.evaluation.downstream import Downstream
from skelbench.evaluation.finetune_fit import Fit, Part
from skelbench.evaluation.finetune_settings import FineTuneSettings
from skelbench.evaluation.label_subsets import DRAWS, LabelSubset, label_subset
from skelbench.evaluation.probe import NOT_SELECTED, stratified
from skelbench.evaluation.protocol import Progress, ProtocolResult, check_classes
from skelbench.plugin import ProtocolSpec, hookimpl
from skelbench.plugin.status import one_line
from skelbench.records.state_file import read_state, write_state

log = logging.getLogger(__name__)

SAVE_SECONDS = 60.0
"""Longest time in seconds between two saved states."""

REDUCED = {"small": {"epochs": 30, "min_steps": 300, "lr": 2e-3}, "quick": {"epochs": 10, "min_steps": 100, "lr": 1e-3}}
"""Settings for reduced presets, whose few steps need a higher rate: on UI-PRMD ``small`` reaches 44, 52 and 56 % by
``semi@10`` at 3e-4, 1e-3 and 3e-3."""


@hookimpl
def skelbench_protocols() -> list[ProtocolSpec]:
    return [
        ProtocolSpec(
            name="finetune",
            target=":FineTune",
            presets=REDUCED,
            summary="fine-tune the encoder with a linear layer by AdamW with layer decay, 100 epochs or the preset's",
        ),
        ProtocolSpec(
            name="supervised",
            target=":Supervised",
            presets=REDUCED,
            summary="as finetune, but from initial weights: accuracy without pre-training",
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
            summary="as finetune, on another dataset (--dataset NAME)",
            elsewhere=True,
        ),
    ]


class FineTune(FineTuneSettings):
    """The encoder and a classifier on its clip features, trained on newly cropped and rotated clips in every epoch.

    The recipe follows maoyunyao/MAMP 09e6252 (main_finetune.py and its scripts), with one linear layer as head
    (``finetune@mamp`` has the published head), the bodies that are present, and ``min_steps``.

    Metrics: ``accuracy`` (after the last epoch, the headline), ``macro_accuracy``, ``top5_accuracy`` (10 or more
    classes), ``train_accuracy`` and ``train_loss`` (nats, without label smoothing, of the last epoch's augmented
    batches); ``accuracy_selected``: a second fit without a stratified part of the labeled clips, at the epoch that is
    best on that part (ties: the lower loss); with ``best_on_test`` ``accuracy_best_on_test``, an upper bound;
    ``steps``, ``n_train`` (labeled clips). With several lists all metrics are means; ``accuracy_sd`` is over lists.
    """

    def evaluate_encoder(
        self, task: Downstream, seed: int, device: torch.device | str, progress: Progress | None = None
    ) -> ProtocolResult:
        """Fit once for every list of labels, and once more for ``accuracy_selected``. Processes share the fits.

        A saved state is continued. Raises :class:`Interrupted` after SIGINT, SIGTERM or SIGUSR2, with the state saved,
        and :class:`Diverged`.
        """
        check_classes(task.num_classes)
        lists = _label_lists(task, self)
        parts = [part for draw in range(self.draws) for part in _parts(task, self, lists, draw, seed)]
        world, rank = distributed.world(), distributed.rank()
        with _torch_state_kept(task.device), stop_requested() as stopped:
            fits = _Fits(task, self, parts[rank::world], seed, stopped, progress)
            try:
                fits.run()
                if world > 1:
                    fits.save()
                    of_each = distributed.all_say(fits.done)
                    fits.done = [of_each[i % world][i // world] for i in range(len(parts))]
            except Diverged:  # there is no good state to continue from
                task.state.unlink(missing_ok=True)
                raise
        return _result(task, self, lists, parts, fits)


class Supervised(FineTune):
    """``supervised``: training from the encoder's initial weights of the run's seed."""

    trained: ClassVar[bool] = False


class SemiSupervised(FineTune):
    """``semi@1``: 1 % of the labels of every class (SLiM; the paper specifies neither lists nor fine-tuning)."""

    label_share: float = Field(0.01, gt=0, le=1, description="fraction of the training clips whose labels are used")
    draws: int = Field(DRAWS, ge=1, description="lists of such clips (`skelbench data labels`), from the first on")


class SemiSupervised10(SemiSupervised):
    """``semi@10``: 10 % of the labels of every class."""

    label_share: float = Field(0.1, gt=0, le=1, description="fraction of the training clips whose labels are used")


class _Fits:
    """Results of finished fits, and the state of the current one, of the ``parts`` of this process."""

    def __init__(
        self,
        task: Downstream,
        settings: FineTuneSettings,
        parts: list[Part],
        seed: int,
        stopped: Event,
        progress: Progress | None,
    ) -> None:
        self.task, self.settings, self.parts, self.seed = task, settings, parts, seed
        self.stopped, self.progress, self.source = stopped, progress, task.source()
        state: dict[str, Any] = {}
        if task.state.exists():
            try:
                state = read_state(task.state, task.spec.id, "evaluation")
            except Exception as error:
                log.warning("%s is damaged (%s); this evaluation starts again", task.state, one_line(error))
        self.done: list[dict[str, Any]] = list(state.get("done", ()))
        """Results of the finished parts."""
        self.threads: int = state.get("threads", 0)
        self._unfinished: dict[str, Any] | None = state.get("fit")
        self._steps = [settings.steps_of(len(part.train_n)) for part in parts]
        self._saved = time.monotonic()

    def run(self) -> None:
        """Run the remaining fits; the first continues from its saved state."""
        self._settle_threads()
        for part in self.parts[len(self.done) :]:
            fit = self._fit(part)
            if self._unfinished is not None:
                fit.load(self._unfinished)
                self._unfinished = None
            self.done.append(fit.run(self._rest))

    def _fit(self, part: Part) -> Fit:
        return Fit(self.task, self.source, self.settings, part, derive_seed(self.seed, part.draw))

    def _settle_threads(self) -> None:
        """On a CPU: the saved number of threads, which decides bits, else the fastest, unless the user names one."""
        if len(self.done) < len(self.parts) and self.task.device.type == "cpu" and not threads_are_named():
            if self.threads:
                limit_threads(self.threads)
            elif usable_cores() > 1:
                trial = self._fit(self.parts[len(self.done)])
                batch_B, view = next(iter(trial.batches()))
                fastest_threads(lambda: trial.train_step(view, batch_B))
        self.threads = torch.get_num_threads()

    def save(self, fit: Fit | None = None) -> None:
        """Save the finished results and the state of ``fit``."""
        state = {"done": self.done, "fit": fit and fit.state(), "threads": self.threads, "id": self.task.spec.id}
        write_state(self.task.state, state)
        self._saved = time.monotonic()

    def _rest(self, fit: Fit) -> None:
        """Between two batches of ``fit``: report, save, stop."""
        steps, total = sum(self._steps[: len(self.done)]) + fit.step, sum(self._steps)
        if self.progress:
            self.progress(steps, total)
        stop = self.stopped.is_set()
        if not stop and time.monotonic() - self._saved < SAVE_SECONDS:
            return
        fit.check_finite()
        self.save(fit)
        if stop:
            raise Interrupted(
                f"stopped after {steps:,} of {total:,} steps of fine-tuning, state saved in {self.task.state}; "
                "issue the same command again to continue",
                fit.step,
            )


@contextmanager
def _torch_state_kept(device: torch.device) -> Iterator[None]:
    """Restore torch's random state and number of threads."""
    threads = torch.get_num_threads()
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            yield
    finally:
        torch.set_num_threads(threads)


def _label_lists(task: Downstream, settings: FineTuneSettings) -> list[LabelSubset]:
    """The lists of clips whose labels are used; none if all are. Short clips stay in a list, for its hash."""
    if settings.label_share == 1:
        return []
    split, share = task.store.split(task.spec.data.split), settings.label_share
    draws = range(settings.draws)
    return [label_subset(task.store, split.name, split.train, share, draw, settings.stratified) for draw in draws]


def _parts(task: Downstream, settings: FineTuneSettings, lists: list[LabelSubset], draw: int, seed: int) -> list[Part]:
    """Return the fits of list ``draw``: one on all its clips, one without held-out clips."""
    chosen_n = np.flatnonzero(np.isin(task.train_ids, lists[draw].ids)) if lists else np.arange(len(task.train_ids))
    if not len(chosen_n):
        raise SkelbenchError(
            f"every clip of list {draw} is shorter than data.min_frames={task.spec.data.min_frames}, so that no label "
            "is left; take a larger label_share"
        )
    kept_n, held_n = stratified(task.train_y[chosen_n], settings.val_share, derive_seed(seed, "held out", draw))
    parts = [Part("all-train", draw, chosen_n, chosen_n[:0])]
    return [*parts, Part("held-out", draw, chosen_n[kept_n], chosen_n[held_n])] if len(held_n) else parts


def _result(
    task: Downstream, settings: FineTuneSettings, lists: list[LabelSubset], parts: list[Part], fits: _Fits
) -> ProtocolResult:
    """Means over the lists, predictions of each, the rows of all fits."""
    first, second = (
        [(part, result) for part, result in zip(parts, fits.done) if part.name == name]
        for name in ("all-train", "held-out")
    )

    def mean(name: str, of: list[tuple[Part, dict[str, Any]]]) -> float:
        return float(np.mean([result[name] for _, result in of]))

    several = settings.draws > 1
    scores_DnC = torch.stack([result["logits"] for _, result in first]).numpy()
    figures, predictions = task.score(scores_DnC if several else scores_DnC[0])
    metrics = {**figures, "n_train": float(np.mean([len(part.train_n) for part, _ in first]))}
    for name in ("train_accuracy", "train_loss"):
        metrics[name] = float(np.mean([result["rows"][-1][name] for _, result in first]))
    metrics["steps"] = mean("step", first)
    if settings.best_on_test:
        metrics["accuracy_best_on_test"] = mean("highest", first)
    notes = _notes(task, settings, lists, [part for part, _ in first])
    if len(second) == settings.draws:
        metrics |= {"accuracy_selected": mean("accuracy", second), "selected_step": mean("step", second)}
    elif settings.val_share:
        notes.append(NOT_SELECTED)
    rows = [
        {"fit": part.name, **({"draw": part.draw} if several else {}), **row}
        for part, result in (*first, *second)
        for row in result["rows"]
    ]
    details: dict[str, Any] = {"threads": fits.threads}
    if lists:
        details["labels"] = [{"draw": x.draw, "clips": len(x.ids), "sha256": x.sha256} for x in lists]
    return ProtocolResult(metrics, dict(predictions), rows, notes, details=details)


def _notes(task: Downstream, settings: FineTuneSettings, lists: list[LabelSubset], parts: list[Part]) -> list[str]:
    """Notes on lists of labels and on the number of epochs."""
    clips = min(len(part.train_n) for part in parts)
    epochs, notes = settings.epochs_of(clips), []
    if lists:
        kind = "of every class" if settings.stratified else "of all clips, whatever their class"
        hashes = ", ".join(subset.sha256[:12] for subset in lists)
        notes.append(
            f"labels of {clips} clips ({100 * settings.label_share:.3g} % {kind}), lists of sha256 {hashes}: "
            "`skelbench data labels` shows them"
        )
        if short := max(len(subset.ids) - len(part.train_n) for subset, part in zip(lists, parts)):
            notes.append(f"up to {short} clips of a list are shorter than {task.spec.data.min_frames} frames: excluded")
    unseen = max(task.num_classes - len(np.unique(task.train_y[part.train_n])) for part in parts)
    if unseen:
        notes.append(f"{unseen} of {task.num_classes} classes have no labeled clip and cannot be recognized")
    if epochs > settings.epochs:
        notes.append(f"{epochs} epochs instead of {settings.epochs}, so that they make {settings.min_steps} steps")
    return notes
