"""A :class:`~skelbench.reporting.table.Table` as terminal text, Markdown, HTML, CSV, JSON or LaTeX.

CSV and JSON carry raw numbers and where they come from; the others show them with the column's digits, the best bold,
the second best underlined, published figures in italics.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from html import escape as escape_html

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.text import plain, printable
from skelbench.reporting.table import Cell, Column, Table, below, shown_text
from skelbench.reporting.terminal import Layout, in_lines

FORMATS = ("terminal", "md", "csv", "json", "latex", "html")


def render(table: Table, format: str = "terminal", width: int = 120, layout: Layout = "fit") -> str:
    """``table`` as text in one of :data:`FORMATS`, ending in a newline; ``width`` and ``layout`` are the terminal's.

    To print in colour on a console, print :class:`~skelbench.reporting.terminal.Terminal` instead.
    """
    if format == "terminal":
        return in_lines(table, width, layout)
    writers = {"md": markdown, "csv": to_csv, "json": to_json, "latex": latex, "html": html}
    if format not in writers:
        raise SkelbenchError(did_you_mean(format, FORMATS, "table format"))
    return writers[format](table)


# ------------------------------------------------------------------------------------------------ markdown
def markdown(table: Table) -> str:
    """A pipe table with title and notes."""
    table = table.narrowed(table.shown)

    def escape(text: str) -> str:
        text = re.sub(r"([\\|*`<]|\](?=\())", r"\\\1", plain(text))
        return re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", text)

    def raised(notes: tuple[str, ...]) -> str:
        return f"<sup>{table.markers(notes)}</sup>" if notes else ""

    wraps = {"best": "**{}**", "second": "<ins>{}</ins>", None: "{}"}
    lines = [f"**{escape(table.title)}**", ""]
    if table.shown:
        lines.append("| " + " | ".join(escape(one.header) + raised(one.footnotes) for one in table.shown) + " |")
        lines.append("|" + "|".join("---:" if table.numeric(column) else ":---" for column in table.shown) + "|")
    for heading, rows in table.sections:
        if heading:
            lines.append(f"| *{escape(heading)}* |" + " |" * (len(table.shown) - 1))
        for row in rows:
            cells = []
            for column in table.shown:
                cell = row[column.key]
                text = wraps[cell.mark].format(escape(shown_text(column, cell)))
                if cell.published and cell.value is not None:
                    text = f"*{text}*"
                cells.append(text + raised(cell.footnotes))
            lines.append("| " + " | ".join(cells) + " |")
    for mark, text in below(table):
        lines += ["", f"<sup>{mark}</sup> {escape(text)}" if mark else escape(text)]
    return "\n".join(lines) + "\n"


# ------------------------------------------------------------------------------------------------ html
def html(table: Table) -> str:
    """A ``<table>`` with its title and notes, without styles of its own but how cells are aligned: for a page or a
    notebook."""
    table = table.narrowed(table.shown)

    def escape(text: str) -> str:
        return escape_html(plain(text))

    def raised(notes: tuple[str, ...]) -> str:
        return f"<sup>{table.markers(notes)}</sup>" if notes else ""

    def cell(tag: str, column: Column, content: str) -> str:
        return f'<{tag} style="text-align:{"right" if table.numeric(column) else "left"}">{content}</{tag}>'

    wraps = {"best": "<b>{}</b>", "second": "<u>{}</u>", None: "{}"}
    lines = ["<table>", f'<caption style="text-align:left">{escape(table.title)}</caption>']
    header = (cell("th", column, escape(column.header) + raised(column.footnotes)) for column in table.shown)
    lines.append(f"<thead><tr>{''.join(header)}</tr></thead>")
    for heading, rows in table.sections:
        lines.append("<tbody>")
        if heading:
            span = f'<th colspan="{len(table.shown)}" style="text-align:left">{escape(heading)}</th>'
            lines.append(f"<tr>{span}</tr>")
        for row in rows:
            cells = []
            for column in table.shown:
                value = row[column.key]
                text = wraps[value.mark].format(escape(shown_text(column, value)))
                text = f"<i>{text}</i>" if value.published and value.value is not None else text
                cells.append(cell("td", column, text + raised(value.footnotes)))
            lines.append(f"<tr>{''.join(cells)}</tr>")
        lines.append("</tbody>")
    lines.append("</table>")
    lines += [f"<p>{f'<sup>{mark}</sup> ' if mark else ''}{escape(text)}</p>" for mark, text in below(table)]
    return "\n".join(lines) + "\n"


# ------------------------------------------------------------------------------------------------ data
def _raw(value: object) -> object:
    """JSON has no infinities, and CSV readers disagree about them."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _csv(value: object) -> object:
    """Text that a spreadsheet would take for a formula, and may run, is led by an apostrophe."""
    if not isinstance(value, str):
        return _raw(value)
    text = printable(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t")) else text


def to_csv(table: Table) -> str:
    """One line per row; text that begins like a formula stands behind an apostrophe. Spread, limits and ``published``
    get columns of their own where any cell has them."""
    header: list[str] = []
    getters: list[Callable[[Mapping[str, Cell]], object]] = []

    def add(name: str, get: Callable[[Cell], object], key: str) -> None:
        header.append(name)
        getters.append(lambda row: get(row[key]))

    for column in table.columns:
        key, cells = column.key, [row[column.key] for row in table.rows]
        add(key, lambda cell: cell.value, key)
        pm, interval, published = (what in column.beside for what in ("pm", "interval", "published"))
        if pm or any(cell.plus_minus is not None for cell in cells):
            add(f"{key}_pm", lambda cell: cell.plus_minus, key)
        if pm or any(cell.plus_minus_over for cell in cells):
            add(f"{key}_pm_over", lambda cell: cell.plus_minus_over or None, key)
        if interval or any(cell.interval is not None for cell in cells):
            add(f"{key}_low", lambda cell: cell.interval and cell.interval[0], key)
            add(f"{key}_high", lambda cell: cell.interval and cell.interval[1], key)
        if interval or any(cell.interval_over for cell in cells):
            add(f"{key}_over", lambda cell: cell.interval_over or None, key)
        if published or (not column.published and any(cell.published for cell in cells)):
            add(f"{key}_is_published", lambda cell: cell.published, key)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(_csv, header))
    writer.writerows([_csv(get(row)) for get in getters] for row in table.rows)
    return out.getvalue()


def to_json(table: Table) -> str:
    """Everything the table holds; a cell lists only what it has beside its value."""

    def cell_json(cell: Cell) -> dict[str, object]:
        fields = {
            "plus_minus": _raw(cell.plus_minus),
            "plus_minus_over": cell.plus_minus_over or None,
            "interval": list(cell.interval) if cell.interval else None,
            "interval_over": cell.interval_over or None,
            "mark": cell.mark,
            "footnotes": list(cell.footnotes) or None,
            "published": cell.published or None,
        }
        return {"value": _raw(cell.value)} | {name: value for name, value in fields.items() if value is not None}

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
        "notes": list(table.notes),
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


# ------------------------------------------------------------------------------------------------ latex
PREAMBLE = r"\usepackage{booktabs,graphicx}"
"""What a document needs to take up a table."""
COLUMN = 70
"""Characters of a line that is still read when it is shrunk to one of two columns of a page."""

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"$<$", ">": r"$>$", "|": r"$|$", "×": r"$\times$",
    "±": r"$\pm$", "−": r"$-$", "·": r"$\cdot$", "–": "--", "—": "---", "…": r"\ldots{}", "≤": r"$\leq$",
    "≥": r"$\geq$", "Δ": r"$\Delta$", "→": r"$\rightarrow$", "σ": r"$\sigma$", "°": r"$^\circ$", "“": "``", "”": "''",
    "‘": "`", "’": "'", "`": r"\textasciigrave{}", "\N{REPLACEMENT CHARACTER}": "?",
}  # fmt: skip
_SPECIAL = re.compile(
    r"(?P<code>`[^`]+`)"
    r"|(?<![\w.])(?P<times>\d+)[x×](?P<joints>\d+)(?!\w|\.\d)"
    r"|(?<![\w.-])(?P<mantissa>-?\d+(?:\.\d+)?)e(?P<exponent>[+-]\d+)(?!\w)"
)
"""Commands, token grids, and numbers with an exponent."""
_NUMBER = re.compile(r"(?<![\w.])([+-]?)(\d[\d,]*(?:\.\d+)?)(?:e([+-]\d+))?(%?)(?!\w)")


def _latex_escape(text: str) -> str:
    pieces = plain(text).split("--")  # which LaTeX would join to a dash, as in `--all`
    return "-{}-".join("".join(_LATEX.get(character, character) for character in piece) for piece in pieces)


def _latex_text(text: str) -> str:
    """Words of a heading, a name or a note: token grids and exponents as mathematics, commands in typewriter."""
    text, parts, end = plain(text), [], 0
    for match in _SPECIAL.finditer(text):
        parts.append(_latex_escape(text[end : match.start()]))
        end = match.end()
        if match["code"]:
            parts.append(rf"\texttt{{{_latex_escape(match['code'][1:-1])}}}")
        elif match["times"]:
            parts.append(rf"${match['times']}{{\times}}{match['joints']}$")
        else:
            parts.append(rf"${match['mantissa']}\times10^{{{int(match['exponent'])}}}$")
    return "".join([*parts, _latex_escape(text[end:])])


def _latex_number(text: str) -> str:
    """Numbers as shown, signs and exponents as mathematics: a hyphen is no minus."""

    def typeset(match: re.Match[str]) -> str:
        sign, digits, exponent, share = match.groups()
        if not sign and not exponent:
            return match.group().replace("%", r"\%")
        power = rf"\times10^{{{int(exponent)}}}" if exponent else ""
        return f"${sign}{digits.replace(',', '{,}')}{power}$" + share.replace("%", r"\%")

    parts = re.split(r"( ± )", text)
    return "".join(r" $\pm$ " if part == " ± " else _NUMBER.sub(typeset, part) for part in parts)


def _latex_label(table: Table) -> str:
    return re.sub(r"[^a-z0-9]+", "-", (table.name or table.title).lower()).strip("-") or "table"


def latex(table: Table) -> str:
    """A ``table`` environment with booktabs rules, as wide as the column at most, or ``table*``, over both columns of a
    page, where it has more than :data:`COLUMN` characters; needs :data:`PREAMBLE`, which its first line says. Names of
    runs, which no reader of a paper knows, are left out."""
    shown = [column for column in table.shown if column.key != "run"]
    table = table.narrowed(shown)

    def raised(notes: tuple[str, ...]) -> str:
        return rf"\textsuperscript{{{table.markers(notes)}}}" if notes else ""

    def line(cells: Iterable[str]) -> str:
        """A row; at its beginning ``[`` or ``*`` would be taken for an option of the command before it."""
        return re.sub(r"^\s*([\[*])", r"{\1}", " & ".join(cells)) + r" \\"

    def text_of(column: Column, cell: Cell) -> str:
        number = not isinstance(cell.value, str | bool | None)
        text = shown_text(column, cell)
        text = _latex_number(text) if number else _latex_text(text)
        if cell.mark:
            text = wraps[cell.mark] % ((r"\boldmath " if cell.mark == "best" and "$" in text else "") + text)
        return (rf"\textit{{{text}}}" if cell.published and cell.value is not None else text) + raised(cell.footnotes)

    def body() -> Iterator[str]:
        for place, (heading, rows) in enumerate(table.sections):
            if heading:
                yield from [r"\midrule"] if place else []
                yield rf"\multicolumn{{{len(shown)}}}{{l}}{{\textit{{{_latex_text(heading)}}}}} \\"
            yield from (line(text_of(column, row[column.key]) for column in shown) for row in rows)

    wraps = {"best": r"\textbf{%s}", "second": r"\underline{%s}"}
    align = "".join("r" if table.numeric(column) else "l" for column in shown)
    width = sum(
        2 + max([len(column.header), *(len(shown_text(column, row[column.key])) for row in table.rows)])
        for column in shown
    )
    kind = "table*" if width > COLUMN else "table"
    lines = [
        f"% Needs in the preamble: {PREAMBLE}",
        rf"\begin{{{kind}}}[t]",
        r"\centering",
        rf"\caption{{{_latex_text(table.title)}}}",
        rf"\label{{tab:{_latex_label(table)}}}",
    ]
    if shown:  # LaTeX takes no grid without columns
        lines += [
            r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
            rf"\begin{{tabular}}{{{align}}}",
            r"\toprule",
            line(_latex_text(column.header) + raised(column.footnotes) for column in shown),
            r"\midrule",
            *body(),
            r"\bottomrule",
            r"\end{tabular}}",
        ]
    for mark, text in below(table):
        letter = rf"\textsuperscript{{{mark}}} " if mark else ""
        lines.append(rf"{{\par\smallskip\raggedright\footnotesize {letter}{_latex_text(text)}\par}}")
    return "\n".join([*lines, rf"\end{{{kind}}}"]) + "\n"
