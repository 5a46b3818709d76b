"""All fits of an evaluation, one after another: their clips, their saved state, their results."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

import numpy as np
import torch

from skelbench.core import distributed
from skelbench.core.errors import Diverged, Interrupted, SkelbenchError
from skelbench.core.hashing import derive_seed
from skelbench.core.signals import stop_requested
from skelbench.core.threads import fastest_threads, limit_threads, threads_are_named, usable_cores
from skelbench.evaluation.downstream import Downstream
from skelbench.evaluation.finetune_fit import Fit, Part, steps_of
from skelbench.evaluation.finetune_settings import FineTuneSettings, layers_of
from skelbench.evaluation.label_subsets import LabelSubset, label_subset
from skelbench.evaluation.probe import NOT_SELECTED, stratified
from skelbench.evaluation.protocol import Progress, ProtocolResult, check_classes
from skelbench.plugin.status import one_line
from skelbench.records.state_file import read_state, write_state

log = logging.getLogger(__name__)

SAVE_SECONDS = 60.0
"""A state is saved at least this often."""
LAST = ("train_accuracy", "train_loss")
"""Metrics that are those of the last row of a fit."""


def fine_tune(
    task: Downstream, settings: FineTuneSettings, seed: int, progress: Progress | None = None
) -> ProtocolResult:
    """Fit every part and measure; continue from ``task.state`` if there is one. Processes share the fits.

    Raises :class:`Interrupted` after SIGINT, SIGTERM or SIGUSR2, with the state saved, and :class:`Diverged`.
    """
    check_classes(task.num_classes)
    lists = _label_lists(task, settings)
    parts = [part for draw in range(settings.draws) for part in _parts(task, settings, lists, draw, seed)]
    world, rank = distributed.world(), distributed.rank()
    own = parts[rank::world]
    fits, source = _Fits(task, settings, own, progress), task.source()

    def make(part: Part) -> Fit:
        return Fit(task, source, settings, part, derive_seed(seed, part.draw))

    with _torch_state_kept(task.device), stop_requested() as fits.stopped:
        if left := own[len(fits.done) :]:
            fits.settle_threads(lambda: make(left[0]))
        try:
            for part in left:
                fits.finish(make(part))
            if world > 1:
                fits.keep()
                of_each = distributed.all_say(fits.done)
                fits.done = [of_each[i % world][i // world] for i in range(len(parts))]
        except Diverged:  # there is no good state to continue from
            task.state.unlink(missing_ok=True)
            raise
    return _result(task, settings, lists, parts, fits)


def _left(task: Downstream) -> dict[str, Any]:
    """State that :meth:`_Fits.keep` saved; empty, with a warning, if it is damaged."""
    if not task.state.exists():
        return {}
    try:
        return read_state(task.state, task.spec.id, "evaluation")
    except Exception as error:
        log.warning("%s cannot be continued from (%s); this evaluation starts again", task.state, one_line(error))
        return {}


class _Fits:
    """Finished fits, and the state of the current one."""

    def __init__(
        self, task: Downstream, settings: FineTuneSettings, parts: list[Part], progress: Progress | None
    ) -> None:
        self.task, self.progress, self.stopped = task, progress, Event()
        state = _left(task)
        self.done: list[dict[str, Any]] = list(state.get("done", ()))
        """Results of the finished parts."""
        self.threads: int = state.get("threads", 0)
        self._unfinished: dict[str, Any] | None = state.get("fit")
        self._steps = [steps_of(settings, part) for part in parts]
        self._saved = time.monotonic()

    def settle_threads(self, make: Callable[[], Fit]) -> None:
        """On a CPU: the saved number of threads, which decides bits, else the fastest, unless the user names one."""
        if self.task.device.type == "cpu" and not threads_are_named():
            if self.threads:
                limit_threads(self.threads)
            elif usable_cores() > 1:
                trial = make()
                batch_B, view = next(iter(trial.batches()))
                fastest_threads(lambda: trial.train_step(view, batch_B))
        self.threads = torch.get_num_threads()

    def finish(self, fit: Fit) -> None:
        """Train ``fit`` to its end, from the saved state if there is one."""
        if self._unfinished is not None:
            fit.load(self._unfinished)
            self._unfinished = None
        self.done.append(fit.run(self._rest))

    def keep(self, fit: Fit | None = None) -> None:
        """Save what is done, and how far ``fit`` is."""
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
        self.keep(fit)
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
    """The fits by list ``draw``: of all its clips, and without held-out clips."""
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
    found = {
        name: [(part, done) for part, done in zip(parts, fits.done) if part.name == name]
        for name in ("all-train", "held-out")
    }
    first, second = found["all-train"], found["held-out"]

    def mean(name: str, of: list[tuple[Part, dict[str, Any]]]) -> float:
        return float(np.mean([done[name] for _, done in of]))

    scores_DnC = torch.stack([done["logits"] for _, done in first]).numpy()
    figures, predictions = task.score(scores_DnC if settings.draws > 1 else scores_DnC[0])
    metrics = {
        **figures,
        "n_train": float(np.mean([len(part.train_n) for part, _ in first])),
        **{name: float(np.mean([done["rows"][-1][name] for _, done in first])) for name in LAST},
        "steps": mean("step", first),
    }
    if settings.best_on_test:
        metrics["accuracy_best_on_test"] = mean("highest", first)
    selects = len(second) == settings.draws
    if selects:
        metrics |= {"accuracy_selected": mean("accuracy", second), "selected_step": mean("step", second)}
    several = settings.draws > 1
    rows = [
        {"fit": part.name, **({"draw": part.draw} if several else {}), **row}
        for part, done in (*first, *second)
        for row in done["rows"]
    ]
    notes = [
        *_notes(task, settings, lists, [part for part, _ in first]),
        *([NOT_SELECTED] if settings.val_share and not selects else []),
    ]
    details: dict[str, Any] = {"threads": fits.threads}
    if lists:
        details["labels"] = [{"draw": x.draw, "clips": len(x.ids), "sha256": x.sha256} for x in lists]
    return ProtocolResult(metrics, dict(predictions), rows, notes, details=details)


def _notes(task: Downstream, settings: FineTuneSettings, lists: list[LabelSubset], parts: list[Part]) -> list[str]:
    """Notes on lists of labels, and on settings without effect."""
    clips = min(len(part.train_n) for part in parts)
    epochs, notes = settings.epochs_of(clips), []
    if lists:
        kind = "of every class" if settings.stratified else "of all clips, whatever their class"
        hashes = ", ".join(each.sha256[:12] for each in lists)
        notes.append(
            f"labels of {clips} clips ({100 * settings.label_share:.3g} % {kind}), lists of sha256 {hashes}: "
            "`skelbench data labels` shows them"
        )
        if short := max(len(each.ids) - len(part.train_n) for each, part in zip(lists, parts)):
            notes.append(f"up to {short} clips of a list are shorter than {task.spec.data.min_frames} frames: left out")
    unseen = max(task.num_classes - len(np.unique(task.train_y[part.train_n])) for part in parts)
    if unseen:
        notes.append(f"{unseen} of {task.num_classes} classes have no labelled clip and cannot be recognised")
    if clips < settings.batch_size:
        notes.append(f"batches of {clips} clips, all that are labelled, instead of {settings.batch_size}")
    if epochs > settings.epochs:
        notes.append(f"{epochs} epochs instead of {settings.epochs}, so that they make {settings.min_steps} steps")
    encoder = task.encoder(settings.trained)
    if not any(parameter.requires_grad for parameter in encoder.parameters()):
        return [*notes, "the encoder has no weights, so only the classifier was trained"]
    if not settings.frozen and settings.layer_decay < 1 and len(layers_of(encoder)) == 1:
        notes.append("this encoder does not say which layers it has: layer_decay has no effect, all have one rate")
    if not settings.frozen and settings.drop_path and not encoder.set_drop_path(settings.drop_path):
        notes.append("this encoder has no blocks that can be left out in training: drop_path has no effect")
    return notes
