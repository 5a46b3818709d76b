"""When a run saves its state and the snapshots of its encoder."""

from __future__ import annotations

import time
from collections.abc import Callable

from skelbench.core import distributed
from skelbench.core.errors import SkelbenchError
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
