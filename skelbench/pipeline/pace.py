"""Time of a training step, measured once per setting and hardware and kept with the results.

So a budget in minutes gives the same run each time its command is issued.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from skelbench.core import distributed
from skelbench.core.errors import SkelbenchError
from skelbench.core.files import read_json, write_json
from skelbench.core.hashing import digest
from skelbench.core.spec import RunSpec
from skelbench.data.store.clip_store import ClipStore
from skelbench.evaluation.cost.latency import wait_for
from skelbench.models.compile import compile_parts, undo
from skelbench.pipeline.budget import Pace
from skelbench.pipeline.length import lengthless
from skelbench.pipeline.pretrain import settle_threads
from skelbench.pipeline.session import Session
from skelbench.records.environment import hardware
from skelbench.records.run_dir import RunDir
from skelbench.records.store import ResultStore
from skelbench.training.build import build_method
from skelbench.training.loop import Trainer

HOW = ("recompute", "accumulate", "compile")
"""Settings that change the time of a step and not its result: no part of an id."""
WARM_STEPS, WARM_COMPILED = 2, 10
"""Untimed first steps, plain and compiled."""
LEAST_STEPS = 2
MOST_STEPS = 200
SECONDS = 3.0
"""Steps are timed for so long, within the least and the most number."""


class Timer:
    """Times steps of a spec, or remembers how long they took."""

    def __init__(self, session: Session, keep: bool) -> None:
        self.session, self.keep = session, keep
        self._timed: dict[Path, Pace] = {}

    def __call__(self, spec: RunSpec, store: ClipStore) -> Pace:
        """The pace of ``spec`` on the session's device, kept below the results directory if that is wanted."""
        alike, place = lengthless(spec), hardware(self.session.device)
        path = path_of(self.session.results, alike, place)
        if path.exists():
            return _read(path)
        if path not in self._timed:
            if distributed.active():
                raise SkelbenchError(
                    "--budget minutes: steps are timed by one process; issue the command once without torchrun, or "
                    "give a budget of clips, steps or flops"
                )
            seconds, steps = self._seconds_per_step(alike, store)
            if self.keep:
                self.session.results.prepare()
                path.parent.mkdir(exist_ok=True)
                facts = {"seconds_per_step": seconds, "steps": steps, "hardware": place, "made": time.time()}
                if not path.exists():  # another command may have been first meanwhile
                    write_json(path, {**facts, "spec": alike.model_dump(mode="json")})
                return _read(path)
            self._timed[path] = Pace(
                seconds, f"(mean of {steps}, timed now; a run times again and keeps what it finds)"
            )
        return self._timed[path]

    def _seconds_per_step(self, spec: RunSpec, store: ClipStore) -> tuple[float, int]:
        """Mean time and number of steps, from the middle of each phase on; their results are dropped."""
        threads = torch.get_num_threads()
        method = build_method(spec, self.session.host, store.topology, self.session.device)
        run = RunDir(Path("a timed trial"))
        trainer = Trainer(spec, method, store, run, self.session.device)
        method.train()
        try:
            settle_threads(trainer, run)
            compiled, _ = compile_parts(trainer.method, trainer.device, spec.train.compile)
            warm, mean, steps = WARM_COMPILED if compiled else WARM_STEPS, 0.0, 0
            with self.session.progress(label=f"{spec.method}: timing steps", unit="steps") as report:
                for middle, share in trainer.phase_midpoints:
                    seconds, done = _timed(trainer, middle, warm, report)
                    mean, steps = mean + share * seconds / done, steps + done
                report(0, total=steps + warm * len(trainer.phase_midpoints))
        finally:
            undo(trainer.device)
            torch.set_num_threads(threads)
        return mean, steps


def _timed(trainer: Trainer, first: int, warm: int, report: Callable[[], Any]) -> tuple[float, int]:
    """(seconds, steps) from step ``first`` on, after ``warm`` untimed steps."""
    started, done, seconds = time.perf_counter(), -warm, 0.0
    for step, views in trainer.batches(first):
        trainer.train_step(step, views)
        wait_for(trainer.device)
        report()
        done += 1
        if done == 0:
            started = time.perf_counter()
        seconds = time.perf_counter() - started
        if done >= LEAST_STEPS and (seconds >= SECONDS or done >= MOST_STEPS):
            break
    return seconds, done


def path_of(results: ResultStore, spec: RunSpec, hardware: str) -> Path:
    """File of the pace of ``spec`` on ``hardware`` by the given settings :data:`HOW`."""
    told = {name: getattr(spec.train, name) for name in HOW if getattr(spec.train, name) != "auto"}
    return results.root / "pace" / f"{digest([lengthless(spec).id, hardware, *([told] if told else [])])}.json"


def _read(path: Path) -> Pace:
    try:
        facts = read_json(path)
        seconds, steps = float(facts["seconds_per_step"]), int(facts["steps"])
        if not 0 < seconds < float("inf"):
            raise ValueError(f"{seconds} seconds per step")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SkelbenchError(f"{path} is damaged; remove it, and steps are timed again") from error
    return Pace(seconds, f"(mean of {steps}, kept in {path}: remove it to time again)")
