"""``skelbench suite``: shows suites, makes the runs of their rows and shows their tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skelbench.cli.options import DataRoot, Device, Format, Jobs, ReadResults, Results, ToFile
from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.pipeline.request import EvaluationRequest, comma_separated

USUAL = "skeleton-v1"
MOST_REASONS = 20
app = typer.Typer(no_args_is_help=True, help="Show and run suites: fixed settings for all rows of one table.")
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the suite.")]


@app.command()
def show(suite: Name = USUAL) -> None:
    """Show the settings of a suite."""
    from skelbench.core.console import print_facts
    from skelbench.plugin.host import get_host
    from skelbench.reporting.suites.suite import find_suite

    selected = find_suite(get_host(), suite)
    facts = {
        "summary": selected.summary,
        "encoder": selected.encoder,
        "temporal tokens": ", ".join(map(str, selected.tokens)),
        "seeds": ", ".join(map(str, selected.seeds)),
        "protocols": ", ".join(selected.protocols),
    }
    facts |= {f"preset {key}": ", ".join(names) or "all protocols" for key, names in selected.presets.items()}
    facts |= {f"dataset {key}": ", ".join(splits) for key, splits in selected.datasets.items()}
    facts |= {f"evaluated on {key}": split for key, split in selected.evaluated.items()}
    print_facts(facts.items(), title=f"Suite {selected.name}")


@app.command()
def run(
    method: Annotated[str, typer.Argument(metavar="METHOD", help="Name of a method, or METHOD:VARIANT.")],
    suite: Annotated[str, typer.Option("--suite", help="Name of the suite.")] = USUAL,
    dataset: Annotated[str | None, typer.Option(help="Dataset of the suite.", show_default="the suite's first")] = None,
    split: Annotated[str | None, typer.Option(help="Split of the suite.", show_default="all")] = None,
    preset: Annotated[str | None, typer.Option(help="Preset of the suite.", show_default="the suite's first")] = None,
    tokens: Annotated[int | None, typer.Option(help="Temporal tokens.", show_default="the suite's first")] = None,
    probe: Annotated[str | None, typer.Option(help="Protocols, or all.", show_default="the preset's")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the runs; run nothing.")] = False,
    jobs: Jobs = None,
    device: Device = None,
    results: Results = None,
    data_root: DataRoot = None,
) -> None:
    """Run everything that one row of a suite needs: all seeds, baselines, protocols and costs.

    Repeat the command to resume interrupted runs. Finished runs are skipped.
    """
    from skelbench.data.store.splits import full_name
    from skelbench.pipeline.studies.study import Study
    from skelbench.plugin.host import get_host
    from skelbench.reporting.controls import CONTROLS
    from skelbench.reporting.suites.suite import find_suite

    host = get_host()
    selected = find_suite(host, suite)
    about, _ = host.method(method)  # a misspelled name fails before torch is imported
    if about.name in CONTROLS:
        raise SkelbenchError(f"{about.name} is a control, made with every row; name a method that trains")

    def one(value: str | None, choices: list[str], noun: str) -> str:
        if value is not None and value not in choices:
            raise SkelbenchError(did_you_mean(value, choices, f"{noun} (suite {selected.name})"))
        return value or choices[0]

    dataset, preset = one(dataset, [*selected.datasets], "dataset"), one(preset, [*selected.presets], "preset")
    splits = [*selected.datasets[dataset]]
    numbers = [*map(str, selected.tokens)]
    probes = () if probe == "all" else comma_separated(probe or "") or selected.presets[preset]
    protocols = tuple(one(name, [*selected.protocols], "protocol") for name in probes or selected.protocols)
    study = Study(
        name=selected.name,
        summary=f"rows of suite {selected.name}",
        seeds=selected.seeds,
        probe=() if selected.evaluated else protocols,
        dataset=dataset,
        preset=preset,
        grid={
            "split": tuple(splits) if split is None else (one(full_name(split), splits, "split"),),
            "method": (method,),
            "tokens": (int(one(str(tokens) if tokens else None, numbers, "number of temporal tokens")),),
        },
    )
    from skelbench.api.evaluations import evaluate_runs
    from skelbench.cli.study import conclude, show_trials
    from skelbench.pipeline.session import open_session
    from skelbench.pipeline.studies.engine import ResourceRequest, StudyContext
    from skelbench.pipeline.studies.local import Local, work_through
    from skelbench.pipeline.studies.runner import processes
    from skelbench.pipeline.studies.trials import complete as trials_of
    from skelbench.pipeline.studies.trials import status

    session = open_session(results, data_root, device)
    session.results.check_readable()
    trials = trials_of(study, host, session.data_root, session.device)
    if wrong := next((trial for trial in trials if trial.resolved.spec.encoder != selected.encoder), None):
        raise SkelbenchError(
            f"{wrong.title} has its own encoder; rows of {selected.name} have encoder {selected.encoder}"
        )
    probed_in_trials = list(study.probe)
    states = [(trial, status(trial, session, probed_in_trials)) for trial in trials]
    at_once, threads = processes(session.device, jobs)
    if dry_run:
        show_trials(study, states, session, at_once, threads)
        return
    engine = Local(StudyContext(study.name, session, probed_in_trials), ResourceRequest(jobs=at_once))
    failures = work_through(states, engine, at_once, threads)
    for name, other_split in selected.evaluated.items():
        evaluation = EvaluationRequest(dataset=name, split=other_split)
        for trial in trials:
            if trial.id not in failures and (trained := session.results.by_id(trial.id)):
                evaluate_runs(session, [(trained, "last")], protocols, evaluation)
    _print_table(selected.name, session.results.root)
    conclude(trials, failures)


@app.command()
def table(suite: Name = USUAL, format_: Format = None, output: ToFile = None, results: ReadResults = None) -> None:
    """Show the table of a suite: one row for each method, one column for each protocol."""
    _print_table(suite, results, format_, output)


def _print_table(suite: str, root: Path | None, format_: str | None = None, output: Path | None = None) -> None:
    from skelbench.cli.tables import format_of, put
    from skelbench.core.console import err, progress
    from skelbench.plugin.host import get_host
    from skelbench.records.store import ResultStore
    from skelbench.reporting.suites.suite import find_suite
    from skelbench.reporting.suites.table import leaderboard, skipped, suite_inputs

    host, store = get_host(), ResultStore(root)
    selected, format_ = find_suite(host, suite), format_of(format_, output)
    built = leaderboard(selected, suite_inputs(selected, host, store, progress))
    reasons = [f"note: skipped {run}: {reason}" for run, reason in skipped(selected, store).items()]
    for reason in reasons[:MOST_REASONS]:
        err.print(reason, soft_wrap=True)
    if (more := len(reasons) - MOST_REASONS) > 0:
        err.print(f"note: {more} more runs skipped")
    put(built, format_, output)
