"""``plot robustness``: accuracy over the severity of a degradation of test clips, a line per method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from skelbench.data.store.splits import full_name
from skelbench.plugin import FigureSpec, hookimpl
from skelbench.plugin.host import Host
from skelbench.reporting import published
from skelbench.reporting.downstream import KINDS
from skelbench.reporting.figures import NothingToDraw
from skelbench.reporting.figures.base import PALE, accuracy_axis, finish, looks_of, number, panel_grid, span, styled
from skelbench.reporting.seeds import seeds_of, unusual_of
from skelbench.reporting.study_rows import announced

if TYPE_CHECKING:
    from pandas import DataFrame

    from skelbench.reporting.inputs import TableInputs

PROTOCOLS = ("robustness", "missing-representation")
BLOCK = ["dataset", "split", "preset", "setting", "encoder", "stream", "hardware", "data"]
AXES = {
    "missing": "Joints declared missing, %",
    "noise": "Noise, mean bone lengths",
    "parent-fill": "Joints at their parents, %",
    "zero-fill": "Joints at the origin, %",
}
"""Kind of degradation -> label of its axis."""
COLUMNS = 2
HOW = "no run was measured on degraded clips in {root} yet; start with: skelbench eval RUN --protocol robustness"
CAPTION = (
    "A linear probe of clean training clips, on degraded test clips; 0 is the clean test set. Lines: means over draws "
    "and seeds. Bands: one standard deviation over draws of the degradation (mean over seeds; not over trainings)."
)
PUBLISHED = "Dashed grey: as printed, on another data set or at another size than ours unless the panel says the same."


@hookimpl
def skelbench_figures() -> list[FigureSpec]:
    summary = "accuracy against missing joints and noise, one line per method; published results dashed"
    return [FigureSpec(name="robustness", target=":draw", summary=summary)]


class Level(NamedTuple):
    """Accuracy at one severity, percent; ``sd`` over draws, 0 if unknown."""

    severity: float
    accuracy: float
    sd: float = 0.0


Lines = dict[str, dict[str, list[Level]]]
"""Kind of degradation -> label of the line -> levels, the mildest first."""


@dataclass
class Block:
    """Results on one data set and split, with one preset and hardware, and the published ones."""

    heading: tuple[str, str]
    where: tuple[str, str]
    """Data set and full name of the split."""
    lines: Lines = field(default_factory=dict)
    published: Lines = field(default_factory=dict)


@styled
def draw(inputs: TableInputs) -> Figure:
    """Return a row of panels, one per kind of degradation, for every data set, split, preset and hardware.

    Published curves are in the panels of their data set and split, else in a row of their own.

    Raises:
        NothingToDraw: no run was measured on degraded clips.
    """
    blocks = measured(inputs.frame, inputs.host)
    if not blocks:
        raise NothingToDraw(HOW.format(root=inputs.store.root))
    looks = looks_of(label for block in blocks for lines in block.lines.values() for label in lines)
    measured_kinds = [kind for kind in KINDS if any(kind in block.lines for block in blocks)]
    papers = printed(inputs)
    for paper in papers:
        for block in [block for block in blocks if block.where == paper.where] or [paper]:
            block.published = paper.published
    blocks += [paper for paper in papers if paper.where not in [block.where for block in blocks]]
    rows = [(block, [kind for kind in measured_kinds if kind in (block.lines or block.published)]) for block in blocks]
    headings: list[tuple[str, str] | None] = []
    for block, kinds in (rows := [row for row in rows if row[1]]):  # a block begins a row of its own
        headings += [block.heading, *[("", "")] * (len(kinds) - 1), *[None] * (-len(kinds) % COLUMNS)]
    figure, grid = panel_grid(headings, COLUMNS)
    every = iter(grid)
    for block, kinds in rows:
        panels = [next(every) for _ in kinds]
        for kind, axes in zip(kinds, panels):
            _panel(axes, kind, block.lines.get(kind, {}), block.published.get(kind, {}), looks)
        limits = list(chain.from_iterable(axes.get_ylim() for axes in panels))
        for axes in panels:
            axes.set_ylim(min(limits), max(limits))
    captions = [CAPTION, *([PUBLISHED] if papers else []), *published.notes(inputs.host, "robustness")]
    return finish(figure, "Accuracy on degraded test clips", captions)


# ------------------------------------------------------------------------------------------------ data
def measured(frame: DataFrame, host: Host) -> list[Block]:
    """Evaluations on degraded test clips in ``frame`` (columns: ``skelbench.reporting.frame``)."""
    frame = frame[frame["protocol"].isin(PROTOCOLS) & (frame["checkpoint"] == "last")]
    blocks = []
    for (dataset, split, preset, setting, encoder, stream, hardware, _), rows in frame.groupby(BLOCK, sort=False):
        several, seeds, lines = rows["tokens"].nunique() > 1, [], Lines()
        for own in sorted(seeds_of(rows, ["title", "tokens", "changed", "protocol"]), key=_weight, reverse=True):
            first = own.iloc[0]
            label = host.spelling(first["title"]) + (f" {first['tokens']}" if several else "")
            label += f" ({first['changed']})" if first["changed"] else ""
            seeds.append(len(own))
            for kind, levels in _levels(own).items():
                lines.setdefault(kind, {}).setdefault(label, levels)
        counted = span(seeds, "seed", "seeds"), span(rows["n_test"], "test clip", "test clips")
        note = ", ".join([f"preset {preset}", *unusual_of(setting, encoder, stream), *counted, hardware])
        blocks.append(Block((f"{dataset}, {split}", note), (str(dataset), full_name(str(split))), lines))
    return [block for block in blocks if block.lines]


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


def printed(inputs: TableInputs) -> list[Block]:
    """Published results by data set and split, of the rows that plugins announce for the tables of the protocols."""
    blocks: dict[tuple[str, str], Block] = {}
    levels: dict[tuple[tuple[str, str], str, str], dict[float, Level]] = {}
    for row in chain.from_iterable(chain.from_iterable(announced(inputs, name) for name in PROTOCOLS)):
        kind, _, amount = str(row.labels.get("column", "")).partition("_")
        if kind not in ("clean", *KINDS):
            continue
        for result in row.printed.figures(inputs.host, metric="accuracy") if row.printed else ():
            where, source = (result["dataset"], full_name(result["split"])), result["source"].partition(" (")[0]
            heading = "Published, not measured here", f"{result['dataset']}, {result['split']}; {source}"
            blocks.setdefault(where, Block(heading, where))
            sd = result["std"] or 0.0
            level = Level(0.0, result["value"]) if kind == "clean" else Level(float(amount), result["value"], sd)
            for kind_shown in KINDS if kind == "clean" else (kind,):
                levels.setdefault((where, kind_shown, result["method"]), {}).setdefault(level.severity, level)
    for (where, kind, method), series in levels.items():
        if any(series):  # more than the clean test set
            blocks[where].published.setdefault(kind, {})[method] = sorted(series.values())
    return list(blocks.values())


# ------------------------------------------------------------------------------------------------ drawing
def _panel(
    axes: Axes, kind: str, ours: Mapping[str, list[Level]], papers: Mapping[str, list[Level]], looks: Mapping[str, Any]
) -> None:
    dashed = {"color": PALE, "linestyle": "--", "linewidth": 1}
    lines = [(label, levels, looks[label]) for label, levels in ours.items()]
    lines += [(f"{label}, published", levels, dashed) for label, levels in papers.items()]
    for label, levels, look in lines:
        severity, accuracy, sd = zip(*levels)
        axes.plot(severity, accuracy, **look, zorder=4, label=label)
        low, high = zip(*((a - s, a + s) for a, s in zip(accuracy, sd)))
        axes.fill_between(severity, low, high, color=look["color"], alpha=0.2, linewidth=0, zorder=1)
    ticks = sorted({level.severity for _, levels, _ in lines for level in levels})
    axes.set_xticks(ticks, [number(tick if kind == "noise" else 100 * tick) for tick in ticks])
    axes.set_xlabel(AXES[kind])
    accuracy_axis(axes)
