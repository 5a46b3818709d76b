"""The training loop: order, views, precision, schedules, logging, checkpoints, resume. Knows nothing of any loss."""

from __future__ import annotations

import copy
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from threading import Event
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from skelbench.core import distributed
from skelbench.core.errors import Interrupted, Left, PeerLost, SkelbenchError
from skelbench.core.files import naming
from skelbench.core.hashing import derive_seed
from skelbench.core.malloc import USUAL_BYTES, give_back_memory, keep_freed_memory
from skelbench.core.signals import stop_requested
from skelbench.core.spec import RunSpec
from skelbench.data.store.clip_store import ClipStore
from skelbench.methods.contract import WITHOUT_GRADIENT, Method, Step
from skelbench.models.batch_norm import synchronised
from skelbench.models.optim.groups import groups_of
from skelbench.models.prototype_loss import fuse
from skelbench.plugin.plugin_errors import plugin_code, wrong
from skelbench.records.metrics import logged_lines
from skelbench.records.run_dir import RunDir
from skelbench.records.state_file import write_state
from skelbench.training import divergence_report
from skelbench.training.activation_checkpointing import recompute
from skelbench.training.build import phases_of, training_clips, turns_bodies, view_specs
from skelbench.training.checkpoint import ANEW, WITHOUT_LOG, cut_back, load_state, save_encoders, synced
from skelbench.training.collapse import Collapse, sentence
from skelbench.training.diagnostics import Watch
from skelbench.training.fixed_clips import FixedClips
from skelbench.training.gradient_accumulation import Means, averaged, check_pieces
from skelbench.training.nonfinite import Found, Verdict, state_problem
from skelbench.training.optimization import Optimisation
from skelbench.training.order import Order
from skelbench.training.shortcut import Shortcut
from skelbench.views.builder import ViewBuilder, WholeStep
from skelbench.views.keyed import Keyed
from skelbench.views.prefetch import prefetched
from skelbench.views.transfer import read
from skelbench.views.view import View

LINES = 500
"""Lines of metrics.jsonl, at even intervals, besides the first step and the last."""
SNAPSHOTS = 4
"""Encoders are kept after each quarter of the schedule."""
CHECKPOINT_SECONDS = 120.0
"""A state to continue from is written at least this often."""
TRIAL_CLIPS = 16
"""Of the steps that are timed to choose the number of threads."""
TRIM_SECONDS = 10.0
"""On a CPU, memory that the C library holds on to goes back to the system this often."""
KEPT_BYTES = 1 << 30
"""On a CPU, memory of tensors up to this size stays with the process while it trains."""

Report = Callable[..., None]
Views = dict[str, View]


def total_steps(spec: RunSpec, clips: int) -> int:
    """Steps of the whole schedule for ``clips`` training clips."""
    per_epoch = spec.train.iters_per_epoch or clips / spec.train.batch_size
    return round(spec.train.epochs * per_epoch)


class Trainer:
    """Trains one method; :meth:`fit` returns when the schedule is done, or raises after saving what there is."""

    def __init__(self, spec: RunSpec, method: Method, store: ClipStore, run: RunDir, device: str) -> None:
        self.spec, self.method, self.run, self.device = spec, method, run, torch.device(device)
        self.ids = store.split(spec.data.split, spec.data.min_frames).train
        self.total = total_steps(spec, len(self.ids))
        self.order = Order(self.ids, spec.train.batch_size, spec.seed)
        self.source = training_clips(spec, store, self.device)
        how = spec.train.bodies, self.device, spec.train.centre, spec.data.dimensions
        self.builder = ViewBuilder(view_specs(spec), store.topology, spec.grid.patch, *how)
        self.optim = Optimisation(groups_of(method), spec, self.total, method.turns)
        self.world, self.rank = distributed.world(), distributed.rank()
        if spec.train.batch_size < self.world:
            raise SkelbenchError(
                f"a batch of {spec.train.batch_size} clips gives some of {self.world} processes none; start no more "
                "processes than clips, or choose a larger --batch-size"
            )
        self.phases = phases_of(method)
        self.save_memory(spec.train.recompute == "on", 1 if spec.train.accumulate == "auto" else spec.train.accumulate)
        self.forward: Callable[..., dict[str, Tensor]] = method
        if self.world > 1:
            if spec.train.batch_norm == "synchronised":
                method = self.method = synchronised(method, self.device)
            # Each turn of a step reaches parameters of its own, and so may each phase.
            parts = len(method.turns) > 1 or len(self.phases) > 1
            self.forward = distributed.parallel(method, spec.train.batch_norm == "broadcast", parts)
        self.every = max(1, self.total // LINES)
        self.snapshots = {round(self.total * k / SNAPSHOTS) for k in range(1, SNAPSHOTS)} - {0}
        self.stop_asked = False
        """Whether the last step was made when a signal asked for an end."""
        # Only the first process looks at them. Its views are made now: in training another thread may be reading clips.
        fixed = None if self.rank else FixedClips(spec, self.source, self.ids)
        self.watch = Watch(method, self.total, self.every, fixed)
        self.verdict = Verdict(self.device)
        self.late = self.device.type != "cpu"
        """Whether a step's verdict is read some steps later, where to read it at once would be to wait."""
        self._first_pieces = True
        self._lost: set[str] = set()
        """Figures of the method of which it was said that they are not finite."""
        if self.device.type == "cpu":
            keep_freed_memory(KEPT_BYTES)
        self._held: tuple[int, list[int] | None] = 0, None
        """So many steps were made, and the versions that what they wrote had then; None = a further one writes."""
        self._last_save = self._last_trim = time.monotonic()

    @cached_property
    def signs(self) -> dict[str, Any]:
        """What is looked for in logged figures. Those of prototypes are of a piece of this process's clips."""
        batch = self.spec.train.batch_size
        clips = len(range(batch)[distributed.own_share(batch)]) // self.pieces
        return {"collapse": Collapse(batch), "shortcut": Shortcut(clips, self.total, turns_bodies(self.spec))}

    @property
    def middles(self) -> list[tuple[int, float]]:
        """Of every phase that has steps the one in its middle, and its share of them all."""
        firsts = [math.ceil(start * self.total) for _, start in self.phases] + [self.total]
        spans = [(first, end) for first, end in pairwise(firsts) if end > first]
        return [((first + end) // 2, (end - first) / self.total) for first, end in spans]

    @property
    def bodies_per_clip(self) -> float:
        """Mean over the training clips of bodies in a view."""
        store, every = self.source.store, self.spec.data.second_body == "repeat"
        match self.spec.train.bodies:
            case "valid":
                return max(2, store.max_bodies) if every else float(np.mean(store.bodies[self.ids]))
            case "all-slots":
                return max(2, store.max_bodies) if every else store.max_bodies
        return 1.0

    # ------------------------------------------------------------------------------------------ parts of a step
    def save_memory(self, again: bool, pieces: int) -> None:
        """Whether blocks are computed again in the backward pass, and in how many pieces a batch is taken.

        Raises:
            SkelbenchError: it cannot be taken in so many.
        """
        check_pieces(self.method, self.spec, pieces)
        recompute(self.method, again)
        self.recomputes, self.pieces = again, pieces

    def epoch(self, step: int) -> float:
        """Epochs done before ``step``."""
        per_epoch = self.spec.train.iters_per_epoch or len(self.ids) / self.spec.train.batch_size
        return step / per_epoch

    def views(self, step: int) -> dict[str, View]:
        """This process's views of ``step``; the same draws whatever the number of processes."""
        return self._in_pieces(step, 1)[0]

    def batch(self, step: int) -> Views | list[Views]:
        """What :meth:`train_step` takes: :meth:`views`, or those of each piece."""
        each = self._in_pieces(step, self.pieces)
        return each if len(each) > 1 else each[0]

    def _in_pieces(self, step: int, pieces: int) -> list[Views]:
        order, share = self.order(step), distributed.own_share(self.spec.train.batch_size)
        bodies, made = self.source.bodies(order), []
        for place in np.array_split(np.arange(len(order))[share], pieces):
            whole = WholeStep(order, bodies, int(place[0]))
            made.append(self.builder(self.source.gather(order[place]), Keyed(self.spec.seed, step), whole))
        return made

    def views_of(self, step: int, ids: np.ndarray) -> Views:
        """Views of the clips ``ids``, which stand alone, with the draws of ``step``."""
        return self.builder(self.source.gather(ids), Keyed(self.spec.seed, step))

    def trial(self) -> Callable[[], None]:
        """Forward and backward of a first step of a few clips, of which training keeps no trace; on one process."""
        method = copy.deepcopy(self.method)
        views = self.views_of(0, self.order(0)[:TRIAL_CLIPS])

        def work() -> None:
            for turn in method.turns:
                self._backward(method, views, self.step_info(0, turn))

        return work

    def gradients(self, batch: Views | Sequence[Views], info: Step) -> dict[str, Tensor]:
        """What a method reports of a turn, its gradients, of all pieces together, left in the parameters."""
        if isinstance(batch, dict):
            return self._backward(self.forward, batch, info)
        means, last = Means(self.method, info.pieces), len(batch) - 1
        info = replace(info, means=means)

        def piece(at: int) -> dict[str, Tensor]:
            self.watch.piece = at
            forward: Any = self.forward
            apart = isinstance(forward, DistributedDataParallel) and at < last  # gradients meet with the last piece's
            with forward.no_sync() if apart else nullcontext():
                return self._backward(forward, batch[at], info)

        try:
            return averaged(piece, means, list(self.method.parameters()), check=self._first_pieces)
        finally:
            self.watch.piece, self._first_pieces = 0, False

    def _backward(self, forward: Callable[..., dict[str, Tensor]], views: Views, info: Step) -> dict[str, Tensor]:
        """What a method reports of a turn of a piece, its share of the gradients left in the parameters."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.spec.train.precision == "bf16"):
            with distributed.reaching():
                reported = forward(views, info)
        with plugin_code(self.method.training_step), distributed.reaching():  # a gradient has no line of its own
            (reported["loss"] / info.pieces).backward()
        return reported

    def step_info(self, step: int, turn: str = "main", pieces: int = 1) -> Step:
        keyed = Keyed(derive_seed(self.spec.seed, "method") & 0x7FFFFFFF, step)
        generator = torch.Generator(self.device).manual_seed(derive_seed(self.spec.seed, step, self.rank))

        def uniform(keys_R: Any, n: int, op: int = 0) -> Tensor:
            return keyed.uniform(keys_R, n, op=op).to(self.device)

        phase = [name for name, start in self.phases if start * self.total <= step][-1]
        where, batch = (step, self.total, self.epoch(step)), self.spec.train.batch_size
        return Step(*where, generator, uniform, self.world, phase, self.watch, turn, batch, pieces)

    def train_step(self, step: int, views: Views | Sequence[Views]) -> dict[str, Tensor | float]:
        """One forward and backward, of each piece, and update per turn; returns what the method reported, still on the
        device, of turns after the first under their name: ``critic_loss``."""
        torch.manual_seed(derive_seed(self.spec.seed, "noise", step, self.rank))
        figures: dict[str, Tensor | float] = {}
        held: dict[str, list[Tensor]] = {}
        for turn in self.method.turns:
            info = self.step_info(step, turn, 1 if isinstance(views, dict) else len(views))
            reported = distributed.mean_figures(self.gradients(views, info))
            if all(parameter.grad is None for parameter in self.method.parameters()):
                raise wrong(self.method.training_step, WITHOUT_GRADIENT)
            norms = self.optim.norms(turn)
            self.verdict.see(step, reported["loss"], norms.values())
            if not self.late:  # nothing to wait for: what is not finite reaches no weight
                self._check(self.verdict.read())
            self._held = self._held[0], None  # fused optimisers leave the versions of tensors as they are
            figures |= self.optim.step(step, norms, turn)
            prefix = "" if turn == self.method.turns[0] else f"{turn}_"
            figures |= {prefix + name: value.detach() for name, value in reported.items()}
            held |= info.held
        with torch.no_grad(), plugin_code(self.method.after_step, "(step)"):
            self.method.after_step(replace(info, held=held))
        if self.late:
            self._check(self.verdict.late())
        return figures

    # ------------------------------------------------------------------------------------------ state
    def _holds(self, step: int) -> None:
        """Note that weights, statistics and optimiser are those after ``step`` steps, until one of them is written."""
        self._held = step, [x._version for x in self._written]

    @contextmanager
    def _surviving(self, stopped: Event, seconds: Callable[[], float]) -> Iterator[None]:
        """Where another process is lost, the first one saves what it holds, if that is of a whole step, and all end.

        On a GPU nothing is saved then: what was asked of the lost process blocks the stream on which it would be read.
        ``stopped`` is set where anything ends the training, so that signals from outside do not cut short what follows.
        """
        self._written = [*self.method.parameters(), *self.method.buffers()]
        try:
            yield
        except PeerLost as lost:
            stopped.set()
            step, versions = self._held
            if saves := not self.rank and self.device.type == "cpu" and versions == [x._version for x in self._written]:
                self._save_snapshot(step)
                self.save(step, seconds())
            kept = f"state saved in {self.run.path}" if saves else f"what was last saved is in {self.run.path}"
            raise Left(
                f"{lost}; stopped after step {step} of {self.total}, {kept}; issue the same command again to continue",
                step,
            ) from lost
        except BaseException:
            stopped.set()
            raise

    def _save_snapshot(self, step: int) -> None:
        """The encoders after ``step`` steps, where these are some of the quarters of the schedule."""
        if step in self.snapshots and not self.rank:
            save_encoders(self.run, self.spec.id, self.method, self.epoch(step), f"{self.epoch(step):.4g}")

    def save(self, step: int, seconds: float) -> None:
        """Write the state after ``step`` steps, at the end without what only further ones would need. Only rank 0
        writes."""
        self._last_save = time.monotonic()
        if self.rank:
            return
        metrics_bytes = synced(self.run.metrics)
        state = {"id": self.spec.id, "step": step, "seconds": seconds, "metrics_bytes": metrics_bytes}
        state |= {"method": self.method.state_dict()}
        state |= {"optimizer": self.optim.state_dict()} if step < self.total else {}
        write_state(self.run.checkpoint, state)

    def load(self) -> tuple[int, float]:
        """Continue from last.pt if there is one: (steps done, seconds spent)."""
        if not self.run.checkpoint.exists():
            cut_back(self.run.metrics, 0)
            return 0, 0.0
        # The optimiser takes each part to where it keeps it in an unbroken run: step counts may be on the host.
        state = load_state(self.run.checkpoint, self.spec.id)
        try:
            self.method.load_state_dict(state["method"])
            size, step, seconds = int(state["metrics_bytes"]), int(state["step"]), float(state["seconds"])
            if step < self.total:
                self.optim.load_state_dict(state["optimizer"])
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise SkelbenchError(f"checkpoint {self.run.checkpoint} does not fit this run; {ANEW}") from error
        if not self.rank:
            cut_back(self.run.metrics, size)
            for line in logged_lines(self.run, WITHOUT_LOG):
                for sign in self.signs.values():
                    sign.see(line)
        return step, seconds

    # ------------------------------------------------------------------------------------------ the loop
    def fit(
        self,
        report: Report | None = None,
        log: Callable[[int, dict[str, float]], None] | None = None,
        signs: Callable[..., None] | None = None,
    ) -> float:
        """Train from where the run stands to the end; returns seconds of training over all sittings.

        ``report(advance, **fields)`` is told clips and figures for a progress bar, and as ``note`` what to say at once;
        ``log(step, metrics)`` gets every line written; ``signs(collapse=..., shortcut=...)`` all that was found in the
        run whenever it changes (:class:`~skelbench.training.collapse.Sign`), the names alone where nothing was;
        these two
        on the first process alone. Raises :class:`Interrupted` after SIGINT, SIGTERM or SIGUSR2 with the state saved,
        and :class:`SkelbenchError` with outcome ``diverged`` when a loss is not finite.
        """
        start, before = self.load()
        stop = False
        if len(found := set(distributed.all_say(start))) > 1:
            raise SkelbenchError(
                f"the processes of this run see different states of it, after {' and '.join(map(str, sorted(found)))} "
                f"steps, in {self.run.path}; choose a results directory that all machines share with --results"
            )
        if signs and not self.rank:
            said = {name: value for name, value in self.run.info.items() if name in self.signs}
            if said != self._found():  # it is of steps that are not part of this training
                signs(*self.signs, **self._found())
        started = time.monotonic()
        self.method.train()
        batch = self.spec.train.batch_size
        if report and start:
            report(start * batch, note=f"continuing at step {start:,} of {self.total:,}")

        def seconds() -> float:
            return before + time.monotonic() - started

        with (
            stop_requested() as stopped,
            self._surviving(stopped, seconds),
            naming(self.run.metrics),
            open(self.run.metrics, "a") as metrics,
        ):
            sitting = start
            self._holds(start)
            for step, views in self.prefetched(start):
                done = step + 1
                with self.watch.look(done) as figures:
                    out = self.train_step(step, views)
                self._holds(done)
                logged = done == 1 or done % self.every == 0 or done == self.total
                shown: dict[str, Any] = {}
                if logged or not self.late:
                    values = read(out)
                    shown["loss"] = values["loss"]
                if logged:
                    self._check(self.verdict.read())
                    rate = (done - sitting) * batch / max(1e-9, time.monotonic() - started)
                    line = {"step": done, "epoch": self.epoch(done), "clips_seen": done * batch, **values, **figures}
                    line |= {"clips_per_s": rate, "seconds": seconds()}
                    if not self.rank:
                        shown |= self._write_line(metrics, line, values, signs)
                        if log:
                            log(done, line)
                if self.device.type == "cpu" and time.monotonic() - self._last_trim > TRIM_SECONDS:
                    give_back_memory()
                    self._last_trim = time.monotonic()
                if report:
                    report(batch, **shown)
                late = time.monotonic() - self._last_save > CHECKPOINT_SECONDS
                stop, late = distributed.any_rank(stopped.is_set(), late)
                saves = done == self.total or stop or late
                if saves or done in self.snapshots:  # after a step that was not finite nothing is written
                    self._check(self.verdict.read())
                    self._check_state(done)
                    self.run.check_held()
                self._save_snapshot(done)
                if saves:
                    if not self.rank and not self.run.metrics.exists():  # without its log no state could be continued
                        raise SkelbenchError(
                            f"{self.run.path} was removed while it was written; issue the same command again to start "
                            "anew"
                        )
                    self.save(done, seconds())
                if stop and done < self.total:
                    raise Interrupted(
                        f"stopped after step {done} of {self.total}, state saved in {self.run.path}; "
                        "issue the same command again to continue",
                        done,
                    )
        self.stop_asked = stop
        fuse(self.device, False)  # what comes after training counts and times what is not compiled
        if not self.rank:
            save_encoders(self.run, self.spec.id, self.method, self.epoch(self.total))
        if self.device.type == "cpu":  # what comes after training has tensors of other sizes
            keep_freed_memory(USUAL_BYTES)
            give_back_memory()
        return seconds()

    def _write_line(
        self, metrics: IO[str], line: dict[str, Any], values: Iterable[str], signs: Callable[..., None] | None
    ) -> dict[str, Any]:
        """Log ``line``, of which ``values`` are the method's own figures; what a progress bar is to show of it."""
        self.run.check_held()
        rounded = {key: _rounded(value) for key, value in line.items()}
        metrics.write(json.dumps(rounded) + "\n")
        metrics.flush()
        rank = next((key for key in ("rank_masked", "rank_pooled") if key in line), None)
        shown = {rank: line[rank]} if rank else {}
        changed = {name: sign.see(rounded) for name, sign in self.signs.items()}
        notes = [f"{name}: {sentence(one)}" for name, found in changed.items() for one in found]
        if notes and signs:
            signs(**self._found())
        if lost := {name for name in values if rounded[name] is None} - self._lost:
            self._lost |= lost
            notes.append(f"not finite, so not logged, from step {line['step']:,} on: {', '.join(sorted(lost))}")
        return shown | ({"note": "; ".join(notes)} if notes else {})

    def _found(self) -> dict[str, list[dict[str, Any]]]:
        """What ``signs`` is told."""
        return {name: sign.found for name, sign in self.signs.items() if sign.found}

    def prefetched(self, start: int) -> Iterator[tuple[int, Views | list[Views]]]:
        """(step, views) to the end; on a GPU the next views are made while this step runs."""
        return prefetched(self.batch, range(start, self.total), self.device)

    # ------------------------------------------------------------------------------------------ what is not finite
    def _check(self, found: Found | None) -> None:
        """Raise :class:`Diverged` where the loss or a gradient of a step was not finite."""
        if found:
            raise divergence_report.of_step(self, found)

    def _check_state(self, done: int) -> None:
        """Raise :class:`Diverged` where what is to be saved after ``done`` steps is not finite."""
        if name := next(filter(None, distributed.all_say(state_problem(self.method))), ""):
            raise divergence_report.of_state(self, name, done)


def _rounded(value: float) -> float | None:
    """Seven significant digits: float32 without noise; None of what is not finite, for which JSON has no word."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.7g}") if math.isfinite(value) else None
