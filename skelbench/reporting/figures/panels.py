"""A grid of panels with headings, and a legend and a caption below, placed by matplotlib's constrained layout."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from skelbench.reporting.figures.style import INK, PALE, PLAIN

WIDTH = 3.3
"""Inches of a panel with its labels: a column of print."""
TITLE, NAME, ENTRY, NOTE = 10, 8.5, 7.5, 6.5
"""Font sizes of the title, of a panel's name, of the legend, and of notes and caption, points."""


@dataclass(frozen=True)
class Heading:
    """The name of a panel in bold, and a note in small letters."""

    name: str = ""
    note: str = ""


def panel_grid(
    title: str,
    headings: Sequence[Heading | None],
    columns: int,
    legend: Sequence[tuple[Artist, str]],
    caption: Sequence[str],
    height: float = 1.9,
) -> tuple[Figure, list[Axes]]:
    """The figure and its axes: a panel about ``height`` inches high per heading, ``columns`` in a row; None = a gap.

    ``legend``: (artist, label) pairs. ``caption``: paragraphs.
    """
    columns = min(columns, len(headings))
    width = max(1.5, columns) * WIDTH
    lines = "\n".join(wrapped(text, width - 0.8, NOTE) for text in caption)
    longest = max((len(label) for _, label in legend), default=0)
    beside = max(1, min(len(legend), int((width - 0.6) / (0.5 + longest * 0.55 * ENTRY / 72))))
    legend_points = 1.6 * ENTRY * math.ceil(len(legend) / beside)
    below = (legend_points + 1.35 * NOTE * (lines.count("\n") + 2)) / 72
    rows = [headings[start : start + columns] for start in range(0, len(headings), columns)]
    noted = [[(one, wrapped(one.note, width / columns - 0.8, NOTE)) for one in row if one] for row in rows]
    heads = sum(max(_heading_points(*pair) for pair in row) for row in noted) / 72
    figure = Figure(figsize=(width, 0.4 + heads + len(rows) * (height + 0.4) + below), facecolor="white")
    figure.set_layout_engine("constrained", h_pad=0.06, w_pad=0.06)
    figure.suptitle(title, x=0.02, ha="left", fontsize=TITLE, weight="bold", **PLAIN)
    grid = figure.add_gridspec(len(rows) + 1, columns, height_ratios=[*[height] * len(rows), 0.01])
    axes: list[Axes] = []
    for r, row in enumerate(noted):
        for c, (heading, note) in enumerate(row):
            axes.append(figure.add_subplot(grid[r, c]))
            add_heading(axes[-1], heading.name, note)
    bottom = figure.add_subplot(grid[-1, :])
    bottom.set_axis_off()
    if legend:
        artists, labels = zip(*legend)
        drawn = bottom.legend(
            artists, labels, loc="upper left", ncols=beside, frameon=False, fontsize=ENTRY, labelcolor=INK,
            columnspacing=1.4, borderpad=0, borderaxespad=0,
        )  # fmt: skip
        for text in drawn.get_texts():
            text.set_parse_math(False)
    bottom.annotate(
        lines, (0, 1), (0, -legend_points - 4), xycoords="axes fraction", textcoords="offset points", va="top",
        fontsize=NOTE, color=PALE, **PLAIN,
    )  # fmt: skip
    return figure, axes


def add_heading(panel: Axes, name: str, note: str) -> None:
    """Write ``name`` in bold above ``panel`` and ``note`` in small letters between the two."""
    above = _heading_points(Heading(name), note) - 1.35 * NAME if note else 4
    panel.set_title(name, loc="left", fontsize=NAME, weight="bold", color=INK, pad=above, **PLAIN)
    panel.annotate(
        note, (0, 1), (0, 4), xycoords="axes fraction", textcoords="offset points", va="bottom", fontsize=NOTE,
        color=PALE, **PLAIN,
    )  # fmt: skip


def _heading_points(heading: Heading, note: str) -> float:
    lines = note.count("\n") + 1 if note else 0
    return 1.35 * (NAME * bool(heading.name) + NOTE * lines) + 4


def wrapped(text: str, inches: float, size: float) -> str:
    """``text`` on lines of about that width in letters of ``size`` points."""
    return textwrap.fill(
        text, max(10, int(inches * 72 / (0.53 * size))), break_long_words=False, break_on_hyphens=False
    )
