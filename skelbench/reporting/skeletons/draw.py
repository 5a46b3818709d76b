"""Drawing a scene with matplotlib: poses on axes, a film strip, an animation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image

from skelbench.core.files import write_whole
from skelbench.reporting.figures.base import INK, NAME, NOTE, PALE, PLAIN, wrapped
from skelbench.reporting.skeletons.scene import COLORS, HIDDEN, Panel, Scene, middle

FLOOR = "#d8dee6"
MOST = 16
"""Largest number of frames in a row of a film strip; with more temporal tokens every second, third ... is shown."""
MIN_DELAY_MS = 40
"""Shortest duration of a frame that viewers do not slow down."""


def pose_axes(axes: Axes, scene: Scene, poses: int = 1) -> None:
    """Give ``axes`` the scale of the scene, with space for ``poses`` next to each other and no ticks or frame."""
    half = scene.size * scene.shape
    axes.set(xlim=(-half, (2 * poses - 1) * half), ylim=(-scene.size, scene.size), xticks=[], yticks=[])
    axes.set_aspect("equal")
    axes.spines[:].set_visible(False)
    axes.patch.set_visible(False)


def draw_pose(axes: Axes, scene: Scene, panel: Panel, frame: int, width: float, place: int = 0) -> list[Artist]:
    """Draw the bodies of ``panel`` at ``frame`` as the pose number ``place`` from the left; returns the new artists.

    ``width``: of bones, points. Bodies outside the picture are not drawn.
    """
    hidden_MJ, drawn_MJ = panel.hidden(frame), panel.there_MTJ[:, frame]
    outside_M = scene.outside(panel, slice(frame, frame + 1))[:, 0]
    shift = 2 * place * scene.size * scene.shape
    bones: list[tuple[float, np.ndarray, str, bool]] = []
    joints: dict[bool, list[tuple[float, float, str, float]]] = {True: [], False: []}
    for body in np.flatnonzero(~outside_M):
        x_JC = (panel.x_MTJC[body, frame] - middle(panel)) @ scene.camera.T + (shift, 0, 0)
        for joint, parent in enumerate(scene.topology.parents):
            if not drawn_MJ[body, joint]:
                continue
            color = COLORS[body % len(COLORS)][scene.sides[joint]]
            size = 1.8 if scene.topology.joints[joint] == "head" else 1.0
            joints[bool(hidden_MJ[body, joint])].append((*x_JC[joint, :2], color, size))
            if parent >= 0 and drawn_MJ[body, parent]:
                ends, covered = x_JC[[joint, parent]], bool(hidden_MJ[body, [joint, parent]].any())
                bones.append((ends[:, 2].mean(), ends[:, :2], HIDDEN if covered else color, covered))
    # Far bones first; a white rim around each shows which of two crossing bones is in front.
    bones.sort(key=lambda bone: bone[0])
    lines = LineCollection(
        [ends for _, ends, _, _ in bones for _ in range(2)],
        colors=[shade for _, _, color, _ in bones for shade in ("white", color)],
        linewidths=[w for _, _, _, covered in bones for w in (1.9 * width, (0.35 if covered else 1) * width)],
        capstyle="round",
        zorder=2,
    )
    added: list[Artist] = [axes.add_collection(lines, autolim=False)]
    for hidden, dots in joints.items():
        if dots:
            x, y, own, sizes = zip(*dots)
            area = (1.25 * width * np.array(sizes)) ** 2
            face, edge = ("white", HIDDEN) if hidden else (list(own), list(own))
            added.append(axes.scatter(x, y, s=area, zorder=3, facecolors=face, edgecolors=edge, linewidths=0.3 * width))
    return added


def _floor(axes: Axes, scene: Scene) -> None:
    """Draw a line under flat poses, a grid of half meters under the first pose of others."""
    height = scene.floor - middle(scene.panels[0])[1]
    if scene.flat:
        axes.axhline(height, color=FLOOR, linewidth=1, zorder=0)
        return
    reach = max(1, math.floor(scene.size * scene.shape))
    steps = np.arange(-reach, reach + 1) * 0.5
    across = np.array([[(a, height, steps[0]), (a, height, steps[-1])] for a in steps])
    projected = np.concatenate([across, across[..., [2, 1, 0]]]) @ scene.camera.T
    axes.add_collection(LineCollection(projected[..., :2], colors=FLOOR, linewidths=0.7, zorder=0), autolim=False)


def sides_legend(figure: Figure, scene: Scene, caption: str = "") -> None:
    """Add a legend of the colors of left and right and of hidden joints below everything, under ``caption``."""
    bodies = sorted({int(m) for panel in scene.panels for m in np.flatnonzero(panel.there_MTJ.any(axis=(1, 2)))})
    entries = []
    for body in bodies[: len(COLORS)]:
        whose = f"body {body + 1}, " if len(bodies) > 1 else ""
        for side, name in enumerate(("left", "right")):
            entries.append((Line2D([], [], color=COLORS[body % len(COLORS)][side], linewidth=3), f"{whose}{name}"))
    if any(panel.tokens for panel in scene.panels):
        mark = Line2D([], [], color=HIDDEN, marker="o", markerfacecolor="white", linewidth=1)
        entries.append((mark, "hidden by the mask"))
    legend = figure.legend(
        *zip(*entries), loc="outside lower left", ncols=max(1, int(figure.get_figwidth() / 1.3)), frameon=False,
        fontsize=7.5, labelcolor=INK, handlelength=1.4, alignment="left", title_fontsize=NOTE,
        title=wrapped(caption, figure.get_figwidth()) or None,
    )  # fmt: skip
    legend.get_title().set(color=PALE, **PLAIN)


def film_strip(
    title: str, scene: Scene, groups: Sequence[tuple[str, Sequence[tuple[Panel, list[int]]]]], caption: str = ""
) -> Figure:
    """Return a row per (panel, frames) of ``groups``; a group may have a name.

    ``scene`` holds every panel and gives camera and scale.
    """
    rows = [(name if i == 0 else "", *row) for name, own in groups for i, row in enumerate(own)]
    columns = max(len(frames) for _, _, frames in rows)
    label = 1.5 if len(rows) > 1 and any(panel.title for _, panel, _ in rows) else 0.2
    cell = 0.85 if len(rows) > 1 else 1.5
    width = max(3.5, columns * cell * scene.shape + label)
    headings = sum(bool(name) for name, _, _ in rows)
    height = 0.9 + len(rows) * (cell + 0.16) + 0.2 * headings + 0.14 * len(caption) * 0.05 / width
    figure = Figure(figsize=(width, height))
    figure.set_layout_engine("constrained", h_pad=0.03, w_pad=0.04, hspace=0.0, wspace=0.0)
    figure.suptitle(wrapped(title, width), x=0.02, ha="left", fontsize=NAME, color=INK, **PLAIN)
    grid = figure.subplots(len(rows), 2, squeeze=False, width_ratios=[label, width - label])
    for (name, panel, frames), (side, axes) in zip(rows, grid):
        pose_axes(axes, scene, columns)
        axes.set_title(name, loc="left", fontsize=8.5, weight="bold", color=INK, pad=2, **PLAIN)
        if panel is scene.panels[0]:
            _floor(axes, scene)
        for place, frame in enumerate(frames):
            draw_pose(axes, scene, panel, frame, cell * 1.4, place)
            at = 2 * place * scene.size * scene.shape, -scene.size
            axes.annotate(str(frame), at, ha="center", va="top", fontsize=6, color=PALE)
        side.set_axis_off()
        if label > 1:
            text = f"{wrapped(panel.title, 1.9)}\n{panel.note}".strip()
            side.text(0, 0.5, text, va="center", fontsize=NOTE, color=INK, linespacing=1.4, **PLAIN)
    sides_legend(figure, scene, caption)
    return figure


def save_strip(scene: Scene, path: Path) -> None:
    """Write key frames from left to right, a row per view. Masked views show one frame per temporal token."""
    clip, *views = scene.panels
    frames = [panel.key_frames(MOST, MOST) for panel in views]
    frames.insert(0, clip.key_frames(max(8, *map(len, frames)) if views else 9, MOST))
    figure = film_strip(scene.title, scene, [("", list(zip(scene.panels, frames)))])
    write_whole(path, lambda file: figure.savefig(file, format="png", dpi=150))


def save_animation(scene: Scene, path: Path, report: Callable[[int], None] | None = None) -> None:
    """Write the clip as a gif at its own pace; ``report`` is called with 1 after each of :func:`animation_frames`."""
    panel, count = scene.panels[0], animation_frames(scene)
    figure = Figure(figsize=(max(4.2, 4.2 * scene.shape), 5.0), dpi=100, layout="constrained")
    canvas, axes = FigureCanvasAgg(figure), figure.subplots()
    figure.suptitle(wrapped(scene.title, figure.get_figwidth()), fontsize=8, color=INK, **PLAIN)
    pose_axes(axes, scene)
    axes.set_xlabel("0.0 s", fontsize=7, color=PALE)
    _floor(axes, scene)
    sides_legend(figure, scene)
    canvas.draw()
    figure.set_layout_engine("none")  # the layout of the first frame
    images = []
    for frame in np.linspace(0, panel.frames - 1, count).round().astype(int).tolist():
        added = draw_pose(axes, scene, panel, frame, 3.6)
        axes.set_xlabel(f"{frame / scene.fps:.1f} s")
        canvas.draw()
        images.append(Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy()))
        for artist in added:
            artist.remove()
        if report:
            report(1)
    # One palette for all frames: with one each, colors flicker.
    palette = images[len(images) // 2].quantize(96)
    frames = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    delay_ms = round(max(MIN_DELAY_MS, 1000 * panel.frames / scene.fps / count))

    def write(file: IO[bytes]) -> None:
        frames[0].save(file, "GIF", save_all=True, append_images=frames[1:], duration=delay_ms, loop=0)

    write_whole(path, write)


def animation_frames(scene: Scene) -> int:
    """Number of frames of an animation of ``scene``."""
    return max(1, int(1000 * scene.panels[0].frames / scene.fps / MIN_DELAY_MS))
