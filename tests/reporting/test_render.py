import csv
import io
import json

import pytest

from skelbench.reporting.render import FORMATS, render
from skelbench.reporting.table import Cell, Column, Table

TABLE = Table(
    "Costs & gains_",
    (
        Column("method", "Method"),
        Column("accuracy", "Acc. (%)", ".1f", best="max", footnotes=("last",)),
        Column("gain", "Gain", "+.1f"),
        Column("clips", "Clips", ",d"),
        Column("printed", "Paper", ".2f", published=True),
        Column("device", "Device", shown=False),
    ),
    (
        {
            "method": "slim|_x_ y_z",
            "accuracy": Cell(87.6543, 0.114, (87.0, 88.25)),
            "gain": Cell(-1.25, 0.5),
            "clips": 1234567,
            "printed": 3.59,
            "device": "cpu",
        },
        {"method": Cell("mae <1>", footnotes=("odd",)), "accuracy": 80, "printed": Cell(28.32, footnotes=("odd",))},
        {"method": Cell("MAMP", published=True), "accuracy": Cell(84.9, published=True)},
    ),
    notes=("100 % of *it*.",),
    footnotes={"last": "last step", "odd": "odd one"},
).ranked()


def test_a_cell_has_one_interval():
    column, over = Column("a", "A", ".1f"), {"interval": (30.0, 50.0), "interval_over": "400 clips"}
    assert column.spread(Cell(41.5, 57.7, plus_minus_over="2 seeds", **over)) == " (37.0, 46.0)"
    assert column.spread(Cell(41.5, 7.7, plus_minus_over="3 seeds", **over)) == " ± 7.7"
    assert column.spread(Cell(41.5, **over)) == " [30.0, 50.0]"


def test_markdown_golden():
    assert render(TABLE, "md") == (
        "**Costs & gains\\_**\n"
        "\n"
        "| Method | Acc. (%)<sup>a</sup> | Gain | Clips | Paper |\n"
        "|:---|---:|---:|---:|---:|\n"
        "| slim\\|\\_x\\_ y_z | **87.7 ± 0.1** | -1.2 ± 0.5 | 1,234,567 | *3.59* |\n"
        "| mae \\<1><sup>b</sup> | <ins>80.0</ins> | – | – | *28.32*<sup>b</sup> |\n"
        "| *MAMP* | *84.9* | – | – | – |\n"
        "\n"
        "<sup>a</sup> last step\n"
        "\n"
        "<sup>b</sup> odd one\n"
        "\n"
        "100 % of \\*it\\*.\n"
    )


def test_html_is_a_table_with_marks_and_notes():
    text = render(TABLE, "html")
    for part in (
        '<caption style="text-align:left">Costs &amp; gains_</caption>',
        '<th style="text-align:right">Acc. (%)<sup>a</sup></th>',
        '<td style="text-align:right"><b>87.7 ± 0.1</b></td>',
        '<td style="text-align:left">mae &lt;1&gt;<sup>b</sup></td>',
        "<i>28.32</i><sup>b</sup>",
        "<p><sup>a</sup> last step</p>",
    ):
        assert part in text


def test_parts_of_a_cell_have_columns_in_csv():
    columns = (Column("a", "A", ".1f", beside=("pm", "interval", "published")), Column("b", "B", ".1f"))
    cell = Cell(70.0, 2.0, (65.0, 75.0), plus_minus_over="3 seeds", interval_over="20 subjects")
    table = Table("T", columns, ({"a": cell, "b": 2.0}, {"a": 1.0}))
    first, second = csv.DictReader(io.StringIO(render(table, "csv")))
    assert list(first) == "a,a_pm,a_pm_over,a_low,a_high,a_over,a_is_published,b".split(",")
    assert (first["a_pm_over"], first["a_over"]) == ("3 seeds", "20 subjects") and second["a_over"] == ""
    assert json.loads(render(table, "json"))["rows"][0]["a"]["interval_over"] == "20 subjects"


def test_csv_golden_carries_raw_numbers_and_hidden_columns():
    assert render(TABLE, "csv") == (
        "method,method_is_published,accuracy,accuracy_pm,accuracy_low,accuracy_high,accuracy_is_published,"
        "gain,gain_pm,clips,printed,device\n"
        "slim|_x_ y_z,False,87.6543,0.114,87.0,88.25,False,-1.25,0.5,1234567,3.59,cpu\n"
        "mae <1>,False,80,,,,False,,,,28.32,\n"
        "MAMP,True,84.9,,,,True,,,,,\n"
    )


def test_json_holds_everything():
    content = json.loads(render(TABLE, "json"))
    assert content["title"] == "Costs & gains_" and content["notes"] == ["100 % of *it*."]
    assert content["footnotes"] == {"last": "last step", "odd": "odd one"}
    assert content["columns"][1] == {
        "key": "accuracy", "header": "Acc. (%)", "format": ".1f", "best": "max", "published": False,
        "footnotes": ["last"],
    }  # fmt: skip
    assert content["rows"][0]["accuracy"] == {
        "value": 87.6543, "plus_minus": 0.114, "interval": [87.0, 88.25], "mark": "best",
    }  # fmt: skip
    assert content["rows"][1]["printed"] == {"value": 28.32, "footnotes": ["odd"], "published": True}
    assert content["rows"][2]["accuracy"] == {"value": 84.9, "published": True}
    assert content["rows"][1]["gain"] == {"value": None} and content["rows"][0]["device"] == {"value": "cpu"}


@pytest.mark.parametrize("format", FORMATS)
def test_an_empty_table_shows_its_notes(format):
    text = render(Table("Nothing", (Column("a", "A"),), notes=("run this",)), format)
    assert text.endswith("\n") and ("run this" in text or format == "csv")


def test_headings_stand_above_the_rows_that_share_them():
    columns = (Column("kind", "Kind", heads=True), Column("method", "Method"), Column("accuracy", "Acc.", ".1f"))
    rows = [("A_1 & more", "one", 1.0), ("A_1 & more", "two", 22.0), ("B", "three", 3.0)]
    table = Table("T", columns, tuple(dict(zip(("kind", "method", "accuracy"), row)) for row in rows))
    assert [line.split() for line in render(table, width=80).splitlines() if "A_1" in line] == [["A_1", "&", "more"]]
    assert render(table, "md").splitlines()[4:] == [
        "| *A_1 & more* | |",
        "| one | 1.0 |",
        "| two | 22.0 |",
        "| *B* | |",
        "| three | 3.0 |",
    ]
    assert render(table, "csv").splitlines()[:2] == ["kind,method,accuracy", "A_1 & more,one,1.0"]
    assert json.loads(render(table, "json"))["columns"][0]["heads"]
