"""``skelbench suite``: what is frozen, whether it is what is here, and the rows and the table of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from skelbench.cli import complete
from skelbench.cli.options import DataRoot, Device, Jobs, ReadResults, Results, names_of
from skelbench.core.errors import SkelbenchError, did_you_mean

if TYPE_CHECKING:
    from skelbench.pipeline.session import Session
    from skelbench.pipeline.studies.trials import Trial
    from skelbench.plugin.host import Host
    from skelbench.reporting.suites.match import Check, Recorded
    from skelbench.reporting.suites.suite import Suite

USUAL = "skeleton-v1"


class _Named(TyperGroup):
    """``suite NAME`` is ``suite show NAME``, and ``suite`` alone lists them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:  # a shell asks what may come
            pass
        elif not args:
            args = ["list"]
        elif not args[0].startswith("-") and args[0] not in self.commands:
            args = ["show", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_Named,
    help="Frozen suites: `suite` lists them, `suite NAME` shows what one freezes and whether that is what is here.",
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="A suite.", autocompletion=complete.names("suites"))]
Of = Annotated[str, typer.Option("--suite", help="The suite.", autocompletion=complete.names("suites"))]


@app.command("list")
def list_suites() -> None:
    """All suites, with their hashes."""
    from skelbench.core.console import make_table, out
    from skelbench.plugin.host import get_host
    from skelbench.reporting.suites.suite import find_suite

    host = get_host()
    rows = [(about.name, find_suite(host, about.name).hash, about.summary) for about in host.all("suites")]
    out.print(make_table(("suite", "hash", "what it compares"), rows))
    out.print("skelbench suite NAME shows what one freezes; skelbench suite run METHOD makes a row of it")


@app.command()
def show(name: Name, results: ReadResults = None, data_root: DataRoot = None) -> None:
    """What a suite freezes, its hash, and whether this installation and the data here are that: exit code 1 if not."""
    from skelbench.core.console import err, make_table, out
    from skelbench.data.store.roots import data_root as default_data_root
    from skelbench.plugin.host import get_host
    from skelbench.records.store import ResultStore
    from skelbench.reporting.suites.match import Recorded, data, installation
    from skelbench.reporting.suites.suite import find_suite

    host = get_host()
    suite = find_suite(host, name)
    recorded = Recorded(suite, ResultStore(results))
    checks = [*installation(suite, host), *data(suite, host, data_root or default_data_root(), recorded)]
    out.print(make_table(("frozen", "what"), _frozen(suite), title=f"suite {suite.name}, hash {suite.hash}"))
    out.print(make_table(("part", "here", "frozen as"), _states(suite, checks)))
    for check in checks:
        if check.state in ("not here", "new"):
            err.print(f"note: {check.sentence}", soft_wrap=True)
    wrong = [check for check in checks if check.state == "differs"]
    for check in wrong:
        err.print(f"differs: {check.sentence}", soft_wrap=True)
    if wrong:
        out.print(f"{len(wrong)} parts differ: rows made here with them are no rows of {suite.title}")
        raise typer.Exit(1)
    out.print(f"this installation is what {suite.title} froze")


def _frozen(suite: Suite) -> list[tuple[str, str]]:
    grids = ", ".join(f"{tokens} ({grid.frames}/{grid.patch})" for tokens, grid in suite.grids.items())
    return [
        ("what it compares", suite.summary),
        ("encoder", suite.encoder),
        ("temporal tokens (T/P_T)", grids),
        ("presets", ", ".join(suite.presets)),
        ("protocols", ", ".join(suite.protocols)),
        ("seeds", ", ".join(map(str, suite.seeds))),
        *((f"data set {name}", ", ".join(data.splits)) for name, data in suite.datasets.items()),
    ]


def _states(suite: Suite, checks: list[Check]) -> list[tuple[str, str, str]]:
    """A line for every part; components that are the same on one."""
    same = [check for check in checks if check.part in suite.components and check.state == "same"]
    rows: list[tuple[str, str, str]] = [(one.part, one.state, one.frozen) for one in checks if one not in same]
    return [*rows, (f"{len(same)} components", "same", "by version")] if same else rows


# ---------------------------------------------------------------------------------------------------- freeze
@app.command()
def freeze(
    plan: Annotated[Path, typer.Argument(metavar="PLAN.toml", help="Name, data sets, protocols, seeds of the suite.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The JSON file to write.")],
    data_root: DataRoot = None,
) -> None:
    """Freeze a suite of your own: what this installation and the data here are now, with their versions and hashes.

    A plugin announces the file by the hook skelbench_suites. Of data sets that are made the same everywhere the
    contents are frozen, of others the rules of their splits.
    """
    from skelbench.core.console import out
    from skelbench.core.files import write_json
    from skelbench.data.store.roots import data_root as default_data_root
    from skelbench.plugin.host import get_host
    from skelbench.reporting.suites.freeze import KNOWN, fixed_datasets, read_plan
    from skelbench.reporting.suites.freeze import freeze as frozen
    from skelbench.reporting.suites.match import open_store

    chosen, host, root = read_plan(plan), get_host(), data_root or default_data_root()
    stores = {name: open_store(name, host, root) for name in chosen.datasets if name not in KNOWN}
    made = frozen(chosen, host, stores, fixed_datasets(host))
    try:
        write_json(output, made.model_dump(mode="json"))
    except OSError as error:
        raise SkelbenchError(f"cannot write {output}: {error.strerror or error}; choose another place") from error
    out.print(f"wrote {output}: suite {made.title}", soft_wrap=True)


# ---------------------------------------------------------------------------------------------------- run
@app.command()
def run(
    method: Annotated[
        str, typer.Argument(metavar="METHOD", help="METHOD or METHOD:VARIANT.", autocompletion=complete.methods)
    ],
    suite: Of = USUAL,
    dataset: Annotated[
        str | None,
        typer.Option(help="Data set.", show_default="the suite's first", autocompletion=complete.datasets),
    ] = None,
    split: Annotated[str | None, typer.Option(help="Split.", show_default="all of the suite's")] = None,
    preset: Annotated[
        str | None, typer.Option(help="Preset.", show_default="the suite's first", autocompletion=complete.presets)
    ] = None,
    tokens: Annotated[int | None, typer.Option(help="Temporal tokens.", show_default="the suite's first")] = None,
    probe: Annotated[
        str | None,
        typer.Option(help="Some of the suite's protocols; all = every one.", show_default="those of the preset"),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the runs with id, state, cost and time; run nothing.")
    ] = False,
    jobs: Jobs = None,
    device: Device = None,
    results: Results = None,
    data_root: DataRoot = None,
) -> None:
    """Make everything that a row of a suite needs: a run with each of its seeds, their controls, all protocols, costs.

    What is done is skipped, what was interrupted goes on; issuing the same command again continues. A method of a
    plugin file is a row as any other: --plugin mine.py.
    """
    from skelbench.pipeline.studies.study import Study
    from skelbench.plugin.host import get_host
    from skelbench.reporting.controls import CONTROLS
    from skelbench.reporting.suites.suite import find_suite

    host = get_host()
    found = find_suite(host, suite)
    about, _ = host.method(method)  # a misspelt name fails before torch is imported
    if about.name in CONTROLS:
        raise SkelbenchError(f"{about.name} is a control, made beside every row; name a method that trains")
    chosen = _chosen(found, dataset, split, preset, tokens, probe)
    study = Study(
        name=found.name,
        summary=f"rows of suite {found.title}",
        seeds=found.seeds,
        probe=chosen["probe"],
        dataset=chosen["dataset"],
        preset=chosen["preset"],
        grid={"split": chosen["splits"], "method": (method,), "tokens": (chosen["tokens"],)},
    )
    _make(found, study, host, dry_run, jobs, device, results, data_root)


def _chosen(
    suite: Suite, dataset: str | None, split: str | None, preset: str | None, tokens: int | None, probe: str | None
) -> dict[str, Any]:
    """What was asked for of what the suite has."""
    from skelbench.data.store.splits import full_name

    def one(asked: str | None, known: Any, what: str) -> str:
        names = list(known)
        if asked is not None and asked not in names:
            raise SkelbenchError(did_you_mean(asked, names, f"{what} (suite {suite.name})"))
        return asked or names[0]

    of_preset = suite.presets[one(preset, suite.presets, "preset")].protocols or tuple(suite.protocols)
    asked = tuple(suite.protocols) if probe == "all" else tuple(names_of(probe or "")) or of_preset
    chosen_set = one(dataset, suite.datasets, "data set")
    splits = suite.datasets[chosen_set].splits
    return {
        "dataset": chosen_set,
        "splits": tuple(splits) if split is None else (one(full_name(split), splits, "split"),),
        "preset": one(preset, suite.presets, "preset"),
        "tokens": int(one(None if tokens is None else str(tokens), suite.grids, "number of temporal tokens")),
        "probe": tuple(one(name, suite.protocols, "protocol") for name in asked),
    }


def _make(
    suite: Suite, study: Any, host: Host, dry_run: bool, jobs: int | None, device: str | None,
    results: Path | None, data_root: Path | None,
) -> None:  # fmt: skip
    """Bring the trials of a suite to their ends, mark their runs as its rows and show the table."""
    import torch

    from skelbench.cli.study import say_failed, show_trials, work_through
    from skelbench.core.console import LEFT_OUT, out
    from skelbench.pipeline.session import open_session
    from skelbench.pipeline.studies.runner import processes
    from skelbench.pipeline.studies.trials import complete as trials_of
    from skelbench.pipeline.studies.trials import status
    from skelbench.reporting.suites.match import Recorded, data_check, installation

    session = open_session(results, data_root, device)
    session.results.check_readable()
    trials = trials_of(study, host, session.data_root, session.device)
    recorded = Recorded(suite, session.results)
    store = trials[0].resolved.store
    checks = [*installation(suite, host), data_check(suite, study.dataset, store, recorded)]
    _refuse(suite, checks, recorded, trials)
    protocols = list(study.probe)
    states = [(trial, status(trial, session, protocols)) for trial in trials]
    at_once, threads = processes(session.device, jobs)
    if dry_run:
        if threads is not None:
            torch.set_num_threads(threads)  # what is timed here is timed as trials are made
        show_trials(study, states, session, at_once)
        out.print(f"suite {suite.title}: {len(protocols)} protocols for each run and its controls")
        return
    session.results.prepare()
    recorded.record(study.dataset, store)
    failures = work_through(study.name, states, session, protocols, at_once, threads)
    _mark(suite, session, [trial for trial in trials if trial.id not in failures])
    _print_table(suite, session.results.root, session.host, "", None, None)
    say_failed(trials, failures)
    out.print(f"{len(states) - len(failures)} of {len(states)} runs done")
    if failures:
        raise typer.Exit(LEFT_OUT)


def _refuse(suite: Suite, checks: list[Check], recorded: Recorded, trials: list[Trial]) -> None:
    """SkelbenchError if what would be made here were no row: what differs here, or what the method is. Of other parts
    those that a run is made of matter, and all that protocols degrade clips with."""
    from skelbench.reporting.suites.rows import run_reasons

    trained = [part for part in suite.components if not part.startswith("degradations ")]
    wrong = [check for check in checks if check.state == "differs" and check.part not in trained]
    for trial in trials:
        spec, resolved = trial.resolved.spec, trial.resolved
        info = {"outcome": "done", "modified": resolved.modified, "setting": resolved.setting}
        if reasons := run_reasons(suite, recorded, {**info, "preset": resolved.preset}, spec):
            raise SkelbenchError(f"{trial.title} would be no row of {suite.title}: {reasons[0]}")
    if wrong:
        more = f" (and {len(wrong) - 1} more parts)" if len(wrong) > 1 else ""
        raise SkelbenchError(
            f"rows made here would be none of {suite.title}: {wrong[0].sentence}{more}; see "
            f"`skelbench suite {suite.name}`"
        )


def _mark(suite: Suite, session: Session, trials: list[Trial]) -> None:
    """Write into run.json for which suite, and which hash of it, runs were made."""
    from skelbench.records.provenance import FIELD
    from skelbench.reporting.suites.rows import MARK

    for trial in trials:
        run = session.results.by_id(trial.id)
        if run is None or FIELD in run.info or run.info.get(MARK, {}).get(suite.name) == suite.hash:
            continue
        run.update(**{MARK: {**run.info.get(MARK, {}), suite.name: suite.hash}})


# ---------------------------------------------------------------------------------------------------- table
@app.command()
def table(
    suite: Annotated[
        str, typer.Argument(metavar="NAME", help="A suite.", autocompletion=complete.names("suites"))
    ] = USUAL,
    name: Annotated[
        str,
        typer.Option(
            "--table",
            help="Another table, made of the suite's rows alone.",
            show_default="one row for each method, one column for each protocol",
            autocompletion=complete.names("tables"),
        ),
    ] = "",
    format_: Annotated[
        str | None,
        typer.Option(
            "--format", help="terminal, md, csv, json, latex or html.", show_default="terminal; with -o by name"
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write to a file instead.")] = None,
    results: ReadResults = None,
) -> None:
    """The table of a suite, with its name and hash. Runs that are no rows of it are left out, each with the reason."""
    from skelbench.plugin.host import get_host
    from skelbench.records.store import ResultStore
    from skelbench.reporting.suites.suite import find_suite

    host = get_host()
    found = find_suite(host, suite)
    if name:
        host.get("tables", name)
    store = ResultStore(results)
    store.check_readable()
    _print_table(found, store.root, host, name, format_, output)


MOST_REASONS = 20


def _print_table(suite: Suite, root: Path, host: Host, name: str, format_: str | None, output: Path | None) -> None:
    from skelbench.cli.tables import format_of, put
    from skelbench.core.console import err, progress
    from skelbench.records.store import ResultStore
    from skelbench.reporting.suites.table import SuiteInputs, leaderboard, stamped
    from skelbench.reporting.table import Table

    format_ = format_of(format_, output)
    inputs = SuiteInputs(host, ResultStore(root), progress=progress, suite=suite)
    if name:
        descriptor = host.get("tables", name)
        built = host.checked(descriptor, host.load(descriptor)(inputs), Table, "skelbench.reporting.table.Table")
    else:
        built = leaderboard(inputs)
    built = stamped(built, suite, inputs.added)
    for run, reasons in list(inputs.reasons.items())[:MOST_REASONS]:
        err.print(f"note: left out: {run}: {reasons[0]}", soft_wrap=True)
    if (more := len(inputs.reasons) - MOST_REASONS) > 0:
        err.print(f"note: and {more} more runs")
    put(built, format_, output)
