"""Tables of the evaluations that are asked for, in the order and with the columns that are asked for."""

import json

import pytest
from fabricated import Fabricated

from skelbench.core.errors import SkelbenchError
from skelbench.plugin.host import Host
from skelbench.reporting.filters import Filters
from skelbench.reporting.inputs import read_inputs
from skelbench.reporting.table import Cell, Column, Table, sorted_by, with_columns


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two methods on two datasets, by two presets, one of them tagged, with the untrained encoder."""
    made = Fabricated(tmp_path_factory.mktemp("made") / "results")
    for dataset in ("moves", "steps"):
        made.run("untrained", 0.3, dataset=dataset)
        made.run("slim", 0.8, dataset=dataset)
        made.run("slim:glcl-only", 0.7, dataset=dataset)
    made.run("mamp", 0.6, modified={"train.lr": 0.1})
    name = made.run("mamp", 0.5, preset="quick")
    path = made.root / name / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"tags": ["first", "mine"]}))
    return made


@pytest.fixture(scope="module")
def host():
    return Host()


def table(made, host, name="linear", exact_only=False, **filters):
    inputs = read_inputs(host, made.store, Filters(**filters), not exact_only)
    return host.load(host.get("tables", name))(inputs)


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"method": ("slim",), "dataset": ("steps",)}, {("slim", "steps"), ("slim:glcl-only", "steps")}),
        ({"method": ("slim:glcl-only",), "dataset": ("moves",)}, {("slim:glcl-only", "moves")}),
        ({"method": ("mamp", "untrained"), "dataset": ("moves",)}, {("mamp", "moves"), ("untrained", "moves")}),
        ({"method": ("mamp",), "preset": ("small",)}, {("mamp", "moves")}),
        ({"preset": ("quick",)}, {("mamp", "moves")}),
        ({"tag": ("mine",)}, {("mamp", "moves")}),
        ({"protocol": ("knn",)}, set()),
    ],
)  # fmt: skip
def test_filters_need_one_name_of_every_kind(made, host, filters, found):
    built = table(made, host, **filters)
    assert set(zip(built.values("method"), built.values("dataset"), strict=True)) == found


def test_an_excluded_control_still_serves_as_control(made, host):
    row = table(made, host, method=("slim:glcl-only",), dataset=("moves",)).rows[0]
    assert row["difference"].value == pytest.approx(40) and row["p_value"].value is not None


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        ({"method": ("slim:glcl-onyl",)}, "did you mean 'slim:glcl-only'?"),
        ({"dataset": ("move",)}, "unknown dataset 'move'; did you mean 'moves'?"),
        ({"preset": ("smal",)}, "did you mean 'small'?"),
        ({"tag": ("mien",)}, "did you mean 'mine'?"),
    ],
)
def test_a_misspelled_name_is_rejected(made, host, filters, said):
    with pytest.raises(SkelbenchError) as refused:
        table(made, host, **filters)
    assert said in str(refused.value)


COLUMNS = (
    Column("group", "Group", heads=True),
    Column("name", "Method", footnotes=("of",)),
    Column("tokens", "Tokens", shown=False),
    Column("accuracy", "Linear", ".1f"),
)
ROWS = (
    {"group": "x", "name": Cell("b", footnotes=("on",)), "tokens": "30x25", "accuracy": 2.0},
    {"group": "y", "name": "c", "tokens": "8x25", "accuracy": None},
    {"group": "x", "name": "a", "tokens": "15x25", "accuracy": 10.0},
)
BUILT = Table("Made", COLUMNS, ROWS, footnotes={"of": "a column", "on": "a cell"})


def test_rows_are_sorted():
    assert sorted_by(BUILT, "accuracy").values("name") == ["b", "a", "c"]
    assert sorted_by(BUILT, "-Linear").values("name") == ["a", "b", "c"]
    assert sorted_by(BUILT, "tokens").values("name") == ["c", "a", "b"]
    assert [heading for heading, _ in sorted_by(BUILT, "name").sections] == [""]
    with pytest.raises(SkelbenchError, match="--sort: unknown column 'acuracy'; did you mean 'accuracy'?"):
        sorted_by(BUILT, "-acuracy")


def test_columns_are_selected():
    built = with_columns(BUILT, ["tokens", "linear"])
    assert [column.key for column in built.shown] == ["tokens", "accuracy"] and not built.footnotes
    assert [set(row) for row in built.rows] == [{"tokens", "accuracy"}] * 3
    assert set(with_columns(BUILT, ["method"]).footnotes) == {"of", "on"}
    with pytest.raises(SkelbenchError, match="--columns: unknown column 'metod'"):
        with_columns(BUILT, ["metod"])
