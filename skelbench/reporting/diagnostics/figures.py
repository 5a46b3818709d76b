"""Diagnoses as pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from skelbench.reporting.figures.layout import ARTIST, width_of
from skelbench.reporting.figures.style import COLOURS, GUIDE, INK, PALE, PLAIN, look_of

Named = Mapping[str, Mapping[str, Any]]
"""What the reader calls it -> its record."""
OTHERS: dict[str, Any] = {"linewidth": 0.9, "linestyle": ":"}
"""How the similarity to other clips is drawn, in the colour of its run."""
SMALL = 7
"""Points of the letters of a legend below the panels."""


def _panels(title: str, columns: int, rows: int = 1) -> tuple[Figure, list[list[Axes]]]:
    figure = Figure(figsize=(4.2 * columns, 0.5 + 3.1 * rows), dpi=150, facecolor="white", layout="constrained")
    figure.suptitle(title, fontsize=9.5, color=INK, **PLAIN)
    axes = figure.subplots(rows, columns, squeeze=False, sharey="row")
    for axis in axes.flat:
        axis.grid(color=GUIDE, linewidth=0.6)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(colors=INK, labelsize=8)
    return figure, axes.tolist()


def interpolation(named: Named, place: str) -> Figure:
    """Error over coverage, independent masks and tubes, one panel per thing filled in; ``place``: the data."""
    clips = next(iter(named.values()))["test_clips"]
    figure, (row,) = _panels(f"Local interpolation of hidden tokens\n{place}, {clips:,} test clips", len(named))
    rows = [row for record in named.values() for row in record["rows"]]
    top = max(1.0, *(row[kind]["interval"][1] for row in rows for kind in ("random", "tube")))
    for axis, (name, record) in zip(row, named.items()):
        coverage = [r["coverage"] for r in record["rows"]]
        for kind, label, colour in (("random", "independent tokens", COLOURS[1]), ("tube", "tubes", COLOURS[0])):
            low, high = zip(*(r[kind]["interval"] for r in record["rows"]))
            axis.fill_between(coverage, low, high, color=colour, alpha=0.18, linewidth=0)
            axis.plot(coverage, [r[kind]["error"] for r in record["rows"]], color=colour, marker="o", ms=4, label=label)
        axis.fill_between([], [], color=PALE, alpha=0.18, linewidth=0, label="95 % over masks")
        axis.axhline(1.0, color=PALE, linewidth=1, linestyle="--", label="the mean")
        axis.set_title(name, fontsize=9, color=INK, **PLAIN)
        axis.set_xlabel("tokens hidden, share", fontsize=8, color=INK)
        axis.set_ylim(0, 1.05 * top)
    row[0].set_ylabel("error of local interpolation / variance", fontsize=8, color=INK)
    row[0].legend(fontsize=7.5, frameon=False, labelcolor=INK)
    return figure


def _look(place: int, name: str) -> dict[str, Any]:
    return look_of(place) | {"markersize": 4.5, "linestyle": "--" if name.startswith("untrained") else "-"}


def invariance(named: Named, place: str) -> Figure:
    """Similarity to the own original above, share of clips whose own is nearest below, over yaw and body size;
    ``place``: the data."""
    first = next(iter(named.values()))
    changes = [change for change in ("yaw", "size") if change in first["curves"]]
    looks = {name: _look(number, name) for number, name in enumerate(named)}
    figure, axes = _panels(f"Features over yaw and body size\n{place}, {first['clips']:,} test clips", len(changes), 2)
    labels = {"yaw": "yaw, degrees", "size": "bone lengths, factor"}
    values: tuple[tuple[str, str, Callable[[float], float]], ...] = (
        ("similarity", "cosine with the own original", float),
        ("retrieved", "own original is nearest, %", lambda share: 100 * share),
    )
    for line, (key, label, scaled) in zip(axes, values):
        for axis, change in zip(line, changes):
            for name, record in named.items():
                curve, look = record["curves"][change], looks[name]
                x = [point["value"] for point in curve]
                axis.plot(x, [scaled(point[key]) for point in curve], **look)
                if key == "similarity":
                    axis.plot(x, [point["others"] for point in curve], color=look["color"], **OTHERS)
            axis.set_xlabel(labels[change], fontsize=8, color=INK)
            if change == "yaw":
                axis.set_xticks(range(0, 361, 60))
        line[0].set_ylabel(label, fontsize=8, color=INK)
    lines = [(Line2D([], [], **look), name) for name, look in looks.items()]
    _legend_below(figure, [*lines, (Line2D([], [], color=PALE, **OTHERS), "other clips")])
    return figure


def _legend_below(figure: Figure, entries: Sequence[tuple[Line2D, str]]) -> None:
    """A legend under the panels, which keep their height: two entries beside each other where both have room."""
    widest = max(width_of(name, SMALL) for _, name in entries) + ARTIST
    columns = 2 if 2 * widest < figure.get_figwidth() else 1
    figure.set_figheight(figure.get_figheight() + 1.6 * -(-len(entries) // columns) * SMALL / 72)
    artists, names = zip(*entries)
    drawn = figure.legend(
        artists, names, loc="outside lower center", ncols=columns, fontsize=SMALL, frameon=False, labelcolor=INK
    )
    for text in drawn.get_texts():
        text.set(**PLAIN)
