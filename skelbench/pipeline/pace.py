"""Time of training steps on this machine: for budgets in minutes, and estimates of whole runs.

The time behind a budget is kept with the results, so the same command gives the same run again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import torch

from skelbench.core import distributed
from skelbench.core.errors import SkelbenchError
from skelbench.core.files import read_json, write_json
from skelbench.core.hashing import digest
from skelbench.core.spec import RunSpec
from skelbench.data.store.clip_store import ClipStore
from skelbench.evaluation.cost.latency import wait_for
from skelbench.pipeline.budget import Pace
from skelbench.pipeline.length import lengthless
from skelbench.pipeline.pretrain import settle_threads
from skelbench.pipeline.session import Session
from skelbench.plugin.host import Host
from skelbench.records.environment import hardware
from skelbench.records.run_dir import RunDir
from skelbench.training.build import build_method
from skelbench.training.compiled import compile_parts
from skelbench.training.loop import Trainer, total_steps

HOW = ("recompute", "accumulate", "compile")
"""Settings that change the time of a step but not its result: they are not part of an id."""
WARM_STEPS = 2
"""Untimed first steps."""
LEAST_STEPS, MOST_STEPS, SECONDS = 2, 200, 3.0
"""Steps are timed for SECONDS, but at least LEAST_STEPS and at most MOST_STEPS."""
ESTIMATE_FLOPS = {"cpu": 1e10, "cuda": 5e13}
"""FLOPs of the larger estimated step: half a second on a CPU core; on a GPU longer than launching its kernels."""
ESTIMATE_STEPS = {"cpu": 1, "cuda": 3}
"""Steps of an estimate that are timed; the shortest counts."""
_NO_RUN = RunDir(Path("a timed trial"))


@dataclass(frozen=True)
class Timer:
    """Times steps of a spec on the session's device; ``keep``: write the time below the results directory."""

    session: Session
    keep: bool

    def __call__(self, spec: RunSpec, store: ClipStore) -> Pace:
        """Return the stored time of a step, else measure it."""
        alike, place = lengthless(spec), hardware(self.session.device)
        fixed = {name: getattr(spec.train, name) for name in HOW if getattr(spec.train, name) != "auto"}
        key = digest([alike.id, place, *([fixed] if fixed else [])])
        path = self.session.results.root / "pace" / f"{key}.json"
        if not path.exists():
            if distributed.active():
                raise SkelbenchError(
                    "--budget minutes: steps are timed by one process; issue the command once without torchrun, or "
                    "give a budget of clips, steps or flops"
                )
            seconds = self._seconds_per_step(alike, store)
            if not self.keep:
                return Pace(seconds, "(timed now; a run measures and stores the time again)")
            self.session.results.prepare()
            path.parent.mkdir(exist_ok=True)
            facts = {"seconds_per_step": seconds, "hardware": place, "made": time.time()}
            write_json(path, {**facts, "spec": alike.model_dump(mode="json")})
        return Pace(float(read_json(path)["seconds_per_step"]), f"(stored in {path}: remove it to time again)")

    def _seconds_per_step(self, spec: RunSpec, store: ClipStore) -> float:
        """Mean over phases of the time of a step in the middle of each phase; results of these steps are dropped."""
        threads, device = torch.get_num_threads(), self.session.device
        trainer = Trainer(spec, build_method(spec, self.session.host, store.topology, device), store, _NO_RUN, device)
        trainer.method.train()
        mean = 0.0
        try:
            settle_threads(trainer, _NO_RUN)
            compile_parts(trainer.method, trainer.device, spec.train.compile, spec.train.precision)
            with self.session.progress(label=f"{spec.method}: timing steps", unit="steps") as report:
                for middle, share in trainer.phase_midpoints:
                    times: list[float] = []
                    started = time.perf_counter()
                    for step, views in trainer.batches(middle):
                        trainer.train_step(step, views)
                        wait_for(trainer.device)
                        times.append(time.perf_counter() - started)
                        started = time.perf_counter()
                        report()
                        timed = times[WARM_STEPS:]
                        if len(timed) >= LEAST_STEPS and (sum(timed) >= SECONDS or len(timed) >= MOST_STEPS):
                            break
                    timed = times[WARM_STEPS:] or times
                    mean += share * sum(timed) / len(timed)
        finally:
            torch.set_num_threads(threads)
        return mean


@dataclass(frozen=True)
class Estimate:
    """Duration of a training."""

    steps: int
    seconds: float
    basis: str
    """Batch sizes that were timed."""


def estimate(spec: RunSpec, host: Host, store: ClipStore, device: str, flops_per_clip: float) -> Estimate:
    """Time steps of two small batch sizes, and extrapolate linearly in clips.

    Nothing is compiled here, so compiled training is faster.
    """
    steps = total_steps(spec, len(store.split(spec.data.split, spec.data.min_frames).train))
    method = build_method(spec, host, store.topology, device)
    kind = torch.device(device).type
    large = int(max(2 * method.min_clips, min(spec.train.batch_size, ESTIMATE_FLOPS[kind] / flops_per_clip)))
    sizes = (large // 2, large)
    times = []
    for batch in sizes:
        small = spec.model_copy(update={"train": spec.train.model_copy(update={"batch_size": batch, "accumulate": 1})})
        trainer = Trainer(small, method, store, _NO_RUN, device)
        times.append(0.0)
        for middle, share in trainer.phase_midpoints:
            warm = kind == "cuda" or not times[:-1]  # a GPU chooses kernels for each size
            durations = [_seconds(trainer, middle + step) for step in range(warm + ESTIMATE_STEPS[kind])]
            times[-1] += share * min(durations[warm:])
    per_clip = max(times[1] - times[0], times[1] / large / 4) / (large - large // 2)
    fixed = max(0.0, times[1] - large * per_clip)
    seconds = steps * (fixed + spec.train.batch_size * per_clip)
    return Estimate(steps, seconds, f"from steps of {sizes[0]} and {sizes[1]} clips")


def _seconds(trainer: Trainer, step: int) -> float:
    """Time of the views and passes of one step. No update: it would load PyTorch's compiler, which takes seconds."""
    wait_for(trainer.device)
    started = time.perf_counter()
    views = trainer.views(step)
    for turn in trainer.method.turns:
        trainer.gradients(views, trainer.step_info(step, turn, 1 if isinstance(views, dict) else len(views)))
    wait_for(trainer.device)
    return time.perf_counter() - started
