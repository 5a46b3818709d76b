"""``skelbench study``: a grid of runs from one command, and the table that it fills."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skelbench.cli import complete
from skelbench.cli.options import (
    Budget,
    DataRoot,
    Device,
    Jobs,
    Observe,
    Results,
    check_said_once,
    numbers_of,
    option,
)
from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.observe import named_observers
from skelbench.pipeline.request import RunRequest
from skelbench.pipeline.session import Session, open_session
from skelbench.pipeline.studies.engine import Engine, Failures, Queue, ResourceRequest, StudyContext, check_taken

if TYPE_CHECKING:
    from skelbench.pipeline.studies.study import Study
    from skelbench.pipeline.studies.trials import Status, Trial
    from skelbench.plugin.host import Host


def _queued(text: str, flag: str = "", **more: Any) -> Any:
    """An option for an engine that queues."""
    return typer.Option(*filter(None, [flag]), help=text, rich_help_panel="With --on slurm", **more)


PLACES = ("device", "results", "data_root")
"""Options that say where, which a list of studies may have too."""


def study(
    ctx: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            help="A study or a TOML file; none = list the studies.", autocompletion=complete.names("studies")
        ),
    ] = None,
    dataset: Annotated[str | None, option(RunRequest, "dataset", show_default="the study's")] = None,
    split: Annotated[str | None, option(RunRequest, "split", show_default="the study's")] = None,
    preset: Annotated[
        str | None,
        option(RunRequest, "preset", show_default="the study's; the built-in ones: quick, with a GPU the paper's"),
    ] = None,
    tokens: Annotated[
        str | None, typer.Option(help="Temporal tokens, comma separated: 8,15,30.", show_default="the study's")
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            help="Seeds, comma separated: 0,1,2. Two are the fewest that show whether a difference is larger than "
            "that between runs of one setting.",
            show_default="the study's; the built-in ones: 0,1",
        ),
    ] = None,
    budget: Budget = None,
    probe: Annotated[
        list[str] | None,
        option(RunRequest, "probes", show_default="the study's; the built-in ones: linear,knn"),
    ] = None,
    set_: Annotated[list[str] | None, option(RunRequest, "sets")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the trials with id, state, cost and time; run nothing.")
    ] = False,
    show: Annotated[bool, typer.Option("--show", help="Print the study as a TOML file; run nothing.")] = False,
    observe: Observe = None,
    jobs: Jobs = None,
    on: Annotated[
        str,
        typer.Option(
            metavar="ENGINE",
            help="Where trials run: local, slurm (a cluster), or a plugin's.",
            autocompletion=complete.names("engines"),
        ),
    ] = "local",
    partition: Annotated[str | None, _queued("Partition.", show_default="SBATCH_PARTITION, else the cluster's")] = None,
    gpus: Annotated[
        int | None, _queued("GPUs of each trial, 0 or 1.", min=0, show_default="1 with --device cuda, else 0")
    ] = None,
    cpus: Annotated[int | None, _queued("Cores of each trial.", min=1, show_default="4 with a GPU, else 1")] = None,
    mem: Annotated[str | None, _queued("Memory of each trial: 16G.", show_default="by the dry run's estimate")] = None,
    time: Annotated[
        str | None,
        _queued(
            "Time limit of a sitting: 4h, 90m, 1d12h; a trial that takes longer goes on in another.",
            show_default="by the dry run's estimate",
        ),
    ] = None,
    max_parallel: Annotated[int | None, _queued("Trials at a time.", min=1, show_default="no limit")] = None,
    setup: Annotated[
        list[str] | None,
        _queued("A line of shell before each trial: 'module load cuda'; repeatable.", metavar="LINE"),
    ] = None,
    emit: Annotated[bool, _queued("Print the script; submit nothing.", flag="--emit")] = False,
    status: Annotated[bool, _queued("How each trial is; submit nothing.", flag="--status")] = False,
    wait: Annotated[bool, _queued("Submit, wait for the end, and show the table.", flag="--wait")] = False,
    cancel: Annotated[bool, _queued("Take back what is in the queue.", flag="--cancel")] = False,
    device: Device = None,
    results: Results = None,
    data_root: DataRoot = None,
) -> None:
    """Run every trial of a study: skip what is done, continue what was interrupted, go on when one fails.

    Options replace what the study says of the same thing in every trial. Issuing the same command again continues. With
    --on slurm each missing trial is a task of a job array: the command submits them and returns.
    """
    from skelbench.plugin.host import get_host, request_more

    host = get_host()
    if name in (None, "list"):
        given = [key for key in ctx.params if str(ctx.get_parameter_source(key)).endswith("COMMANDLINE")]
        if given := [f"--{key.strip('_').replace('_', '-')}" for key in given if key not in ("name", *PLACES)]:
            raise SkelbenchError(f"{given[0]} is of a study, and none is named; write skelbench study NAME {given[0]}")
        _list(host)
        return
    lines = None if setup is None else tuple(setup)
    resources = ResourceRequest(jobs, partition, gpus, cpus, mem, time, max_parallel, lines)
    of_queue = {"--emit": emit, "--status": status, "--wait": wait, "--cancel": cancel}
    engine_class, asked = _engine(host, on, resources, [option for option, given in of_queue.items() if given], dry_run)
    replaced = {"dataset": dataset, "split": split, "preset": preset, "budget": budget}
    found = _find(name, host)
    host = request_more(found.plugins)
    chosen = _with_options(found, replaced, tokens, seeds, probe, set_ or [])
    from skelbench.pipeline.request import known_protocols

    if show:
        from skelbench.core.console import out
        from skelbench.pipeline.studies.files import write_study

        out.print(write_study(chosen), end="", soft_wrap=True)
        return
    observers = named_observers(host, observe)
    with _of_file(name if chosen == found else ""):  # else it may be an option that is wrong
        protocols = known_protocols(host, chosen.probe)
        for kind, shown_by in (("tables", chosen.table), ("figures", chosen.figure)):
            if shown_by:
                host.get(kind, shown_by)
        for request in chosen.requests():
            host.method(request.method)  # misspelt names fail before torch is imported
    import torch

    from skelbench.core.console import err
    from skelbench.pipeline.pace import Timer
    from skelbench.pipeline.studies.runner import processes
    from skelbench.pipeline.studies.trials import complete as trials_of
    from skelbench.pipeline.studies.trials import status as status_of

    if issubclass(engine_class, Queue):
        if any(request.budget and request.budget.kind == "minutes" for request in chosen.requests()):
            raise SkelbenchError(
                f"--budget minutes is timed on this machine, and with --on {on} trials run on others; give clips, "
                "steps or flops"
            )
        session = open_session(results, data_root, "cpu", observers)
        session = replace(session, device=engine_class.device(resources, device) or "cpu")
        at_once, threads = max_parallel or 1, None if session.device == "cuda" else cpus or 1
    else:
        session = open_session(results, data_root, engine_class.device(resources, device), observers)
        at_once, threads = processes(session.device, jobs)
    session.results.check_readable()
    if threads is not None:
        torch.set_num_threads(threads)  # what is timed here is timed as trials are made
    trials = trials_of(chosen, host, session.data_root, session.device, Timer(session, keep=not dry_run))
    if (same := sum(1 for _ in chosen.requests()) - len(trials)) > 0:
        err.print(f"note: {same} of the trials are the same run as another with these settings, and made once")
    states = [(trial, status_of(trial, session, protocols)) for trial in trials]
    for trial in {trial.setting: trial for trial in trials}.values():
        if length := trial.resolved.length:
            err.print(f"{trial.method}, {trial.resolved.spec.tokens} tokens: {length.sentence}", soft_wrap=True)
    if dry_run:
        show_trials(chosen, states, session, at_once)
        return
    engine = engine_class(StudyContext(chosen.name, session, protocols), resources)
    if isinstance(engine, Queue):
        from skelbench.cli import study_queue

        if asked in ("", "--wait"):  # the others write nothing
            recognise_all(states, session)
        ended = study_queue.act(chosen, states, session, protocols, engine, asked)
        if ended is not None:
            _conclude(chosen, ended, session, protocols, study_queue.failures(ended, engine))
        return
    failures = work_through(chosen.name, states, session, protocols, at_once, threads, engine)
    _conclude(chosen, states, session, protocols, failures)


def _engine(
    host: Host, name: str, resources: ResourceRequest, asked: list[str], dry_run: bool
) -> tuple[type[Engine], str]:
    """The engine of that name, and what it is asked to do; options that are none of its are refused."""
    kind = host.subclass(host.get("engines", name), Engine)  # type: ignore[type-abstract]
    check_taken(kind, name, resources, [*asked, *(["--dry-run"] if dry_run and asked else [])])
    return kind, asked[0] if asked else ""


# ---------------------------------------------------------------------------------------------------- which study
def _list(host: Host) -> None:
    from skelbench.core.console import make_table, out

    rows = [(descriptor.name, descriptor.summary) for descriptor in host.all("studies")]
    out.print(make_table(("study", "what it asks"), rows))
    out.print("skelbench study NAME --dry-run lists the trials of one; --show prints it as a file to start from")


def _is_file(name: str) -> bool:
    return name.endswith(".toml") or "/" in name


@contextmanager
def _of_file(name: str) -> Iterator[None]:
    """What is wrong in the study ``name`` is told with its file, if it has one."""
    try:
        yield
    except SkelbenchError as error:
        if not _is_file(name):
            raise
        raise SkelbenchError(f"{name}: {error}") from error


def _find(name: str, host: Host) -> Study:
    """The study of that name, or of that TOML file."""
    from skelbench.pipeline.studies.study import Study

    if _is_file(name):
        from skelbench.pipeline.studies.files import read_study

        return read_study(Path(name))
    descriptor = host.get("studies", name)
    found: Study = host.checked(descriptor, host.load(descriptor), Study, "skelbench.pipeline.studies.study.Study")
    return found.model_copy(update={"name": descriptor.name, "summary": found.summary or descriptor.summary})


def _with_options(
    study: Study,
    keys: dict[str, str | None],
    tokens: str | None,
    seeds: str | None,
    probe: list[str] | None,
    sets: list[str],
) -> Study:
    """``study`` with what the command line says; ``keys`` of every trial, ``None`` = as the study has it."""
    from skelbench.core.spec import validated
    from skelbench.pipeline.request import parse_sets
    from skelbench.pipeline.studies.study import Study

    settings = parse_sets(sets)
    if "seed" in settings:
        raise SkelbenchError("--set seed: every trial is run with each seed of the study; write --seeds 0,1")
    fields = {
        "seeds": None if seeds is None else numbers_of("--seeds", seeds, "0,1"),
        "probe": RunRequest(method="any", probes=probe).probes if probe else None,
    }
    typed = {key: value for key, value in fields.items() if value is not None}
    if typed:
        study = validated(Study, {**study.model_dump(by_alias=True), **typed}, f"study {study.name}")
    given = {key: value for key, value in keys.items() if value is not None}
    check_said_once(settings, {**keys, "tokens": tokens})
    for key, value in {**given, **settings}.items():
        study = study.replaced(key, [value])
    return study.replaced("tokens", numbers_of("--tokens", tokens, "8,15")) if tokens is not None else study


# ---------------------------------------------------------------------------------------------------- dry run
def show_trials(study: Study, states: list[tuple[Trial, Status]], session: Session, jobs: int) -> None:
    """List the trials with what they cost; measures a few steps of each setting, writes nothing."""
    from skelbench.core.console import duration, make_table, out
    from skelbench.evaluation.cost import BODIES
    from skelbench.pipeline.studies.trials import makespan, prices

    open_trials = [trial for trial, state in states if not state.done]
    settings = {trial.setting for trial, _ in states}
    with session.progress(total=len(settings), label="cost and time", unit="settings") as report:
        price = prices([trial for trial, _ in states], open_trials, session, report)
    rows, seconds = [], []
    for trial, state in states:
        spec, cost = trial.resolved.spec, price[trial.setting]
        left = 0.0 if state.done else cost.seconds and cost.seconds * (1 - state.share)
        seconds.append(left)
        rows.append(
            (
                " ".join(filter(None, (trial.method, trial.settings))),
                spec.tokens,
                spec.seed,
                f"{spec.data.title}/{spec.data.split}",
                trial.id,
                str(state),
                trial.steps,
                "?" if cost.flops_per_clip is None else f"{BODIES * cost.flops_per_clip / 1e9:.3g}",
                "?" if left is None else duration(left) if left else "",
            )
        )
    columns = ("trial", "tokens", "seed", "data", "id", "state", "steps", f"step GFLOPs, {BODIES} bodies", "time")
    preset = ", ".join(dict.fromkeys(trial.resolved.preset for trial, _ in states))
    out.print(make_table(columns, rows, title=f"{study.name}, preset {preset}: {study.summary}"))
    if study.then:
        out.print(f"then, for every finished run: {study.then}")
    if not open_trials:
        out.print(f"{len(states)} trials, all done")
        return
    known = [left for left in seconds if left is not None]
    about = duration(makespan(known, jobs))
    unknown = f", {len(seconds) - len(known)} of unknown length" if len(known) < len(seconds) else ""
    out.print(
        f"{len(states)} trials, {len(states) - len(open_trials)} done{unknown}; about {about} of training on "
        f"{session.device}, {jobs} at a time; probes come on top"
    )


# ---------------------------------------------------------------------------------------------------- running
def _conclude(
    study: Study, states: list[tuple[Trial, Status]], session: Session, protocols: list[str], failures: Failures
) -> None:
    """Show the table of trials that have come to their ends, and what failed."""
    from skelbench.core.console import LEFT_OUT, out

    _table(study, [trial for trial, _ in states], session, protocols)
    say_failed([trial for trial, _ in states], failures)
    out.print(f"{len(states) - len(failures)} of {len(states)} trials done")
    if failures:
        raise typer.Exit(LEFT_OUT)


def recognise_all(states: list[tuple[Trial, Status]], session: Session) -> None:
    """Runs that were made by hand count as trials from now on, and tables show them as such."""
    from skelbench.pipeline.studies.trials import recognise

    for trial, state in states:
        if state.done:
            recognise(trial, state, session)


def work_through(
    name: str,
    states: list[tuple[Trial, Status]],
    session: Session,
    protocols: list[str],
    jobs: int,
    threads: int | None,
    engine: Engine | None = None,
) -> Failures:
    """Bring the trials of study ``name`` that are not done to their end, here or by ``engine``; those that failed."""
    from skelbench.core.console import err
    from skelbench.pipeline.studies.display import display
    from skelbench.pipeline.studies.local import Local
    from skelbench.pipeline.studies.runner import Stopped

    open_trials = [(trial, state) for trial, state in states if not state.done]
    done = len(states) - len(open_trials)
    recognise_all(states, session)
    engine = engine or Local(StudyContext(name, session, protocols), ResourceRequest(jobs))
    logs = engine.context.logs
    failures: Failures = {}
    if open_trials:
        session.results.prepare()
        jobs = min(jobs, len(open_trials))
        how = f"{jobs} at a time on {session.device}" + (f", {threads} threads each" if threads else "")
        err.print(f"{name}: {len(states)} trials, {done} done; {how}; logs in {logs}")
        with display(err, name, len(states), done, jobs) as watcher:
            try:
                failures = engine.run(open_trials, watcher)
            except Stopped:
                watcher.message(
                    f"{watcher.finished} of {len(states)} trials done; issue the same command again to continue"
                )
                raise KeyboardInterrupt from None
    return failures


def say_failed(trials: list[Trial], failures: Failures) -> None:
    """Which trials failed, why, and where to read more."""
    from skelbench.core.console import err, styled
    from skelbench.core.text import plain

    for trial in trials:
        if trial.id in failures:
            reason, log = failures[trial.id]
            err.print(
                styled(("failed:", "bold red"), f" {plain(f'{trial.title}: {reason} (see {log})')}"), soft_wrap=True
            )


def _table(study: Study, trials: list[Trial], session: Session, protocols: list[str]) -> None:
    """The study's table from its own runs, and what to type next; a table that fails takes nothing with it."""
    from skelbench.cli.summary import named_data, named_root
    from skelbench.core.console import err, out, styled
    from skelbench.core.text import plain
    from skelbench.plugin.status import one_line
    from skelbench.reporting.inputs import TableInputs
    from skelbench.reporting.scaling import LENGTH
    from skelbench.reporting.scaling import NAME as SCALING
    from skelbench.reporting.terminal import Terminal

    if not protocols:
        return
    host, results = session.host, session.results
    ids = {trial.id for trial in trials} | {trial.baseline.spec.id for trial in trials if trial.baseline}
    names = {run.name for run in results.read() if run.name.rsplit("-", 1)[-1] in ids}
    free = LENGTH if study.table == SCALING else ()
    changed = any(set(trial.resolved.modified).difference(free) for trial in trials)
    inputs = TableInputs(host, results, exact_only=not changed, only=names, progress=session.progress)
    # A study's own table is for exact presets: where it stays empty, and where there is none, the general one speaks.
    for table in dict.fromkeys(name for name in (study.table, "linear") if name in host.names("tables")):
        try:
            built = host.load(host.get("tables", table))(inputs)
            if built.rows or table == "linear":
                out.print(Terminal(built))
                break
        except Exception as error:  # the runs are what hours went into
            err.print(f"note: table {table} could not be made: {plain(one_line(error))}", soft_wrap=True)
    out.print("Next:")
    where = named_root(results.root)
    compare = f"  skelbench compare --table {table}{' --all' if changed else ''}{where}"
    out.print(styled(compare, ("  # from all runs there are", "dim")), soft_wrap=True)
    if study.then:  # what a study cannot issue, as it needs what only its reader knows
        own = {trial.id for trial in trials}
        for run in results.read():
            if run.outcome == "done" and run.spec.id in own:
                then = study.then.replace("RUN", run.name) + run.plugin_files + where + named_data(session.data_root)
                out.print(f"  {plain(then)}", soft_wrap=True)
    if study.figure in host.names("figures"):
        out.print(styled(f"  skelbench plot {study.figure}{where}", ("  # as a figure", "dim")), soft_wrap=True)
