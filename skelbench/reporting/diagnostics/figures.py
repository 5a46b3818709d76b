"""Diagnoses as figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from skelbench.reporting.figures.panels import Heading, panel_grid
from skelbench.reporting.figures.style import COLOURS, GUIDE, PALE, house, look_of

Named = Mapping[str, Mapping[str, Any]]
"""Name that the reader sees -> record of the diagnosis."""
OTHERS: dict[str, Any] = {"linewidth": 0.9, "linestyle": ":"}
"""Line style of the similarity to other clips."""


def interpolation(named: Named, place: str) -> Figure:
    """Error over coverage for independent masks and tubes, a panel per thing filled in; ``place``: the data."""
    clips = next(iter(named.values()))["test_clips"]
    rows = [row for record in named.values() for row in record["rows"]]
    top = max(1.0, *(row[kind]["interval"][1] for row in rows for kind in ("random", "tube")))
    kinds = (("random", "independent tokens", COLOURS[1]), ("tube", "tubes", COLOURS[0]))
    legend = [(Line2D([], [], color=color, marker="o", markersize=4), label) for _, label, color in kinds]
    legend += [(Patch(color=PALE, alpha=0.18, linewidth=0), "95 % over masks")]
    legend += [(Line2D([], [], color=PALE, linewidth=1, linestyle="--"), "the mean")]
    with house():
        title, heads = "Local interpolation of masked tokens", [Heading(name) for name in named]
        caption = [f"{place}, {clips:,} test clips."]
        figure, row = panel_grid(title, heads, len(named), legend, caption, height=2.4)
        for axes, record in zip(row, named.values()):
            coverage = [r["coverage"] for r in record["rows"]]
            for kind, label, color in kinds:
                low, high = zip(*(r[kind]["interval"] for r in record["rows"]))
                errors = [r[kind]["error"] for r in record["rows"]]
                axes.fill_between(coverage, low, high, color=color, alpha=0.18, linewidth=0)
                axes.plot(coverage, errors, color=color, marker="o", markersize=4, label=label)
            axes.axhline(1.0, color=PALE, linewidth=1, linestyle="--")
            axes.grid(color=GUIDE, linewidth=0.6)
            axes.set(xlabel="Share of masked tokens", ylim=(0, 1.05 * top))
        row[0].set_ylabel("Error / variance")
    return figure


def invariance(named: Named, place: str) -> Figure:
    """Similarity to the own original, and share of clips whose own original is nearest, over yaw and body size;
    ``place``: the data."""
    first = next(iter(named.values()))
    changes = [change for change in ("yaw", "size") if change in first["curves"]]
    looks = {
        name: look_of(number) | {"markersize": 4.5, "linestyle": "--" if name.startswith("untrained") else "-"}
        for number, name in enumerate(named)
    }
    labels = {"yaw": "Yaw, degrees", "size": "Bone lengths, factor"}
    values: tuple[tuple[str, str, Callable[[float], float]], ...] = (
        ("similarity", "Cosine with the own original", float),
        ("retrieved", "Own original is nearest, %", lambda share: 100 * share),
    )
    legend = [(Line2D([], [], **look), name) for name, look in looks.items()]
    legend.append((Line2D([], [], color=PALE, **OTHERS), "other clips"))
    caption = f"{place}, {first['clips']:,} test clips."
    with house():
        title, count = "Features over yaw and body size", len(changes)
        figure, every = panel_grid(title, [Heading()] * 2 * count, count, legend, [caption], height=2.2)
        for row, (key, label, scaled) in zip((every[:count], every[count:]), values):
            for axes, change in zip(row, changes):
                for name, record in named.items():
                    curve, look = record["curves"][change], looks[name]
                    x = [point["value"] for point in curve]
                    axes.plot(x, [scaled(point[key]) for point in curve], **look)
                    if key == "similarity":
                        axes.plot(x, [point["others"] for point in curve], color=look["color"], **OTHERS)
                axes.grid(color=GUIDE, linewidth=0.6)
                axes.set_xlabel(labels[change])
                if change == "yaw":
                    axes.set_xticks(range(0, 361, 60))
            row[0].set_ylabel(label)
    return figure
