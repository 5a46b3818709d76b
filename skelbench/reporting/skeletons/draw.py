"""Drawing a scene with matplotlib: one pose on a pair of axes, a film strip, an animation."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.textpath import TextToPath
from matplotlib.transforms import Bbox, TransformedBbox
from PIL import Image

from skelbench.core.files import write_whole
from skelbench.reporting.figures.style import INK, PALE, PLAIN
from skelbench.reporting.skeletons.scene import COLOURS, HIDDEN, Panel, Scene, middle

FLOOR = "#d8dee6"
MOST = 16
"""Key frames of one view in a film strip: more temporal tokens than that are thinned out."""
MIN_DELAY_MS = 40
"""Viewers slow animations down whose frames are shown for less than about this."""
VIEW_FRAMES = 48
"""Frames of an animation of views, whose lengths differ."""

Report = Callable[[int], None]


def draw_pose(axes: Axes, scene: Scene, panel: Panel, frame: int, width: float) -> list[Artist]:
    """Bodies of ``panel`` at ``frame``, with bones ``width`` points wide; returns what was added."""
    centre, hidden_MJ, drawn_MJ = middle(panel), panel.hidden(frame), panel.drawn(frame)
    outside_M = scene.outside(panel, slice(frame, frame + 1))[:, 0]
    near = TransformedBbox(Bbox([[-0.06, -0.06], [1.06, 1.06]]), axes.transAxes)  # a rim may leave the axes, no bone
    lines: list[tuple[float, np.ndarray, str, bool]] = []
    dots: dict[bool, list[tuple[float, float, str, float]]] = {True: [], False: []}
    added: list[Artist] = []
    for body, x_JC in enumerate(panel.x_MTJC[:, frame]):
        seen_JC = (x_JC - centre) @ scene.camera.T
        if outside_M[body]:
            colour = COLOURS[body % len(COLOURS)][0]
            added.append(_pointer(axes, seen_JC[drawn_MJ[body], :2].mean(axis=0), colour, width))
            continue
        for joint, parent in enumerate(scene.topology.parents):
            if not drawn_MJ[body, joint]:
                continue
            colour = COLOURS[body % len(COLOURS)][scene.sides[joint]]
            size = 1.8 if scene.topology.joints[joint] == "head" else 1.0
            dots[bool(hidden_MJ[body, joint])].append((*seen_JC[joint, :2], colour, size))
            if parent >= 0 and drawn_MJ[body, parent]:
                covered = bool(hidden_MJ[body, joint] or hidden_MJ[body, parent])
                lines.append((seen_JC[[joint, parent], 2].mean(), seen_JC[[joint, parent], :2], colour, covered))
    # Far bones first; a white rim around each shows which of two crossing bones is in front.
    segments, colours, widths = [], [], []
    for _, segment, colour, covered in sorted(lines, key=lambda line: line[0]):
        segments += [segment, segment]
        colours += ["white", HIDDEN if covered else colour]
        widths += [1.9 * width, 0.35 * width if covered else width]
    bones = LineCollection(segments, colors=colours, linewidths=widths, capstyle="round", zorder=2)
    added.append(axes.add_collection(bones, autolim=False))
    bones.set_clip_box(near)
    for hidden, joints in dots.items():
        if joints:
            x, y, own, sizes = zip(*joints)
            area = (1.25 * width * np.array(sizes)) ** 2
            face, edge = ("white", HIDDEN) if hidden else (list(own), list(own))
            rim = 0.3 * width
            joint_dots = axes.scatter(x, y, s=area, zorder=3, facecolors=face, edgecolors=edge, linewidths=rim)
            joint_dots.set_clip_box(near)
            added.append(joint_dots)
    return added


def _pointer(axes: Axes, at: np.ndarray, colour: str, width: float) -> Artist:
    """A triangle at the edge that points to where a body is that the picture does not reach."""
    edge = 0.96 * np.array([axes.get_xlim()[1], axes.get_ylim()[1]])
    x, y = at / max(1.0, *(np.abs(at) / edge))
    turn = np.degrees(np.arctan2(at[1], at[0])) - 90
    return axes.scatter([x], [y], s=(4.5 * width) ** 2, marker=(3, 0, turn), color=colour, zorder=3, clip_on=False)


def pose_axes(figure: Figure, scene: Scene, box: tuple[float, float, float, float], floor: bool) -> Axes:
    """Axes at ``box`` (left, bottom, width, height in inches) with the scene's scale and, on demand, a floor."""
    width, height = figure.get_size_inches()
    axes = figure.add_axes((box[0] / width, box[1] / height, box[2] / width, box[3] / height))
    half = scene.size
    axes.set(xlim=(-half * box[2] / box[3], half * box[2] / box[3]), ylim=(-half, half), xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    axes.patch.set_visible(False)
    if floor:
        _floor(axes, scene, middle(scene.panels[0]), half)
    return axes


def _floor(axes: Axes, scene: Scene, centre: np.ndarray, half: float) -> None:
    """A line under flat poses, a grid of half metres under others."""
    height = scene.floor - centre[1]
    if scene.flat:
        axes.axhline(height, color=FLOOR, linewidth=1, zorder=0)
        return
    steps = np.arange(-math.ceil(half / 0.5), math.ceil(half / 0.5) + 1) * 0.5
    across = np.array([[(a, height, steps[0]), (a, height, steps[-1])] for a in steps])
    along = across[..., [2, 1, 0]]
    seen = np.concatenate([across, along]) @ scene.camera.T
    axes.add_collection(LineCollection(seen[..., :2], colors=FLOOR, linewidths=0.7, zorder=0))


def sides_legend(figure: Figure, scene: Scene) -> None:
    """Which colours are left and right, and what a hidden joint looks like."""
    bodies = sorted({int(m) for panel in scene.panels for m in np.flatnonzero(panel.there_MTJ.any(axis=(1, 2)))})
    entries = []
    for body in bodies[: len(COLOURS)]:
        whose = f"body {body + 1}, " if len(bodies) > 1 else ""
        for side, name in enumerate(("left", "right")):
            entries.append((Line2D([], [], color=COLOURS[body % len(COLOURS)][side], linewidth=3), f"{whose}{name}"))
    if any(panel.tokens for panel in scene.panels):
        mark = Line2D([], [], color=HIDDEN, marker="o", markerfacecolor="white", linewidth=1)
        entries.append((mark, "hidden by the mask"))
    if any(scene.outside(panel).any() for panel in scene.panels):
        entries.append((Line2D([], [], color=PALE, marker="^", linewidth=0), "outside the picture"))
    columns = len(entries) if 1.25 * len(entries) < figure.get_figwidth() else 2
    figure.legend(
        *zip(*entries), loc="lower center", bbox_to_anchor=(0.5, 0.0), ncols=columns, frameon=False, fontsize=7.5,
        labelcolor=INK, handlelength=1.4, columnspacing=1.2,
    )  # fmt: skip


def save_strip(scene: Scene, path: Path) -> None:
    """Key frames from left to right; short views stand side by side. Masked views show one frame per temporal token."""
    many = len(scene.panels) > 1
    whole, *views = scene.panels
    shown = [panel.key_frames(MOST, MOST) for panel in views]
    shown.insert(0, whole.key_frames(max(8, *map(len, shown)) if many else 9, MOST))
    cell, gap = (1.05, 0.62) if many else (1.45, 0.12)
    step, columns = cell * scene.shape, max(map(len, shown))
    lines = _lines([max(2, len(frames)) for frames in shown], columns)
    width, height = columns * step + 0.3, 0.75 + len(lines) * (cell + gap)
    figure = Figure(figsize=(width, height), dpi=150, facecolor="white")
    title = fitted(scene.title, width - 0.3, 10, lines=2)
    figure.text(0.15 / width, 1 - 0.2 / height, title, fontsize=10, color=INK, va="center", **PLAIN)
    sides_legend(figure, scene)
    for r, line in enumerate(lines):
        bottom = height - 0.35 - (r + 1) * (cell + gap)
        for p, column in line:
            panel = scene.panels[p]
            if many:
                x, y = (0.15 + column * step) / width, (bottom + cell + 0.3) / height
                room = max(2, len(shown[p])) * step - 0.05
                figure.text(x, y, fitted(panel.title, room, 8), fontsize=8, color=INK, **PLAIN)
                figure.text(x, y - 0.05 / height, panel.note, fontsize=6.5, color=PALE, va="top", **PLAIN)
            for c, frame in enumerate(shown[p]):
                box = (0.15 + (column + c) * step + 0.03, bottom + 0.1, step - 0.06, cell - 0.1)
                axes = pose_axes(figure, scene, box, floor=p == 0)
                draw_pose(axes, scene, panel, frame, width=cell * 1.5)
                axes.set_xlabel(f"{frame}", fontsize=6.5, color=PALE, labelpad=1)
    write_whole(path, lambda file: figure.savefig(file, format="png"))


def save_animation(scene: Scene, path: Path, report: Report | None = None) -> None:
    """A gif at the clip's own pace; views of different lengths run side by side, each from its start to its end.

    ``report`` is called with 1 after each of :func:`animation_frames` frames.
    """
    many, whole = len(scene.panels) > 1, scene.panels[0]
    shares = np.linspace(0, 1, animation_frames(scene))
    delay_ms = max(MIN_DELAY_MS, 1000 * whole.frames / scene.fps / len(shares))
    columns = min(5, len(scene.panels))
    cell, gap = (1.9, 0.6) if many else (4.2, 0.2)
    step, lines = cell * scene.shape, math.ceil(len(scene.panels) / columns)
    width, height = max(4.2, columns * step), 0.85 + lines * (cell + gap)
    figure = Figure(figsize=(width, height), dpi=100, facecolor="white")
    canvas = FigureCanvasAgg(figure)
    title = fitted(scene.title, width - 0.2, 8, lines=2)
    figure.text(0.5, 1 - 0.2 / height, title, fontsize=8, color=INK, va="center", ha="center", **PLAIN)
    sides_legend(figure, scene)
    places: list[tuple[Panel, Axes, Text]] = []
    for i, panel in enumerate(scene.panels):
        row, column = divmod(i, columns)
        left = (width - columns * step) / 2 + column * step
        axes = pose_axes(
            figure, scene, (left, height - 0.35 - (row + 1) * (cell + gap) + 0.15, step, cell), floor=i == 0
        )
        if many:
            axes.set_title(f"{fitted(panel.title, step, 7)}\n{panel.note}", fontsize=7, color=INK, pad=1, **PLAIN)
        counter = axes.text(0.5, -0.01, "", transform=axes.transAxes, fontsize=7, color=PALE, ha="center", va="top")
        places.append((panel, axes, counter))
    canvas.draw()
    still = canvas.copy_from_bbox(figure.bbox)
    images = []
    for share in shares:
        canvas.restore_region(still)
        for panel, axes, counter in places:
            frame = round(share * (panel.frames - 1))
            counter.set_text(f"{frame}" if many else f"{frame / scene.fps:.1f} s")
            for artist in (*(added := draw_pose(axes, scene, panel, frame, 2.2 if many else 3.6)), counter):
                axes.draw_artist(artist)
            for artist in added:
                artist.remove()
        images.append(Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy()))
        if report:
            report(1)
    # One palette for all frames: with one each, colours flicker.
    palette = images[len(images) // 2].quantize(96)
    frames = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]

    def write(file: IO[bytes]) -> None:
        frames[0].save(file, "GIF", save_all=True, append_images=frames[1:], duration=round(delay_ms), loop=0)

    write_whole(path, write)


def animation_frames(scene: Scene) -> int:
    """How many frames an animation of ``scene`` has."""
    if len(scene.panels) > 1:
        return VIEW_FRAMES
    return max(1, int(1000 * scene.panels[0].frames / scene.fps / MIN_DELAY_MS))


def _lines(widths: list[int], columns: int) -> list[list[tuple[int, int]]]:
    """Panels of so many columns set from left to right on lines: per line (panel, first column)."""
    lines: list[list[tuple[int, int]]] = []
    free = 0
    for panel, width in enumerate(widths):
        if width > free:
            lines.append([])
            free = columns
        lines[-1].append((panel, columns - free))
        free -= width
    return lines


def fitted(text: str, inches: float, size: float, lines: int = 1) -> str:
    """``text`` on at most so many lines of that width, in letters of ``size`` points; what is too long is cut with an
    ellipsis."""
    font, path = FontProperties(size=size), TextToPath()

    def fits(line: str) -> bool:
        return (
            path.get_text_width_height_descent(line, font, ismath=False)[0] <= 68 * inches
        )  # of 72: letters set on pixels are wider

    folded: list[str] = []
    rest = text
    while rest:
        last = len(folded) == lines - 1
        if fits(rest):
            return "\n".join([*folded, rest])
        end = bisect.bisect(range(1, len(rest)), False, key=lambda n: not fits(rest[:n] + "…" * last))
        if last:
            return "\n".join([*folded, rest[:end].rstrip() + "…"])
        end = rest.rfind(" ", 1, end + 1) if " " in rest[1 : end + 1] else max(end, 1)
        folded.append(rest[:end])
        rest = rest[end:].lstrip()
    return text
