"""How figures look: colours, letters, numbers on axes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

from matplotlib.axis import Axis
from matplotlib.colors import to_hex, to_rgb
from matplotlib.style import context
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

INK, PALE = "#1f2937", "#6b7280"
PLAIN: dict[str, Any] = {"parse_math": False}
"""For text with names in it: a $ is a $, and no formula begins there."""

COLOURS = ("#D55E00", "#0072B2", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#8C6D1F", "#3B3B98")
"""Told apart without colour vision: after Okabe and Ito, "Color Universal Design" (2008), whose yellow and black are
replaced, as thin lines of the one are lost on white and the other is the colour of letters."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
SHADES = 3
"""In which each colour comes: there are ``SHADES * len(COLOURS)`` that differ."""
DOTTED = (0.0, (1.0, 1.6))
GUIDE = "#d1d5db"
"""Lines that only guide the eye."""

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
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "text.color": INK,
    "text.hinting": "none",  # letters are as wide as they are taken to be, whatever the dots per inch
    "lines.solid_capstyle": "round",
    "pdf.fonttype": 42,  # letters stay letters: what proceedings ask for
    "svg.hashsalt": "skelbench",  # names inside the file are drawn from it: the same figure, the same bytes
}
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def house() -> AbstractContextManager[None]:
    """Context manager: matplotlib's defaults, whatever the user's matplotlibrc says, with the house's letters."""
    return context(["default", _RC])


def places(names: Iterable[str], known: Iterable[str] = ()) -> dict[str, int]:
    """Place in :data:`COLOURS` and :data:`MARKERS` of every name: ``known`` ones keep theirs, present or not."""
    order = list(dict.fromkeys([*known, *sorted(names)]))
    return {name: place for place, name in enumerate(order)}


def colour_at(place: int) -> str:
    """The colour of a :func:`places`: after the last one they come again, darker, and after :data:`SHADES` the same."""
    turn, place = divmod(place, len(COLOURS))
    red, green, blue = (0.55 ** (turn % SHADES) * part for part in to_rgb(COLOURS[place]))
    return to_hex((red, green, blue))


def number(value: float, _: object = None) -> str:
    """``0.05``, ``300``, ``3·10⁻⁵``: no letters, no formulas."""
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:.3g}" if abs(value) < 999.5 else f"{value:,.0f}"
    mantissa, exponent = f"{value:.2e}".split("e")
    mantissa, raised = f"{float(mantissa):g}", str(int(exponent)).translate(_RAISED)
    return f"10{raised}" if mantissa == "1" else f"{mantissa}·10{raised}"


def thousands(value: float, _: object = None) -> str:
    """``800``, ``40k``, ``5.6M``."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{letter}"
    return f"{value:g}"


def span(values: Iterable[float], one: str, many: str) -> str:
    """``1 seed``, ``2 seeds``, ``1 to 2 seeds``."""
    low, high = min(values := list(values)), max(values)
    text = f"{high:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"
    return f"{text} {one if high == 1 else many}"


def look_of(place: int) -> dict[str, Any]:
    """How a method is drawn; where colours come again, with other markers."""
    marker = MARKERS[(place + place // len(COLOURS)) % len(MARKERS)]
    colour = colour_at(place)
    return {"color": colour, "marker": marker, "markersize": 5, "markeredgecolor": "white", "markeredgewidth": 0.6}


def thousands_axis(axis: Axis) -> None:
    """Few round numbers, in thousands and millions."""
    axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(thousands))


def log_axis(axis: Axis, low: float, high: float) -> None:
    """Ticks of a log axis that shows ``low`` to ``high`` (> 0): powers of ten, and 2 and 5 where these are few."""
    decades = math.log10(high / low)
    if decades < 0.5:
        axis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    elif decades < 2.5:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=20))
    else:
        every = math.ceil(decades / 6)
        first = every * math.ceil(math.log10(low) / every)
        axis.set_major_locator(FixedLocator([10.0**p for p in range(first, math.floor(math.log10(high)) + 1, every)]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(number))
