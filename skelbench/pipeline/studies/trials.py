"""The trials of a study as resolved runs, their progress and their cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.controls import control, costed
from skelbench.pipeline.evaluate import eval_spec
from skelbench.pipeline.length import Timer
from skelbench.pipeline.request import Request
from skelbench.pipeline.resolve import Resolved, resolve
from skelbench.pipeline.session import Session
from skelbench.pipeline.studies.run_status import at_work, trained
from skelbench.pipeline.studies.study import TRIAL, Study
from skelbench.plugin.host import Host
from skelbench.records.run_dir import RunDir
from skelbench.training.loop import total_steps


@dataclass(frozen=True)
class Trial:
    """One run of a study: the unit of work."""

    request: Request
    resolved: Resolved
    baseline: Resolved | None
    """Its untrained baseline; None for a method that does not train."""
    settings: str = ""
    """The settings in which the trials of its study differ, ``train.lr=0.001``; "" = none."""

    @property
    def id(self) -> str:
        """The pretrain_id."""
        return self.resolved.spec.id

    @property
    def method(self) -> str:
        """Name as the user types it: ``slim:glcl-only``."""
        return self.request.method

    @property
    def title(self) -> str:
        """Method, temporal tokens, varied settings and seed."""
        parts = (self.method, f"{self.resolved.spec.tokens}t", self.settings, f"s{self.resolved.spec.seed}")
        return " ".join(filter(None, parts))

    @property
    def steps(self) -> int:
        """Steps of the whole schedule."""
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
        """Id that all seeds of the trial share."""
        return self.resolved.spec.model_copy(update={"seed": 0}).id


def complete(study: Study, host: Host, data_root: Path, device: str, timer: Timer | None = None) -> list[Trial]:
    """Every trial of ``study`` resolved, equal ones once, in the order in which they are run; ``timer`` for budgets of
    minutes."""
    trials: dict[str, Trial] = {}
    for trial in each(study, host, data_root, device, timer):
        # A variant that changes nothing names the same run as the plain method: the plain name is kept.
        if trial.id not in trials or (trials[trial.id].resolved.variant and not trial.resolved.variant):
            trials[trial.id] = trial
    return list(trials.values())


def each(study: Study, host: Host, data_root: Path, device: str, timer: Timer | None = None) -> list[Trial]:
    """Every trial of ``study`` resolved, one per request, in the order of its requests.

    The first trial that cannot be run raises SkelbenchError naming it; nothing is written.
    """
    varied = [key for key in study.varied() if key not in ("method", "tokens")]
    trials: list[Trial] = []
    for request in study.requests(gpu=device.startswith("cuda")):
        values = {key: getattr(request, key) for key in TRIAL} | dict(request.sets)
        settings = " ".join(f"{key}={values[key]}" for key in varied if values.get(key) is not None)
        try:
            resolved = resolve(request, host, data_root, device, timer)
        except SkelbenchError as error:
            tokens = f"{request.tokens}t" if request.tokens is not None else ""
            where = " ".join(filter(None, (request.method, tokens, settings, f"s{request.seed}")))
            raise SkelbenchError(f"trial {where}: {error}") from error
        baseline = control(resolved, host) if resolved.method.trains else None
        trials.append(Trial(request, resolved, baseline, settings))
    return trials


@dataclass(frozen=True)
class Status:
    """Progress of a trial."""

    state: str
    """done, probes missing, interrupted, diverged, failed, running (by another process), or new."""
    share: float = 0.0
    """Fraction of its training that is done, 0..1."""
    run: RunDir | None = None

    @property
    def done(self) -> bool:
        return self.state == "done"

    def __str__(self) -> str:
        stopped = self.state in ("interrupted", "diverged", "failed", "running")
        why = f": {self.run.reason}" if stopped and self.run and self.run.reason else ""
        return f"{self.state} at {100 * self.share:.0f} %{why}" if stopped else self.state


def status(trial: Trial, session: Session, protocols: Iterable[str]) -> Status:
    """State of ``trial``. Done means: trained, probed, its untrained baseline as well, and costed if it can be."""
    spec = trial.resolved.spec
    run = session.results.by_id(spec.id)
    if run is None:
        return Status("new")
    if run.outcome != "done":
        share = trained(run, trial.clips)
        if at_work(run):
            return Status("running", share, run)
        # A killed run could not record it; it resumes from its last saved state.
        state = {"running": "interrupted"}.get(run.outcome, run.outcome)
        return Status(state, share if run.checkpoint.exists() else 0.0, run)
    baseline = session.results.by_id(trial.baseline.spec.id) if trial.baseline else None
    counted = run.cost_path.exists() or "uncounted" in run.info or not costed(spec)
    ready = counted and (trial.baseline is None or (baseline and baseline.outcome == "done"))
    for name in protocols:
        for where in filter(None, (run, baseline)):
            ready = ready and where.record_path(eval_spec(session.host, where, name, like=trial.resolved)).exists()
    return Status("done" if ready else "probes missing", 1.0, run)


def recognize(trial: Trial, state: Status, session: Session) -> None:
    """Record the preset, variant and budget of ``trial`` in a run that was requested differently.

    Without it the run would count as done, but no table would show it next to the others.
    """
    if state.run is not None and state.run.info["modified"] != trial.resolved.modified:
        trial.resolved.open_run(session.results, trial.resolved.budget)


@dataclass(frozen=True)
class Price:
    """Cost of a trial; None if it is unknown."""

    flops_per_clip: float | None = None
    seconds: float | None = None


def prices(
    trials: Iterable[Trial], timed: Iterable[Trial], session: Session, report: Callable[[int], object]
) -> dict[str, Price]:
    """By setting: step FLOPs per clip of ``trials``, and seconds of training of the ``timed`` ones.

    FLOPs are counted on shapes. A few real steps of one setting of each method are timed; its other settings take time
    in proportion to their FLOPs. Nothing is written. A method whose step fails has no price.
    """
    from skelbench.evaluation.cost.report import step_cost
    from skelbench.pipeline.pace import estimate

    priced, paces = dict[str, Price](), dict[str, float]()
    settings = {trial.setting for trial in timed}
    for trial in trials:
        if trial.setting in priced:
            continue
        price = Price() if trial.resolved.method.trains else Price(0.0, 0.0)
        if trial.resolved.method.trains:
            spec, store = trial.resolved.spec, trial.resolved.store
            with suppress(Exception):  # code of a plugin: the run itself reports its error
                flops = step_cost(spec, session.host, store.topology)["flops_per_clip"]
                price = Price(flops)
                if trial.setting in settings:
                    work = trial.clips * flops
                    if spec.method not in paces:
                        paces[spec.method] = estimate(spec, session.host, store, session.device, flops).seconds / work
                    price = Price(flops, work * paces[spec.method])
        priced[trial.setting] = price
        report(1)
    return priced
