"""Accuracy over the length of training: a row per length, and nothing beside it that differs in more."""

import json

import pytest
from fabricated import Fabricated

from skelbench.plugin.host import Host
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.render import render
from skelbench.reporting.scaling import table


@pytest.fixture
def made(tmp_path):
    return Fabricated(tmp_path / "results")


def trained(made, title, right, clips, **more):
    name = made.run(title, right, **more)
    path = made.root / name / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"clips_seen": clips}))


def rows(made, **options):
    return table(TableInputs(Host(), made.store, **options)).rows


def test_lengths_of_a_method_are_its_rows_over_their_seeds(made):
    made.run("untrained", 0.25)
    for seed in (0, 1):
        trained(made, "slim", 0.5 + 0.1 * seed, 8000, seed=seed, modified={"budget clips": 8000})
        trained(made, "mamp", 0.4, 40_000, seed=seed)
    trained(made, "slim", 0.9, 40_000)
    found = rows(made)
    assert [(row["title"].value, row["clips_seen"].value, row["seeds"].value) for row in found] == [
        ("mamp", 40_000, 2), ("slim", 8000, 2), ("slim", 40_000, 1),
    ]  # fmt: skip
    short, long = found[1:]
    assert short["accuracy"].value == pytest.approx(55) and short["training"].value == pytest.approx(2 * 40 * 8)
    assert short["accuracy"].plus_minus is not None and long["accuracy"].plus_minus is None
    text = render(table(TableInputs(Host(), made.store)), width=60)
    assert "8,000" in text and "40,000" in text  # what tells rows apart, on a narrow terminal too
    assert long["difference"].value == pytest.approx(65) and long["p_value"].value < 1e-5
    assert short["p_value"].value is None  # seed 1 has no untrained encoder to be compared with
    assert long["knn"].value == pytest.approx(40) and long["accuracy"].mark == "best"


def test_what_differs_in_more_than_length_is_asked_for(made):
    trained(made, "slim", 0.5, 8000, modified={"budget clips": 8000, "train.lr": 1})
    trained(made, "slim", 0.6, 8000, modified={"train.epochs": 3})
    inputs = TableInputs(Host(), made.store)
    assert inputs.left_out.startswith("2 runs")
    assert [row["accuracy"].value for row in table(inputs).rows] == [60] and inputs.left_out.startswith("1 run ")
    every = rows(made, exact_only=False)
    assert [(row["others"].value, row["accuracy"].value) for row in every] == [("", 60), ("train.lr=1", 50)]


def test_controls_snapshots_and_other_machines_are_no_lengths(made):
    made.run("raw", 0.3)
    made.run("untrained", 0.3)
    made.run("slim", 0.5, checkpoint="2.5")
    trained(made, "slim", 0.5, 8000, modified={"budget clips": 8000}, seed=1)
    trained(made, "slim", 0.8, 8000, modified={"budget clips": 8000}, seed=2, hardware="gpu")
    found = rows(made)
    assert len(found) == 2 and not any(cell.mark for row in found for cell in row.values())
