"""``plot target-control``: masked-prediction loss, and effective rank of what it is computed from, per target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from skelbench.report import published
from skelbench.report.figures import NothingToDraw
from skelbench.report.figures.curves import Column, Measure, Setting, but_for_seed, column_of, grid, trained
from skelbench.report.figures.style import COLOURS, DOTTED, PALE, house, number, places

if TYPE_CHECKING:
    from skelbench.report.builders import Context

TARGETS = {
    "coordinates": ("raw joint coordinates", COLOURS[1]),
    "features": ("teacher features", COLOURS[0]),
    "features-predictor": ("teacher features + predictor", COLOURS[3]),
    "prototypes": ("teacher prototypes", COLOURS[2]),
}
"""What the paper compares, in its order, and how each is drawn; other targets follow by name."""
DEFAULT = "prototypes"
"""The target of a run that controls nothing."""
MEASURES = (
    Measure("mfp", "Masked-prediction loss"),
    Measure("rank_masked", "Effective rank", faint="rank_pooled", rank=True),
)
HOW = "no run with another target of masked prediction is in {root} yet; start with: skelbench study target-control"
CAPTION = (
    "Thick: geometric mean over seeds; thin: single seeds. Effective rank: lines, the projected features at masked "
    "positions; dotted, the inference encoder's pooled features; at 1 all features lie in one direction. Losses have "
    "different units: compare the falls of squared errors; that of prototypes, a cross-entropy, cannot fall below the "
    "teacher's entropy."
)
PUBLISHED = (
    "Published, not measured here (SLiM paper, controlled analysis of targets, NTU-60, 100 epochs): with teacher "
    "features and no predictor the loss falls from {mfp_loss_start} to {mfp_loss_end}, the effective rank at masked "
    "positions to {rank_masked}."
)


def draw(context: Context) -> Figure:
    """Loss over rank, a column of panels per method, data set, split, token grid and preset in which a target other
    than the default was trained.

    Raises:
        NothingToDraw: there is none.
    """
    columns: dict[tuple[str, ...], Column] = {}
    for run, metrics in trained(context):
        spec, variant = run.spec, run.info.get("variant", "")
        chosen = spec.target_version is not None  # other methods may call something else a target
        if chosen and (variant == "" or variant.startswith("target-")):
            settings = column_of(columns, run, spec.method, f"{spec.tokens} tokens").settings
            key = spec.method_config["target"], but_for_seed(spec)
            settings.setdefault(key, Setting()).add(run, metrics)
    controlled = [column for column in columns.values() if {target for target, _ in column.settings} - {DEFAULT}]
    if not controlled:
        raise NothingToDraw(HOW.format(root=context.store.root))
    order = places({target for column in controlled for target, _ in column.settings}, TARGETS)
    looks = {name: TARGETS.get(name, (name, COLOURS[place % len(COLOURS)])) for name, place in order.items()}
    shown = set()
    for column in controlled:
        _keep_newest(column)
        for (target, _), setting in column.settings.items():
            setting.label, setting.colour = looks[target]
            shown.add(target)
    legend = [(Line2D([], [], color=looks[name][1]), looks[name][0]) for name in sorted(shown, key=order.get)]
    legend.append((Line2D([], [], color=PALE, linestyle=DOTTED, linewidth=1), "pooled features of the encoder"))
    with house():
        return grid("What hidden tokens are made to predict", controlled, MEASURES, legend, [CAPTION, _published()])


def _keep_newest(column: Column) -> None:
    """Runs of one exact preset that differ in something else than target and seed, a method's version: those that
    finished last count, as in the tables."""
    if column.exact:
        by_end = sorted(column.settings.items(), key=lambda item: item[1].finished)
        newest = {item[0][0]: item for item in by_end}  # by target
        column.settings = dict(newest.values())


def _published() -> str:
    rows = published.load("target_control", protocol="pretraining")
    return PUBLISHED.format(**{row["metric"]: number(row["value"]) for row in rows})
