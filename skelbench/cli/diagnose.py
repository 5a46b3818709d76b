"""``skelbench diagnose``: checks of a paper's claims beyond its accuracies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skelbench.cli.options import CHECKPOINT, DataRoot, Device, Force, Results, kind_of_picture
from skelbench.cli.tables import format_of
from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.session import Session, open_session

if TYPE_CHECKING:
    from skelbench.core.spec import DataSpec
    from skelbench.data.store.clip_store import ClipStore
    from skelbench.evaluation.features import PreparedClips
    from skelbench.reporting.diagnostics.frozen import Frozen
    from skelbench.reporting.table import Table
    from skelbench.views.skeleton.grid import Grid

app = typer.Typer(
    no_args_is_help=True, help="Diagnose finished runs: mask shortcuts, invariance, time order, per-class accuracy."
)

Runs = Annotated[list[str], typer.Argument(help=CHECKPOINT)]
Clips = Annotated[int, typer.Option(min=2, help="Largest number of training clips, and of test clips.")]
Format = Annotated[str, typer.Option("--format", help="Format: terminal, md, csv, json, latex or html.")]
Output = Annotated[Path | None, typer.Option("-o", "--output", help="Also draw a picture: png, svg or pdf.")]

Records = dict[str, tuple[dict[str, Any], Path]]
"""By displayed name: the result of a diagnosis, and the file that holds it."""


@app.command()
def interpolation(
    run: Annotated[str | None, typer.Argument(help=CHECKPOINT, show_default="coordinates only")] = None,
    dataset: Annotated[str | None, typer.Option(help="Dataset, without RUN.", show_default="synthetic")] = None,
    split: Annotated[str | None, typer.Option(help="Split, without RUN.", show_default="the dataset's")] = None,
    tokens: Annotated[int | None, typer.Option(help="8, 15 or 30, without RUN.", show_default="8")] = None,
    ratio: Annotated[str, typer.Option(help="Mask ratios, comma separated.")] = "0.5,0.6,0.7,0.8,0.9",
    masks: Annotated[int, typer.Option(min=2, help="Number of masks of each kind and ratio.")] = 64,
    clips: Clips = 1000,
    format_: Format = "terminal",
    output: Output = None,
    device: Device = None,
    results: Results = None,
    data_root: DataRoot = None,
    force: Force = False,
) -> None:
    """Show how well linear interpolation predicts masked tokens, with random masks and with connected tubes.

    The targets are coordinates, and with RUN also the token features of its encoder.
    """
    ratios = _ratios(ratio)
    if run is not None and (dataset, split, tokens) != (None, None, None):
        raise SkelbenchError("--dataset, --split and --tokens go without RUN: a run brings its own")
    session = _session(format_, output, results, data_root, device)
    import torch

    from skelbench.evaluation.features import PreparedClips
    from skelbench.evaluation.preprocessing import Preprocessing
    from skelbench.reporting.diagnostics import figures, frozen, tables
    from skelbench.reporting.diagnostics import interpolation as diagnosis
    from skelbench.reporting.diagnostics.record import VERSION, kept

    runs = frozen.subjects(session, [run]) if run else {}
    if runs:
        first = next(iter(runs.values()))
        data, store, grid = first.spec.data, first.clips.store, first.clips.grid
    else:
        data, store, grid = _clips(session, dataset or "synthetic", split, 8 if tokens is None else tokens)
    # Joints of the bodies that are present, about their own center, whatever the settings of a run.
    look = Preprocessing(center="body", second_body=data.second_body, dimensions=store.meta.dimensions)
    coordinates = PreparedClips(store, look, grid, torch.device(session.device))
    sides = frozen.sides(coordinates, data.split, clips, data.min_frames)
    settings = {"ratios": ratios, "masks": masks, "clips": clips}
    spec = {"data": data.model_dump(mode="json"), "grid": list(coordinates.grid), "version": VERSION["interpolation"]}

    def measure(subject: PreparedClips | Frozen) -> dict[str, Any]:
        return diagnosis.of(subject, sides, ratios, masks, session.progress)

    session.results.prepare()
    of_data = kept(session.results.root, "interpolation", spec | settings, partial(measure, coordinates), force)
    of_runs = _records(runs, "interpolation", settings, measure, force)
    records = {"coordinates": of_data} | {f"{label} features": record for label, record in of_runs.items()}
    _show(tables.interpolation, records, format_)
    _draw(figures.interpolation, records, f"{data.title} {data.split}", runs, output)


@app.command()
def invariance(
    run: Runs,
    clips: Annotated[int, typer.Option(min=2, help="Largest number of test clips.")] = 500,
    format_: Format = "terminal",
    output: Output = None,
    device: Device = None,
    results: Results = None,
    data_root: DataRoot = None,
    force: Force = False,
) -> None:
    """Show how much features of finished RUNs change with rotation and body size, compared with untrained encoders.

    Prints means and writes a figure of all values (invariance.png)."""
    output = output or (Path("invariance.png") if format_ == "terminal" else None)
    session = _session(format_, output, results, data_root, device)
    from skelbench.reporting.diagnostics import figures, tables
    from skelbench.reporting.diagnostics import invariance as diagnosis
    from skelbench.reporting.diagnostics.frozen import subjects

    runs = subjects(session, run)

    def measure(subject: Frozen) -> dict[str, Any]:
        return diagnosis.of_run(subject, subject.sides(clips)[1], session.progress)

    records = _records(runs, "invariance", {"clips": clips}, measure, force)
    data = next(iter(runs.values())).spec.data
    _show(partial(tables.invariance, points=format_ != "terminal"), records, format_)
    _draw(partial(figures.invariance, runs=runs), records, f"{data.title} {data.split}", runs, output)


@app.command()
def order(
    run: Runs,
    clips: Clips = 1000,
    format_: Format = "terminal",
    device: Device = None,
    results: Results = None,
    data_root: DataRoot = None,
    force: Force = False,
) -> None:
    """Test whether features of finished RUNs tell a clip from its reverse, compared with untrained encoders."""
    session = _session(format_, None, results, data_root, device)
    from skelbench.reporting.diagnostics import order as diagnosis
    from skelbench.reporting.diagnostics import tables
    from skelbench.reporting.diagnostics.frozen import subjects

    runs = subjects(session, run)

    def measure(subject: Frozen) -> dict[str, Any]:
        return diagnosis.of_run(subject, subject.sides(clips), session.progress)

    settings = {"clips": clips, "probe": diagnosis.PROBE.model_dump(mode="json")}
    records = _records(runs, "order", settings, measure, force)
    name_of = {entry.run.name: label for label, entry in runs.items()}
    baselines = {label: name_of[entry.baseline.run.name] for label, entry in runs.items() if entry.baseline is not None}
    _show(partial(tables.order, baselines=baselines), records, format_)


@app.command("per-class")
def per_class(
    first: Annotated[str, typer.Argument(metavar="RUN", help=CHECKPOINT)],
    second: Annotated[str, typer.Argument(metavar="RUN", help="Run to compare it with.")],
    protocol: Annotated[str, typer.Option(help="Protocol of the predictions.")] = "linear",
    dataset: Annotated[str | None, typer.Option(help="Dataset of the evaluations, if there are several.")] = None,
    split: Annotated[str | None, typer.Option(help="Split of the evaluations.")] = None,
    stream: Annotated[str | None, typer.Option(help="Stream of the evaluations.")] = None,
    format_: Format = "terminal",
    results: Results = None,
    data_root: DataRoot = None,
) -> None:
    """Compare two finished runs class by class on the same test clips, with exact paired tests."""
    session = _session(format_, None, results, data_root)
    from skelbench.evaluation.outcomes import predictions
    from skelbench.reporting.confusion import classes_of
    from skelbench.reporting.diagnostics import per_class as diagnosis
    from skelbench.reporting.diagnostics import tables

    session.host.get("protocols", protocol)
    named = [session.results.find(pattern) for pattern in (first, second)]
    runs = [run for run, _ in named]
    records = [diagnosis.evaluation(run, protocol, checkpoint, dataset, split, stream) for run, checkpoint in named]
    diagnosis.check_alike(runs, records)
    labels = [run.title + ("" if checkpoint == "last" else f"@{checkpoint}") for run, checkpoint in named]
    for suffixes in ([f", {run.spec.tokens} tokens" for run in runs], [f" ({run.spec.id})" for run in runs]):
        if labels[0] == labels[1]:
            labels = [label + suffix for label, suffix in zip(labels, suffixes)]
    of_first, of_second = (predictions(run, record) for run, record in zip(runs, records))
    rows, overall = diagnosis.compare(of_first, of_second, (labels[0], labels[1]))
    classes = classes_of(of_first, records[0]["spec"]["data"]["name"], session.host, session.data_root)
    _show(lambda _: tables.per_class(rows, overall, classes), {}, format_)


# ------------------------------------------------------------------------------------------------ shared by commands
def _session(
    format_: str, output: Path | None, results: Path | None, data_root: Path | None, device: str | None = None
) -> Session:
    """Check the options of the output before any work, then open a session."""
    format_of(format_, None)
    if output is not None:
        kind_of_picture(output)
    return open_session(results, data_root, device)


def _records(
    runs: Mapping[str, Frozen],
    name: str,
    settings: Mapping[str, Any],
    measure: Callable[[Frozen], dict[str, Any]],
    force: bool,
) -> Records:
    """The record of each run: read from its folder, else measured and stored there."""
    from skelbench.reporting.diagnostics.record import VERSION, kept

    return {
        label: kept(
            entry.run.path,
            name,
            entry.identity | {"version": VERSION[name], **settings},
            partial(measure, entry),
            force,
        )
        for label, entry in runs.items()
    }


def _show(build: Callable[[dict[str, Any]], Table], records: Records, format_: str) -> None:
    """Print the table of the records, and the files that hold them."""
    from skelbench.core.console import err, out
    from skelbench.reporting.render import render
    from skelbench.reporting.terminal import Terminal

    table = build({name: record for name, (record, _) in records.items()})
    out.print(Terminal(table) if format_ == "terminal" else render(table, format_), soft_wrap=format_ != "terminal")
    for _, path in records.values():
        err.print(f"kept in {path}")


def _draw(
    build: Callable[..., Any], records: Records, data: str, runs: Mapping[str, Frozen], output: Path | None
) -> None:
    """Write the picture of the records to ``output``; its caption names the data and the presets of the runs."""
    if output is None:
        return
    from skelbench.core.console import err
    from skelbench.reporting.figures.base import save

    presets = sorted({entry.run.info["preset"] for entry in runs.values()})
    caption = ", ".join([data, *(f"preset {preset}" for preset in presets)])
    save(build({name: record for name, (record, _) in records.items()}, caption), output, kind_of_picture(output))
    err.print(f"wrote {output}")


def _ratios(text: str) -> list[float]:
    try:
        ratios = [float(part) for part in text.split(",")]
    except ValueError:
        ratios = []
    if not ratios or not all(0 < ratio < 1 for ratio in ratios):
        raise SkelbenchError(f"--ratio {text}: write numbers between 0 and 1, comma separated, such as 0.5,0.9")
    return ratios


def _clips(session: Session, dataset: str, split: str | None, tokens: int) -> tuple[DataSpec, ClipStore, Grid]:
    """Dataset, its clips and a token grid of the paper, without a run."""
    from skelbench.core.spec import DataSpec
    from skelbench.pipeline.request import token_grid
    from skelbench.pipeline.resolve import data_of, open_dataset
    from skelbench.views.skeleton.grid import Grid

    store = open_dataset(dataset, session.host, session.data_root)
    data = data_of(DataSpec(), store, dataset, store.split(split).name)
    grid = token_grid(tokens)
    return data, store, Grid(grid["grid.frames"], grid["grid.patch"], store.topology.num_joints)
