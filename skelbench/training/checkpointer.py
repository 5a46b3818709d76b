"""When a run saves its state and the snapshots of its encoder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event

from torch import nn

from skelbench.core import distributed
from skelbench.core.errors import PeerLost, SkelbenchError, StoppedByLostPeer
from skelbench.core.spec import RunSpec
from skelbench.methods.contract import Method
from skelbench.records.run_dir import RunDir
from skelbench.records.state_file import write_state
from skelbench.training.checkpoint import ANEW, cut_back, load_state, save_encoders, synced
from skelbench.training.optimization import Optimization

SNAPSHOTS = 4
"""The encoder is kept after each quarter of the schedule."""
CHECKPOINT_SECONDS = 120.0
"""A state is saved at least this often."""


class Checkpointer:
    """Save and restore a run of ``total`` steps; only the first process writes. ``epoch(step)``: epochs after steps."""

    def __init__(
        self,
        run: RunDir,
        spec: RunSpec,
        method: Method,
        optimization: Optimization,
        total: int,
        epoch: Callable[[int], float],
    ) -> None:
        self.run, self.spec, self.method, self.optimization = run, spec, method, optimization
        self.total, self.epoch = total, epoch
        self.snapshot_steps = {round(total * k / SNAPSHOTS) for k in range(1, SNAPSHOTS)} - {0}
        self._last_save = time.monotonic()
        self._complete: tuple[int, list[int] | None] = 0, None
        """(last complete step, version counters of the weights then); None while a step changes weights."""

    def load(self) -> tuple[int, float]:
        """Continue from last.pt if there is one; return (steps done, seconds of training)."""
        if not self.run.checkpoint.exists():
            cut_back(self.run.metrics, 0)
            return 0, 0.0
        state = load_state(self.run.checkpoint, self.spec.id)
        try:
            self.method.load_state_dict(state["method"])
            size, step, seconds = int(state["metrics_bytes"]), int(state["step"]), float(state["seconds"])
            if step < self.total:
                self.optimization.load_state_dict(state["optimizer"])
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise SkelbenchError(f"checkpoint {self.run.checkpoint} does not fit this run; {ANEW}") from error
        if not distributed.rank():
            cut_back(self.run.metrics, size)
        return step, seconds

    def is_due(self) -> bool:
        """Whether the last state was saved too long ago."""
        return time.monotonic() - self._last_save > CHECKPOINT_SECONDS

    def writes_after(self, step: int, due: bool) -> bool:
        """Whether :meth:`save_after` will write anything."""
        return due or step == self.total or step in self.snapshot_steps

    def save_after(self, step: int, due: bool, seconds: float) -> None:
        """Write the snapshot of ``step`` if it is one, and the state if it is ``due`` or the last one."""
        if step in self.snapshot_steps and not distributed.rank():
            save_encoders(self.run, self.spec.id, self.method, self.epoch(step), f"{self.epoch(step):.4g}")
        if due or step == self.total:
            if not distributed.rank() and not self.run.metrics.exists():  # without it the state could not be resumed
                raise SkelbenchError(f"{self.run.path} was removed during training; run the same command again")
            self.save(step, seconds)

    def save(self, step: int, seconds: float) -> None:
        """Write the state after ``step`` steps; the last state has no optimizer."""
        self._last_save = time.monotonic()
        if distributed.rank():
            return
        metrics_bytes = synced(self.run.metrics)
        state = {"id": self.spec.id, "step": step, "seconds": seconds, "metrics_bytes": metrics_bytes}
        state |= {"method": self.method.state_dict()}
        state |= {"optimizer": self.optimization.state_dict()} if step < self.total else {}
        write_state(self.run.checkpoint, state)

    def mark_complete(self, step: int) -> None:
        """Note that weights, buffers and optimizer are those after ``step`` steps."""
        self._complete = step, self._versions()

    def mark_incomplete(self) -> None:
        """Note that a step is changing weights. Fused optimizers do not raise the version counters of tensors."""
        self._complete = self._complete[0], None

    def _versions(self) -> list[int]:
        return [x._version for x in _tensors(self.method)]

    @contextmanager
    def saving_on_lost_peer(self, stop: Event, seconds: Callable[[], float]) -> Iterator[None]:
        """Save on the CPU the last complete step if another process is lost within, then end.

        On a GPU nothing can be saved: the operation that waits for the lost process blocks the stream. ``stop`` is set
        if anything ends the training, so that later signals do not interrupt what follows.
        """
        try:
            yield
        except PeerLost as error:
            stop.set()
            step, versions = self._complete
            on_cpu = all(x.device.type == "cpu" for x in _tensors(self.method))
            saved = not distributed.rank() and on_cpu and versions == self._versions()
            if saved:
                self.save_after(step, True, seconds())
            where = f"state saved in {self.run.path}" if saved else f"the last saved state is in {self.run.path}"
            raise StoppedByLostPeer(
                f"{error}; stopped after step {step} of {self.total}, {where}; run the same command again to continue",
                step,
            ) from error
        except BaseException:
            stop.set()
            raise


def _tensors(module: nn.Module) -> list:
    return [*module.parameters(), *module.buffers()]
