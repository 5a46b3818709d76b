"""Lint of the text: docstrings, comments, messages, names of variables, and pages of the documentation.

    python -m benchmarks.prose [FOLDER]

Prints ``file:line: rule`` for every offense below the repository ``FOLDER``; exit code 1 if there are any.
CONTRIBUTING.md gives the style. Tables, code and headings of pages are not read as sentences.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

CODE = ("skelbench", "plugins", "tests", "benchmarks", "docs")
PAGES = ("[!C]*.md", "CONTRIBUTING.md", "docs/*.md", "docs/methods/*.md")
OPENERS = "Around As Behind Beside How Of That Those To What Where Which Whose".split()
"""First words of docstrings that leave out the noun or the verb."""
IDIOMS = {
    r"told apart": "distinguished, significantly different",
    r"(is|are|was|were|be) (said|told)": "printed, given, named",
    r"held against": "compared with",
    r"look(s|ed|ing)? at": "check, inspect, see",
    r"go(es)? on": "continue, resume",
    r"no room for": "does not fit, hidden",
    r"stands? (beside|in|alone|there)": "is in, is next to",
    r"hangs? on": "depends on",
    r"(in )?(a|one) sentence": "an error message",
    r"that of|those of|of which|of whose": "name the thing again",
    r"anew": "again",
    r"so many": "the number of",
    r"beside (it|them|each)": "next to",
    r"mend(s|ed|ing)?": "fix, repair",
    r"far ahead of|turned round|left alone|of its version": "the usual word",
}
"""Phrases that a reader has to decode -> what to write."""
ANY_IDIOM = re.compile(rf"\b({'|'.join(IDIOMS)})\b", re.IGNORECASE)
VAGUE = set("said told mine theirs thing things anew apart gone taken meant made ones".split())
"""Names of variables that name nothing of the field."""
LONGEST_SENTENCE, LONGEST_MEAN, LONGEST_PAGE, MOST_NUMBERS = 35, 18, 1500, 4

Text = tuple[int, str]
"""Line and text."""


def docstrings(tree: ast.Module) -> Iterator[Text]:
    """Docstrings, and strings below assignments."""
    for node in ast.walk(tree):
        body = getattr(node, "body", [])
        for before, line in zip([node, *body], body) if isinstance(body, list) else ():
            documented = isinstance(before, ast.Module | ast.ClassDef | ast.FunctionDef | ast.Assign | ast.AnnAssign)
            if documented and isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant):
                yield line.lineno, str(line.value.value).strip()


def messages(tree: ast.Module) -> Iterator[Text]:
    """String constants of five words or more: errors, help texts, notes, docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value.split()) > 4:
            yield node.lineno, node.value


def comments(source: str) -> Iterator[Text]:
    """Comments, several lines of one as one text."""
    text, first, last = "", 0, -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            line = token.start[0]
            if line != last + 1:
                yield first, text
                text, first = "", line
            text, last = f"{text} {token.string.lstrip('# ')}", line
    yield first, text


def variables(tree: ast.Module) -> Iterator[Text]:
    """Names that are assigned, and arguments."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg


def paragraphs(page: str) -> Iterator[Text]:
    """Running text of a Markdown page: paragraphs and list items, without code, tables and headings."""
    page = re.sub(r"(?ms)^(```|~~~|<!--).*?(```|~~~|-->)$", lambda block: "\n" * block[0].count("\n"), page)
    text, first = "", 0
    for number, line in enumerate([*page.splitlines(), ""], 1):
        skipped = re.match(r"\s*$|\s*[|#<:=]|!\[", line)
        if text and (skipped or re.match(r"\s*([-*]|\d+\.) ", line)):
            yield first, text
            text = ""
        if not skipped:
            first = first if text else number
            text = " ".join([*text.split(), re.sub(r"`[^`]*`", "CODE", re.sub(r"\]\([^)]*\)", "", line)).strip()])


def idioms(texts: Iterator[Text]) -> Iterator[Text]:
    for line, text in texts:
        for match in ANY_IDIOM.finditer(" ".join(text.split())):
            advice = next(advice for phrase, advice in IDIOMS.items() if re.fullmatch(phrase, match[0], re.I))
            yield line, f"idiom {match[0]!r}: {advice}"


def code_offenses(source: str, names: bool) -> Iterator[Text]:
    """Offenses in a Python file; ``names``: also in the names of variables."""
    tree = ast.parse(source)
    for line, text in docstrings(tree):
        if (first := text.split(maxsplit=1)[:1]) and first[0] in OPENERS:
            yield line, f"docstring opens with {first[0]!r}: begin with a noun or a verb"
    for texts in (messages(tree), comments(source)):
        yield from idioms(texts)
    for line, name in variables(tree) if names else ():
        if name in VAGUE:
            yield line, f"variable {name!r} names nothing: use a noun of the field"


def page_offenses(page: str) -> Iterator[Text]:
    """Offenses in a Markdown page."""
    yield from idioms(paragraphs(page))
    lengths = []
    for line, text in paragraphs(page):
        for sentence in re.split(r"(?<=[.!?:])\s+(?=[A-Z*\"(])", text):
            lengths.append(len(sentence.split()))
            if lengths[-1] > LONGEST_SENTENCE:
                yield line, f"sentence of {lengths[-1]} words: at most {LONGEST_SENTENCE}"
        numbers = re.findall(r"(?<![\w.,+-])\d+(?:[.,]\d+)*(?![\w-])", text)
        if len(numbers) > MOST_NUMBERS:
            yield line, f"{len(numbers)} numbers in a paragraph ({', '.join(numbers)}): make a table"
    if lengths and sum(lengths) / len(lengths) > LONGEST_MEAN:
        yield 1, f"{sum(lengths) / len(lengths):.0f} words a sentence: at most {LONGEST_MEAN} on average"
    if sum(lengths) > LONGEST_PAGE:
        yield 1, f"page of {sum(lengths):,} words: at most {LONGEST_PAGE:,}"


def offenses(root: Path) -> Iterator[str]:
    """``file:line: rule`` for every offense in the repository at ``root``."""
    for path in sorted(path for folder in CODE for path in (root / folder).rglob("*.py")):
        place = path.relative_to(root)
        if place.name.endswith("prose.py"):  # they contain the words
            continue
        for line, rule in code_offenses(path.read_text(), place.parts[0] in ("skelbench", "plugins")):
            yield f"{place}:{line}: {rule}"
    for path in sorted(path for pattern in PAGES for path in root.glob(pattern)):
        for line, rule in page_offenses(path.read_text()):
            yield f"{path.relative_to(root)}:{line}: {rule}"


if __name__ == "__main__":
    lines = list(offenses(Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
    print("\n".join(lines) or "text: no offenses")
    sys.exit(bool(lines))
