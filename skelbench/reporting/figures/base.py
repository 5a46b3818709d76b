"""Drawing that all figures share: colors, numbers on axes, panels with headings, legend and caption, and the file."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any
from zlib import crc32

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.style import context
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from skelbench.core.files import write_whole
from skelbench.core.text import printable
from skelbench.plugin.descriptors import MethodSpec
from skelbench.plugin.host import Host
from skelbench.reporting.published import slug

INK, PALE, GUIDE = "#1f2937", "#6b7280", "#d1d5db"
"""Text, secondary text and controls, and grid lines."""
COLORS = ("#D55E00", "#0072B2", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#8C6D1F", "#3B3B98")
"""Distinct without color vision: after Okabe and Ito, "Color Universal Design" (2008), without yellow and black."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1.5, 1)), (0, (6, 1.5, 1, 1.5)))
"""Line styles of the token grids of one method, by number of temporal tokens modulo 4: 8, 15 and 30 differ."""
PLAIN: dict[str, Any] = {"parse_math": False}
"""Text properties of names: a $ does not begin a formula."""
MOST = 12
"""Largest number of methods in one panel."""
WIDTH = 3.3
"""Inches of a panel with its labels: a column of print."""
TITLE, NAME, ENTRY, NOTE = 10, 8.5, 7.5, 6.5
"""Font sizes of the title, of a panel's name, of the legend, and of notes and caption, points."""

_RC = {
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.edgecolor": PALE,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.use_mathtext": False,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.color": PALE,
    "ytick.color": PALE,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "text.color": INK,
    "pdf.fonttype": 42,  # text stays text: a requirement of proceedings
    "svg.hashsalt": "skelbench",  # the same figure gives the same bytes
}
_DATES = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}

styled = context(["default", _RC])
"""Decorator: draw with matplotlib's defaults and this style, whatever the user's matplotlibrc says."""


# ------------------------------------------------------------------------------------------------ panels
def panel_grid(
    headings: Sequence[tuple[str, str] | None], columns: int, height: float = 1.9
) -> tuple[Figure, list[Axes]]:
    """The figure and its axes, ``columns`` in a row, each about ``height`` inches high; :func:`finish` completes it.

    ``headings``: (name, note) of each panel; None = a gap.
    """
    columns = min(columns, len(headings))
    width = max(1.5, columns) * WIDTH
    rows = math.ceil(len(headings) / columns)
    lines = max(wrapped(heading[1], width / columns).count("\n") for heading in headings if heading)
    figure = Figure(
        figsize=(width, 0.2 + rows * (height + 0.75 + lines * 0.12)), facecolor="white", layout="constrained"
    )
    grid = figure.add_gridspec(rows, columns)
    axes: list[Axes] = []
    for place, heading in enumerate(headings):
        if heading:
            axes.append(figure.add_subplot(grid[divmod(place, columns)]))
            add_heading(axes[-1], heading[0], wrapped(heading[1], width / columns))
    return figure, axes


def add_heading(axes: Axes, name: str, note: str) -> None:
    """Write ``name`` in bold above ``axes``, and ``note`` in small letters between the two."""
    pad = 4 + (2 + 1.4 * NOTE * (note.count("\n") + 1) if note else 0)
    axes.set_title(name, loc="left", fontsize=NAME, weight="bold", pad=pad, **PLAIN)
    if note:
        axes.annotate(
            note, (0, 1), (0, 4), xycoords="axes fraction", textcoords="offset points", va="bottom", fontsize=NOTE,
            color=PALE, label="_note", **PLAIN,
        )  # fmt: skip


def finish(figure: Figure, title: str, caption: Sequence[str], legend: Sequence[tuple[Artist, str]] = ()) -> Figure:
    """Add ``title`` and legend above the panels, and the paragraphs of ``caption`` below them.

    The legend has the labels of all panels and the (artist, label) pairs of ``legend``, each label once.
    """
    labels: dict[str, Artist] = {}
    for axes in figure.axes:
        for artist, label in zip(*axes.get_legend_handles_labels()):
            labels.setdefault(str(label), artist)
    labels |= {label: artist for artist, label in legend if label not in labels}
    width = figure.get_figwidth()
    longest = max(map(len, labels), default=0)
    columns = max(1, min(len(labels), int(width / (0.5 + longest * 0.55 * ENTRY / 72))))
    text = "\n".join(wrapped(paragraph, width) for paragraph in caption)
    below = NOTE * (text.count("\n") + 1) + 1.4 * ENTRY * math.ceil(len(labels) / columns)
    figure.set_figheight(figure.get_figheight() + 0.3 + 1.35 * below / 72)
    drawn = figure.legend(
        list(labels.values()), list(labels), loc="outside upper left", ncols=columns, frameon=False, fontsize=ENTRY,
        title=title, title_fontproperties={"size": TITLE, "weight": "bold"}, alignment="left",
    )  # fmt: skip
    for entry in (drawn.get_title(), *drawn.get_texts()):
        entry.set_parse_math(False)
    figure.supxlabel(text, x=0.02, ha="left", fontsize=NOTE, color=PALE, linespacing=1.35, **PLAIN)
    return figure


def wrapped(text: str, inches: float) -> str:
    """``text`` on lines of about this width in the font size of notes."""
    return textwrap.fill(text, int((inches - 0.7) * 72 / (0.53 * NOTE)), break_long_words=False, break_on_hyphens=False)


def save(figure: Figure, path: Path, kind: str, dpi: int = 200) -> None:
    """Write ``figure`` to ``path`` completely or not at all; ``kind``: png, svg or pdf."""
    content = encoded(figure, kind, dpi)
    write_whole(path, lambda file: file.write(content))


def encoded(figure: Figure, kind: str, dpi: int = 200) -> bytes:
    """Return the content of the file of ``figure``; ``kind``: png, svg or pdf."""
    for text in figure.findobj(Text):  # control characters in a name would break an svg
        text.set_text(printable(text.get_text()))
    content = BytesIO()
    with context(["default", _RC]):
        figure.savefig(content, format=kind, dpi=dpi, metadata=_DATES[kind])
    return content.getvalue()


# ------------------------------------------------------------------------------------------------ looks
def method_look(host: Host, title: str) -> dict[str, Any]:
    """Color and marker of a method, the same in every figure; controls are gray.

    They depend on the place of the method in the order of registration. A variant has a shade of this color and a
    marker of its own. ``title``: METHOD or METHOD:VARIANT, as typed or as spelled in papers.
    """
    name, _, variant = title.partition(":")
    entries = [entry.descriptor for entry in host.entries if isinstance(entry.descriptor, MethodSpec)]
    methods = {slug(spec.name): spec for spec in entries if spec.trains}
    place = [*methods].index(slug(name)) if slug(name) in methods else crc32(name.encode())
    look = look_of(place)
    if any(spec.name == name and not spec.trains for spec in entries):
        look["color"] = PALE
    if variant:
        variants = [*methods[slug(name)].variants] if slug(name) in methods else []
        turn = variants.index(variant) if variant in variants else crc32(variant.encode())
        look["marker"] = MARKERS[(place + place // len(COLORS) + 1 + turn) % len(MARKERS)]
        red, green, blue = (0.65 * part + 0.35 * (turn % 2) for part in to_rgb(look["color"]))
        look["color"] = to_hex((red, green, blue))
    return look


def most_of(values: Mapping[Any, float], which: str = "methods, the most accurate") -> tuple[list[Any], list[str]]:
    """The :data:`MOST` keys with the largest values, and a note if there are more."""
    names = sorted(values, key=values.__getitem__, reverse=True)
    note = f"drawn: {MOST} of {len(names)} {which} (--method for others)"
    return names[:MOST], [note] if len(names) > MOST else []


def spread(heights: Sequence[float], gap: float, top: float) -> list[float]:
    """Ascending ``heights`` moved to be at least ``gap`` apart, below ``top`` if possible."""
    places = list(heights)
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + gap)
    for i in reversed(range(len(places))):
        places[i] = min(places[i], top - gap * (len(places) - 1 - i))
    return places


def look_of(place: int) -> dict[str, Any]:
    """Color and marker number ``place``; repeated colors have other markers."""
    turn, color = divmod(place, len(COLORS))
    marker = MARKERS[(color + turn) % len(MARKERS)]
    return {"color": COLORS[color], "marker": marker, "markersize": 5, "markeredgecolor": "white",
            "markeredgewidth": 0.6}  # fmt: skip


def hollow(look: dict[str, Any]) -> dict[str, Any]:
    """``look`` with a white marker and no line."""
    return look | {"markerfacecolor": "white", "markeredgecolor": look["color"], "markersize": 4.5, "linestyle": ""}


# ------------------------------------------------------------------------------------------------ numbers
def number(value: float, _: object = None) -> str:
    """``0.05``, ``20,000``, ``3.3e-05``: no formulas."""
    return f"{value:,.0f}" if 999.5 <= abs(value) < 1e5 else f"{value:.3g}"


def thousands(value: float, _: object = None) -> str:
    """``800``, ``40k``, ``5.6M``."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:g}"


def span(values: Iterable[float], singular: str, plural: str) -> str:
    """``1 seed``, ``2 seeds``, ``1 to 2 seeds``."""
    low, high = min(values := list(values)), max(values)
    text = f"{high:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"
    return f"{text} {singular if high == 1 else plural}"


def accuracy_axis(axes: Axes, label: str = "Accuracy, %") -> None:
    """Give the y axis few round numbers and pale grid lines."""
    axes.margins(y=0.12)
    axes.set_ylabel(label)
    linear_axis(axes.yaxis)
    axes.grid(axis="y", color=GUIDE, linewidth=0.6)
    axes.set_axisbelow(True)


def linear_axis(axis: Axis, text: Any = number) -> None:
    """Give ``axis`` few round numbers, written by ``text``."""
    axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(text))


def log_axis(axes: Axes, which: str, values: Iterable[float], text: Any = number) -> None:
    """Make axis ``which`` ("x" or "y") logarithmic, with space around ``values`` (> 0) and few round numbers."""
    low, high = min(values := list(values)), max(values)
    space = max(1.25, (high / low) ** 0.06)
    axes.set(**{f"{which}scale": "log", f"{which}lim": (low / space, high * space)})
    axis, decades = getattr(axes, f"{which}axis"), math.log10(high / low * space**2)
    if decades < 0.5:
        axis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    else:
        few = decades < 2.5
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,), numticks=20 if few else 7))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(text))
