"""Training state and weights on disk: atomic files, loaded without running code."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save
from torch import nn

from skelbench.core import distributed
from skelbench.core.errors import SkelbenchError
from skelbench.core.files import check_regular, write_atomic
from skelbench.core.spec import RunSpec
from skelbench.methods.contract import Method
from skelbench.records.run_dir import RunDir
from skelbench.records.state_file import read_state, write_state
from skelbench.training.optimization import Optimization

ANEW = "remove it, or use --force, to start the run again"
WITHOUT_LOG = "restore it, or remove it to continue the run without what was logged"
SNAPSHOTS = 4
"""Number of parts of the schedule: the encoder is kept after each quarter."""
CHECKPOINT_SECONDS = 120.0
"""Longest time in seconds between two saved states."""


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


def load_state(path: Path, run_id: str) -> dict[str, Any]:
    """Read the training state of the run ``run_id``, on the CPU."""
    try:
        return read_state(path, run_id, "run")
    except Exception as error:
        raise SkelbenchError(f"checkpoint {path} is damaged; {ANEW}") from error


def save_weights(path: Path, module: nn.Module, facts: dict[str, Any]) -> None:
    """Write a module's parameters and buffers as safetensors, with ``facts`` as JSON metadata."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in module.state_dict().items()}
    content = save(tensors, metadata={"skelbench": json.dumps(facts, sort_keys=True)})
    write_atomic(path, lambda file: file.write(content))


def save_encoders(run: RunDir, run_id: str, method: Method, epoch: float | None, checkpoint: str = "last") -> None:
    """Write the inference encoder of ``method``, and the encoders of streams that have their own."""
    encoders = {"": method.inference_encoder(), **method.inference_encoders()}
    for stream, encoder in encoders.items():
        if not stream or encoder is not encoders[""]:
            save_weights(run.encoder_path(checkpoint, stream), encoder, {"id": run_id, "epoch": epoch})


def tensor_names(path: Path) -> set[str]:
    """Tensors in a file that :func:`save_weights` wrote."""
    try:
        check_regular(path)
        with safe_open(path, "pt") as file:
            return set(file.keys())
    except Exception as error:
        raise SkelbenchError(f"weights {path} are missing or damaged; run the training again with --force") from error


def load_weights(path: Path, module: nn.Module, run_id: str, optional: Collection[str] = ()) -> None:
    """Load what :func:`save_weights` wrote of run ``run_id``. Tensors named ``optional`` may be on one side only."""
    try:
        check_regular(path)
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}
            facts = json.loads(file.metadata()["skelbench"])
        if facts["id"] != run_id:
            raise ValueError("they are another run's")
    except Exception as error:
        raise SkelbenchError(f"weights {path} are missing or damaged; run the training again with --force") from error
    own = module.state_dict()
    for name in optional:
        if (name in tensors) != (name in own):
            tensors = {**tensors, name: own[name]} if name in own else {k: x for k, x in tensors.items() if k != name}
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        raise SkelbenchError(f"weights {path} do not fit the encoder of this run; run it again with --force") from error


def synced(metrics: Path) -> int:
    """Sync metrics.jsonl to the disk and return its size: a state must not exist without the lines logged before it."""
    if not metrics.exists():
        return 0
    with open(metrics, "rb") as file:
        os.fsync(file.fileno())
        return os.fstat(file.fileno()).st_size


def cut_back(metrics: Path, size: int) -> None:
    """Shorten metrics.jsonl to ``size`` bytes: what was logged after the checkpoint is logged again."""
    if metrics.is_file():
        with open(metrics, "r+b") as file:
            if os.fstat(file.fileno()).st_size < size:
                raise SkelbenchError(f"{metrics} is damaged (lines are missing); {WITHOUT_LOG}")
            file.truncate(size)
