"""Diagnoses as figures."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from matplotlib.figure import Figure

from skelbench.plugin.host import get_host
from skelbench.reporting.diagnostics.frozen import Frozen
from skelbench.reporting.figures.base import COLORS, DASHES, GUIDE, PALE, finish, method_look, panel_grid, styled

Records = Mapping[str, Mapping[str, Any]]
"""Displayed name -> record of the diagnosis."""


@styled
def interpolation(records: Records, data: str) -> Figure:
    """Error over coverage for independent masks and tubes, a panel per record; ``data``: named in the caption."""
    figure, grid = panel_grid([(name, "") for name in records], len(records), height=2.4)
    for axes, record in zip(grid, records.values()):
        rows = record["rows"]
        coverage = [row["coverage"] for row in rows]
        for kind, label, color in (("random", "independent tokens", COLORS[1]), ("tube", "tubes", COLORS[0])):
            low, high = zip(*(row[kind]["interval"] for row in rows))
            errors = [row[kind]["error"] for row in rows]
            axes.plot(coverage, errors, color=color, marker="o", markersize=4, label=label)
            axes.fill_between(coverage, low, high, color=color, alpha=0.18, linewidth=0)
        axes.axhline(1.0, color=PALE, linewidth=1, linestyle="--", label="error of the mean")
        axes.grid(color=GUIDE, linewidth=0.6)
        axes.set_xlabel("Fraction of masked tokens")
    top = max(axes.get_ylim()[1] for axes in grid)
    for axes in grid:
        axes.set_ylim(0, top)
    grid[0].set_ylabel("Error / variance")
    clips = next(iter(records.values()))["test_clips"]
    caption = f"{data}, {clips:,} test clips. Bands: 95 % over masks."
    return finish(figure, "Local interpolation of masked tokens", [caption])


@styled
def invariance(records: Records, data: str, runs: Mapping[str, Frozen]) -> Figure:
    """Similarity of a changed clip to its original, and percentage of changed clips nearest to their original."""
    first = next(iter(records.values()))
    changes = [change for change in ("yaw", "size") if change in first["curves"]]
    figure, panels = panel_grid([("", "")] * 2 * len(changes), len(changes), height=2.2)
    measures = ("similarity", "Cosine with own original", 1), ("retrieved", "Own original is nearest, %", 100)
    for axes, ((key, label, scale), change) in zip(panels, product(measures, changes)):
        for name, record in records.items():
            curve, run = record["curves"][change], runs[name].run
            dash = DASHES[run.spec.tokens % len(DASHES)]
            look, x = method_look(get_host(), run.title), [point["value"] for point in curve]
            axes.plot(x, [scale * point[key] for point in curve], **look, linestyle=dash, label=name)
            if key == "similarity":
                axes.plot(x, [point["others"] for point in curve], color=look["color"], linewidth=0.6)
        axes.grid(color=GUIDE, linewidth=0.6)
        axes.set_xlabel("Yaw, degrees" if change == "yaw" else "Bone lengths, factor")
        axes.set_ylabel(label if change == changes[0] else "")
        if change == "yaw":
            axes.set_xticks(range(0, 361, 60))
    captions = [f"{data}, {first['clips']:,} test clips.", "Thin lines: cosine with the originals of other clips."]
    return finish(figure, "Features over yaw and body size", captions)
