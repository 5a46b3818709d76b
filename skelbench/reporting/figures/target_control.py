"""``plot target-control``: masked-prediction loss and effective rank of its features, per prediction target."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from skelbench.core.spec import listed
from skelbench.plugin import FigureSpec, hookimpl
from skelbench.reporting import published
from skelbench.reporting.figures import NothingToDraw
from skelbench.reporting.figures.base import PALE, finish, looks_of, styled
from skelbench.reporting.figures.curves import Column, Measure, Setting, column_of, draw_columns, trained
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


@styled
def draw(inputs: TableInputs) -> Figure:
    """Return loss over rank, a column per method, data set, split, token grid and preset with a changed target.

    The lines are the rows of the table of the same name, in its order.

    Raises:
        NothingToDraw: no run has another target than its method.
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
    looks = looks_of((setting.label for setting in settings), named.values())
    for setting in settings:
        setting.look = looks[setting.label] | {"marker": "", "linestyle": "-"}
    for column in controlled.values():
        # Runs of one exact preset that differ in the method's version: the last one counts, as in the tables.
        order = sorted(column.settings.items(), key=lambda item: item[1].finished)
        newest = {setting.label if column.exact else str(key): (key, setting) for key, setting in order}
        column.settings = dict(sorted(newest.values(), key=lambda item: list(looks).index(item[1].label)))
    captions = [CAPTION, *published.notes(inputs.host, NAME)]
    figure = draw_columns(list(controlled.values()), MEASURES)
    dotted = Line2D([], [], color=PALE, linestyle=":", linewidth=1), "pooled features of the encoder"
    return finish(figure, "What hidden tokens are made to predict", captions, [dotted])
