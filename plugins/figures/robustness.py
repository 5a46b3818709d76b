"""``plot robustness``: accuracy over the severity of a degradation of test clips, a line per method."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from skelbench.plugin import FigureSpec, hookimpl
from skelbench.plugin.host import Host
from skelbench.reporting.downstream import KINDS
from skelbench.reporting.figures import NothingToDraw
from skelbench.reporting.figures.base import (
    DASHES,
    accuracy_axis,
    finish,
    method_look,
    most_of,
    number,
    panel_grid,
    span,
    styled,
)
from skelbench.reporting.seeds import chance, seeds_of, unusual_of

if TYPE_CHECKING:
    from pandas import DataFrame

    from skelbench.reporting.inputs import TableInputs

PROTOCOLS = ("robustness", "missing-representation")
BLOCK = ["dataset", "split", "preset", "setting", "encoder", "stream", "hardware", "data"]
AXES = {
    "missing": "Missing joints, marked, %",
    "noise": "Noise, in mean bone lengths",
    "parent-fill": "Missing joints, moved to their parents, %",
    "zero-fill": "Missing joints, moved to the origin, %",
}
"""Kind of degradation -> label of its axis."""
COLUMNS = 2
HOW = "no run was measured on degraded clips in {root} yet; start with: skelbench eval RUN --protocol robustness"
CAPTION = (
    "Accuracy of a linear probe that is trained on clean clips and tested on degraded clips; 0 is the clean test set. "
    "Lines are means over draws of the degradation and over seeds. Bands are one standard deviation over draws."
)


@hookimpl
def skelbench_figures() -> list[FigureSpec]:
    summary = "accuracy against missing joints and noise, one line per method"
    return [FigureSpec(name="robustness", target=":draw", summary=summary)]


class Level(NamedTuple):
    """Accuracy at one severity, percent; ``sd`` over draws, 0 if unknown."""

    severity: float
    accuracy: float
    sd: float = 0.0


Lines = dict[str, dict[str, list[Level]]]
"""Kind of degradation -> label of the line -> levels, the mildest first."""


@styled
def draw(inputs: TableInputs) -> Figure:
    """Return a row of panels, one per kind of degradation, for every dataset, split, preset and hardware.

    Raises:
        NothingToDraw: no run was measured on degraded clips.
    """
    blocks = measured(inputs)
    if not blocks:
        raise NothingToDraw(HOW.format(root=inputs.store.root))
    looks = {label: _look(inputs.host, label) for _, kinds in blocks for lines in kinds.values() for label in lines}
    headings: list[tuple[str, str] | None] = []
    for heading, kinds in blocks:  # each block begins a new row
        headings += [heading, *[("", "")] * (len(kinds) - 1), *[None] * (-len(kinds) % COLUMNS)]
    figure, grid = panel_grid(headings, COLUMNS)
    every = iter(grid)
    for _, kinds in blocks:
        panels = [next(every) for _ in kinds]
        for (kind, lines), axes in zip(kinds.items(), panels):
            _panel(axes, kind, lines, looks)
        limits = list(chain.from_iterable(axes.get_ylim() for axes in panels))
        for axes in panels:
            axes.set_ylim(min(limits), max(limits))
    return finish(figure, "Accuracy on degraded test clips", [CAPTION])


# ------------------------------------------------------------------------------------------------ data
def measured(inputs: TableInputs) -> list[tuple[tuple[str, str], Lines]]:
    """Heading and lines for each dataset, split, preset and hardware."""
    frame, host = inputs.frame, inputs.host
    frame = frame[frame["protocol"].isin(PROTOCOLS) & (frame["checkpoint"] == "last")]
    blocks = []
    for (dataset, split, preset, setting, encoder, stream, hardware, _), rows in frame.groupby(BLOCK, sort=False):
        several, seeds, lines, best = rows["tokens"].nunique() > 1, [], Lines(), dict[str, float]()
        for own in sorted(seeds_of(rows, ["title", "tokens", "changed", "protocol"]), key=_weight, reverse=True):
            first = own.iloc[0]
            label = host.spelling(first["title"]) + (f", {first['tokens']}" if several else "")
            label += f" ({first['changed']})" if first["changed"] else ""
            seeds.append(len(own))
            best.setdefault(label, float(own["accuracy"].mean()))
            for kind, levels in _levels(own).items():
                lines.setdefault(kind, {}).setdefault(label, levels)
        counted = span(seeds, "seed", "seeds"), span(rows["n_test"], "test clip", "test clips")
        shown, hidden = most_of(best)
        lines = {kind: {label: own[label] for label in shown if label in own} for kind, own in lines.items()}
        facts = [f"preset {preset}", *unusual_of(setting, encoder, stream), *counted, hardware, chance(rows)]
        note = ", ".join(filter(None, [*facts, *hidden]))
        blocks.append(((f"{dataset}, {split}", note), {kind: lines[kind] for kind in KINDS if kind in lines}))
    return [block for block in blocks if block[1]]


def _weight(own: DataFrame) -> tuple[float, ...]:
    """Preference among evaluations with one label: newest version of the method, most seeds, last finished."""
    return float(own["version"].max()), len(own), float(own["finished"].astype(float).fillna(0).max())


def _levels(own: DataFrame) -> dict[str, list[Level]]:
    """Levels by kind of degradation, of the metrics that every seed has; the clean test set is the mildest level."""
    clean = Level(0.0, 100 * float(own["accuracy"].mean()))
    kinds: dict[str, list[Level]] = {}
    for metric in own.iloc[0]["measures"]:
        name = metric.removeprefix("accuracy_")
        kind, _, amount = name.partition("_")
        degraded = name != metric and kind in KINDS and not name.endswith("_sd")
        if degraded and all(metric in measures for measures in own["measures"]):
            shares = [measures[metric][0] for measures in own["measures"]]
            sds = [measures.get(f"{metric}_sd", (0.0,))[0] for measures in own["measures"]]
            level = Level(float(amount), 100 * sum(shares) / len(own), 100 * sum(sds) / len(own))
            kinds.setdefault(kind, [clean]).append(level)
    return {kind: sorted(levels) for kind, levels in kinds.items()}


# ------------------------------------------------------------------------------------------------ drawing
def _look(host: Host, label: str) -> dict[str, Any]:
    """Look of a line; the token grid decides how it is dashed."""
    title, _, more = label.partition(" (")[0].partition(", ")
    return method_look(host, title) | {"linestyle": DASHES[int(more.split("x")[0] or 0) % len(DASHES)] if more else "-"}


def _panel(axes: Axes, kind: str, lines: Mapping[str, list[Level]], looks: Mapping[str, Any]) -> None:
    for label, levels in lines.items():
        severity, accuracy, sd = zip(*levels)
        axes.plot(severity, accuracy, **looks[label], zorder=4, label=label)
        low, high = zip(*((a - s, a + s) for a, s in zip(accuracy, sd)))
        axes.fill_between(severity, low, high, color=looks[label]["color"], alpha=0.2, linewidth=0, zorder=1)
    ticks = sorted({level.severity for levels in lines.values() for level in levels})
    axes.set_xticks(ticks, [number(tick if kind == "noise" else 100 * tick) for tick in ticks])
    axes.set_xlabel(AXES[kind])
    accuracy_axis(axes)
