"""``skelbench runs list|show``; export, verify and add are in :mod:`skelbench.cli.runs_exchange`."""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer

from skelbench.cli import complete, runs_exchange
from skelbench.cli.options import DataRoot, ReadResults

app = typer.Typer(no_args_is_help=True, help="What is in the results directory.")
runs_exchange.register(app)


@app.command("list")
def list_runs(results: ReadResults = None) -> None:
    """All runs: method and variant, outcome, preset, headline accuracy."""
    from skelbench.console import make_table, out
    from skelbench.results.store import ResultStore

    store = ResultStore(results)
    runs = store.read()
    if not runs:
        out.print(f"no runs in {store.root} yet; start with: skelbench run METHOD --tokens 8")
        return
    rows = []
    for run in runs:
        info = run.info
        latest = {r["spec"]["protocol"]: r["metrics"]["accuracy"] for r in run.records() if r["standard"]}
        rows.append(
            (
                run.title,
                run.name,
                info["outcome"],
                info["preset"] + ("+" if info["modified"] else ""),
                run.hardware,
                *(f"{latest[name]:.1%}" if name in latest else "" for name in ("linear", "knn")),
                time.strftime("%Y-%m-%d %H:%M", time.localtime(info.get("created", 0.0))),
            )
        )
    out.print(make_table(("method", "run", "outcome", "preset", "hardware", "linear", "knn", "made"), rows))
    for run in runs:
        if run.reason:
            out.print(f"{run.outcome}: {run.name}: {run.reason}", soft_wrap=True)


@app.command()
def show(
    run: Annotated[
        str, typer.Argument(help="Run name, id, or an unambiguous part of either.", autocompletion=complete.runs)
    ],
    classes: Annotated[
        bool, typer.Option("--classes", help="Accuracy class by class, and what is taken for what.")
    ] = False,
    protocol: Annotated[
        str, typer.Option(help="Of --classes: whose predictions.", autocompletion=complete.names("protocols"))
    ] = "linear",
    dataset: Annotated[
        str | None,
        typer.Option(
            help="Of --classes: the data set of the evaluation, if there are several.", autocompletion=complete.datasets
        ),
    ] = None,
    split: Annotated[str | None, typer.Option(help="Of --classes: its split.", autocompletion=complete.splits)] = None,
    stream: Annotated[str | None, typer.Option(help="Of --classes: its stream.")] = None,
    top: Annotated[int, typer.Option(min=0, help="Of --classes: so many of the hardest classes; 0 = all.")] = 15,
    best_on_test: Annotated[
        bool,
        typer.Option(
            "--best-on-test", help="Also the highest test accuracy of a probe's checkpoints: chosen on test data."
        ),
    ] = False,
    results: ReadResults = None,
    data_root: DataRoot = None,
) -> None:
    """Everything recorded about one run; with --classes which classes are hard, and the pairs that are confused."""
    from skelbench.cli.summary import print_records
    from skelbench.console import out
    from skelbench.results.store import ResultStore

    found, checkpoint = ResultStore(results).find(run)
    if classes:
        from skelbench.cli.classes import print_classes

        print_classes(found, checkpoint, protocol, top, data_root, dataset, split, stream)
        return
    out.print_json(json.dumps(found.info))
    if cost := found.cost():
        out.print_json(json.dumps(cost))
    if kept := found.snapshots():
        out.print(f"encoder snapshots at epochs {', '.join(kept)}: skelbench eval {found.spec.id}@{kept[-1]}")
    if records := found.records():
        print_records(found, records, best_on_test)
