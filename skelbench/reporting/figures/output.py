"""Figures on the disk."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.text import Text

from skelbench.core.files import write_whole
from skelbench.core.text import printable
from skelbench.reporting.figures.style import house

_DATES = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}


def save(figure: Figure, path: Path, kind: str, dpi: int = 200) -> None:
    """Write ``figure`` whole or not at all; the same figure gives the same bytes. ``kind``: png, svg or pdf;
    ``dpi``: dots per inch of a png."""
    for text in figure.findobj(Text):  # a name may hold what no XML may
        text.set_text(printable(text.get_text()))
    with house():
        write_whole(path, lambda file: figure.savefig(file, format=kind, dpi=dpi, metadata=_DATES[kind]))
