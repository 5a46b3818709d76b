"""How long and how large a run will be, from a few real steps on a small batch."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import torch

from skelbench.core.spec import RunSpec
from skelbench.data.store.clip_store import ClipStore
from skelbench.evaluation.cost.latency import wait_for
from skelbench.pipeline.memory import MUCH, free_bytes, run_bytes, table
from skelbench.plugin.host import Host
from skelbench.records.run_dir import RunDir
from skelbench.training.build import build_method
from skelbench.training.loop import Trainer, total_steps

BUDGET_FLOPS = {"cpu": 2e11, "cuda": 5e13}
"""Work of the larger timed step: a second or two on two CPU cores; on a GPU so much that it takes longer than to issue
its operations does."""
TIMED = {"cpu": 1, "cuda": 3}
"""Steps that are timed, of which the shortest counts."""


@dataclass(frozen=True)
class Estimate:
    steps: int
    seconds: float
    memory_bytes: float
    memory: dict[str, dict[str, float]]
    """The same by precision and by whether blocks are ``kept`` or ``recomputed``, if it was asked for."""
    basis: str


def _least(trainer: Trainer, first: int, times: int) -> float:
    """Seconds of the shortest of so many steps after the step ``first``."""
    trainer.train_step(first, trainer.views(first))
    each = []
    for step in range(first + 1, first + 1 + times):
        wait_for(trainer.device)
        started = time.perf_counter()
        trainer.train_step(step, trainer.views(step))
        wait_for(trainer.device)
        each.append(time.perf_counter() - started)
    return min(each)


def estimate(
    spec: RunSpec, host: Host, store: ClipStore, device: str, flops_per_clip: float, ways: bool = False
) -> Estimate:
    """Time steps of two batch sizes, as large as a second or two (and half of a GPU's free memory) allows, and
    extrapolate linearly in clips. Nothing is compiled for it, so that compiled training is faster.

    ``ways``: say of a run that takes ``MUCH`` memory what it would take in the other ways of training too.
    """
    clips = len(store.split(spec.data.split, spec.data.min_frames).train)
    steps = total_steps(spec, clips)
    method = build_method(spec, host, store.topology, device)
    whole = Trainer(spec, method, store, RunDir(Path("unused")), device)
    way = spec.train.precision, whole.recomputes
    memory = run_bytes(whole, *way, flops_per_clip)
    kind, free, most = torch.device(device).type, free_bytes(whole.device), float(spec.train.batch_size)
    if free is not None:
        most = min(most, most / whole.pieces * 0.5 * free / memory)  # what is timed is taken in one piece
    large = int(max(2 * method.min_clips, min(most, BUDGET_FLOPS[kind] / flops_per_clip)))
    sizes = (large // 2, large)
    times = []
    for batch in sizes:
        small = spec.model_copy(update={"train": spec.train.model_copy(update={"batch_size": batch, "accumulate": 1})})
        trainer = Trainer(small, method, store, RunDir(Path("unused")), device)
        times.append(sum(share * _least(trainer, middle, TIMED[kind]) for middle, share in trainer.middles))
    per_clip = max(times[1] - times[0], times[1] / large / 4) / (large - large // 2)
    fixed = max(0.0, times[1] - large * per_clip)
    batch = spec.train.batch_size
    return Estimate(
        steps=steps,
        seconds=steps * (fixed + batch * per_clip),
        memory_bytes=memory,
        memory=table(whole, flops_per_clip, {way: memory}) if ways and memory >= MUCH else {},
        basis=f"from steps of {sizes[0]} and {sizes[1]} clips",
    )
