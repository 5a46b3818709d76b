"""``plot target-control``: masked-prediction loss, and effective rank of what it is computed from, per target."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from skelbench.core.spec import listed
from skelbench.plugin import FigureSpec, hookimpl
from skelbench.reporting import published
from skelbench.reporting.figures import NothingToDraw
from skelbench.reporting.figures.curves import Column, Measure, Setting, column_of, grid, trained
from skelbench.reporting.figures.style import DOTTED, PALE, colour_at, house, places
from skelbench.reporting.frame import but_for_seed
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.target_control import NAME, rows_of

MEASURES = (
    Measure("mfp", "Masked-prediction loss"),
    Measure("rank_masked", "Effective rank", faint="rank_pooled", rank=True),
)
HOW = "no run with another target of masked prediction is in {root} yet; start with: skelbench study target-control"
CAPTION = (
    "Thick: geometric mean over seeds; thin: single seeds. Effective rank: lines, the projected features at masked "
    "positions; dotted, the inference encoder's pooled features; at 1 all features lie in one direction. Losses have "
    "different units: compare the falls of squared errors; a cross-entropy cannot fall below the entropy of its target."
)


@hookimpl
def skelbench_figures() -> list[FigureSpec]:
    summary = "masked-prediction loss and effective rank over clips seen, per target of masked prediction"
    return [FigureSpec(name="target-control", target=":draw", summary=summary)]


def draw(inputs: TableInputs) -> Figure:
    """Loss over rank, a column of panels per method, data set, split, token grid and preset in which a target other
    than the method's own was trained. Drawn are the rows of the table of the same name, in its order.

    Raises:
        NothingToDraw: there is none.
    """
    rows = {row.title: row for row in rows_of(inputs)}
    named = {title: str(row.labels.get("target", inputs.host.spelling(title))) for title, row in rows.items()}
    columns: dict[tuple[str, ...], Column] = {}
    controlled: dict[int, Column] = {}
    for run, metrics in trained(inputs):
        if row := rows.get(run.title):
            changes = listed(run.info["modified"])
            label = named[run.title] + (f" ({changes})" if changes else "")
            column = column_of(columns, run, inputs.host.spelling(run.spec.method), f"{run.spec.tokens} tokens")
            column.settings.setdefault((label, but_for_seed(run)), Setting(label)).add(run, metrics)
            if row.against is not None:
                controlled[id(column)] = column
    if not controlled:
        raise NothingToDraw(HOW.format(root=inputs.store.root))
    settings = [setting for column in controlled.values() for setting in column.settings.values()]
    order = places((setting.label for setting in settings), named.values())
    looks = {label: colour_at(place) for label, place in order.items()}
    for setting in settings:
        setting.colour = looks[setting.label]
    for column in controlled.values():
        _keep_newest(column)
    shown = {setting.label for setting in settings}
    legend = [(Line2D([], [], color=looks[label]), label) for label in order if label in shown]
    legend.append((Line2D([], [], color=PALE, linestyle=DOTTED, linewidth=1), "pooled features of the encoder"))
    captions = [CAPTION, *published.notes(inputs.host, NAME)]
    with house():
        return grid("What hidden tokens are made to predict", list(controlled.values()), MEASURES, legend, captions)


def _keep_newest(column: Column) -> None:
    """Runs of one exact preset that differ in something else than target and seed, a method's version: those that
    finished last count, as in the tables."""
    if column.exact:
        by_end = sorted(column.settings.items(), key=lambda item: item[1].finished)
        newest = {setting.label: (key, setting) for key, setting in by_end}
        column.settings = dict(newest.values())
