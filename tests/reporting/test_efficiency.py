"""Accuracy beside what it cost: averages over seeds, and nothing compared over two machines."""

import json

import pytest

from skelbench.plugin.host import Host
from skelbench.reporting.efficiency import table
from skelbench.reporting.inputs import TableInputs


def built(made, **options):
    return table(TableInputs(Host(), made.store, **options))


def costs(made, name, **changed):
    """Change the cost of a made run: ``latency_1`` in ms, ``device``."""
    path = made.root / name / "cost.json"
    cost = json.loads(path.read_text())
    times = {"median_ms": changed.get("latency_1", 2.0), "device": changed.get("device", "cpu"), "threads": 1}
    cost["latency"]["batch 1"] = times | {"clips_per_s": 1.0}
    path.write_text(json.dumps(cost))


def test_other_machines_devices_presets_splits_and_settings_do_not_compete(made):
    costs(made, made.run("slim", 0.5))
    costs(made, made.run("mamp", 0.8), device="cuda", latency_1=0.1)
    for seed, what in enumerate(
        ({"hardware": "gpu"}, {"preset": "quick"}, {"split": "cross-subject"}, {"setting": "native"}), start=1
    ):
        made.run("mamp", 0.8, seed=seed, **what)
    table = built(made)
    assert len(table.rows) == 6 and not any(cell.mark for row in table.rows for cell in row.values())
    shown = {column.key for column in table.columns if column.shown}
    assert {"hardware", "timed", "preset", "setting", "place"} <= shown
    places = {heading.rpartition(", ")[2] for heading, _ in table.sections}
    assert places == {"moves / cross-view", "moves / cross-subject"} and len(table.sections) == 6


def test_a_run_without_cost_has_a_note(made):
    made.run("slim", 0.5, costed=False)
    (row,) = built(made).rows
    assert row["method"].footnotes == ("costless",) and row["latency_1"].value is row["training"].value is None
    assert row["speed"].value == pytest.approx(40_000 / 120)
