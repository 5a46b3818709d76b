"""Estimated time of a run, from a few real steps on a small batch."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import torch

from skelbench.core.spec import RunSpec
from skelbench.data.store.clip_store import ClipStore
from skelbench.evaluation.cost.latency import wait_for
from skelbench.plugin.host import Host
from skelbench.records.run_dir import RunDir
from skelbench.training.build import build_method
from skelbench.training.loop import Trainer, total_steps

BUDGET_FLOPS = {"cpu": 2e10, "cuda": 5e13}
"""FLOPs of the larger timed step: about a second on a CPU core; on a GPU longer than launching its kernels."""
TIMED = {"cpu": 1, "cuda": 3}
"""Steps that are timed; the shortest counts."""


@dataclass(frozen=True)
class Estimate:
    """Duration of a training."""

    steps: int
    seconds: float
    basis: str
    """Batch sizes that were timed."""


def _seconds(trainer: Trainer, step: int) -> float:
    wait_for(trainer.device)
    started = time.perf_counter()
    trainer.train_step(step, trainer.views(step))
    wait_for(trainer.device)
    return time.perf_counter() - started


def estimate(spec: RunSpec, host: Host, store: ClipStore, device: str, flops_per_clip: float) -> Estimate:
    """Time steps of two small batch sizes, about a second of work, and extrapolate linearly in clips.

    Nothing is compiled here, so compiled training is faster.
    """
    steps = total_steps(spec, len(store.split(spec.data.split, spec.data.min_frames).train))
    method = build_method(spec, host, store.topology, device)
    kind = torch.device(device).type
    large = int(max(2 * method.min_clips, min(spec.train.batch_size, BUDGET_FLOPS[kind] / flops_per_clip)))
    sizes = (large // 2, large)
    times = []
    for batch in sizes:
        small = spec.model_copy(update={"train": spec.train.model_copy(update={"batch_size": batch, "accumulate": 1})})
        trainer = Trainer(small, method, store, RunDir(Path("unused")), device)
        times.append(0.0)
        for middle, share in trainer.phase_midpoints:
            if not times[:-1] or kind == "cuda":  # kernels are chosen for each size
                _seconds(trainer, middle)
            times[-1] += share * min(_seconds(trainer, middle + 1 + step) for step in range(TIMED[kind]))
    per_clip = max(times[1] - times[0], times[1] / large / 4) / (large - large // 2)
    fixed = max(0.0, times[1] - large * per_clip)
    seconds = steps * (fixed + spec.train.batch_size * per_clip)
    return Estimate(steps, seconds, f"from steps of {sizes[0]} and {sizes[1]} clips")
