"""Tables with a column per protocol or metric: with our rows, with published rows, or with neither."""

import json

import numpy as np
import pytest

from skelbench.evaluation.robustness import MissingRepresentation, Robustness, name_of
from skelbench.plugin.host import Host
from skelbench.reporting.inputs import TableInputs

NTU = {"dataset": "ntu60", "split": "cross-subject", "knn": None}

PRINTED = {
    "semi": 46, "retrieval": 25, "robustness": 14, "missing-representation": 18, "degraded-pretraining": 20,
}  # fmt: skip
"""Published results by table."""


def built(made, name, **asked):
    host = Host()
    return host.load(host.get("tables", name))(TableInputs(host, made.store, **asked))


def rows(table):
    """By spelling of the method and whether it is published."""
    return {(row["method"].value, row["method"].published): row for row in table.rows}


def test_what_differs_between_rows_is_a_footnote(made):
    """Source of published results, their neighbors, and marks of runs of a small preset."""
    made.run("slim", 0.6, protocol="retrieval", **NTU)
    made.run("mamp", 0.6, protocol="retrieval", preset="paper", **NTU)
    table = built(made, "retrieval")
    found = rows(table)

    def told(name, published, key):
        return " ".join(table.footnotes[note] for note in found[name, published][key].footnotes)

    assert "k = 9" in told("P&C", True, "accuracy") and "own re-implementation" in told("LongT-GAN", True, "accuracy")
    assert "preset small" in told("slim", False, "method") and not found["mamp", False]["method"].footnotes
    assert "best epoch on test" in told("SLiM", True, "method") and "skelbench study retrieval" in told(
        "SLiM", True, "method"
    )
    assert table.markers(list(table.footnotes)[:2]) == "a,b"


def test_evaluations_of_different_trainings_share_no_row(made):
    """Neither with changed settings, which a column says, nor of two versions of a method."""
    made.run("slim", 0.5, protocol="finetune", modified={"train.lr": 1e-3}, knn=None)
    made.run("slim", 0.75, protocol="supervised", modified={"train.lr": 1e-1}, knn=None)
    table = built(made, "finetune", exact_only=False)
    found = {row["changed"].value: (row["finetune"].value, row["supervised"].value) for row in table.rows}
    assert found == {"train.lr=0.001": (50, None), "train.lr=0.1": (None, 75)}
    assert "Changed settings" in [column.header for column in table.shown]
    made.run("mamp", 0.5, protocol="finetune", knn=None)
    made.run("mamp", 0.75, protocol="supervised", version=2, knn=None)
    table = built(made, "finetune")
    assert [(row["finetune"].value, row["supervised"].value) for row in table.rows] == [(50, None), (None, 75)]
    assert "Changed settings" not in [column.header for column in table.shown]


def test_a_column_shows_the_protocol_with_most_seeds(made):
    for seed, share in enumerate((0.3, 0.4, 0.5)):
        made.run("slim", None if seed else share, seed=seed, protocol="retrieval", knn=share)
        if seed:
            made.run("slim", share, seed=seed, protocol="knn", knn=None)
    row = built(made, "retrieval").rows[0]
    assert row["accuracy"].value == pytest.approx(40) and row["accuracy"].plus_minus_over == "3 seeds"
    assert row["seeds"].value == 3 and row["run"].value.count("slim-") == 3


def measure(made, name, protocol, figures):
    """Give an evaluation of a made run further figures."""
    for path in (made.root / name).glob("eval-*.json"):
        record = json.loads(path.read_text())
        if record["spec"]["protocol"] == protocol:
            record["metrics"] |= figures
            record["measures"] = {key: {"label": key, "share": True} for key in figures}
            path.write_text(json.dumps(record))


def test_significance_gives_every_accuracy_its_own_letters(made):
    """Alike on clean clips, apart where joints are missing: by the predictions of the condition, not of clean clips."""
    place = {"protocol": "robustness", "dataset": "moves", "split": "cross-view", "knn": None}
    clean = np.arange(200) % 10 < 9
    for title, share in (("slim", 0.9), ("mamp", 0.4), ("gfp", 0.42), ("dino", None)):
        name = made.run(title, clean, **place)
        if share is None:
            continue
        measure(made, name, "robustness", {"accuracy_missing_0.2": share, "accuracy_missing_0.2_sd": 0.01})
        (path,) = (made.root / name).glob("eval-*.npz")
        with np.load(path) as file:
            arrays = dict(file)
        gone = np.arange(200) < 200 * share
        np.savez(path, **arrays, **{"predicted_missing_0.2": np.stack([gone, gone, gone]).astype(int)})
    assert not any(column.key.endswith("_letters") for column in built(made, "robustness").columns)
    table = built(made, "robustness", significance=True)
    found = {key[0]: row for key, row in rows(table).items()}
    assert {name: found[name]["clean_letters"].value for name in found} == dict.fromkeys(found, "a")
    gone = {name: found[name]["missing_0.2_letters"].value for name in found}
    assert gone == {"slim": "a", "mamp": "b", "gfp": "b", "dino": None}
    keys = [column.key for column in table.columns]
    assert keys[keys.index("missing_0.2") + 1] == "missing_0.2_letters" and "missing_0.12_letters" not in keys
    assert any("Clean: 200 test clips" in note for note in table.notes)
    assert sum("test clips" in note and "Missing" in note for note in table.notes) == 0, "a sentence per headline"


@pytest.mark.parametrize(("name", "figures"), list(PRINTED.items()))
def test_without_runs_every_published_result_is_shown(made, name, figures):
    table = built(made, name)
    assert "skelbench eval RUN" in table.notes[0]
    keys = [column.key for column in table.columns if column.format == ".1f"]
    assert sum(row[key].value is not None for row in table.rows for key in keys) == figures


@pytest.mark.parametrize("protocol", [Robustness(), MissingRepresentation()])
def test_columns_are_the_conditions_of_the_protocol(made, protocol):
    """Named as its metrics are, and those that the paper prints."""
    name = {Robustness: "robustness", MissingRepresentation: "missing-representation"}[type(protocol)]
    keys = {column.key for column in built(made, name).columns if column.format == ".1f"}
    assert keys == {"clean", *(name_of(step) for step in protocol.conditions())}
