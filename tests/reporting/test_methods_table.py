"""Stored diagnoses of runs, as one table over methods."""

import json

import pytest

from skelbench.plugin.host import Host
from skelbench.reporting.diagnostics.methods import table
from skelbench.reporting.diagnostics.record import VERSION
from skelbench.reporting.inputs import TableInputs


def keep(made, name, what, *, clips=100, checkpoint="last", finished=1.0, version=None, **found):
    """A record as ``skelbench diagnose`` leaves it."""
    spec = {
        "pretrain_id": name[-12:],
        "checkpoint": checkpoint,
        "data": {"name": "moves"},
        "clips": clips,
        "version": VERSION[what] if version is None else version,
    }
    record = {"diagnosis": what, "spec": spec, "finished": finished, "seconds": 1.0, **found}
    record |= {"test_clips": clips, "train_clips": clips} if what == "order" else {"clips": clips}
    number = len(list(made.root.glob("*/diagnose-*")))
    (made.root / name / f"diagnose-{what}-{number:012d}.json").write_text(json.dumps(record))


def order(made, name, accuracy, **more):
    keep(made, name, "order", accuracy=accuracy, **more)


def invariance(made, name, found, **more):
    def point(value, retrieved):
        return {"value": value, "similarity": retrieved / 2, "others": 0.1, "retrieved": retrieved}

    curves = {"yaw": [point(0, 1.0), point(30, found), point(60, found / 2), point(360, 1.0)]}
    curves["size"] = [point(0.7, found), point(1.0, 1.0)]
    keep(made, name, "invariance", curves=curves, **more)


def built(made):
    return table(TableInputs(Host(), made.store))


def rows(table):
    return {row["method"].value: row for row in table.rows}


def test_rows_average_seeds_and_compare_with_the_untrained_encoder(made):
    for seed, (share, twin) in enumerate(((0.9, 0.5), (0.8, 0.6))):
        name, untrained = made.run("slim", 0.5, seed=seed), made.run("untrained", 0.4, seed=seed)
        order(made, name, share)
        order(made, untrained, twin)
        invariance(made, name, 0.8)
        invariance(made, untrained, 0.4)
    found = rows(built(made))
    slim = found["slim"]
    assert list(found) == ["slim", "untrained"] and slim["seeds"].value == 2
    assert slim["order"].value == pytest.approx(85) and slim["order"].plus_minus_over == "2 seeds"
    assert slim["order_over"].value == pytest.approx(30) and found["untrained"]["order_over"].value is None
    assert slim["yaw_found"].value == pytest.approx(60) and slim["yaw"].value == pytest.approx(0.3)
    assert slim["size_found"].value == pytest.approx(80)  # unchanged clips, of course their own, are not in it
    assert slim["found_over"].value == pytest.approx((30 + 40) / 2)
    assert slim["order"].mark == "best" and found["untrained"]["order"].mark == "second"
    assert slim["yaw"].mark is None
    assert any("retrieved: mean over yaw and size" in note for note in built(made).notes)


def test_other_settings_are_separate_rows_without_comparison(made):
    slim, mamp = made.run("slim", 0.5), made.run("mamp", 0.5)
    order(made, slim, 0.9)
    order(made, mamp, 0.8, clips=50)
    order(made, mamp, 0.7)
    invariance(made, slim, 0.5)
    invariance(made, mamp, 0.6)
    table = built(made)
    assert len(table.rows) == 3 and next(column for column in table.columns if column.key == "order_by").shown
    marks = {(row["method"].value, row["order"].value): row["order"].mark for row in table.rows}
    assert marks == {("slim", 90.0): "best", ("mamp", 70.0): "second", ("mamp", 80.0): None}
    assert rows(table)["slim"]["yaw_found"].mark == "second"  # whatever the order probe's settings are


def test_damaged_and_older_records_do_not_count(made):
    good, bad, old = (made.run(method, 0.5) for method in ("slim", "mamp", "gfp"))
    order(made, good, 0.9)
    order(made, old, 0.99, version=VERSION["order"] - 1)
    (made.root / bad / "diagnose-order-000000000009.json").write_text('{"diagnosis": "order"}')
    assert list(rows(built(made))) == ["slim"]
