"""Names beside points: none covers another, nor a point, where there is room."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from skelbench.reporting.figures.layout import width_of
from skelbench.reporting.figures.style import PLAIN

SIZE = 6.5
"""Points of the letters."""
DOT = 3.5
"""Half of a point and what is free around it, in points (1/72 inch)."""
TURNS = (90, -90, 0, 180, 45, 135, -45, -135)
"""Where a name is tried, in degrees about its point: above it first."""

Box = tuple[float, float, float, float]
"""x0, y0, x1, y1 in points from the lower left corner of the figure."""


@dataclass(frozen=True)
class Name:
    """``text`` that belongs to the point (``x``, ``y``) of the data."""

    x: float
    y: float
    text: str
    colour: str


def write(axes: Axes, names: Sequence[Name]) -> None:
    """Write ``names``, the lowest points first; limits, scales and lines of ``axes`` must be settled. A name that found
    no place near its point is joined to it by a line."""
    figure = axes.get_figure()
    assert figure is not None
    points = axes.transData.transform([(name.x, name.y) for name in names]) * 72 / figure.dpi
    inside = tuple(value * 72 / figure.dpi for value in axes.get_window_extent().extents)
    taken: list[Box] = [(x - DOT, y - DOT, x + DOT, y + DOT) for x, y in points.tolist()]
    taken += [(x - 1, y - 1, x + 1, y + 1) for x, y in _along(axes)]
    for place in sorted(range(len(names)), key=lambda i: (points[i][1], points[i][0])):
        name, (x, y) = names[place], points[place].tolist()
        wide, tall = 72 * width_of(name.text, SIZE), 1.15 * SIZE
        tried = [(_box(x, y, wide, tall, far, turn), far) for far, turn in _tries()]
        box, far = min(tried, key=lambda one: (round(_lost(one[0], taken, inside), 1), one[1]))
        taken.append(box)
        middle = (box[0] + box[2]) / 2 - x, (box[1] + box[3]) / 2 - y
        line: dict[str, Any] = (
            {"arrowprops": {"arrowstyle": "-", "color": name.colour, "linewidth": 0.5}} if far > 8 else {}
        )
        axes.annotate(
            name.text, (name.x, name.y), middle, textcoords="offset points", ha="center", va="center", fontsize=SIZE,
            color=name.colour, zorder=6, path_effects=[withStroke(linewidth=2, foreground="white")], **line, **PLAIN,
        )  # fmt: skip


def _along(axes: Axes) -> Iterator[tuple[float, float]]:
    """Points on the lines of ``axes``, close together."""
    figure = axes.get_figure()
    assert figure is not None
    for line in axes.lines:
        if line.get_linestyle() == "None" or line.get_transform() != axes.transData:
            continue
        corners = axes.transData.transform(np.asarray(line.get_xydata(), float)) * 72 / figure.dpi
        for (x0, y0), (x1, y1) in itertools.pairwise(corners.tolist()):
            steps = max(1, math.ceil(math.hypot(x1 - x0, y1 - y0) / 3)) if math.isfinite(x0 + x1 + y0 + y1) else 0
            yield from ((x0 + (x1 - x0) * i / steps, y0 + (y1 - y0) * i / steps) for i in range(steps))


def _tries() -> Iterator[tuple[float, int]]:
    for far in (5, 8, 14, 20, 28):
        yield from ((far, turn) for turn in TURNS)


def _box(x: float, y: float, wide: float, tall: float, far: float, turn: int) -> Box:
    """Of letters ``far`` points from (x, y): beside, above or below it, whichever the turn says."""
    across, up = math.cos(math.radians(turn)), math.sin(math.radians(turn))
    middle = x + across * (far + wide / 2), y + up * (far + tall / 2)
    return middle[0] - wide / 2, middle[1] - tall / 2, middle[0] + wide / 2, middle[1] + tall / 2


def _lost(box: Box, taken: Sequence[Box], inside: Sequence[float]) -> float:
    """How much of ``box`` covers something or is outside, in square points."""
    x0, y0, x1, y1 = inside
    kept = max(0.0, min(box[2], x1) - max(box[0], x0)) * max(0.0, min(box[3], y1) - max(box[1], y0))
    area = (box[2] - box[0]) * (box[3] - box[1])
    return area - kept + sum(_overlap(box, other) for other in taken)


def _overlap(one: Box, other: Box) -> float:
    wide, tall = min(one[2], other[2]) - max(one[0], other[0]), min(one[3], other[3]) - max(one[1], other[1])
    return max(0.0, wide) * max(0.0, tall)
