"""``skelbench diagnose``: checks of what a paper claims beside its accuracies."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skelbench.cli import complete
from skelbench.cli.options import DataRoot, Device, Force, Results, kind_of_picture
from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.pipeline.session import Session, open_session

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from skelbench.core.spec import DataSpec, SecondBody
    from skelbench.data.store.clip_store import ClipStore
    from skelbench.evaluation.features import PreparedClips
    from skelbench.reporting.diagnostics.frozen import Frozen
    from skelbench.reporting.table import Table
    from skelbench.views.skeleton.grid import Grid

app = typer.Typer(
    no_args_is_help=True, help="Interpolation shortcuts, invariance, time order, classes: what runs show."
)

RUN_HELP = "Run name, id, or part of either; RUN@50 = its snapshot at epoch 50."

Record = tuple[dict[str, Any], Path]
"""What a diagnosis found, and the file that holds it."""


class Shared:
    """What the options that all diagnoses share ask for; a wrong one is refused before any work."""

    def __init__(
        self,
        format_: Annotated[str, typer.Option("--format", help="terminal, md, csv, json, latex or html.")] = "terminal",
        output: Annotated[
            Path | None, typer.Option("-o", "--output", metavar="FILE", help="Also a picture: png, svg or pdf.")
        ] = None,
        device: Device = None,
        results: Results = None,
        data_root: DataRoot = None,
        force: Force = False,
    ) -> None:
        from skelbench.reporting.render import FORMATS

        self.format, self.output, self.force = format_, output, force
        self._places = device, results, data_root
        if format_ not in FORMATS:
            raise SkelbenchError(did_you_mean(format_, FORMATS, "format"))
        if output is not None:
            kind_of_picture(output)

    @cached_property
    def session(self) -> Session:
        device, results, data_root = self._places
        return open_session(results, data_root, device)

    def subjects(self, patterns: list[str]) -> dict[str, Frozen]:
        """The runs that were asked for, with their untrained twins, by name."""
        from skelbench.reporting.diagnostics.frozen import subjects

        return subjects(self.session, patterns)

    def of_each(
        self, runs: Mapping[str, Frozen], what: str, settings: Mapping[str, Any], find: Callable[[Frozen], Any]
    ) -> dict[str, Record]:
        """The record of every one of ``runs``: read back, else found and kept beside it."""
        from skelbench.reporting.diagnostics.record import VERSION, kept

        settings = {"version": VERSION[what], **settings}
        return {
            label: kept(one.run.path, what, one.identity | settings, functools.partial(find, one), self.force)
            for label, one in runs.items()
        }

    def show(self, build: Callable[[dict[str, Any]], Table], found: Mapping[str, Record]) -> dict[str, Any]:
        """Print the table of the records in ``found``; returns the records."""
        from skelbench.core.console import err, out
        from skelbench.reporting.render import render
        from skelbench.reporting.terminal import Terminal

        records = {name: record for name, (record, _) in found.items()}
        table = build(records)
        if self.format == "terminal":
            out.print(Terminal(table))
        else:
            out.print(render(table, self.format), soft_wrap=True)
        for _, path in found.values():
            err.print(f"kept in {path}")
        return records

    def draw(self, build: Callable[[dict[str, Any], str], Figure], records: dict[str, Any], place: str) -> None:
        """Write the picture of ``records``, which are of the data ``place``, if one was asked for."""
        if self.output is not None:
            from skelbench.core.console import err
            from skelbench.reporting.figures.output import save

            save(build(records, place), self.output, kind_of_picture(self.output))
            err.print(f"wrote {self.output}")


def command(name: str, *without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a function of :class:`Shared` and options of its own a command that has the shared options as well,
    but for those called ``without``."""

    def wrap(diagnosis: Callable[..., None]) -> Callable[..., None]:
        _, *own = inspect.signature(diagnosis, eval_str=True).parameters.values()
        every = inspect.signature(Shared, eval_str=True).parameters.values()
        shared = [parameter for parameter in every if parameter.name not in without]

        @functools.wraps(diagnosis)
        def run(**options: Any) -> None:
            diagnosis(Shared(**{one.name: options.pop(one.name) for one in shared}), **options)

        run.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in (*own, *shared)}
        return app.command(name)(run)

    return wrap


@command("interpolation")
def interpolation(
    shared: Shared,
    run: Annotated[
        str | None, typer.Argument(help=RUN_HELP, autocompletion=complete.runs, show_default="the coordinates alone")
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(help="Data set, without RUN.", show_default="synthetic", autocompletion=complete.datasets),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(help="Split, without RUN.", show_default="the data set's", autocompletion=complete.splits),
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(help="Temporal tokens, without RUN: 8, 15 or 30.", show_default="8")
    ] = None,
    ratio: Annotated[str, typer.Option(help="Target mask ratios, comma separated.")] = "0.5,0.6,0.7,0.8,0.9",
    masks: Annotated[int, typer.Option(min=2, help="Masks of each kind and ratio, each scored on every clip.")] = 64,
    clips: Annotated[int, typer.Option(min=2, help="At most so many training and so many test clips.")] = 1000,
) -> None:
    """How well local linear interpolation fills in hidden tokens: independent random masks against connected tubes.

    Hidden coordinates, and with RUN the hidden token features of its encoder too.
    """
    ratios = _ratios(ratio)
    if run is not None and (dataset, split, tokens) != (None, None, None):
        raise SkelbenchError("--dataset, --split and --tokens go without RUN: a run brings its own")
    from skelbench.reporting.diagnostics import figures, frozen, tables
    from skelbench.reporting.diagnostics import interpolation as diagnosis
    from skelbench.reporting.diagnostics.record import VERSION, kept

    session, runs = shared.session, dict[str, "Frozen"]()
    if run is None:
        data, seen = _clips(session, dataset or "synthetic", split, 8 if tokens is None else tokens)
    else:
        runs = shared.subjects([run])
        first = next(iter(runs.values()))
        data = first.spec.data
        seen = _coordinates(first.clips.store, first.clips.grid, session, data.second_body)
    sides = frozen.sides(seen, data.split, clips, data.min_frames)
    settings = {"ratios": ratios, "masks": masks, "clips": clips}
    of_data = {"data": data.model_dump(mode="json"), "grid": list(seen.grid), "version": VERSION["interpolation"]}
    session.results.prepare()

    def measure(subject: PreparedClips | Frozen) -> dict[str, Any]:
        return diagnosis.of(subject, sides, ratios, masks, session.progress)

    place = session.results.root
    coordinates = kept(place, "interpolation", of_data | settings, lambda: measure(seen), shared.force)
    of_runs = shared.of_each(runs, "interpolation", settings, measure)
    found = {"coordinates": coordinates} | {f"{label} features": record for label, record in of_runs.items()}
    shared.draw(figures.interpolation, shared.show(tables.interpolation, found), _place(data, runs))


@command("invariance")
def invariance(
    shared: Shared,
    run: Annotated[list[str], typer.Argument(help=RUN_HELP, autocompletion=complete.runs)],
    clips: Annotated[int, typer.Option(min=2, help="At most so many test clips.")] = 500,
) -> None:
    """Curves of the features of finished RUNs over yaw and body size, beside their untrained encoders: how like its
    own original a changed clip stays, and whether that is still the nearest."""
    from skelbench.reporting.diagnostics import figures, tables
    from skelbench.reporting.diagnostics import invariance as diagnosis

    runs = shared.subjects(run)
    found = shared.of_each(
        runs,
        "invariance",
        {"clips": clips},
        lambda one: diagnosis.of_run(one, one.sides(clips)[1], shared.session.progress),
    )
    data = next(iter(runs.values())).spec.data
    shared.draw(figures.invariance, shared.show(tables.invariance, found), _place(data, runs))


@command("order", "output")
def order(
    shared: Shared,
    run: Annotated[list[str], typer.Argument(help=RUN_HELP, autocompletion=complete.runs)],
    clips: Annotated[int, typer.Option(min=2, help="At most so many training and so many test clips.")] = 1000,
) -> None:
    """Order probe of finished RUNs: does a linear layer on the frozen features tell a clip from the same clip
    backwards? Beside their untrained encoders."""
    from skelbench.reporting.diagnostics import order as diagnosis
    from skelbench.reporting.diagnostics import tables

    runs = shared.subjects(run)
    found = shared.of_each(
        runs,
        "order",
        {"clips": clips, "probe": diagnosis.PROBE.model_dump(mode="json")},
        lambda one: diagnosis.of_run(one, one.sides(clips), shared.session.progress),
    )
    name_of = {one.run.name: label for label, one in runs.items()}
    twins = {label: name_of[one.twin.run.name] for label, one in runs.items() if one.twin is not None}
    shared.show(lambda records: tables.order(records, twins), found)


@command("per-class", "output", "device", "force")
def per_class(
    shared: Shared,
    first: Annotated[str, typer.Argument(metavar="RUN", help=RUN_HELP, autocompletion=complete.runs)],
    second: Annotated[str, typer.Argument(metavar="RUN", help="The other run.", autocompletion=complete.runs)],
    protocol: Annotated[str, typer.Option(help="Whose predictions are compared.")] = "linear",
    dataset: Annotated[
        str | None,
        typer.Option(help="Data set of the evaluations, if there are several.", autocompletion=complete.datasets),
    ] = None,
    split: Annotated[str | None, typer.Option(help="Their split.", autocompletion=complete.splits)] = None,
    stream: Annotated[str | None, typer.Option(help="Their stream.")] = None,
) -> None:
    """Two finished runs class by class, for instance of 8 and of 30 tokens: from the predictions of their evaluations
    on the same clips, with exact paired tests."""
    from skelbench.evaluation.outcomes import predictions
    from skelbench.reporting.confusion import classes_of
    from skelbench.reporting.diagnostics import per_class as diagnosis
    from skelbench.reporting.diagnostics import tables
    from skelbench.reporting.diagnostics.record import kept

    session = shared.session
    session.host.get("protocols", protocol)
    found = [session.results.find(pattern) for pattern in (first, second)]
    runs = [run for run, _ in found]
    records = [diagnosis.evaluation(run, protocol, checkpoint, dataset, split, stream) for run, checkpoint in found]
    diagnosis.check_alike(runs, records)
    # The predictions are enough: runs that were added from a file may be of data that are not here.
    labels = [run.title + ("" if checkpoint == "last" else f"@{checkpoint}") for run, checkpoint in found]
    if labels[0] == labels[1]:
        labels = [f"{label}, {run.spec.tokens} tokens" for label, run in zip(labels, runs)]
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
    seen, data = predictions(runs[0], records[0]), records[0]["spec"]["data"]["name"]
    classes = classes_of(seen, data, session.host, session.data_root)
    shared.show(lambda records: tables.per_class(records["both"], classes), {"both": compared})


def _place(data: DataSpec, runs: Mapping[str, Frozen]) -> str:
    """``synthetic cross-view, preset quick``: data, and of what presets the runs are."""
    presets = sorted({one.run.info["preset"] for one in runs.values()})
    return ", ".join([f"{data.title} {data.split}", *(f"preset {preset}" for preset in presets)])


def _ratios(text: str) -> list[float]:
    try:
        ratios = [float(part) for part in text.split(",")]
    except ValueError:
        ratios = []
    if not ratios or not all(0 < ratio < 1 for ratio in ratios):
        raise SkelbenchError(f"--ratio {text}: write shares between 0 and 1, comma separated, such as 0.5,0.9")
    return ratios


def _clips(session: Session, dataset: str, split: str | None, tokens: int) -> tuple[Any, Any]:
    """Data spec and clips of a data set on a grid of the paper's, no run being asked for."""
    from skelbench.core.spec import DataSpec
    from skelbench.pipeline.resolve import data_of, open_dataset
    from skelbench.views.skeleton.grid import BUDGETS, Grid

    if tokens not in BUDGETS:
        raise SkelbenchError(f"--tokens {tokens}: the token grids are 8, 15 and 30")
    store = open_dataset(dataset, session.host, session.data_root)
    data = data_of(DataSpec(), store, dataset, store.split(split).name)
    grid = Grid(*BUDGETS[tokens], store.topology.num_joints)
    return data, _coordinates(store, grid, session, "zero")


def _coordinates(store: ClipStore, grid: Grid, session: Session, second_body: SecondBody) -> PreparedClips:
    """Joints of the bodies that are present, about their own center: the same whatever a run looks at."""
    import torch

    from skelbench.evaluation.features import PreparedClips
    from skelbench.evaluation.preprocessing import Preprocessing

    look = Preprocessing(centre="body", second_body=second_body, dimensions=store.meta.dimensions)
    return PreparedClips(store, look, grid, torch.device(session.device))
