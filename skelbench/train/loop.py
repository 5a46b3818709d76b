"""The training loop: order, views, precision, schedules, logging, checkpoints, resume. Knows nothing of any loss."""

from __future__ import annotations

import copy
import ctypes
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skelbench import distributed
from skelbench.data.store.clip_store import ClipStore
from skelbench.errors import Diverged, Interrupted, SkelbenchError
from skelbench.files import naming
from skelbench.identity import derive_seed
from skelbench.methods.contract import Method, Step
from skelbench.optim.groups import groups_of
from skelbench.plugin.mistakes import plugin_code, where, wrong
from skelbench.results.metrics import logged_lines
from skelbench.results.state_file import write_state
from skelbench.results.store import RunDir
from skelbench.signals import stop_requested
from skelbench.spec import RunSpec
from skelbench.train.build import training_clips, turns_bodies, view_specs
from skelbench.train.checkpoint import ANEW, WITHOUT_LOG, cut_back, load_state, save_encoders, synced
from skelbench.train.collapse import Collapse, sentence
from skelbench.train.finite import Verdict, state_problem
from skelbench.train.fixed_clips import FixedClips
from skelbench.train.optimisation import Optimisation
from skelbench.train.order import Order
from skelbench.train.shortcut import Shortcut
from skelbench.train.watch import Watch
from skelbench.views.builder import ViewBuilder
from skelbench.views.keyed import Keyed
from skelbench.views.view import View

LINES = 500
"""Lines of metrics.jsonl, at even intervals, besides the first step and the last."""
SNAPSHOTS = 4
"""Encoders are kept after each quarter of the schedule."""
CHECKPOINT_SECONDS = 120.0
"""A state to continue from is written at least this often."""
TRIAL_CLIPS = 16
"""Of the steps that are timed to choose the number of threads."""
TRIM_SECONDS = 60.0
"""On a CPU, memory that the C library holds on to goes back to the system this often."""

Report = Callable[..., None]


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
        if spec.train.batch_size % self.world:
            raise SkelbenchError(
                f"batch size {spec.train.batch_size} cannot be shared by {self.world} processes; choose a multiple"
            )
        self.forward: Callable[..., dict[str, Tensor]] = method
        if self.world > 1:
            if spec.train.batch_norm == "synchronised":
                if self.device.type == "cpu":
                    raise SkelbenchError(
                        "train.batch_norm=synchronised needs GPUs: PyTorch does not synchronise batch norm on the CPU; "
                        "leave it out"
                    )
                method = self.method = torch.nn.SyncBatchNorm.convert_sync_batchnorm(method)
            normed = any(isinstance(module, torch.nn.modules.batchnorm._BatchNorm) for module in method.modules())
            self.forward = torch.nn.parallel.DistributedDataParallel(
                method,
                broadcast_buffers=normed and spec.train.batch_norm == "broadcast",
                find_unused_parameters=len(method.turns) > 1,  # each turn of a step reaches its own
            )
        self.phases = _phases(method)
        self.every = max(1, self.total // LINES)
        # Only the first process looks. Its views are made now: in training another thread may be reading clips.
        fixed = None if self.rank else FixedClips(spec, self.source, self.ids)
        self.watch = Watch(method, self.total, self.every, fixed)
        self.verdict = Verdict(self.device)
        clips = spec.train.batch_size // self.world
        self.signs = {"collapse": Collapse(clips), "shortcut": Shortcut(clips, self.total, turns_bodies(spec))}
        self._last_save = self._last_trim = time.monotonic()

    # ------------------------------------------------------------------------------------------ pieces
    def epoch(self, step: int) -> float:
        """Epochs done before ``step``."""
        per_epoch = self.spec.train.iters_per_epoch or len(self.ids) / self.spec.train.batch_size
        return step / per_epoch

    def views(self, step: int) -> dict[str, View]:
        """This process's views of ``step``; the same draws whatever the number of processes."""
        ids = np.array_split(self.order(step), self.world)[self.rank]
        return self.builder(self.source.gather(ids), Keyed(self.spec.seed, step))

    def trial(self) -> Callable[[], None]:
        """Forward and backward of a first step of a few clips, of which training keeps no trace; on one process."""
        method = copy.deepcopy(self.method)
        views = self.builder(self.source.gather(self.order(0)[:TRIAL_CLIPS]), Keyed(self.spec.seed, 0))

        def work() -> None:
            for turn in method.turns:
                self._backward(method, views, self.step_info(0, turn))

        return work

    def _backward(
        self, forward: Callable[..., dict[str, Tensor]], views: dict[str, View], info: Step
    ) -> dict[str, Tensor]:
        """What a method reports of a turn, its gradients left in the parameters."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.spec.train.precision == "bf16"):
            reported = forward(views, info)
        with plugin_code(self.method.training_step):  # a gradient has no line of its own
            reported["loss"].backward()
        return reported

    def step_info(self, step: int, turn: str = "main") -> Step:
        keyed = Keyed(derive_seed(self.spec.seed, "method") & 0x7FFFFFFF, step)
        generator = torch.Generator(self.device).manual_seed(derive_seed(self.spec.seed, step, self.rank))

        def uniform(keys_R: Any, n: int, op: int = 0) -> Tensor:
            return keyed.uniform(keys_R, n, op=op).to(self.device)

        phase = [name for name, start in self.phases if start * self.total <= step][-1]
        return Step(step, self.total, self.epoch(step), generator, uniform, self.world, phase, self.watch, turn)

    def train_step(self, step: int, views: dict[str, View]) -> dict[str, Tensor | float]:
        """One forward, backward and update per turn; returns what the method reported, still on the device, of turns
        after the first under their name: ``critic_loss``."""
        torch.manual_seed(derive_seed(self.spec.seed, "noise", step, self.rank))
        figures: dict[str, Tensor | float] = {}
        for turn in self.method.turns:
            info = self.step_info(step, turn)
            reported = self._backward(self.forward, views, info)
            norms = self.optim.norms(turn)
            self.verdict.see(step, reported["loss"], norms.values())
            if self.device.type == "cpu":  # nothing to wait for: what is not finite reaches no weight
                self._check_step()
            figures |= self.optim.step(step, norms, turn)
            prefix = "" if turn == self.method.turns[0] else f"{turn}_"
            figures |= {prefix + name: value.detach() for name, value in reported.items()}
        with torch.no_grad(), plugin_code(self.method.after_step, "(step)"):
            self.method.after_step(info)
        return figures

    # ------------------------------------------------------------------------------------------ state
    def save(self, step: int, seconds: float) -> None:
        """Write the state after ``step`` steps. Only rank 0 writes."""
        self._last_save = time.monotonic()
        if self.rank:
            return
        metrics_bytes = synced(self.run.metrics)
        state = {"id": self.spec.id, "step": step, "seconds": seconds, "metrics_bytes": metrics_bytes}
        state |= {"method": self.method.state_dict(), "optimizer": self.optim.state_dict()}
        write_state(self.run.checkpoint, state)

    def load(self) -> tuple[int, float]:
        """Continue from last.pt if there is one: (steps done, seconds spent)."""
        if not self.run.checkpoint.exists():
            cut_back(self.run.metrics, 0)
            return 0, 0.0
        # AdamW's step counts stay on the host, as in an unbroken run.
        state = load_state(self.run.checkpoint, "cpu", self.spec.id)
        try:
            self.method.load_state_dict(state["method"])
            self.optim.load_state_dict(state["optimizer"])
            size, step, seconds = int(state["metrics_bytes"]), int(state["step"]), float(state["seconds"])
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
        run whenever it changes (:class:`~skelbench.train.collapse.Sign`); these two on the first process alone. Raises
        :class:`Interrupted` after SIGINT, SIGTERM or SIGUSR2 with the state saved, and :class:`SkelbenchError` with
        outcome ``diverged`` when a loss is not finite.
        """
        start, before = self.load()
        started = time.monotonic()
        self.method.train()
        batch = self.spec.train.batch_size
        snapshots = {round(self.total * k / SNAPSHOTS) for k in range(1, SNAPSHOTS)} - {0}
        if report and start:
            report(start * batch, note=f"continuing at step {start:,} of {self.total:,}")

        def seconds() -> float:
            return before + time.monotonic() - started

        with stop_requested() as stopped, naming(self.run.metrics), open(self.run.metrics, "a") as metrics:
            sitting = start
            for step, views in self.prefetched(start):
                done = step + 1
                with self.watch.look(done) as figures:
                    out = self.train_step(step, views)
                logged = done == 1 or done % self.every == 0 or done == self.total
                read = logged or self.device.type == "cpu"
                shown: dict[str, Any] = {}
                if read:
                    values = {name: float(value) for name, value in out.items()}
                    shown["loss"] = values["loss"]
                if logged:
                    self._check_step()
                    rate = (done - sitting) * batch / max(1e-9, time.monotonic() - started)
                    line = {"step": done, "epoch": self.epoch(done), "clips_seen": done * batch, **values, **figures}
                    line |= {"clips_per_s": rate, "seconds": seconds()}
                    if not self.rank:
                        self.run.check_held()
                        rounded = {key: _rounded(value) for key, value in line.items()}
                        metrics.write(json.dumps(rounded) + "\n")
                        metrics.flush()
                        ranks = [key for key in ("rank_masked", "rank_pooled") if key in figures]
                        shown |= {key: figures[key] for key in ranks[:1]}
                        changed = {name: sign.see(rounded) for name, sign in self.signs.items()}
                        if notes := [f"{name}: {sentence(one)}" for name, found in changed.items() for one in found]:
                            shown["note"] = "; ".join(notes)
                            if signs:
                                signs(**{name: sign.found for name, sign in self.signs.items() if sign.found})
                        if log:
                            log(done, line)
                if self.device.type == "cpu" and time.monotonic() - self._last_trim > TRIM_SECONDS:
                    _give_back_memory()
                    self._last_trim = time.monotonic()
                if report:
                    report(batch, **shown)
                late = time.monotonic() - self._last_save > CHECKPOINT_SECONDS
                stop = distributed.any_rank(stopped.is_set(), self.device)
                saves = done == self.total or stop or late
                if saves or done in snapshots:
                    self._check_step()
                    self._check_state(done)
                if done in snapshots and not self.rank:
                    save_encoders(self.run, self.spec.id, self.method, self.epoch(done), f"{self.epoch(done):.4g}")
                if saves:
                    if not self.rank and not self.run.metrics.exists():  # without its log no state could be continued
                        raise SkelbenchError(
                            f"{self.run.path} was removed while it was written; issue the same command again to start "
                            "anew"
                        )
                    self.run.check_held()
                    self.save(done, seconds())
                if stop and done < self.total:
                    raise Interrupted(
                        f"stopped after step {done} of {self.total}, state saved in {self.run.path}; "
                        "issue the same command again to continue",
                        done,
                    )
        if not self.rank:
            save_encoders(self.run, self.spec.id, self.method, self.epoch(self.total))
        return seconds()

    def prefetched(self, start: int) -> Iterator[tuple[int, dict[str, View]]]:
        """(step, views) to the end; with an accelerator the next views are built while this step runs."""
        if self.device.type == "cpu":
            for step in range(start, self.total):
                yield step, self.views(step)
            return
        with ThreadPoolExecutor(1, thread_name_prefix="views") as pool:
            ahead = pool.submit(self.views, start)
            for step in range(start, self.total):
                views = ahead.result()
                if step + 1 < self.total:
                    ahead = pool.submit(self.views, step + 1)
                yield step, views

    # ------------------------------------------------------------------------------------------ what is not finite
    def _check_step(self) -> None:
        """Raise :class:`Diverged` where the loss or a gradient of a step so far was not finite."""
        if not (found := self.verdict.read()):
            return
        step, what, value = found
        place = f"became {value} at step {step} of {self.total} (epoch {self.epoch(step):.2f}) in {self.run.path}"
        ids = map(int, self.order(step))
        if (clip := next((i for i in ids if not np.isfinite(self.source.store.clip(i)).all()), None)) is not None:
            name = self.spec.data.name
            raise Diverged(
                f"clip {clip} of data set {name} holds coordinates that are not finite, with which the {what} {place}; "
                f"see what else is wrong: skelbench data verify {name}, then prepare or import it again",
                step,
            )
        if what == "gradient":  # of a past step there are none left to look at
            held = ((name, p.grad) for name, p in self.method.named_parameters() if p.grad is not None)
            if bad := next((name for name, gradient in held if not bool(gradient.isfinite().all())), ""):
                what += f" of {bad}"
        advice = self._advice() if step else self._first_advice(what)
        raise Diverged(f"the {what} {place}; {advice}", step)

    def _check_state(self, done: int) -> None:
        """Raise :class:`Diverged` where what is to be saved after ``done`` steps is not finite."""
        if name := state_problem(self.method):
            raise Diverged(
                f"{name} holds nan or inf after step {done - 1} of {self.total} in {self.run.path}; {self._advice()}",
                done - 1,
            )

    def _first_advice(self, what: str) -> str:
        """Before any weight was changed no rate is to blame."""
        step = type(self.method).training_step
        return (
            f"no weight had moved yet: look in {where(step) or step.__qualname__} for a division by 0, the logarithm "
            f"or {'root' if what == 'loss' else 'norm'} of 0, the mean of nothing"
        )

    def _advice(self) -> str:
        kept = "the last good state is kept; " if self.run.checkpoint.exists() else ""
        return f"{kept}lower --set train.lr, set train.clip_grad, or use --precision fp32, then run again"


def _phases(method: Method) -> list[tuple[str, float]]:
    """The method's phases by their beginning; the first begins at 0."""
    with plugin_code(method.phases, "()"):
        phases = sorted(method.phases(), key=lambda phase: phase[1])
        names = [(str(name), float(start)) for name, start in phases]
    if not names or names[0][1] > 0:
        raise wrong(method.phases, f'returned {phases}; the first begins at 0: [("warm", 0.0), ("main", 0.3)]')
    return names


def _give_back_memory() -> None:
    """Return freed memory to the system, where the C library can be told to (glibc).

    Tensors of ever other sizes leave gaps in its heap: without this a run of an hour grew from 3 to 6 GB.
    """
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def _rounded(value: float) -> float:
    """Seven significant digits: float32 without noise."""
    return float(f"{value:.7g}") if isinstance(value, float) else value
