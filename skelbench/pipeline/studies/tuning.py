"""Tuning: every method gets the same number of trials of the same budget. The best trial on held-out training subjects
wins. Winner and default are then trained again on all training subjects, with seeds that no trial had.

Trials are ordinary runs on the split ``SPLIT~tune``, which has no test clip of ``SPLIT`` (``SPLIT~tune-camera`` or
``SPLIT~tune-setup`` if ``SPLIT`` tests on other cameras or setups).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import validated
from skelbench.data.store.splits import HeldOut
from skelbench.evaluation.outcomes import outcomes_of, paired_over_seeds
from skelbench.evaluation.stats.bootstrap import of_subjects
from skelbench.pipeline.budget import Budget
from skelbench.pipeline.evaluate import eval_spec
from skelbench.pipeline.session import Session
from skelbench.pipeline.studies.engine import Failures
from skelbench.pipeline.studies.run_status import last_metrics
from skelbench.pipeline.studies.samplers import Axis, axes_of, sobol
from skelbench.pipeline.studies.study import TRIAL, Study, same
from skelbench.pipeline.studies.trials import Trial, each
from skelbench.plugin.host import Host
from skelbench.plugin.space import Knob
from skelbench.records.environment import environment
from skelbench.records.errors import if_whole
from skelbench.records.run_dir import RunDir
from skelbench.records.tuned import Compared, Retrained, TunedTrial, TuningRecord

NAME, SUMMARY = "tune", "trials on held-out training subjects"
Work = Callable[[Sequence[Trial]], Failures]
"""Runs trials to their end."""


def clips_of_budget(text: str | None) -> int:
    """N of ``clips=N``."""
    try:
        budget = Budget.parse(text)
    except SkelbenchError:
        budget = None
    if budget is None or budget.kind != "clips":
        problem = f"--budget {text!r} is not clips=N" if text is not None else "a budget is missing"
        raise SkelbenchError(f"{problem}: give the number of clips of every trial; write --budget clips=8000")
    return int(budget.amount)


@dataclass(frozen=True)
class Asked:
    """Settings that are the same for every method."""

    common: Mapping[str, Any]
    """Fields of a study that all runs share: dataset, split, preset, native, set."""
    probe: str
    """The protocol whose accuracy on the held-out subjects chooses."""
    trials: int
    clips: int
    """Budget of a trial."""
    seed: int = 0
    """Seed of draws and trials."""
    seeds: int = 3
    """Number of times that winner and default are trained again."""

    @property
    def fresh(self) -> tuple[int, ...]:
        """Seeds that no trial has."""
        return tuple(range(self.seed + 1, self.seed + 1 + self.seeds))

    @property
    def sets(self) -> Mapping[str, Any]:
        """Settings of all runs."""
        return self.common.get("set", {})

    def study(self, points: Sequence[Mapping[str, Any]], seeds: Sequence[int]) -> Study:
        """Runs that differ from the common ones in ``points``."""
        values = {**self.common, "name": NAME, "summary": SUMMARY, "probe": [self.probe], "seeds": list(seeds)}
        return validated(Study, {**values, "trials": [dict(point) for point in points]}, NAME)


@dataclass
class Tuning:
    """One method during tuning."""

    asked: Asked
    method: str
    """Name as the user types it."""
    default: Trial
    """The run on the real split, with the first fresh seed."""
    axes: tuple[Axis, ...]
    held: HeldOut
    drawn: list[dict[str, float]] = field(default_factory=list)
    """Settings of each trial; the first has none."""
    trials: list[Trial] = field(default_factory=list)
    failures: Failures = field(default_factory=dict)

    def point(self, drawn: Mapping[str, float]) -> dict[str, Any]:
        """Return a trial with the settings ``drawn``: the budget's length, on the split for choosing."""
        epochs = {"train.epochs": self.asked.clips / len(self.held.split.train), "train.iters_per_epoch": None}
        return {"method": self.method, "split": self.held.split.name, **epochs, **drawn}

    def record(self, session: Session, command: str) -> TuningRecord:
        """Return the current state as it is written to disk."""
        resolved, query, host = self.default.resolved, self.asked, session.host
        trials = []
        for number, (drawn, trial) in enumerate(zip(self.drawn, self.trials)):
            run, record = evaluated(trial, session, query.probe)
            outcome = {"accuracy": record["metrics"]["accuracy"]} if record else {"failure": self._why(trial, run)}
            facts = {"number": number, "settings": drawn, "run": trial.id, "seconds": spent(run, record)}
            trials.append(TunedTrial.model_validate(facts | outcome))
        scored = [trial for trial in trials if trial.accuracy is not None]
        winner = max(scored, key=lambda trial: (trial.accuracy, -trial.number), default=None)
        spec, environ = resolved.spec, environment(session.device)
        return TuningRecord(
            method=resolved.title,
            setting=resolved.setting,
            dataset=spec.data.title,
            data=spec.data.fingerprint,
            split=spec.data.split,
            preset=resolved.preset,
            changed={key: value for key, value in query.sets.items() if key not in TRIAL},
            tokens=spec.tokens,
            probe=host.get("protocols", query.probe).name,
            hardware=environ["hardware"],
            budget_clips=query.clips,
            sampler="sobol",
            seed=query.seed,
            space={axis.key: {**vars(axis)} for axis in self.axes},
            held_out=self.held.record(),
            asked=query.trials,
            trials=tuple(trials),
            winner=winner.number if winner else None,
            seeds=query.fresh,
            command=command,
            environment=environ,
            finished=time.time(),
        )

    def _why(self, trial: Trial, run: RunDir | None) -> str:
        if trial.id in self.failures:
            return self.failures[trial.id][0]
        return run.reason or run.outcome if run and run.outcome != "done" else "not probed"


def prepare(asked: Asked, methods: Sequence[str], session: Session) -> list[Tuning]:
    """Every method with its space, its default and its validation subjects; SkelbenchError if it cannot be tuned."""
    for method in methods:
        check_tunable(session.host, method)
    tunings = []
    for method in methods:
        study = asked.study([{"method": method}], asked.fresh[:1])
        (default,) = each(study, session.host, session.data_root, session.device)
        axes = axes_of(_space(session.host, method), default.resolved.spec, f"method {method}")
        for axis in axes:
            if setting := next((key for key in asked.sets if same(key, axis.key)), None):
                raise SkelbenchError(f"--set {setting} is tuned for method {method}; leave it out")
        data = default.resolved.spec.data
        validation = default.resolved.store.held_out(data.split)
        validation = replace(validation, split=default.resolved.store.split(validation.split.name, data.min_frames))
        batch = min(default.resolved.spec.train.batch_size, len(validation.split.train))
        if asked.clips < batch:
            raise SkelbenchError(f"--budget clips={asked.clips} is less than one batch of {batch} of method {method}")
        tunings.append(Tuning(asked, method, default, axes, validation))
    return tunings


def check_tunable(host: Host, method: str) -> None:
    """Raise for a method that does not exist, does not train or declares no search space."""
    descriptor, variant = host.method(method)
    if not descriptor.trains:
        raise SkelbenchError(f"method {method} does not train, so there is nothing to tune; leave it out")
    if not descriptor.space:
        raise SkelbenchError(
            f"method {method} declares no search space; give its MethodSpec one, for example "
            'space={"train.lr": Log("x0.125", "x8")}'
        )
    if not _space(host, method):
        raise SkelbenchError(
            f"variant {variant} sets all settings that are tuned for method {descriptor.name}; leave it out"
        )


def _space(host: Host, method: str) -> dict[str, Knob]:
    """Return the search space of a method without the settings that its variant fixes."""
    descriptor, variant = host.method(method)
    fixed = descriptor.variants.get(variant, {})
    return {key: knob for key, knob in descriptor.space.items() if not any(same(key, own) for own in fixed)}


def draw(tunings: Sequence[Tuning], session: Session) -> list[Trial]:
    """Resolve the trials of every method, interleaved by number: an early stop favors no method."""
    query = tunings[0].asked
    for tuning in tunings:
        tuning.drawn = sobol(tuning.axes, query.trials, query.seed)
    order = [(tuning, tuning.drawn[number]) for number in range(query.trials) for tuning in tunings]
    study = query.study([tuning.point(drawn) for tuning, drawn in order], [query.seed])
    trials = each(study, session.host, session.data_root, session.device)
    for (tuning, _), trial in zip(order, trials, strict=True):
        tuning.trials.append(trial)
    return trials


def try_all(tunings: Sequence[Tuning], session: Session, work: Work) -> None:
    """Run every trial of every method."""
    failures = work(draw(tunings, session))
    for tuning in tunings:
        tuning.failures = {trial.id: failures[trial.id] for trial in tuning.trials if trial.id in failures}


def retrain(
    tunings: Sequence[Tuning], records: Sequence[TuningRecord], session: Session, work: Work
) -> list[TuningRecord]:
    """Train winner and default of every method on all training subjects with every fresh seed, and compare them."""
    query, sides = tunings[0].asked, list[dict[str, list[Trial]]]()
    for tuning, record in zip(tunings, records):
        points: dict[str, dict[str, Any]] = {} if record.winner is None else {"default": {}}
        points |= {"tuned": dict(record.trials[record.winner].settings)} if record.winner else {}
        studies = {side: query.study([{"method": tuning.method, **own}], query.fresh) for side, own in points.items()}
        how = session.host, session.data_root, session.device
        sides.append({side: each(study, *how) for side, study in studies.items()})
    trials = [trial for side in sides for seeds in side.values() for trial in seeds]
    work(sorted(trials, key=lambda trial: trial.resolved.spec.seed))  # an early stop favors no method
    return [_compared(record, side, session) if side else record for record, side in zip(records, sides)]


def _compared(record: TuningRecord, sides: Mapping[str, Sequence[Trial]], session: Session) -> TuningRecord:
    """``record`` with the results of its retraining."""
    winner = record.trials[record.winner or 0].settings
    settings = {"default": {}, "tuned": dict(winner)}
    retrained = {side: _retrained(trials, settings[side], session, record.probe) for side, trials in sides.items()}
    diverged = {
        side: f"seed {run.spec.seed}: {run.reason}"
        for side, trials in sides.items()
        for run in [session.results.by_id(trial.id) for trial in reversed(trials)]
        if retrained[side] is None and run and run.outcome == "diverged"
    }
    default, tuned = retrained["default"], retrained["tuned" if record.winner else "default"]
    compared = compare(tuned, default, session) if record.winner and tuned and default else None
    update = {"default": default, "tuned": tuned, "compared": compared, "diverged": diverged, "finished": time.time()}
    return record.model_copy(update=update)


def _retrained(trials: Sequence[Trial], settings: dict[str, Any], session: Session, probe: str) -> Retrained | None:
    """Result of one setting on the real split, one trial per seed; None if one is missing."""
    results = [evaluated(trial, session, probe) for trial in trials]
    records = [(run, record) for run, record in results if run and record]
    if len(records) < len(results):
        return None
    outcomes = [if_whole(partial(outcomes_of, run, record)) for run, record in records]
    subjects = of_subjects([outcome and outcome.by_subject for outcome in outcomes])
    return Retrained(
        settings=settings,
        runs=tuple(run.spec.id for run, _ in records),
        evaluations=tuple(record["id"] for _, record in records),
        accuracy=tuple(record["metrics"]["accuracy"] for _, record in records),
        by_subject=tuple((float(right), int(clips)) for right, clips in zip(*subjects)) if subjects else (),
        n_test=int(records[0][1]["metrics"]["n_test"]),
        seconds=sum(spent(run, record) for run, record in records),
    )


def compare(tuned: Retrained, default: Retrained, session: Session) -> Compared | None:
    """The paired test of two settings on the same test clips and seeds."""
    import pandas

    def frame(side: Retrained) -> pandas.DataFrame:
        runs = [session.results.by_id(name) for name in side.runs]
        names = [run.name if run else "" for run in runs]
        predictions = [f"eval-{name}.npz" for name in side.evaluations]
        rows = {"run": names, "seed": range(len(names)), "evaluation": side.evaluations, "predictions": predictions}
        return pandas.DataFrame(rows)

    test = paired_over_seeds(session.results, frame(tuned), frame(default))
    return None if test is None else Compared(**{name: getattr(test, name) for name in Compared.model_fields})


def evaluated(trial: Trial, session: Session, probe: str) -> tuple[RunDir | None, dict[str, Any] | None]:
    """The run of a trial and its record by ``probe``; None for each that does not exist."""
    run = session.results.by_id(trial.id)
    if run is None or run.outcome != "done":
        return run, None
    path = run.record_path(eval_spec(session.host, trial.resolved, probe))
    return run, run.record(path) if path.exists() else None


def spent(run: RunDir | None, record: Mapping[str, Any] | None) -> float:
    """Seconds of training, also of an unfinished one, and of the evaluation ``record``."""
    if run is None:
        return 0.0
    trained = run.info.get("train_seconds") or last_metrics(run).get("seconds") or 0.0
    return float(trained) + float((record or {}).get("seconds") or 0.0)
