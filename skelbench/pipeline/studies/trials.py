"""The trials of a study as complete runs, how far each is, and how long the rest takes."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from skelbench.core.errors import SkelbenchError, did_you_mean, nearest
from skelbench.core.hashing import digest
from skelbench.core.spec import RunSpec
from skelbench.data.store.clip_store import ClipStore
from skelbench.pipeline.controls import control
from skelbench.pipeline.evaluate import eval_spec
from skelbench.pipeline.evaluate_with_controls import costed
from skelbench.pipeline.length import Timer, lengthless
from skelbench.pipeline.request import Request
from skelbench.pipeline.resolve import Resolved, resolve
from skelbench.pipeline.session import Session
from skelbench.pipeline.studies.run_status import at_work, trained
from skelbench.pipeline.studies.study import TRIAL, Study
from skelbench.plugin.host import Host
from skelbench.records.run_dir import RunDir
from skelbench.training.loop import total_steps

_PLACES = {
    "data.name": ("dataset", "data.name"),
    "data.split": ("split", "data.split"),
    **{key: ("tokens", f"grid.{name}") for name in ("frames", "patch") for key in (name, f"grid.{name}")},
}
"""Settings that a key of a trial speaks of as well -> that key, and the setting's full name."""


@dataclass(frozen=True)
class Trial:
    """One run of a study: the unit of work."""

    request: Request
    resolved: Resolved
    twin: Resolved | None
    """Its untrained twin; None for a method that does not train."""
    settings: str = ""
    """The settings in which the trials of its study differ, ``train.lr=0.001``; "" = none."""

    @property
    def id(self) -> str:
        """The pretrain_id."""
        return self.resolved.spec.id

    @property
    def method(self) -> str:
        """As it is typed: ``slim:glcl-only``."""
        return self.request.method

    @property
    def title(self) -> str:
        """What tells it from the others: method, temporal tokens, varied settings, seed."""
        parts = (self.method, f"{self.resolved.spec.tokens}t", self.settings, f"s{self.resolved.spec.seed}")
        return " ".join(filter(None, parts))

    @property
    def steps(self) -> int:
        """Of the whole schedule."""
        spec = self.resolved.spec
        if not self.resolved.method.trains:
            return 0
        return total_steps(spec, len(self.resolved.store.split(spec.data.split, spec.data.min_frames).train))

    @property
    def clips(self) -> int:
        """Clips seen in training."""
        return self.steps * self.resolved.spec.train.batch_size

    @property
    def setting(self) -> str:
        """What the trial shares with its other seeds."""
        return self.resolved.spec.model_copy(update={"seed": 0}).id


def complete(study: Study, host: Host, data_root: Path, device: str, timer: Timer | None = None) -> list[Trial]:
    """Every trial of ``study`` resolved, equal ones once, in the order in which they are run; ``timer`` for budgets of
    minutes."""
    trials: dict[str, Trial] = {}
    for trial in each(study, host, data_root, device, timer):
        # Of two names of one run (a variant that changes nothing here) the plain one is kept.
        if trial.id not in trials or (trials[trial.id].resolved.variant and not trial.resolved.variant):
            trials[trial.id] = trial
    return list(trials.values())


def each(study: Study, host: Host, data_root: Path, device: str, timer: Timer | None = None) -> list[Trial]:
    """Every trial of ``study`` resolved, one per request, in the order of its requests.

    The first trial that cannot be run raises SkelbenchError naming it; nothing is written.
    """
    varied = [key for key in study.varied() if key not in ("method", "tokens")]
    trials: list[Trial] = []
    stores: dict[str, ClipStore] = {}
    for request in study.requests(gpu=device.startswith("cuda")):
        values = {key: getattr(request, key) for key in TRIAL} | dict(request.sets)
        settings = " ".join(f"{key}={values[key]}" for key in varied if values.get(key) is not None)
        try:
            _check_agrees(request)
            resolved = resolve(request, host, data_root, device, timer)
            # One open store per data set: a thousand would be more files than a process may have open.
            store = stores.setdefault(f"{resolved.store.path} {resolved.store.fingerprint}", resolved.store)
            resolved = replace(resolved, store=store)
            twin = control(resolved, host) if resolved.method.trains else None
        except SkelbenchError as error:
            tokens = f"{request.tokens}t" if request.tokens is not None else ""
            where = " ".join(filter(None, (request.method, tokens, settings, f"s{request.seed}")))
            raise SkelbenchError(f"trial {where}: {_sentence(error, request)}") from error
        trials.append(Trial(request, resolved, twin, settings))
    return trials


def _check_agrees(request: Request) -> None:
    """A setting that its key of a trial would silently outdo is refused."""
    for key, value in request.sets.items():
        place, full = _PLACES.get(key, ("", ""))
        if place and request.direct.get(full, value) != value:
            other = getattr(request, place)
            raise SkelbenchError(f"{key}={value} and {place}={other} do not agree; leave out one of the two")


def _sentence(error: SkelbenchError, request: Request) -> str:
    """What is wrong; a misspelt key may have been meant for one of the trial's own instead of a setting."""
    for key in request.sets:
        if f"unknown setting {key!r}" in str(error) and nearest(key, TRIAL):
            return did_you_mean(key, TRIAL, "key")
    return str(error)


@dataclass(frozen=True)
class Status:
    """How far a trial is."""

    state: str
    """done, probes missing, interrupted, diverged, failed, running (by another process), or new."""
    share: float = 0.0
    """Of its training, 0..1."""
    run: RunDir | None = None

    @property
    def done(self) -> bool:
        return self.state == "done"

    def __str__(self) -> str:
        stopped = self.state in ("interrupted", "diverged", "failed", "running")
        why = f": {self.run.reason}" if stopped and self.run and self.run.reason else ""
        return f"{self.state} at {100 * self.share:.0f} %{why}" if stopped else self.state


def status(trial: Trial, session: Session, protocols: Iterable[str]) -> Status:
    """How far ``trial`` is: done is trained, probed, its untrained twin as well, and costed unless it is of tuning or
    cannot be."""
    spec = trial.resolved.spec
    run = session.results.by_id(spec.id)
    if run is None:
        return Status("new")
    if run.outcome != "done":
        share = trained(run, trial.clips)
        if at_work(run):
            return Status("running", share, run)
        # A run that was killed never came to say so, and goes on from its last saved state.
        state = {"running": "interrupted"}.get(run.outcome, run.outcome)
        return Status(state, share if run.checkpoint.exists() else 0.0, run)
    twin = session.results.by_id(trial.twin.spec.id) if trial.twin else None
    counted = run.cost_path.exists() or "uncounted" in run.info or not costed(spec)
    there = counted and (trial.twin is None or (twin and twin.outcome == "done"))
    for name in protocols:
        for where in filter(None, (run, twin)):
            there = there and where.record_path(eval_spec(session.host, where, name, like=trial.resolved)).exists()
    return Status("done" if there else "probes missing", 1.0, run)


def recognise(trial: Trial, state: Status, session: Session) -> None:
    """A run that was made with settings typed one by one gets the preset and variant by which ``trial`` asks for it,
    and one of another budget of the same length that of ``trial``: otherwise it would count as done, and no table show
    it beside the others."""
    resolved = trial.resolved
    if state.run is not None and state.run.info["modified"] != resolved.modified:
        facts = {"budget": resolved.length.record()} if resolved.length else {}
        session.results.open(
            resolved.spec, resolved.preset, resolved.modified, facts, resolved.setting, resolved.variant
        )


@dataclass(frozen=True)
class Price:
    """What a trial costs; None where it could not be found out."""

    flops_per_clip: float | None = None
    seconds: float | None = None


def prices(
    trials: Iterable[Trial], timed: Iterable[Trial], session: Session, report: Callable[[int], object]
) -> dict[str, Price]:
    """Step FLOPs per clip of each distinct setting of ``trials`` and, of those ``timed``, seconds of
    training; by ``setting``.

    Counted on shapes and timed on a few real steps, once for all that step alike; nothing is written. A method whose
    step fails has no price.
    """
    from skelbench.evaluation.cost.report import step_cost
    from skelbench.pipeline.estimate import estimate

    priced: dict[str, Price] = {}
    per_step: dict[tuple[str, float], float] = {}
    settings = {trial.setting for trial in timed}
    for trial in trials:
        if trial.setting in priced:
            continue
        price = Price(0.0, 0.0)
        if trial.resolved.method.trains:
            spec, store = trial.resolved.spec, trial.resolved.store
            price = Price()
            try:
                flops = step_cost(spec, session.host, store.topology)["flops_per_clip"]
                price = Price(flops)
                if trial.setting in settings:
                    alike = (_step(spec), flops)
                    if alike not in per_step:
                        found = estimate(spec, session.host, store, session.device, flops)
                        per_step[alike] = found.seconds / max(1, found.steps)
                    price = Price(flops, per_step[alike] * trial.steps)
            except Exception:  # a stranger's code: that it fails is for the run itself to say
                pass
        priced[trial.setting] = price
        report(1)
    return priced


def _step(spec: RunSpec) -> str:
    """What decides how long a step of known FLOPs takes: all but length, seed, rates, weights and temperatures."""
    plain = lengthless(spec).model_dump(mode="json")

    def without(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: without(inner) for key, inner in value.items() if not isinstance(inner, float)}
        return value

    return digest(without(plain))


def makespan(seconds: Iterable[float], jobs: int) -> float:
    """Seconds until all is done when ``jobs`` work through a list in its order."""
    free = [0.0] * jobs
    for one in seconds:
        heapq.heappush(free, heapq.heappop(free) + one)
    return max(free)
