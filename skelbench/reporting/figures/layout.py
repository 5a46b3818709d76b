"""A figure laid out in inches: title, panels with headings, legend and caption, none of which covers another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextToPath

from skelbench.reporting.figures.style import INK, PALE, PLAIN

WIDTH = 3.3
"""Inches of a panel and the labels of its axes: a column of print."""
LEFT, RIGHT, BELOW, BETWEEN, LABEL = 0.62, 0.2, 0.42, 0.14, 0.4
"""Inches beside a panel, under one with numbers on its axis and under one without, and from it to the label on its
left."""
EDGE, GAP = 0.12, 0.1
"""Inches around the whole, and between title, panels, legend and caption."""
ARTIST = 0.5
"""Inches of what an entry of the legend shows, with the space around it."""
TITLE, NAME, ENTRY, NOTE = 10, 8.5, 7.5, 6.5
"""Points of the figure's title, of a panel's name, of the legend, of a panel's note and the caption."""


@dataclass(frozen=True)
class Heading:
    """What stands above a panel: its name in bold, and in small letters what a reader must know of it."""

    name: str = ""
    note: str = ""


class Sheet:
    """Panels ``height`` inches high, ``headings[row][column]``; ``axes`` has the same shape, rows may differ in length.

    ``legend``: (artist, text) pairs, set on as many lines as they need. ``caption``: paragraphs. ``shared``: the rows
    have one horizontal axis, below the last.
    """

    def __init__(
        self,
        title: str,
        headings: Sequence[Sequence[Heading]],
        legend: Sequence[tuple[Artist, str]],
        caption: Sequence[str],
        height: float = 1.9,
        shared: bool = False,
    ) -> None:
        columns = max(map(len, headings))
        # A lone panel is wider: the words around it need room.
        self.width = max(1.5, columns) * WIDTH
        self.column = self.width / columns
        inside, panel = self.width - LEFT - RIGHT, self.column - LEFT - RIGHT
        titles, words = wrap(title, inside, TITLE), [line for text in caption for line in wrap(text, inside, NOTE)]
        told = [wrap(text, inside - ARTIST, ENTRY) for _, text in legend]
        entries = max((width_of(line, ENTRY) for lines in told for line in lines), default=0) + ARTIST
        beside = max(1, min(len(legend), int(inside / entries)))
        rows, more = -(-len(legend) // beside), sum(len(lines) - 1 for lines in told)  # only a lone column has more
        high = (1.6 * rows + 1.25 * more) * ENTRY / 72
        under = [BETWEEN if shared and row + 1 < len(headings) else BELOW for row in range(len(headings))]
        above = [max(_tall(heading, panel) for heading in row) for row in headings]
        last = GAP + high + GAP + lines_high(len(words), NOTE) + EDGE
        self.height = EDGE + lines_high(len(titles), TITLE) + sum(above) + sum(under) + height * len(headings) + last
        self.figure = Figure(figsize=(self.width, self.height), facecolor="white")
        self.axes: list[list[Axes]] = []

        y = self.height - EDGE
        y -= self._write(LEFT, y, titles, TITLE, color=INK, weight="bold")
        for row, top, bottom in zip(headings, above, under):
            self.axes.append([self._panel(i, y, heading, y - top - height, height) for i, heading in enumerate(row)])
            y -= top + height + bottom
        if legend:
            self._legend([artist for artist, _ in legend], ["\n".join(lines) for lines in told], y - GAP, beside)
        self._write(LEFT, EDGE + lines_high(len(words), NOTE), words, NOTE, color=PALE)

    def _write(self, x: float, y: float, lines: Sequence[str], size: float, **look: Any) -> float:
        """Lines of text below (``x``, ``y``), inches from the lower left corner; returns their height."""
        text = "\n".join(lines)
        self.figure.text(
            x / self.width, y / self.height, text, fontsize=size, va="top", linespacing=1.3, **PLAIN, **look
        )
        return lines_high(len(lines), size)

    def _panel(self, column: int, y: float, heading: Heading, bottom: float, height: float) -> Axes:
        """Axes above ``bottom`` with their heading below ``y``."""
        x, wide = column * self.column + LEFT, self.column - LEFT - RIGHT
        y -= GAP
        y -= self._write(x, y, wrap(heading.name, wide, NAME), NAME, color=INK, weight="bold")
        self._write(x, y, wrap(heading.note, wide, NOTE), NOTE, color=PALE)
        box = (x / self.width, bottom / self.height, wide / self.width, height / self.height)
        axes = self.figure.add_axes(box)
        axes.yaxis.set_label_coords(-LABEL / wide, 0.5)
        return axes

    def _legend(self, artists: Sequence[Artist], texts: Sequence[str], y: float, beside: int) -> None:
        drawn = self.figure.legend(
            artists, texts, loc="upper left", bbox_to_anchor=(LEFT / self.width, y / self.height), ncols=beside,
            frameon=False, fontsize=ENTRY, labelcolor=INK, columnspacing=1.4, borderpad=0, borderaxespad=0,
        )  # fmt: skip
        for text in drawn.get_texts():
            text.set_parse_math(False)


def _tall(heading: Heading, wide: float) -> float:
    """Inches that a heading takes above a panel ``wide`` inches wide, with what is free around it."""
    name, note = len(wrap(heading.name, wide, NAME)), len(wrap(heading.note, wide, NOTE))
    return GAP + lines_high(name, NAME) + lines_high(note, NOTE) + GAP if name + note else 0.0


def lines_high(count: int, size: float) -> float:
    """Inches that so many lines of letters of ``size`` points take."""
    return count * 1.35 * size / 72


def wrap(text: str, inside: float, size: float) -> list[str]:
    """``text`` on lines no wider than ``inside`` inches, broken at spaces (not at
    fixed ones); a word that is too long stays whole."""
    lines: list[str] = []
    for word in text.split(" "):
        if lines and width_of(f"{lines[-1]} {word}", size) <= inside:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines if text else []


@cache
def width_of(text: str, size: float) -> float:
    """Inches that ``text`` takes in letters of ``size`` points; titles and names are bold."""
    font = FontProperties(size=size, weight="bold" if size >= NAME else "normal")
    return TextToPath().get_text_width_height_descent(text, font, False)[0] / 72
