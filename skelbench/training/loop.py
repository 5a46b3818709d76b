"""Training loop: order of clips, views, precision, schedules, logging, checkpoints, resuming."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from skelbench.core import distributed
from skelbench.core.errors import Diverged, Interrupted, SkelbenchError
from skelbench.core.hashing import derive_seed
from skelbench.core.malloc import FreedMemory
from skelbench.core.signals import stop_requested
from skelbench.core.spec import RunSpec
from skelbench.data.store.clip_store import ClipStore
from skelbench.methods.contract import WITHOUT_GRADIENT, Method, Step
from skelbench.models.batch_norm import synchronized
from skelbench.models.optim.groups import groups_of
from skelbench.plugin.plugin_errors import plugin_code, where, wrong
from skelbench.records.run_dir import RunDir
from skelbench.training.anomalies import AnomalyDetector, Collapse, Shortcut
from skelbench.training.build import phases_of, training_clips, view_specs
from skelbench.training.checkpoint import Checkpointer, save_encoders
from skelbench.training.diagnostics import Diagnostics
from skelbench.training.memory_saving import Means, Recompute, check_micro_batches, recompute_blocks
from skelbench.training.metrics_log import MetricsLog
from skelbench.training.nonfinite import FiniteCheck, nonfinite_gradient
from skelbench.training.optimization import Optimization
from skelbench.views.builder import ViewBuilder
from skelbench.views.keyed import Keyed
from skelbench.views.prefetch import prefetched
from skelbench.views.transfer import read
from skelbench.views.view import View

TRIAL_CLIPS = 16
"""Number of clips in the steps that are timed to choose the number of threads."""

Report = Callable[..., None]
Views = dict[str, View]


def total_steps(spec: RunSpec, clips: int) -> int:
    """Steps of the whole schedule for ``clips`` training clips."""
    per_epoch = spec.train.iters_per_epoch or clips / spec.train.batch_size
    return round(spec.train.epochs * per_epoch)


class Order:
    """Clips of each step: one permutation per epoch, end to end, keyed by (seed, epoch)."""

    def __init__(self, ids: np.ndarray, batch: int, seed: int) -> None:
        self.ids, self.batch, self.seed = np.asarray(ids), batch, seed
        self._epochs: dict[int, np.ndarray] = {}

    def _permutation(self, epoch: int) -> np.ndarray:
        if epoch not in self._epochs:
            generator = torch.Generator().manual_seed(derive_seed(self.seed, "order", epoch))
            self._epochs = {epoch: torch.randperm(len(self.ids), generator=generator).numpy()}
        return self._epochs[epoch]

    def __call__(self, step: int) -> np.ndarray:
        """Clip ids of ``step``: int64 [batch]."""
        places = np.arange(step * self.batch, (step + 1) * self.batch)
        epochs, inside = np.divmod(places, len(self.ids))
        parts = [self.ids[self._permutation(int(e))[inside[epochs == e]]] for e in np.unique(epochs)]
        return np.concatenate(parts)


class Trainer:
    """Train one method. :meth:`train` returns at the end of the schedule, or raises after saving the state."""

    def __init__(self, spec: RunSpec, method: Method, store: ClipStore, run: RunDir, device: str) -> None:
        self.spec, self.method, self.run, self.device = spec, method, run, torch.device(device)
        self.ids = store.split(spec.data.split, spec.data.min_frames).train
        self.total = total_steps(spec, len(self.ids))
        self.order = Order(self.ids, spec.train.batch_size, spec.seed)
        self.source = training_clips(spec, store, self.device)
        preparation = spec.train.bodies, self.device, spec.train.center, spec.data.dimensions
        self.builder = ViewBuilder(view_specs(spec), store.topology, spec.grid.patch, *preparation)
        self.optimization = Optimization(groups_of(method), spec, self.total, method.turns)
        self.world, self.rank = distributed.world(), distributed.rank()
        if spec.train.batch_size < self.world:
            raise SkelbenchError(
                f"a batch of {spec.train.batch_size} clips is too small for {self.world} processes; start no more "
                "processes than clips, or choose a larger --batch-size"
            )
        self.phases = phases_of(method)
        micro_batches = 1 if spec.train.accumulate == "auto" else spec.train.accumulate
        recompute = spec.train.recompute
        self.save_memory("off" if recompute == "auto" else recompute, micro_batches)
        self.forward: Callable[..., dict[str, Tensor]] = method
        if self.world > 1:
            if spec.train.batch_norm == "synchronized":
                method = self.method = synchronized(method, self.device)
            # Each optimizer, and each phase, may use different parameters.
            partial_graphs = len(method.turns) > 1 or len(self.phases) > 1
            self.forward = distributed.parallel(method, spec.train.batch_norm == "broadcast", partial_graphs)
        self.finite = FiniteCheck(self.device, self._diverged)
        self.checkpointer = Checkpointer(run, spec, self.method, self.optimization, self.total, self.epoch)
        self.log = MetricsLog(run, self.total, {} if self.rank else self._detectors())
        self.diagnostics = Diagnostics(method, self.total, self.log.every)
        self.freed_memory = FreedMemory(self.device.type == "cpu")
        self.stopped_in_last_step = False

    def _detectors(self) -> dict[str, AnomalyDetector]:
        """Return the anomaly detectors. Information of prototypes is measured on one micro-batch of this process."""
        batch = self.spec.train.batch_size
        clips = len(range(batch)[distributed.own_share(batch)]) // self.micro_batches
        return {"collapse": Collapse(batch), "shortcut": Shortcut(clips)}

    @property
    def phase_midpoints(self) -> list[tuple[int, float]]:
        """Middle step and fraction of the schedule of each phase that has steps."""
        firsts = [math.ceil(start * self.total) for _, start in self.phases] + [self.total]
        spans = [(first, end) for first, end in pairwise(firsts) if end > first]
        return [((first + end) // 2, (end - first) / self.total) for first, end in spans]

    @cached_property
    def _steps_per_epoch(self) -> float:
        return self.spec.train.iters_per_epoch or len(self.ids) / self.spec.train.batch_size

    def epoch(self, step: int) -> float:
        """Epochs done before ``step``."""
        return step / self._steps_per_epoch

    def save_memory(self, recompute: Recompute, micro_batches: int) -> None:
        """Set what blocks recompute in the backward pass, and the number of micro-batches of a batch.

        Raises:
            SkelbenchError: the batch of the method cannot be split into this number of micro-batches.
        """
        check_micro_batches(self.method, self.spec, micro_batches)
        recompute_blocks(self.method, recompute)
        self.recompute, self.micro_batches = recompute, micro_batches

    def views(self, step: int) -> Views:
        """This process's views of ``step``; the draws do not depend on the number of processes."""
        return self._micro_batches(step, 1)[0]

    def batch(self, step: int) -> Views | list[Views]:
        """Input of :meth:`train_step`: the views of ``step``, or of each micro-batch."""
        batches = self._micro_batches(step, self.micro_batches)
        return batches if len(batches) > 1 else batches[0]

    def batches(self, start: int) -> Iterator[tuple[int, Views | list[Views]]]:
        """(step, batch) from ``start`` to the end; on a GPU the next batch is built during the step."""
        return prefetched(self.batch, range(start, self.total), self.device)

    def views_of(self, step: int, ids: np.ndarray) -> Views:
        """Views of the clips ``ids`` alone, with the draws of ``step``."""
        return self.builder(self.source.gather(ids), Keyed(self.spec.seed, step))

    def _micro_batches(self, step: int, count: int) -> list[Views]:
        order, own = self.order(step), distributed.own_share(self.spec.train.batch_size)
        return [self.views_of(step, ids) for ids in np.array_split(order[own], count)]

    def step_info(self, step: int, turn: str = "main", micro_batches: int = 1) -> Step:
        """Facts about ``step`` for the method."""
        keyed = Keyed(derive_seed(self.spec.seed, "method") & 0x7FFFFFFF, step)
        generator = torch.Generator(self.device).manual_seed(derive_seed(self.spec.seed, step, self.rank))

        def uniform(keys_R: Any, n: int, op: int = 0) -> Tensor:
            return keyed.uniform(keys_R, n, op=op).to(self.device)

        phase = [name for name, start in self.phases if start * self.total <= step][-1]
        place, batch = (step, self.total, self.epoch(step)), self.spec.train.batch_size
        return Step(*place, generator, uniform, self.world, phase, self.diagnostics, turn, batch, micro_batches)

    def train_step(self, step: int, views: Views | Sequence[Views]) -> dict[str, Tensor | float]:
        """Forward, backward and update, once per optimizer; return the method's metrics, still on the device.

        Metrics of optimizers after the first are prefixed: ``critic_loss``.
        """
        torch.manual_seed(derive_seed(self.spec.seed, "noise", step, self.rank))
        figures: dict[str, Tensor | float] = {}
        stashed: dict[str, list[Tensor]] = {}
        for turn in self.method.turns:
            info = self.step_info(step, turn, 1 if isinstance(views, dict) else len(views))
            reported = distributed.mean_figures(self.gradients(views, info))
            if all(parameter.grad is None for parameter in self.method.parameters()):
                raise wrong(self.method.training_step, WITHOUT_GRADIENT)
            norms = self.optimization.norms(turn)
            self.finite.record(step, reported["loss"], norms.values())
            figures |= self.optimization.step(step, norms, turn)
            prefix = "" if turn == self.method.turns[0] else f"{turn}_"
            figures |= {prefix + name: value.detach() for name, value in reported.items()}
            stashed |= info.held
        with torch.no_grad(), plugin_code(self.method.after_step, "(step)"):
            self.method.after_step(replace(info, held=stashed))
        return figures

    def gradients(self, batch: Views | Sequence[Views], info: Step) -> dict[str, Tensor]:
        """Compute the gradients of ``batch``; return the method's metrics over all micro-batches."""
        if isinstance(batch, dict):
            return self._backward(self.forward, batch, info)
        means = Means(info.pieces)
        info = replace(info, means=means)
        summed: dict[str, Tensor] = {}
        learns: set[str] = set()
        for at, views in enumerate(batch):
            means.next()
            self.diagnostics.micro_batch = at
            forward: Any = self.forward
            waits = isinstance(forward, DistributedDataParallel) and at < len(batch) - 1  # the last one syncs
            with forward.no_sync() if waits else nullcontext():
                reported = self._backward(forward, views, info)
            for name, value in reported.items():
                learns |= {name} if value.requires_grad else set()
                summed[name] = summed.get(name, 0) + value.detach() / info.pieces
        self.diagnostics.micro_batch = 0
        if (correction := means.correction) is None:
            return summed
        if gradients := [p.grad for p in self.method.parameters() if p.grad is not None]:
            torch._foreach_mul_(gradients, correction)
        return {name: value * correction if name in learns else value for name, value in summed.items()}

    def _backward(self, forward: Callable[..., dict[str, Tensor]], views: Views, info: Step) -> dict[str, Tensor]:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.spec.train.precision == "bf16"):
            with distributed.reaching():
                reported = forward(views, info)
        with plugin_code(self.method.training_step), distributed.reaching():  # a gradient has no line of its own
            (reported["loss"] / info.pieces).backward()
        return reported

    def trial(self) -> Callable[[], None]:
        """Run forward and backward of a few clips on a copy of the method, to time them on one process."""
        method = copy.deepcopy(self.method)
        views = self.views_of(0, self.order(0)[:TRIAL_CLIPS])

        def work() -> None:
            for turn in method.turns:
                self._backward(method, views, self.step_info(0, turn))

        return work

    def train(
        self,
        report: Report | None = None,
        on_line: Callable[[int, dict[str, float]], None] | None = None,
        on_anomaly: Callable[..., None] | None = None,
        measure: Callable[[], dict[str, float]] = dict,
    ) -> float:
        """Train from the saved state to the end of the schedule; return the seconds of training over all attempts.

        ``report(clips, **fields)`` feeds a progress bar (``note``: a line to print). ``on_line`` and ``on_anomaly``:
        see :class:`~skelbench.training.metrics_log.MetricsLog`. ``measure``: further metrics of a diagnostic step.

        Raises:
            Interrupted: SIGINT, SIGTERM or SIGUSR2 came; the state is saved.
            Diverged: a loss, gradient or weight is not finite; the last good state is kept.
        """
        self.log.on_line, self.log.on_anomaly, self.measure = on_line, on_anomaly, measure
        batch, (start, seconds_before) = self.spec.train.batch_size, self._resume(report)
        started = time.monotonic()
        with stop_requested() as stop_event, nullcontext() if self.rank else self.log.open(), self.freed_memory.kept():
            for step, views in self.batches(start):
                count = step + 1
                with self.diagnostics.record_step(count) as diagnostics:
                    figures = self.train_step(step, views)
                elapsed = time.monotonic() - started
                clock = {
                    "clips_per_s": (count - start) * batch / max(1e-9, elapsed),
                    "seconds": seconds_before + elapsed,
                }
                fields = self._log(count, figures, diagnostics, clock)
                self.freed_memory.trim_if_due()
                if report:
                    report(batch, **fields)
                stop, due = distributed.any_rank(stop_event.is_set(), self.checkpointer.is_due())
                due = due or stop
                if self.checkpointer.writes_after(count, due):
                    self.finite.check_now()
                    self.finite.check_state(self.method, step)
                    self.run.check_held()
                    self.checkpointer.save_after(count, due, clock["seconds"])
                if stop and count < self.total:
                    raise Interrupted(
                        f"stopped after step {count} of {self.total}, state saved in {self.run.path}; run the same "
                        "command again to continue",
                        count,
                    )
                self.stopped_in_last_step = stop
        if not self.rank:
            save_encoders(self.run, self.spec.id, self.method, self.epoch(self.total))
        return seconds_before + time.monotonic() - started

    def _resume(self, report: Report | None) -> tuple[int, float]:
        """Load the saved state; return (steps done, seconds of training before)."""
        start, seconds = self.checkpointer.load()
        if len(starts := set(distributed.all_say(start))) > 1:
            raise SkelbenchError(
                f"the processes of this run see different states of it, after {' and '.join(map(str, sorted(starts)))} "
                f"steps, in {self.run.path}; choose a results directory that all machines share with --results"
            )
        if not self.rank and self.run.metrics.exists():
            self.log.replay()
        self.method.train()
        if report and start:
            report(start * self.spec.train.batch_size, note=f"continuing at step {start:,} of {self.total:,}")
        return start, seconds

    def _log(
        self, count: int, figures: dict[str, Tensor | float], diagnostics: dict[str, float], clock: dict[str, float]
    ) -> dict[str, Any]:
        """Write a line of metrics if one is due; return fields for a progress bar."""
        due = self.log.is_due(count)
        if not due and self.finite.reads_late:  # reading would wait for the device
            return {}
        values = read(figures)
        fields: dict[str, Any] = {"loss": values["loss"]}
        if due:
            self.finite.check_now()
            place = {"step": count, "epoch": self.epoch(count), "clips_seen": count * self.spec.train.batch_size}
            if not self.rank:
                measured = self.measure() if self.diagnostics.is_due(count) else {}
                line = place | values | diagnostics | measured | clock
                fields |= self.log.write(line, values) | measured
        return fields

    def _diverged(self, step: int, quantity: str, value: float) -> NoReturn:
        """Raise :class:`Diverged` for ``quantity`` ("loss", "gradient" or the name of a weight) at ``step``."""
        place = f"became {value} at step {step} of {self.total} (epoch {self.epoch(step):.2f}) in {self.run.path}"
        store = self.source.store
        bad_clip = next((int(i) for i in self.order(step) if not np.isfinite(store.clip(int(i))).all()), None)
        if bad_clip is not None:
            name = self.spec.data.name
            raise Diverged(
                f"clip {bad_clip} of dataset {name} holds coordinates that are not finite, so the {quantity} {place}; "
                f"see all problems with: skelbench data verify {name}, then prepare or import it again",
                step,
            )
        if quantity == "gradient" and not self.finite.reads_late:
            quantity += f" of {nonfinite_gradient(self.method)}"
        state_note = "the last good state is kept; " if self.run.checkpoint.exists() else ""
        advice = "lower --set train.lr, set train.clip_grad, or use --precision fp32, then run again"
        if step == 0:
            step_of_method = where(self.method.training_step) or type(self.method).__name__
            advice = f"no weight has changed yet: look in {step_of_method} for a division by 0 or the logarithm of 0"
        raise Diverged(f"the {quantity} {place}; {state_note}{advice}", step)
