"""``skelbench study``: a grid of runs from one command, and the table that it fills."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skelbench.cli.options import Budget, DataRoot, Device, Observe, Results, numbers_of, option, request_options
from skelbench.core.errors import SkelbenchError
from skelbench.data.store.roots import data_root as default_data_root
from skelbench.pipeline.observe import named_observers
from skelbench.pipeline.request import RunRequest, check_request, known_protocols
from skelbench.pipeline.session import Session, open_session
from skelbench.pipeline.studies.engine import QUEUE, Engine, Failures, Queue, ResourceRequest, StudyContext, check_taken

if TYPE_CHECKING:
    from skelbench.pipeline.studies.study import Study
    from skelbench.pipeline.studies.trials import Status, Trial
    from skelbench.plugin.host import Host

TOKENS = "Temporal tokens, comma separated, for example 8,15,30."
SEEDS = "Seeds, comma separated, for example 0,1. Give at least two to see the spread between runs."


def _queued(text: str, flag: str) -> Any:
    """An option for an engine with a queue."""
    return typer.Option(flag, help=text, rich_help_panel=QUEUE)


@request_options
def study(
    resources: ResourceRequest,
    study: Annotated[str | None, typer.Argument(metavar="NAME", help="Name of a study, or a TOML file.")] = None,
    dataset: Annotated[str | None, option(RunRequest, "dataset", show_default="the study's")] = None,
    split: Annotated[str | None, option(RunRequest, "split", show_default="the study's")] = None,
    preset: Annotated[str | None, option(RunRequest, "preset", show_default="the study's")] = None,
    tokens: Annotated[str | None, typer.Option(help=TOKENS, show_default="the study's")] = None,
    seeds: Annotated[str | None, typer.Option(help=SEEDS, show_default="the study's")] = None,
    budget: Budget = None,
    probe: Annotated[list[str] | None, option(RunRequest, "probes", show_default="the study's")] = None,
    set_: Annotated[list[str] | None, option(RunRequest, "sets")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the trials; run nothing.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Print the study as a TOML file.")] = False,
    table: Annotated[
        bool, typer.Option("--table", help="Print the table of the finished trials; run nothing.")
    ] = False,
    observe: Observe = None,
    on: Annotated[str, typer.Option(metavar="ENGINE", help="Where trials run: local or slurm.")] = "local",
    emit: Annotated[bool, _queued("Print the job script; submit nothing.", flag="--emit")] = False,
    status: Annotated[bool, _queued("Print the state of each trial; submit nothing.", flag="--status")] = False,
    cancel: Annotated[bool, _queued("Cancel the jobs of the study.", flag="--cancel")] = False,
    device: Device = None,
    results: Results = None,
    data_root: DataRoot = None,
) -> None:
    """Run every trial of a study, then show its table. Without NAME, list the studies.

    Options change all trials. Repeat the command to resume: finished trials are skipped, failed ones are tried again.
    With --on slurm the command submits the missing trials as a job array and returns.
    """
    from skelbench.plugin.host import get_host, request_more

    host = get_host()
    if study in (None, "list"):
        _list(host)
        return
    of_queue = {"--emit": emit, "--status": status, "--cancel": cancel}
    queue_options = [option for option, value in of_queue.items() if value]
    engine_class = host.subclass(host.get("engines", on), Engine)  # type: ignore[type-abstract]
    check_taken(engine_class, on, resources, [*queue_options, *(["--dry-run"] if dry_run and queue_options else [])])
    replaced = {"dataset": dataset, "split": split, "preset": preset, "budget": budget}
    from skelbench.pipeline.studies.files import named_study, naming_file, with_options

    named = named_study(study, host)
    host = request_more(named.plugins)
    numbers = {"tokens": tokens and numbers_of("--tokens", tokens, "8,15")}
    numbers |= {"seeds": seeds and numbers_of("--seeds", seeds, "0,1")}
    chosen = with_options(named, {**replaced, **numbers, "probe": probe or None}, set_ or [])

    if show:
        from skelbench.core.console import out
        from skelbench.pipeline.studies.files import write_study

        out.print(write_study(chosen), end="", soft_wrap=True)
        return
    observers = named_observers(host, observe)
    with naming_file(study if chosen == named else ""):  # else an option may be wrong
        protocols = known_protocols(host, chosen.probe)
        for kind, shown_by in (("tables", chosen.table), ("figures", chosen.figure)):
            if shown_by:
                shown_probe = getattr(host.get(kind, shown_by), "probe", "")  # figures have none
                if protocols and not any(protocol.startswith(shown_probe) for protocol in protocols):
                    more = f"add --probe {','.join((shown_probe, *protocols))}"
                    raise SkelbenchError(f"the study does not run {shown_probe}, which table {shown_by} shows; {more}")
        for request in (requests := list(chosen.requests())):
            check_request(request, host, data_root or default_data_root())  # mistakes fail before torch is imported
    from skelbench.core.console import err

    err.print(f"starting: {chosen.name}, {len(requests)} trials")
    import torch

    from skelbench.pipeline.pace import Timer
    from skelbench.pipeline.studies.local import recognize_all, work_through
    from skelbench.pipeline.studies.runner import processes
    from skelbench.pipeline.studies.trials import complete as trials_of
    from skelbench.pipeline.studies.trials import status as status_of

    if issubclass(engine_class, Queue):
        if any(request.budget and request.budget.kind == "minutes" for request in requests):
            raise SkelbenchError(
                f"--budget minutes is timed on this machine, and with --on {on} trials run on others; give clips, "
                "steps or flops"
            )
        session = open_session(results, data_root, "cpu", observers)
        session = replace(session, device=engine_class.device(resources, device) or "cpu")
        at_once = resources.max_parallel or 1
        threads = None if session.device == "cuda" else resources.cpus or 1
    else:
        session = open_session(results, data_root, engine_class.device(resources, device), observers)
        at_once, threads = processes(session.device, resources.jobs)
    session.results.check_readable()
    if threads is not None:
        torch.set_num_threads(threads)  # steps are timed with the threads of a trial
    trials = trials_of(chosen, host, session.data_root, session.device, Timer(session, keep=not dry_run))
    if (duplicates := len(requests) - len(trials)) > 0:
        err.print(f"note: {duplicates} of the trials are the same run as another trial; each run is made once")
    states = [(trial, status_of(trial, session, protocols)) for trial in trials]
    for trial in {trial.setting: trial for trial in trials}.values():
        if length := trial.resolved.length:
            err.print(f"{trial.method}, {trial.resolved.spec.tokens} tokens: {length.sentence}", soft_wrap=True)
    if dry_run:
        show_trials(chosen, states, session, at_once, threads)
        return
    if table:
        _table(chosen, trials, session, protocols)
        return
    engine = engine_class(StudyContext(chosen.name, session, protocols), resources)
    if isinstance(engine, Queue):
        from skelbench.cli import study_queue

        if not queue_options:  # the others write nothing
            recognize_all(states, session)
        if not study_queue.act(chosen, states, engine, "".join(queue_options)):
            return
        failures = {}
    else:
        failures = work_through(states, engine, at_once, threads)
    _table(chosen, trials, session, protocols)
    conclude(trials, failures)


def _list(host: Host) -> None:
    from skelbench.core.console import make_table, out

    rows = [(descriptor.name, descriptor.summary) for descriptor in host.all("studies")]
    out.print(make_table(("study", "what it asks"), rows))
    out.print("skelbench study NAME --dry-run lists the trials of one; --show prints it as a file to start from")


def show_trials(
    study: Study, states: list[tuple[Trial, Status]], session: Session, jobs: int, threads: int | None
) -> None:
    """Print the trials with their costs; a few steps of each setting are timed with ``threads``, nothing is written."""
    import torch

    from skelbench.core.console import duration, make_table, out
    from skelbench.evaluation.cost import BODIES
    from skelbench.pipeline.studies.trials import prices

    if threads is not None:
        torch.set_num_threads(threads)  # as many as the trials will have
    open_trials = [trial for trial, state in states if not state.done]
    settings = {trial.setting for trial, _ in states}
    with session.progress(total=len(settings), label="cost and time", unit="settings") as report:
        price = prices([trial for trial, _ in states], open_trials, session, report)
    rows, seconds = [], []
    for trial, state in states:
        spec, cost = trial.resolved.spec, price[trial.setting]
        remaining = 0.0 if state.done else cost.seconds and cost.seconds * (1 - state.share)
        seconds.append(remaining)
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
                "?" if remaining is None else duration(remaining) if remaining else "",
            )
        )
    columns = ("trial", "tokens", "seed", "data", "id", "state", "steps", f"step GFLOPs, {BODIES} bodies", "time")
    same = [i for i, name in enumerate(columns) if name in ("data", "steps") and len({row[i] for row in rows}) == 1]
    preset = ", ".join(dict.fromkeys(trial.resolved.preset for trial, _ in states))
    shared = ", ".join([f"preset {preset}", *(f"{columns[i]} {rows[0][i]}" for i in same)])
    out.print(f"{study.name}: {study.summary}\nAll trials: {shared}")
    heads, *cells = [[value for i, value in enumerate(row) if i not in same] for row in (columns, *rows)]
    out.print(make_table([*map(str, heads)], cells))
    if study.then:
        out.print(f"then, for every finished run: {study.then}")
    if not open_trials:
        out.print(f"{len(states)} trials, all done")
        return
    durations = [remaining for remaining in seconds if remaining is not None]
    about = duration(max([sum(durations) / jobs, *durations]))
    unknown = f", {len(seconds) - len(durations)} of unknown duration" if len(durations) < len(seconds) else ""
    out.print(
        f"{len(states)} trials, {len(states) - len(open_trials)} done{unknown}. About {about} on {session.device} with "
        f"{jobs} in parallel ({duration(sum(durations))} of training in all); probes come on top"
    )


def conclude(trials: list[Trial], failures: Failures) -> None:
    """Print the trials that failed and the number of the others; exit code 3 if one failed."""
    from skelbench.core.console import LEFT_OUT, out

    say_failed(trials, failures)
    out.print(f"{len(trials) - len(failures)} of {len(trials)} trials done")
    if failures:
        raise typer.Exit(LEFT_OUT)


def say_failed(trials: list[Trial], failures: Failures) -> None:
    """Print the trials that failed, with reasons and logs."""
    from skelbench.core.console import err, styled
    from skelbench.core.text import plain

    for trial in trials:
        if trial.id in failures:
            reason, log = failures[trial.id]
            err.print(
                styled(("failed:", "bold red"), f" {plain(f'{trial.title}: {reason} (see {log})')}"), soft_wrap=True
            )


def _table(study: Study, trials: list[Trial], session: Session, protocols: list[str]) -> None:
    """Print the study's table of its own runs, and next commands; an error of the table is a note."""
    from skelbench.cli.summary import named_data, named_root
    from skelbench.core.console import err, out, styled
    from skelbench.core.text import plain
    from skelbench.pipeline.budget import KINDS
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
    free = LENGTH if study.table == SCALING else {f"budget {kind}" for kind in KINDS}
    changed = any(set(trial.resolved.modified).difference(free) for trial in trials)
    inputs = TableInputs(host, results, exact_only=not changed, only=names, progress=session.progress)
    # The table of a study shows exact presets only: without rows, or without such a table, print the general one.
    for table in dict.fromkeys(name for name in (study.table, "linear") if name in host.names("tables")):
        try:
            built = inputs.table(table)
            if built.rows or table == "linear":
                out.print(Terminal(built, notes=False, hint="compare --wide"))
                break
        except Exception as error:  # the runs took hours: an error of the table must not hide them
            err.print(f"note: table {table} could not be made: {plain(one_line(error))}", soft_wrap=True)
    out.print("Next:")
    where = named_root(results.root)
    compare = f"  skelbench compare --table {table}{' --all' if changed else ''}{where}"
    out.print(styled(compare, ("  # from all runs there are", "dim")), soft_wrap=True)
    if study.then:  # commands that need a choice of the user
        own = {trial.id for trial in trials}
        for run in results.read():
            if run.outcome == "done" and run.spec.id in own:
                then = study.then.replace("RUN", run.name) + run.plugin_files + where + named_data(session.data_root)
                out.print(f"  {plain(then)}", soft_wrap=True)
    if study.figure in host.names("figures"):
        plot = f"  skelbench plot {study.figure}{' --all' if changed else ''}{where}"
        out.print(styled(plot, ("  # as a figure", "dim")), soft_wrap=True)
