"""Tables of results.md, made from the CSV files in ``results/reference``.

A comment names files, columns and rows, and the table follows it:

    <!-- records: quick-synthetic/linear | method seeds accuracy+- p_value | tokens=8x25+1 -->

``accuracy+-`` adds the interval over seeds, ``difference[]`` the interval over clips or subjects. ``by=clips_seen``
makes a column for each training length; ``group=method`` keeps the rows of a method together. ``python
docs/record_tables.py`` writes the tables into the page.
"""

import re
from pathlib import Path

import pandas

DOCS = Path(__file__).parent
PAGES = ("results",)
BLOCK = re.compile(r"(<!-- records: ([^|]+)\|([^|]+?)(?:\|([^|]+?))?-->\n\n)((?:\|.*\n)*)")
WORDS = {"method": "Method", "target": "Masked tokens predict", "records": "Records", "tokens": "Tokens"}
HEADS = {"seeds": "Seeds", "accuracy": "Linear", "knn": "1-NN", "difference": "Difference", "p_value": "p"}
HEADS |= {"train_minutes": "Minutes", "hours": "Hours", "step_gflops": "GFLOPs a step", "clean": "Clean"}
HEADS |= {"rank_end": "Rank, branch", "rank_encoder": "Rank, encoder", "default": "Default", "tuned": "Tuned"}
FORMATS = {"seeds": ".0f", "difference": "+.1f", "p_value": ".2g", "train_minutes": ".0f", "step_gflops": ".2f"}
FORMATS |= {"hours": ".2f"}


TWO_SEEDS = 12.706
"""A 95 % t interval of two values over half their distance; tables show the values themselves."""


def cell(row, column):
    """Text of one cell; ``column`` is a key of the CSV file, with ``+-`` or ``[]`` for an interval."""
    key, form = key_of(column), FORMATS.get(key_of(column), ".1f")
    if key in WORDS:
        return f"`{row[key]}`" if key == "method" else str(row[key])
    if pandas.isna(row[key]):
        return ""
    text = "< 0.001" if key == "p_value" and row[key] < 0.001 else format(row[key], form)
    if column.endswith("+-") and not pandas.isna(row[f"{key}_pm"]):
        interval = row[f"{key}_pm"]
        half = interval / TWO_SEEDS
        low, high = row[key] - half, row[key] + half
        text += f" ({low:{form}}, {high:{form}})" if row.get("seeds") == 2 else f" ± {interval:.1f}"
    if column.endswith("[]") and not pandas.isna(row[f"{key}_low"]):
        text += f" [{row[f'{key}_low']:{form}}, {row[f'{key}_high']:{form}}]"
    return text


def key_of(column):
    return column.removesuffix("+-").removesuffix("[]")


def table(files, columns, rows):
    """Markdown table of ``columns`` of all ``files``. ``rows``: filters ``COLUMN=VALUE,VALUE``, ``by``, ``group``."""
    frames = [pandas.read_csv(DOCS.parent / "results" / "reference" / f"{name}.csv") for name in files]
    frame = pandas.concat([each.assign(records=name.split("/")[0]) for name, each in zip(files, frames)])
    frame["method"] = frame["title"] if "title" in frame else frame["method"]
    filters = dict(each.split("=", 1) for each in rows)
    by, group, keys = filters.pop("by", None), filters.pop("group", None), [key_of(column) for column in columns]
    for key, values in filters.items():
        frame = frame[frame[key].astype(str).isin(values.split(","))]
    value = next(key for key in keys if key not in (*WORDS, "seeds"))
    frame = frame[frame[value].notna()].sort_values(value, ascending=False, kind="stable")
    frame = frame.sort_values(group, kind="stable") if group else frame
    cells = pandas.DataFrame([[cell(row, column) for column in columns] for _, row in frame.iterrows()])
    heads = [{**WORDS, **HEADS}.get(key, f"`{key}`") for key in keys]
    if by:
        cells = cells.assign(by=frame[by].to_numpy()).pivot(index=0, columns="by", values=1).fillna("")
        cells = cells.loc[[f"`{name}`" for name in frame["method"].unique()]].reset_index()
        heads = [heads[0], *(f"{x:,.0f} clips" for x in cells.columns[1:])]
    ruler = [":---" if head in WORDS.values() else "---:" for head in heads]
    return "".join(f"| {' | '.join(line)} |\n" for line in [heads, ruler, *cells.to_numpy().tolist()])


def filled(text):
    """``text`` of a page with every table made from its files."""
    return BLOCK.sub(lambda m: m[1] + table(m[2].split(), m[3].split(), (m[4] or "").split()), text)


if __name__ == "__main__":
    for path in (DOCS / f"{name}.md" for name in PAGES):
        path.write_text(filled(path.read_text()))
