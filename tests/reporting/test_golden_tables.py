"""Every number of every table of evaluations, from one made results directory: the CSV files in ``golden/``.

After an intended change: ``UPDATE_GOLDEN=1 pytest tests/reporting/test_golden_tables.py``, and read the diff.
"""

import csv
import json
import os
from pathlib import Path

import numpy as np
import pytest
from fabricated import Fabricated

from skelbench.plugin.host import Host
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.render import render

GOLDEN = Path(__file__).parent / "golden"
TABLES = {
    "linear": {"significance": True, "against": "mamp", "best_on_test": True},
    "objective": {"significance": True},
    "target-control": {},
    "token-budget": {},
    "scaling": {},
    "efficiency": {},
    "finetune": {},
    "semi": {},
    "robustness": {"significance": True},
    "retrieval": {},
}
NTU = {"dataset": "ntu60", "split": "cross-subject"}


def measure(made, name, protocol, metrics):
    """Give the evaluation of a made run further metrics."""
    for path in (made.root / name).glob("eval-*.json"):
        record = json.loads(path.read_text())
        if record["spec"]["protocol"] == protocol:
            record["metrics"] |= metrics
            record["measures"] = {key: {"label": key, "share": True} for key in metrics}
            path.write_text(json.dumps(record))


def log(start, end):
    """A loss that falls, ranks every tenth line."""
    losses = np.geomspace(start, end, 100)
    ranks = {"rank_masked": 20.0, "rank_pooled": 12.0}
    lines = [
        {"step": i + 1, "epoch": float(i), "clips_seen": 16 * (i + 1), "mfp": loss} for i, loss in enumerate(losses)
    ]
    return [line | (ranks if place % 10 == 0 else {}) for place, line in enumerate(lines)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    made = Fabricated(tmp_path_factory.mktemp("golden") / "results")
    rng, who = np.random.default_rng(0), np.arange(80) // 10
    shares = {"slim": 0.9, "slim:mfp-only": 0.8, "slim:target-features": 0.7, "mamp": 0.75, "skeletonmae": 0.5}
    for seed in (0, 1):
        for control, share in (("untrained", 0.4), ("raw", 0.3)):
            for tokens in (8, 30) if seed == 0 or control == "untrained" else ():
                made.run(control, rng.random(80) < share, seed=seed, tokens=tokens, subjects=who, encoder="vit")
        for title, share in shares.items():
            metrics = log(0.3, 0.01) if title.startswith("slim") else None
            name = made.run(title, rng.random(80) < share, seed=seed, subjects=who, metrics=metrics, knn=share - 0.1)
            measure(made, name, "linear", {"top5": share + 0.05, "accuracy_best_on_test": share + 0.03})
        made.run("mamp", rng.random(80) < 0.8, seed=seed, tokens=30, subjects=who)
        made.run("slim", rng.random(80) < 0.6, seed=seed, epochs=3, modified={"train.epochs": 3})
    made.run("slim", rng.random((5, 80)) < 0.85, seed=2, setting="native", drawn="label subsets")
    made.run("slim", 0.7, knn=None, **NTU)
    made.run("mamp", 0.6, protocol="finetune", knn=None, **NTU)
    made.run("slim", rng.random((5, 40)) < 0.6, protocol="semi@1", drawn="label subsets", seed=3, knn=None, **NTU)
    for title in ("slim", "mamp"):
        name = made.run(title, rng.random(40) < 0.9, protocol="robustness", seed=4, knn=None, **NTU)
        measure(made, name, "robustness", {"accuracy_missing_0.2": 0.8, "accuracy_missing_0.2_sd": 0.01})
        name = made.run(title, rng.random(40) < 0.6, protocol="retrieval", seed=5, preset="paper", knn=None, **NTU)
        measure(made, name, "retrieval", {"map": 0.3})
    return made


def cells(text):
    """Rows of a CSV file with numbers as floats."""
    return [[as_number(cell) for cell in row] for row in csv.reader(text.splitlines())]


def as_number(text):
    try:
        return float(text)
    except ValueError:
        return text


@pytest.mark.parametrize("name", TABLES)
def test_table_is_the_golden_one(made, name):
    host = Host()
    built = host.load(host.get("tables", name))(TableInputs(host, made.store, **TABLES[name]))
    text, path = render(built, "csv"), GOLDEN / f"{name}.csv"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    found, golden = cells(text), cells(path.read_text())
    assert found[0] == golden[0] and len(found) == len(golden)
    for row, expected in zip(found, golden, strict=True):
        for key, cell, wanted in zip(found[0], row, expected, strict=True):
            close = pytest.approx(wanted, rel=1e-9, abs=1e-9) if isinstance(wanted, float) else wanted
            assert cell == close, (row[:4], key)
