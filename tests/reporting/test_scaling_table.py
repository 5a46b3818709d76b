"""Accuracy over training length: a row per length; runs that differ in more are not shown."""

import json

from skelbench.plugin.host import Host
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.scaling import table


def trained(made, title, right, clips, **more):
    name = made.run(title, right, **more)
    path = made.root / name / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"clips_seen": clips}))


def rows(made, **options):
    return table(TableInputs(Host(), made.store, **options)).rows


def test_runs_that_differ_in_more_than_length_need_all(made):
    trained(made, "slim", 0.5, 8000, modified={"budget clips": 8000, "train.lr": 1})
    trained(made, "slim", 0.6, 8000, modified={"train.epochs": 3})
    inputs = TableInputs(Host(), made.store)
    assert inputs.left_out.startswith("2 runs")
    assert [row["accuracy"].value for row in table(inputs).rows] == [60] and inputs.left_out.startswith("1 run ")
    every = rows(made, exact_only=False)
    assert [(row["others"].value, row["accuracy"].value) for row in every] == [("", 60), ("train.lr=1", 50)]


def test_controls_and_snapshots_are_not_training_lengths(made):
    made.run("raw", 0.3)
    made.run("untrained", 0.3)
    made.run("slim", 0.5, checkpoint="2.5")
    trained(made, "slim", 0.5, 8000, modified={"budget clips": 8000}, seed=1)
    trained(made, "slim", 0.8, 8000, modified={"budget clips": 8000}, seed=2, hardware="gpu")
    (found,) = rows(made)
    assert found["seeds"].value == 2 and not any(cell.mark for cell in found.values())
