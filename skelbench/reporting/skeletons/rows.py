"""Takes of a clip below each other: their names at the left, their frames from left to right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from skelbench.reporting.figures.layout import EDGE, GAP, NAME, NOTE, TITLE, lines_high, wrap
from skelbench.reporting.figures.style import INK, PALE, PLAIN
from skelbench.reporting.skeletons.draw import draw_pose, pose_axes, sides_legend
from skelbench.reporting.skeletons.scene import Panel, Scene

NAMES, CELL, LEGEND = 1.35, 0.78, 0.3
"""Inches: of the column of names, of a pose's height, of the legend."""
LETTERS = 7
"""Points of a row's name."""


def evenly(panel: Panel, count: int) -> list[int]:
    """At most ``count`` frames, the first and the last among them."""
    return sorted(set(np.linspace(0, panel.frames - 1, count).round().astype(int).tolist()))


def strips(
    title: str,
    subtitle: str,
    scene: Scene,
    groups: Sequence[tuple[str, Sequence[Panel]]],
    frames: int,
    caption: str,
) -> Figure:
    """A row for every panel of ``groups``, each of which may have a name; ``scene`` holds all of them, and gives camera
    and scale. ``frames``: columns."""
    step = CELL * scene.shape
    width = EDGE + NAMES + frames * step + EDGE
    inside = width - 2 * EDGE
    titles, facts, words = wrap(title, inside, TITLE), wrap(subtitle, inside, NOTE), wrap(caption, inside, NOTE)
    heads = sum(lines_high(1, NAME) + GAP for name, _ in groups if name)
    rows = sum(len(panels) for _, panels in groups)
    top = EDGE + lines_high(len(titles), TITLE) + lines_high(len(facts), NOTE) + GAP
    height = top + heads + rows * (CELL + GAP) + lines_high(len(words), NOTE) + LEGEND + EDGE
    figure = Figure(figsize=(width, height), facecolor="white")

    def write(x: float, y: float, lines: Sequence[str], size: float, colour: str, weight: str = "normal") -> float:
        figure.text(
            x / width, y / height, "\n".join(lines), fontsize=size, color=colour, weight=weight, va="top",
            linespacing=1.3, **PLAIN,
        )  # fmt: skip
        return lines_high(len(lines), size)

    y = height - EDGE
    y -= write(EDGE, y, titles, TITLE, INK, "bold")
    y -= write(EDGE, y, facts, NOTE, PALE) + GAP
    for name, panels in groups:
        if name:
            y -= write(EDGE, y, [name], NAME, INK, "bold") + GAP
        for panel in panels:
            bottom = y - CELL
            names = wrap(panel.title, NAMES - 0.1, LETTERS)
            notes = [line for note in panel.note.split("\n") for line in wrap(note, NAMES - 0.1, NOTE)]
            middle = bottom + CELL / 2 + (lines_high(len(names), LETTERS) + lines_high(len(notes), NOTE)) / 2
            middle -= write(EDGE, middle, names, LETTERS, INK)
            write(EDGE, middle, notes, NOTE, PALE)
            for column, frame in enumerate(evenly(panel, frames)):
                box = (EDGE + NAMES + column * step, bottom, step, CELL)
                axes = pose_axes(figure, scene, box, floor=panel is scene.panels[0])
                draw_pose(axes, scene, panel, frame, width=1.2)
            y = bottom - GAP
    write(EDGE, y, words, NOTE, PALE)
    sides_legend(figure, scene)
    return figure
