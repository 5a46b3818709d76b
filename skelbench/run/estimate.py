"""How long and how large a run will be, from a few real steps on a small batch."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import torch

from skelbench.cost.latency import wait_for
from skelbench.data.store.clip_store import ClipStore
from skelbench.plugin.host import Host
from skelbench.results.store import RunDir
from skelbench.spec import RunSpec
from skelbench.train.build import build_method
from skelbench.train.loop import Trainer, total_steps

BUDGET_FLOPS = 2e11
"""Work of the larger timed step: a second or two on two CPU cores."""


@dataclass(frozen=True)
class Estimate:
    steps: int
    seconds: float
    memory_bytes: float
    basis: str


def estimate(spec: RunSpec, host: Host, store: ClipStore, device: str, flops_per_clip: float) -> Estimate:
    """Time steps of two batch sizes, as large as a second or two allows, and extrapolate linearly in clips.

    Memory: parameters, gradients, two AdamW moments and buffers, plus the bytes that autograd keeps per clip.
    """
    clips = len(store.split(spec.data.split, spec.data.min_frames).train)
    steps = total_steps(spec, clips)
    method = build_method(spec, host, store.topology, device)
    held = sum(p.numel() * p.element_size() * (4 if p.requires_grad else 1) for p in method.parameters())
    large = int(max(2 * method.min_clips, min(spec.train.batch_size, BUDGET_FLOPS / flops_per_clip)))
    sizes = (large // 2, large)
    times, kept = [], []
    for batch in sizes:
        small = spec.model_copy(update={"train": spec.train.model_copy(update={"batch_size": batch})})
        trainer = Trainer(small, method, store, RunDir(Path("unused")), device)
        views = trainer.views(0)
        saved = _Saved()
        with saved:
            trainer.train_step(0, views)
        wait_for(torch.device(device))
        started = time.perf_counter()
        trainer.train_step(1, trainer.views(1))
        wait_for(torch.device(device))
        times.append(time.perf_counter() - started)
        kept.append(saved.bytes)
    per_clip = max(times[1] - times[0], times[1] / large / 4) / (large - large // 2)
    fixed = max(0.0, times[1] - large * per_clip)
    per_clip_bytes = max(0, kept[1] - kept[0]) / (large - large // 2)
    batch = spec.train.batch_size
    return Estimate(
        steps=steps,
        seconds=steps * (fixed + batch * per_clip),
        memory_bytes=held + batch * per_clip_bytes,
        basis=f"from steps of {sizes[0]} and {sizes[1]} clips",
    )


class _Saved(torch.autograd.graph.saved_tensors_hooks):
    """Counts the bytes of distinct tensors that autograd keeps for the backward pass."""

    def __init__(self) -> None:
        self.bytes = 0
        seen: set[int] = set()

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in seen:
                seen.add(storage.data_ptr())
                self.bytes += storage.nbytes()
            return tensor

        super().__init__(pack, lambda tensor: tensor)
