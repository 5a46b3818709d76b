"""A :class:`~skelbench.reporting.table.Table` as terminal text, Markdown, HTML, CSV, JSON or LaTeX.

CSV and JSON have unrounded numbers and their sources; the others show them with the column's digits, the best bold,
the second best underlined, published results in italics.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from html import escape as escape_html
from typing import NamedTuple

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.text import plain, printable
from skelbench.reporting.table import Cell, Column, Table, below, is_number, shown_text
from skelbench.reporting.terminal import in_lines

FORMATS = ("terminal", "md", "csv", "json", "latex", "html")


def render(table: Table, format: str = "terminal", width: int = 120) -> str:
    """``table`` as text in one of :data:`FORMATS`, ending in a newline; ``width``: columns of the terminal. To print
    in color on a console, print :class:`~skelbench.reporting.terminal.Terminal` instead."""
    if format == "terminal":
        return in_lines(table, width)
    writers = {"md": markdown, "csv": to_csv, "json": to_json, "latex": latex, "html": html}
    if format not in writers:
        raise SkelbenchError(did_you_mean(format, FORMATS, "table format"))
    return writers[format](table)


class _Markup(NamedTuple):
    """Marks of cells in a text format; the styles are format strings of one text."""

    text: Callable[[str], str]
    number: Callable[[str], str]
    best: str
    second: str
    published: str
    raised: str

    def notes(self, table: Table, notes: Sequence[str]) -> str:
        return self.raised % table.markers(notes) if notes else ""

    def header(self, table: Table, column: Column) -> str:
        return self.text(column.header) + self.notes(table, column.footnotes)

    def cell(self, table: Table, column: Column, cell: Cell) -> str:
        text = (self.number if is_number(cell.value) else self.text)(shown_text(column, cell))
        if cell.mark:
            text = (self.best if cell.mark == "best" else self.second) % text
        if cell.published and cell.value is not None:
            text = self.published % text
        return text + self.notes(table, cell.footnotes)

    def below(self, table: Table) -> Iterator[str]:
        """Footnotes and notes."""
        for mark, text in below(table):
            yield (f"{self.raised % mark} " if mark else "") + self.text(text)


def _markdown_text(text: str) -> str:
    text = re.sub(r"([\\|*`<]|\](?=\())", r"\\\1", plain(text))
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", text)


_MARKDOWN = _Markup(_markdown_text, _markdown_text, "**%s**", "<ins>%s</ins>", "*%s*", "<sup>%s</sup>")


def markdown(table: Table) -> str:
    """A pipe table with title and notes."""
    table = table.narrowed(table.shown)
    lines = [f"**{_markdown_text(table.title)}**", ""]
    if table.shown:
        lines.append("| " + " | ".join(_MARKDOWN.header(table, column) for column in table.shown) + " |")
        lines.append("|" + "|".join("---:" if table.numeric(column) else ":---" for column in table.shown) + "|")
    for heading, rows in table.sections:
        if heading:
            lines.append(f"| *{_markdown_text(heading)}* |" + " |" * (len(table.shown) - 1))
        for row in rows:
            cells = (_MARKDOWN.cell(table, column, row[column.key]) for column in table.shown)
            lines.append("| " + " | ".join(cells) + " |")
    for text in _MARKDOWN.below(table):
        lines += ["", text]
    return "\n".join(lines) + "\n"


def _html_text(text: str) -> str:
    return escape_html(plain(text))


_HTML = _Markup(_html_text, _html_text, "<b>%s</b>", "<u>%s</u>", "<i>%s</i>", "<sup>%s</sup>")


def html(table: Table) -> str:
    """A ``<table>`` with its title and notes, without style except the alignment of cells: for a page or a notebook."""
    table = table.narrowed(table.shown)

    def cell(tag: str, column: Column, content: str) -> str:
        return f'<{tag} style="text-align:{"right" if table.numeric(column) else "left"}">{content}</{tag}>'

    header = (cell("th", column, _HTML.header(table, column)) for column in table.shown)
    lines = ["<table>", f'<caption style="text-align:left">{_html_text(table.title)}</caption>']
    lines.append(f"<thead><tr>{''.join(header)}</tr></thead>")
    for heading, rows in table.sections:
        lines.append("<tbody>")
        if heading:
            span = f'<th colspan="{len(table.shown)}" style="text-align:left">{_html_text(heading)}</th>'
            lines.append(f"<tr>{span}</tr>")
        for row in rows:
            cells = (cell("td", column, _HTML.cell(table, column, row[column.key])) for column in table.shown)
            lines.append(f"<tr>{''.join(cells)}</tr>")
        lines.append("</tbody>")
    return "\n".join([*lines, "</table>", *(f"<p>{text}</p>" for text in _HTML.below(table))]) + "\n"


def _raw(value: object) -> object:
    """JSON has no infinities, and CSV readers disagree about them."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _csv(value: object) -> object:
    """Put an apostrophe before text that a spreadsheet would run as a formula."""
    if not isinstance(value, str):
        return _raw(value)
    text = printable(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t")) else text


def to_csv(table: Table) -> str:
    """One line per row; text that begins like a formula gets an apostrophe. Spread, limits and ``published`` get their
    own columns if any cell has them or ``Column.beside`` names them."""
    rows: list[list[object]] = [[] for _ in table.rows]
    header: list[str] = []
    for column in table.columns:
        cells = [row[column.key] for row in table.rows]
        low, high = ([cell.interval and cell.interval[end] for cell in cells] for end in (0, 1))
        parts: list[tuple[str, str, Sequence[object]]] = [
            ("", "value", [cell.value for cell in cells]),
            ("_pm", "pm", [cell.plus_minus for cell in cells]),
            ("_pm_over", "pm", [cell.plus_minus_over or None for cell in cells]),
            ("_low", "interval", low),
            ("_high", "interval", high),
            ("_over", "interval", [cell.interval_over or None for cell in cells]),
            ("_is_published", "published", [cell.published for cell in cells]),
        ]
        always = {"value", *column.beside}
        never = {"published"} - always if column.published else set()
        for suffix, kind, values in parts:
            filled = any(value is not None and value is not False for value in values)
            if kind in always or (filled and kind not in never):
                header.append(column.key + suffix)
                for row, value in zip(rows, values, strict=True):
                    row.append(value)
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([map(_csv, header), *(map(_csv, row) for row in rows)])
    return out.getvalue()


def to_json(table: Table) -> str:
    """Return the whole content of the table; a cell lists only its value and the parts that it has."""

    def cell_json(cell: Cell) -> dict[str, object]:
        parts = {field.name: _raw(getattr(cell, field.name)) for field in fields(cell)}
        empty = [name for name, part in parts.items() if part in (None, "", ()) or part is False]
        return {name: part for name, part in parts.items() if name == "value" or name not in empty}

    content = {
        "title": table.title,
        "columns": [
            {"key": c.key, "header": c.header, "format": c.format, "best": c.best, "published": c.published}
            | ({"footnotes": list(c.footnotes)} if c.footnotes else {})
            | ({"heads": True} if c.heads else {})
            for c in table.columns
        ],
        "rows": [{key: cell_json(cell) for key, cell in row.items()} for row in table.rows],
        "footnotes": dict(table.footnotes),
        "notes": [note for note in (table.common, *table.notes) if note],
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"$<$", ">": r"$>$", "|": r"$|$", "×": r"$\times$",
    "±": r"$\pm$", "−": r"$-$", "·": r"$\cdot$", "–": "--", "—": "---", "…": r"\ldots{}", "≤": r"$\leq$",
    "≥": r"$\geq$", "Δ": r"$\Delta$", "→": r"$\rightarrow$", "σ": r"$\sigma$", "°": r"$^\circ$", "“": "``", "”": "''",
    "‘": "`", "’": "'", "`": r"\textasciigrave{}", "\N{REPLACEMENT CHARACTER}": "?",
}  # fmt: skip


def _latex_text(text: str) -> str:
    pieces = plain(text).split("--")  # which LaTeX would join to a dash, as in `--all`
    return "-{}-".join("".join(_LATEX.get(character, character) for character in piece) for piece in pieces)


def _latex_number(text: str) -> str:
    """A number with its spread as mathematics, in which a hyphen is a minus."""
    text = re.sub(r"e([+-]\d+)", lambda match: rf"\times10^{{{int(match[1])}}}", text)
    text = text.replace(" ± ", r" \pm ").replace(" [", r"\ [").replace(" (", r"\ (").replace("%", r"\%")
    return f"${re.sub(r'(?<=[0-9]),(?=[0-9])', '{,}', text)}$"


_LATEX_MARKUP = _Markup(
    _latex_text, _latex_number, r"\textbf{\boldmath %s}", r"\underline{%s}", r"\textit{%s}", r"\textsuperscript{%s}"
)


def latex(table: Table) -> str:
    """A ``table*`` environment with booktabs rules over both columns of a page, without names of runs."""
    columns = [column for column in table.shown if column.key != "run"]
    table = table.narrowed(columns)

    def line(cells: Iterable[str]) -> str:
        """A row; at its beginning ``[`` or ``*`` would be an option of the command before it."""
        return re.sub(r"^\s*([\[*])", r"{\1}", " & ".join(cells)) + r" \\"

    def body() -> Iterator[str]:
        for place, (heading, rows) in enumerate(table.sections):
            if heading:
                yield from [r"\midrule"] if place else []
                yield rf"\multicolumn{{{len(columns)}}}{{l}}{{\textit{{{_latex_text(heading)}}}}} \\"
            yield from (line(_LATEX_MARKUP.cell(table, column, row[column.key]) for column in columns) for row in rows)

    label = re.sub(r"[^a-z0-9]+", "-", (table.name or table.title).lower()).strip("-") or "table"
    lines = [
        r"% Needs in the preamble: \usepackage{booktabs,graphicx}",
        r"\begin{table*}[t]",
        r"\centering",
        rf"\caption{{{_latex_text(table.title)}}}",
        rf"\label{{tab:{label}}}",
    ]
    if columns:  # LaTeX takes no grid without columns
        lines += [
            r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
            rf"\begin{{tabular}}{{{''.join('r' if table.numeric(column) else 'l' for column in columns)}}}",
            r"\toprule",
            line(_LATEX_MARKUP.header(table, column) for column in columns),
            r"\midrule",
            *body(),
            r"\bottomrule",
            r"\end{tabular}}",
        ]
    lines += [rf"{{\par\smallskip\raggedright\footnotesize {text}\par}}" for text in _LATEX_MARKUP.below(table)]
    return "\n".join([*lines, r"\end{table*}"]) + "\n"
