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
    headings: Sequence[Sequence[Heading]],
    legend: Sequence[tuple[Artist, str]],
    caption: Sequence[str],
    height: float = 1.9,
) -> tuple[Figure, list[list[Axes]]]:
    """The figure and its axes, with a panel about ``height`` inches high for every ``headings[row][column]``.

    Rows may differ in length. ``legend``: (artist, label) pairs. ``caption``: paragraphs.
    """
    columns = max(map(len, headings))
    width = max(1.5, columns) * WIDTH
    lines = "\n".join(wrapped(text, width - 0.8, NOTE) for text in caption)
    longest = max((len(label) for _, label in legend), default=0)
    beside = max(1, min(len(legend), int((width - 0.6) / (0.5 + longest * 0.55 * ENTRY / 72))))
    legend_points = 1.6 * ENTRY * math.ceil(len(legend) / beside)
    below = (legend_points + 1.35 * NOTE * (lines.count("\n") + 2)) / 72
    notes = [[wrapped(heading.note, width / columns - 0.8, NOTE) for heading in row] for row in headings]
    heads = [max(_heading_points(head, note) for head, note in zip(*pair)) / 72 for pair in zip(headings, notes)]
    figure = Figure(figsize=(width, 0.4 + sum(heads) + len(headings) * (height + 0.4) + below), facecolor="white")
    figure.set_layout_engine("constrained", h_pad=0.06, w_pad=0.06)
    figure.suptitle(title, x=0.02, ha="left", fontsize=TITLE, weight="bold", **PLAIN)
    ratios = [*[height] * len(headings), 0.01]
    grid = figure.add_gridspec(len(headings) + 1, columns, height_ratios=ratios)
    axes = [[figure.add_subplot(grid[r, c]) for c in range(len(row))] for r, row in enumerate(headings)]
    for row, row_headings, row_notes in zip(axes, headings, notes):
        for panel, heading, note in zip(row, row_headings, row_notes):
            add_heading(panel, heading.name, note)
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
    at = {"xytext": (0, -legend_points - 4), "textcoords": "offset points"}
    bottom.annotate(lines, (0, 1), xycoords="axes fraction", va="top", fontsize=NOTE, color=PALE, **at, **PLAIN)
    return figure, axes


def add_heading(panel: Axes, name: str, note: str) -> None:
    """Write ``name`` in bold above ``panel`` and ``note`` in small letters between the two."""
    above = _heading_points(Heading(name), note) - 1.35 * NAME if note else 4
    panel.set_title(name, loc="left", fontsize=NAME, weight="bold", color=INK, pad=above, **PLAIN)
    at = {"xytext": (0, 4), "textcoords": "offset points"}
    panel.annotate(note, (0, 1), xycoords="axes fraction", va="bottom", fontsize=NOTE, color=PALE, **at, **PLAIN)


def _heading_points(heading: Heading, note: str) -> float:
    lines = note.count("\n") + 1 if note else 0
    return 1.35 * (NAME * bool(heading.name) + NOTE * lines) + 4


def wrapped(text: str, inches: float, size: float) -> str:
    """``text`` on lines of about that width in letters of ``size`` points."""
    return textwrap.fill(text, max(10, int(inches * 72 / (0.53 * size))), break_long_words=False)
