"""Words of strangers (names of classes, runs, clips) in everything that is written for readers: what they may not do.

Part of ``python -m tests.campaign.strangers``. Each word is put into every place of a table, a page and a figure; the
file must keep the structure that it has with a harmless word.
"""

from __future__ import annotations

import csv
import io
import json
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

WORDS = (
    r"\input{/etc/passwd}", r"\write18{touch PWNED}", r"\\[9cm]", "^^5cinput{x}", "$x^2$", "a&b", "100%", "#1", "{",
    "}", "[1cm]x", "*x", "~", "a_b_c", "<script>alert(1)</script>", "</script><script>alert(1)//", "<!--<script>",
    "--><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "javascript:alert(1)",
    "[x](javascript:alert(1))", "![x](http://x/y.png)", "`x`", "a|b", "&lt;b&gt;", "=cmd|' /C calc'!A0", "+1+1",
    "-2+3", "@SUM(1)", '\t=1', '\r=1', '=HYPERLINK("http://x")', 'a\nb', 'a\r\nb', "[bold]x[/]", '\x1b[31mred',
    'é\u202eabc', '\x00', '\x08', "]]>", "<![CDATA[", "&x;", "$", r"\frac{", "a,b", '"q"', "'", "../../x",
)  # fmt: skip
HARMLESS = "word"


def tables(word: str) -> dict[str, str]:
    """A table with ``word`` everywhere, in every format."""
    from skelbench.reporting.render import render
    from skelbench.reporting.table import Cell, Column, Table

    row = {"name": Cell(word, footnotes=("f",)), "value": Cell(-0.5, plus_minus=0.1), "more": Cell(word, mark="best")}
    columns = Column("name", word), Column("value", "value", ".2f"), Column("more", f"more {word}")
    table = Table(word, columns, (row, {**row, "name": Cell(word, published=True)}), (word,), {"f": word})
    return {kind: render(table, kind) for kind in ("latex", "md", "csv", "json", "html")}


def latex(text: str) -> str:
    """What TeX acts on: commands, braces, rows and what may be taken for their options."""
    letters = r"\\(?:textbackslash|textasciitilde|textasciicircum)\{\}|\$\\?[a-zA-Z<>|-]+\$|\\[&%$#_{}]"
    shown = re.sub(r"\\boldmath |\\texttt(?=\{)", "", text)  # formulas in bold words, and what stands between backticks
    plain = re.sub(r"(?<![a-zA-Z}])\{(x*)\}", r"\1", re.sub(letters, "x", re.sub(r"\{([\[*])\}", "", shown)))
    after_row = re.findall(r"\\(?:\\|midrule|toprule)\s*([\[*])", plain)
    return " ".join([*re.findall(r"\\[a-zA-Z]+|\\\\|[{}&$#^~%]", plain), *after_row])


def markdown(text: str) -> str:
    """Rows, cells, tags and links of Markdown."""
    plain = re.sub(r"\\.", "", text)
    marks = re.findall(r"<[^>]*>|</?\w+", plain)
    links = re.findall(r"\]\(|`|^\s*\[.*\]:", plain)
    return f"{[line.count('|') for line in plain.splitlines()]} {marks} {links}"


def table_as_csv(text: str) -> str:
    """Shape, and cells that a spreadsheet would compute."""
    rows = list(csv.reader(io.StringIO(text, newline="")))
    live = [cell for row in rows for cell in row if cell[:1] in tuple("=+-@\t\r") and not _is_number(cell)]
    return f"{[len(row) for row in rows]} {live}"


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def table_as_json(text: str) -> str:
    return str([len(row) for row in json.loads(text)["rows"]])


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.found.append(f"{tag} {sorted(name for name, _ in attrs)}")

    def handle_comment(self, data: str) -> None:
        self.found.append("comment")


def tags(text: str) -> str:
    """Every tag with the names of its attributes."""
    parser = _Tags()
    parser.feed(text)
    return str(parser.found)


def html(text: str) -> str:
    """Every tag, and the one scene that is drawn."""
    inside = re.findall(r'<script type="application/json" id="scene">(.*?)</script>', text, re.S)
    return f"{tags(text)} {len(inside)} {type(json.loads(inside[0])).__name__}"


def svg(text: str) -> str:
    """Tags that could act; ParseError where it is no XML."""
    found = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(text).iter()}
    return str(sorted(found & {"script", "a", "foreignObject", "image", "iframe"}))


def page(word: str, folder: Path) -> str:
    """The page of a clip whose class, data set and panel are called so."""
    from skelbench.reporting.skeletons.page import save_page
    from skelbench.reporting.skeletons.scene import Panel, Scene
    from skelbench.views.skeleton.topology import NTU25

    x_MTJC = np.random.default_rng(0).normal(size=(1, 4, 25, 3))
    save_page(Scene(word, NTU25, (Panel(word, x_MTJC, word), Panel(word, x_MTJC)), 30.0), folder / "page.html")
    return (folder / "page.html").read_text(encoding="utf-8")


def figure(word: str, folder: Path) -> str:
    """Curves of a run whose variant and data set are called so, as SVG."""
    from fabricated import Fabricated

    from skelbench.core.spec import RunSpec
    from skelbench.plugin.host import get_host
    from skelbench.reporting.figures.curves import draw
    from skelbench.reporting.figures.output import save
    from skelbench.reporting.inputs import TableInputs

    root = Path(tempfile.mkdtemp(dir=folder))
    made = Fabricated(root)
    lines = [{"step": i, "clips_seen": 32 * i, "loss": 1.0 / i, "rank_masked": 3.0, "epoch": i} for i in (1, 2, 3)]
    name = made.run("slim:word", metrics=lines)
    info = json.loads((root / name / "run.json").read_text())
    info["variant"], info["spec"]["data"]["name"] = word, word
    info["id"] = RunSpec.model_validate(info["spec"]).id
    (root / name / "run.json").write_text(json.dumps(info))
    with warnings.catch_warnings():  # letters that no font has
        warnings.simplefilter("ignore")
        save(draw(TableInputs(get_host(), made.store, exact_only=False)), folder / "x.svg", "svg")
    return (folder / "x.svg").read_text(encoding="utf-8")


def fallen(words: tuple[str, ...] = WORDS) -> Iterator[tuple[str, str, str]]:
    """(format, word, what is different) for every file whose structure a word changes; "" where none does."""
    judges: dict[str, Callable[[str], str]] = {
        "latex": latex, "md": markdown, "csv": table_as_csv, "json": table_as_json, "html": tags
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        kinds: dict[str, tuple[Callable[[str], str], Callable[[str], str]]] = {
            kind: (lambda word, kind=kind: tables(word)[kind], judge)  # type: ignore[misc]
            for kind, judge in judges.items()
        }
        kinds |= {"page": (lambda word: page(word, folder), html), "svg": (lambda word: figure(word, folder), svg)}
        for kind, (make, judge) in kinds.items():
            expected = judge(make(HARMLESS))
            for word in words:
                try:
                    found = judge(make(word))
                    difference = "" if found == expected else _first_difference(expected, found)
                except Exception as error:  # noqa: BLE001 - whatever is raised is a fault
                    difference = f"{type(error).__name__}: {error}"
                yield kind, word, difference


def _first_difference(expected: str, found: str) -> str:
    at = next(
        (i for i, (one, other) in enumerate(zip(expected, found)) if one != other), min(len(expected), len(found))
    )
    return f"{found[max(0, at - 20) : at + 40]!r} instead of {expected[max(0, at - 20) : at + 40]!r}"
