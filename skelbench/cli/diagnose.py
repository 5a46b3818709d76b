"""``skelbench diagnose``: checks of what a paper claims beside its accuracies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skelbench.cli.options import DataRoot, Device, Force, Results, kind_of_picture
from skelbench.errors import SkelbenchError
from skelbench.run.session import Session, open_session

if TYPE_CHECKING:
    from skelbench.diagnose.frozen import Frozen
    from skelbench.report.table import Table

app = typer.Typer(
    no_args_is_help=True, help="Interpolation shortcuts, invariance, time order, classes: what runs show."
)

RUN_HELP = "Run name, id, or part of either; RUN@50 = its snapshot at epoch 50."
VERSION = {"interpolation": 1, "invariance": 1, "order": 1}
"""In the hash of a record's settings: raised when what is measured changes."""

Format = Annotated[str, typer.Option("--format", help="terminal, md, csv, json or latex.")]
Picture = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="FILE", help="Also a picture: png, svg or pdf.")
]


@app.command()
def interpolation(
    run: Annotated[str | None, typer.Argument(help=RUN_HELP, show_default="the coordinates alone")] = None,
    dataset: Annotated[str | None, typer.Option(help="Data set, without RUN.", show_default="synthetic")] = None,
    split: Annotated[str | None, typer.Option(help="Split, without RUN.", show_default="the data set's")] = None,
    tokens: Annotated[
        int | None, typer.Option(help="Temporal tokens, without RUN: 8, 15 or 30.", show_default="8")
    ] = None,
    ratio: Annotated[str, typer.Option(help="Target mask ratios, comma separated.")] = "0.5,0.6,0.7,0.8,0.9",
    masks: Annotated[int, typer.Option(min=2, help="Masks of each kind and ratio, each scored on every clip.")] = 64,
    clips: Annotated[int, typer.Option(min=2, help="At most so many training and so many test clips.")] = 1000,
    format_: Format = "terminal",
    output: Picture = None,
    device: Device = None,
    results: Results = None,
    data_root: DataRoot = None,
    force: Force = False,
) -> None:
    """How well local linear interpolation fills in hidden tokens: independent random masks against connected tubes.

    Hidden coordinates, and with RUN the hidden token features of its encoder too.
    """
    ratios = _ratios(ratio)
    _check(format_, output)
    if run is not None and (dataset, split, tokens) != (None, None, None):
        raise SkelbenchError("--dataset, --split and --tokens go without RUN: a run brings its own")
    session = open_session(results, data_root, device)
    from dataclasses import replace

    from skelbench.diagnose import figures, tables
    from skelbench.diagnose import interpolation as diagnosis
    from skelbench.diagnose.frozen import subjects
    from skelbench.diagnose.record import kept, of_each

    runs: dict[str, Frozen] = {}
    if run is None:
        data, seen = _clips(session, dataset or "synthetic", split, 8 if tokens is None else tokens)
    else:
        runs = subjects(session, [run])
        asked = next(iter(runs.values()))
        data = asked.spec.data
        seen = replace(asked.clips, bodies="valid", centre="body", resize="ends", share=0.95)
    sides = seen.sides(data.split, clips)
    settings = {"version": VERSION["interpolation"], "ratios": ratios, "masks": masks, "clips": clips}
    of_data = {"data": data.model_dump(mode="json"), "grid": list(seen.grid), **settings}
    session.results.prepare()
    found = {
        "coordinates": kept(
            session.results.root,
            "interpolation",
            of_data,
            lambda: diagnosis.of_coordinates(seen, sides, ratios, masks, session.progress),
            force,
        )
    }
    of_runs = of_each(
        runs,
        "interpolation",
        settings,
        lambda one: diagnosis.of_features(one, sides, ratios, masks, session.progress),
        force,
    )
    found |= {f"{label} features": record for label, record in of_runs.items()}
    records = _show(tables.interpolation, found, format_)
    if output is not None:
        _draw(figures.interpolation(records), output)


@app.command()
def invariance(
    run: Annotated[list[str], typer.Argument(help=RUN_HELP)],
    clips: Annotated[int, typer.Option(min=2, help="At most so many test clips.")] = 500,
    format_: Format = "terminal",
    output: Picture = None,
    device: Device = None,
    results: Results = None,
    data_root: DataRoot = None,
    force: Force = False,
) -> None:
    """Curves of the features of finished RUNs over yaw and body size, beside their untrained encoders: how like its
    own original a changed clip stays, and whether that is still the nearest."""
    _check(format_, output)
    session = open_session(results, data_root, device)
    from skelbench.diagnose import figures, tables
    from skelbench.diagnose import invariance as diagnosis
    from skelbench.diagnose.frozen import subjects
    from skelbench.diagnose.record import of_each

    found = of_each(
        subjects(session, run),
        "invariance",
        {"version": VERSION["invariance"], "clips": clips},
        lambda one: diagnosis.of_run(one, one.sides(clips)[1], session.progress),
        force,
    )
    records = _show(tables.invariance, found, format_)
    if output is not None:
        _draw(figures.invariance(records), output)


@app.command()
def order(
    run: Annotated[list[str], typer.Argument(help=RUN_HELP)],
    clips: Annotated[int, typer.Option(min=2, help="At most so many training and so many test clips.")] = 1000,
    format_: Format = "terminal",
    device: Device = None,
    results: Results = None,
    data_root: DataRoot = None,
    force: Force = False,
) -> None:
    """Order probe of finished RUNs: does a linear layer on the frozen features tell a clip from the same clip
    backwards? Beside their untrained encoders."""
    _check(format_)
    session = open_session(results, data_root, device)
    from skelbench.diagnose import order as diagnosis
    from skelbench.diagnose import tables
    from skelbench.diagnose.frozen import subjects
    from skelbench.diagnose.record import of_each

    runs = subjects(session, run)
    found = of_each(
        runs,
        "order",
        {"version": VERSION["order"], "clips": clips, "probe": diagnosis.CONFIG.model_dump(mode="json")},
        lambda one: diagnosis.of_run(one, one.sides(clips), session.progress),
        force,
    )
    name_of = {one.run.name: label for label, one in runs.items()}
    twins = {label: name_of[one.twin.run.name] for label, one in runs.items() if one.twin is not None}
    _show(lambda records: tables.order(records, twins), found, format_)


@app.command("per-class")
def per_class(
    first: Annotated[str, typer.Argument(metavar="RUN", help=RUN_HELP)],
    second: Annotated[str, typer.Argument(metavar="RUN", help="The other run.")],
    protocol: Annotated[str, typer.Option(help="Whose predictions are compared.")] = "linear",
    format_: Format = "terminal",
    results: Results = None,
    data_root: DataRoot = None,
) -> None:
    """Two finished runs class by class, for instance of 8 and of 30 tokens: from the predictions of their evaluations
    on the same clips, with exact paired tests."""
    _check(format_)
    session = open_session(results, data_root, "cpu")
    from skelbench.diagnose import per_class as diagnosis
    from skelbench.diagnose import tables
    from skelbench.diagnose.frozen import Frozen
    from skelbench.diagnose.record import kept

    session.host.get("protocols", protocol)
    found = [session.results.find(pattern) for pattern in (first, second)]
    runs = [run for run, _ in found]
    records = [diagnosis.evaluation(run, protocol, checkpoint) for run, checkpoint in found]
    diagnosis.check_alike(runs, records)
    labels = [Frozen(session, run, checkpoint).label for run, checkpoint in found]
    if labels[0] == labels[1]:
        labels = [f"{label} ({run.spec.id})" for label, run in zip(labels, runs)]
    # Counting takes less time than looking whether it was done: never read back.
    compared = kept(
        runs[0].path,
        "per-class",
        {"evaluations": [record["id"] for record in records]},
        lambda: diagnosis.of_runs(runs, records, (labels[0], labels[1])),
        force=True,
    )
    from skelbench.run.resolve import open_dataset

    classes = open_dataset(records[0]["spec"]["data"]["name"], session.host, session.data_root).classes
    _show(lambda found: tables.per_class(found["both"], classes), {"both": compared}, format_)


def _ratios(text: str) -> list[float]:
    try:
        ratios = [float(part) for part in text.split(",")]
    except ValueError:
        ratios = []
    if not ratios or not all(0 < ratio < 1 for ratio in ratios):
        raise SkelbenchError(f"--ratio {text}: write shares between 0 and 1, comma separated, such as 0.5,0.9")
    return ratios


def _check(format_: str, output: Path | None = None) -> None:
    """What can be wrong with how it is to be shown, before the work."""
    from skelbench.errors import did_you_mean
    from skelbench.report.render import FORMATS

    if format_ not in FORMATS:
        raise SkelbenchError(did_you_mean(format_, FORMATS, "format"))
    if output is not None:
        kind_of_picture(output)


def _clips(session: Session, dataset: str, split: str | None, tokens: int) -> tuple[Any, Any]:
    """Data spec and clips of a data set on a grid of the paper's, no run being asked for."""
    import torch

    from skelbench.diagnose.frozen import Clips
    from skelbench.run.resolve import data_of, open_dataset
    from skelbench.skeleton.grid import BUDGETS, Grid
    from skelbench.spec import DataSpec

    if tokens not in BUDGETS:
        raise SkelbenchError(f"--tokens {tokens}: the token grids are 8, 15 and 30")
    store = open_dataset(dataset, session.host, session.data_root)
    data = data_of(DataSpec(), store, dataset, store.split(split).name)
    grid = Grid(*BUDGETS[tokens], store.topology.num_joints)
    return data, Clips(store, grid, torch.device(session.device))


def _show(
    build: Callable[[dict[str, Any]], Table], found: Mapping[str, tuple[dict[str, Any], Path]], format_: str
) -> dict[str, Any]:
    """Print the table of the records in ``found`` (name -> record and its file); returns the records."""
    from skelbench.console import err, out
    from skelbench.report.render import Terminal, render

    records = {name: record for name, (record, _) in found.items()}
    table = build(records)
    if format_ == "terminal":
        out.print(Terminal(table))
    else:
        out.print(render(table, format_), markup=False, highlight=False, soft_wrap=True)
    for _, path in found.values():
        err.print(f"kept in {path}", markup=False)
    return records


def _draw(figure: Any, output: Path) -> None:
    from skelbench.console import err
    from skelbench.report.figures.output import save

    save(figure, output, kind_of_picture(output))
    err.print(f"wrote {output}", markup=False)
