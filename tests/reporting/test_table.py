import numpy as np
import pytest

from skelbench.reporting.table import Cell, Column, Table

COLUMNS = (
    Column("name", "Name"),
    Column("score", "Score", ".1f", best="max"),
    Column("cost", "Cost", ".0f", best="min"),
)


def table(rows, **fields):
    return Table("T", COLUMNS, tuple(rows), **fields)


def marks(ranked, key):
    return [row[key].mark for row in ranked.rows]


def test_nan_is_not_available_and_a_cell_holds_scalars_only():
    assert Cell(float("nan")) == Cell(np.float64("nan"), plus_minus=float("nan")) == Cell()
    with pytest.raises(TypeError, match="not list"):
        Cell([1])


@pytest.mark.parametrize(
    "make,message",
    [
        (lambda: table([{"nam": 1}]), "no column nam"),
        (lambda: table([{"name": Cell("a", footnotes=("x",))}]), "no footnote 'x'"),
        (lambda: Table("T", (Column("a", "A"), Column("a", "B"))), "two columns"),
        (lambda: Table("T", (Column("a", "A", footnotes=("y",)),)), "no footnote 'y'"),
    ],
)
def test_mistakes_in_tables_are_rejected(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_ranks_work_in_both_directions_with_ties():
    rows = [("a", 1.04, 5), ("b", 0.96, 3), ("c", 2.0, 4), ("d", 0.5, None)]
    ranked = table({"name": n, "score": s, "cost": c} for n, s, c in rows).ranked()
    assert marks(ranked, "score") == ["second", "second", "best", None]  # 1.04 and 0.96 both read 1.0
    assert marks(ranked, "cost") == [None, "best", "second", None]
    assert marks(ranked, "name") == [None] * 4


def test_published_cells_do_not_compete_and_groups_rank_separately():
    rows = [("x", Cell(9.0, published=True)), ("x", 1.0), ("x", 2.0), ("y", 0.5), ("y", 0.1), ("z", 7.0)]
    ranked = table({"name": n, "score": s} for n, s in rows).ranked(within=("name",))
    assert marks(ranked, "score") == [None, "second", "best", "best", "second", None]


@pytest.mark.parametrize(
    "format,value,text",
    [
        (".1f", -0.04, "0.0"),
        ("+.1f", -0.04, "+0.0"),
        (".1f", -0.06, "-0.1"),
        (",d", 1234, "1,234"),
        (".2g", 2e-9, "2e-09"),
        (".3g", 0.01234, "0.0123"),
        (".3g", 123456.7, "123,457"),
    ],
)
def test_numbers_are_formatted(format, value, text):
    assert Column("a", "A", format).text(value) == text
