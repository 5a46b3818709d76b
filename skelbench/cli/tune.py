"""``skelbench tune``: the same number of trials for every method, compared on held-out training subjects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skelbench.cli.options import DataRoot, Device, Jobs, Observe, Results, option
from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.observe import named_observers
from skelbench.pipeline.request import RunRequest, comma_separated
from skelbench.pipeline.session import Session, open_session

if TYPE_CHECKING:
    from skelbench.pipeline.studies.trials import Trial
    from skelbench.pipeline.studies.tuning import Failures, Tuning

MOST_TRIALS = 4096
TRIALS = "Trials of each method; the first one has the default settings."
SEEDS = "Number of final trainings of winner and defaults, with the seeds after --seed."


def tune(
    methods: Annotated[str, typer.Argument(metavar="METHOD[,METHOD]", help="Methods, comma separated.")],
    trials: Annotated[int, typer.Option(min=1, max=MOST_TRIALS, help=TRIALS)] = 20,
    budget: Annotated[str | None, typer.Option(metavar="clips=N", help="Training clips of every trial.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the settings and of every trial.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help=SEEDS)] = 3,
    probe: Annotated[str, typer.Option(help="Protocol that ranks the trials on held-out subjects.")] = "linear",
    dataset: Annotated[str | None, option(RunRequest, "dataset")] = None,
    split: Annotated[str | None, option(RunRequest, "split", help="Split; training subjects are held out.")] = None,
    tokens: Annotated[int | None, option(RunRequest, "tokens")] = None,
    preset: Annotated[str | None, option(RunRequest, "preset")] = None,
    native: Annotated[bool, option(RunRequest, "native")] = False,
    set_: Annotated[list[str] | None, option(RunRequest, "sets")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the trials; run nothing.")] = False,
    observe: Observe = None,
    jobs: Jobs = None,
    device: Device = None,
    results: Results = None,
    data_root: DataRoot = None,
) -> None:
    """Tune methods with the same number of trials for each.

    The settings are chosen on held-out training subjects, never on test clips. Then the best and the default settings
    are trained on all training clips with new seeds. Repeat the command to resume.
    """
    from skelbench.pipeline.request import check_set_once, known_protocols, parse_sets
    from skelbench.plugin.host import get_host

    host = get_host()
    names = list(dict.fromkeys(comma_separated(methods)))
    if not names:
        raise SkelbenchError("no method is named; write skelbench tune METHOD or METHOD,METHOD")
    for name in names:
        host.method(name)  # misspelled names fail before torch is imported
    protocols = known_protocols(host, comma_separated(probe))
    observers = named_observers(host, observe)
    if len(protocols) != 1:
        raise SkelbenchError(f"--probe {probe!r} names {len(protocols)} protocols; one chooses, for example linear")
    settings = parse_sets(set_ or [])
    if "seed" in settings:
        raise SkelbenchError("--set seed: trials have the seed of --seed, final trainings have the seeds after it")
    for key, instead in (("method", "name methods before the options"), ("budget", "give --budget clips=N")):
        if key in settings:
            raise SkelbenchError(f"--set {key} is not a setting of a run; {instead}")
    from skelbench.pipeline.studies.tuning import Asked, check_tunable, clips_of_budget, prepare

    clips = clips_of_budget(budget)
    for name in names:
        check_tunable(host, name)
    common: dict[str, Any] = {"dataset": dataset, "split": split, "preset": preset, "native": native or None}
    check_set_once(settings, {**common, "tokens": tokens})
    settings |= {"tokens": tokens} if tokens is not None else {}
    common = {key: value for key, value in common.items() if value is not None} | {"set": settings}
    session = open_session(results, data_root, device, observers)
    session.results.check_readable()
    tunings = prepare(Asked(common, protocols[0], trials, clips, seed, seeds), names, session)
    _announce(tunings)
    (_dry_run if dry_run else _run)(tunings, session, jobs)


def _announce(tunings: Sequence[Tuning]) -> None:
    """Print the ranges of the settings, and the held-out subjects."""
    from skelbench.core.console import make_table, out
    from skelbench.core.text import plain

    rows = [
        (
            tuning.method,
            axis.key,
            "" if axis.default is None else f"{axis.default:g}",
            f"{1 - axis.high:g} to {1 - axis.low:g}" if axis.from_one else f"{axis.low:g} to {axis.high:g}",
            ("logarithm of 1 - value" if axis.from_one else "logarithm") if axis.log else "value",
        )
        for tuning in tunings
        for axis in tuning.axes
    ]
    query = tunings[0].asked
    how = f"Sobol sequence, seed {query.seed}: {query.trials} trials of {query.clips:,} clips for every method"
    out.print(make_table(("method", "setting", "default", "drawn from", "evenly in its"), rows, how))
    for sentence in dict.fromkeys(tuning.held.sentence for tuning in tunings):
        out.print(plain(sentence), soft_wrap=True)


def _dry_run(tunings: Sequence[Tuning], session: Session, jobs: int | None) -> None:
    from skelbench.cli.study import show_trials
    from skelbench.core.console import out
    from skelbench.pipeline.studies.runner import processes
    from skelbench.pipeline.studies.trials import status
    from skelbench.pipeline.studies.tuning import draw

    query = tunings[0].asked
    states = [(trial, status(trial, session, [query.probe])) for trial in draw(tunings, session)]
    at_once, threads = processes(session.device, jobs)
    show_trials(query.study([{"method": tunings[0].method}], [query.seed]), states, session, at_once, threads)
    spec = tunings[0].default.resolved.spec
    fresh = ", ".join(map(str, query.fresh))
    out.print(
        f"then, of each method, its defaults and its winner on {spec.data.title}/{spec.data.split} with seeds {fresh}: "
        f"at most {2 * len(tunings) * len(query.fresh)} runs",
        soft_wrap=True,
    )


def _run(tunings: Sequence[Tuning], session: Session, jobs: int | None) -> None:
    """Run the trials, train the winners again, and print and write the results."""
    from skelbench.cli.study import say_failed
    from skelbench.core.console import LEFT_OUT, out
    from skelbench.pipeline.studies.engine import ResourceRequest, StudyContext
    from skelbench.pipeline.studies.local import Local, work_through
    from skelbench.pipeline.studies.runner import processes
    from skelbench.pipeline.studies.trials import status
    from skelbench.pipeline.studies.tuning import NAME, retrain, try_all
    from skelbench.records.tuned import write
    from skelbench.reporting import tuned
    from skelbench.reporting.terminal import Terminal

    query = tunings[0].asked
    probes = [query.probe]
    at_once, threads = processes(session.device, jobs)
    engine = Local(StudyContext(NAME, session, probes), ResourceRequest(jobs=at_once))

    def work(trials: Sequence[Trial]) -> Failures:
        states = [(trial, status(trial, session, probes)) for trial in {trial.id: trial for trial in trials}.values()]
        states = [(trial, state) for trial, state in states if state.state != "diverged"]  # it would diverge again
        failures = work_through(states, engine, at_once, threads)
        say_failed([trial for trial, _ in states], failures)
        return failures

    from skelbench.records.environment import command

    try_all(tunings, session, work)
    records = [tuning.record(session, command()) for tuning in tunings]
    for record in records:  # the trials took hours
        write(session.results, record)
    records = retrain(tunings, records, session, work)
    out.print(Terminal(tuned.build(records)))
    for record in records:
        out.print(f"wrote {write(session.results, record)}", soft_wrap=True)
    if not all(record.complete for record in records):
        raise typer.Exit(LEFT_OUT)
