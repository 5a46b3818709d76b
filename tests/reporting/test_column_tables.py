"""Tables with a column per protocol or per figure of one: ours, papers' rows beside them, or neither."""

import json

import numpy as np
import pytest
from fabricated import Fabricated

from skelbench.cli.main import main
from skelbench.evaluation.robustness import MissingRepresentation, Robustness, name_of
from skelbench.plugin.host import Host
from skelbench.reporting.inputs import TableInputs

NTU = {"dataset": "ntu60", "split": "cross-subject", "knn": None}

PRINTED = {
    "semi": 46, "retrieval": 25, "robustness": 14, "missing-representation": 18, "degraded-pretraining": 20,
}  # fmt: skip
"""Published figures by table."""


@pytest.fixture
def made(tmp_path):
    return Fabricated(tmp_path / "results")


def built(made, name, **asked):
    host = Host()
    return host.load(host.get("tables", name))(TableInputs(host, made.store, **asked))


def rows(table):
    """By spelling of the method and whether it is published."""
    return {(row["method"].value, row["method"].published): row for row in table.rows}


def test_what_differs_between_rows_is_a_footnote(made):
    """Whose figures they are, their neighbours, and that a run of a small preset is of another size."""
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


def test_evaluations_of_different_trainings_make_no_row_together(made):
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


def test_a_column_shows_the_protocol_of_most_seeds_and_says_how_many(made):
    for seed, share in enumerate((0.3, 0.4, 0.5)):
        made.run("slim", None if seed else share, seed=seed, protocol="retrieval", knn=share)
        if seed:
            made.run("slim", share, seed=seed, protocol="knn", knn=None)
    row = built(made, "retrieval").rows[0]
    assert row["accuracy"].value == pytest.approx(40) and row["accuracy"].plus_minus_over == "3 seeds"
    assert row["seeds"].value == 3 and row["run"].value.count("slim-") == 3


def test_rows_on_two_versions_of_the_data_compete_with_nobody(made):
    """Nor across presets."""
    for number, (share, where) in enumerate(((0.9, "a"), (0.8, "a"), (0.7, "b"), (0.6, "b"))):
        made.run(("slim", "mamp")[number % 2], share, protocol="finetune", fingerprint=where * 64, knn=None)
    for title, share in (("slim", 0.3), ("mamp", 0.2)):
        made.run(title, share, protocol="finetune", fingerprint="a" * 64, preset="quick", seed=1, knn=None)
    table = built(made, "finetune")
    marks = {row["finetune"].value: row["finetune"].mark for row in table.rows}
    best = {value for value, mark in marks.items() if mark == "best"}
    assert best == {90, 70, 30} and "Data version" in [column.header for column in table.shown]


def test_a_method_that_the_paper_spells_otherwise_stands_above_its_figure(made):
    for name in ("pclust", "longt-gan"):
        made.run(name, 0.4, protocol="retrieval", **NTU)
    names = [row["method"].value for row in built(made, "retrieval").rows]
    for name, spelling in (("pclust", "P&C"), ("longt-gan", "LongT-GAN")):
        assert names[names.index(name) + 1] == spelling


def measure(made, name, protocol, figures):
    """Give an evaluation of a made run further figures."""
    for path in (made.root / name).glob("eval-*.json"):
        record = json.loads(path.read_text())
        if record["spec"]["protocol"] == protocol:
            record["metrics"] |= figures
            record["measures"] = {key: {"label": key, "share": True} for key in figures}
            path.write_text(json.dumps(record))


def test_recipes_have_columns_of_their_own(made):
    made.run("slim", 0.6, protocol="finetune", **NTU)
    made.run("slim", 0.4, protocol="supervised", **NTU)
    made.run("mamp", 0.7, protocol="finetune@mamp", **NTU)
    made.run("mamp", 0.9, protocol="linear", **NTU)
    table = built(made, "finetune")
    found = {
        key[0]: [row[name].value for name in ("supervised", "finetune", "finetune@mamp")]
        for key, row in rows(table).items()
    }
    assert found == {"mamp": [None, None, 70.0], "slim": [40.0, 60.0, None]}


def test_few_labels_stand_above_what_papers_print(made):
    right_DC = np.random.default_rng(0).random((5, 40)) < 0.6
    made.run("slim", right_DC, protocol="semi@1", drawn="label subsets", **NTU)
    made.run("slim", 0.8, protocol="semi@10@mamp", **NTU)
    table = built(made, "semi")
    assert [column.header for column in table.columns if column.key.startswith("semi@")] == [
        "1 %",
        "10 %",
        "10 %, mamp",
    ]
    found = rows(table)
    ours, paper = found["slim", False], found["SLiM", True]
    assert (
        ours["semi@1"].value == pytest.approx(100 * right_DC.mean())
        and ours["semi@1"].plus_minus_over == "5 label subsets"
    )
    assert (paper["semi@10"].value, paper["semi@10@mamp"].value) == (88.8, None)
    assert paper["semi@10"].published and paper["semi@10"].mark is None
    order = [row["method"].value for row in table.rows]
    assert order[order.index("slim") + 1] == "SLiM"
    assert {row["split"].value for row in table.rows} == {"cross-subject"}


def test_conditions_are_columns_with_their_spread_over_draws(made):
    name = made.run("slim", 0.9, protocol="robustness", **NTU)
    measure(made, name, "robustness", {"accuracy_missing_0.2": 0.8, "accuracy_missing_0.2_sd": 0.01})
    for seed, share in enumerate((0.5, 0.7)):
        other = made.run("mamp", 0.9, protocol="robustness", seed=seed, **NTU)
        measure(made, other, "robustness", {"accuracy_missing_0.2": share, "accuracy_missing_0.2_sd": 0.01})
    table = built(made, "robustness")
    found = rows(table)
    cell = found["slim", False]["missing_0.2"]
    assert (cell.value, cell.plus_minus) == (
        pytest.approx(80),
        pytest.approx(1),
    ) and "standard deviation" in table.footnotes["sd"]
    several = found["mamp", False]["missing_0.2"]
    assert several.value == pytest.approx(60) and several.plus_minus_over == "2 seeds" and not several.footnotes
    paper = found["SLiM", True]
    assert (paper["clean"].value, paper["missing_0.12"].value, paper["missing_0.12"].plus_minus) == (87.9, 87.86, 0.06)


def test_significance_gives_every_accuracy_letters_of_its_own(made):
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
    assert gone == {"slim": "a", "mamp": "b", "gfp": "b", "dino": ""}
    keys = [column.key for column in table.columns]
    assert keys[keys.index("missing_0.2") + 1] == "missing_0.2_letters" and "missing_0.12_letters" not in keys
    assert any("Clean: 200 test clips" in note for note in table.notes)
    assert sum("test clips" in note and "Missing" in note for note in table.notes) == 0, "a sentence per headline"


def test_figures_that_are_no_accuracy_have_no_letters(made):
    for title in ("slim", "mamp"):
        name = made.run(title, 0.6, protocol="retrieval", knn=None)
        measure(made, name, "retrieval", {"map": 0.5})
    keys = [column.key for column in built(made, "retrieval", significance=True).columns]
    assert "accuracy_letters" in keys and "map" in keys and "map_letters" not in keys


def test_degraded_training_is_of_two_methods_and_either_protocol(made):
    for title, share in (("slim", 0.6), ("slim:degraded", 0.7), ("mamp", 0.9)):
        name = made.run(title, 0.9, protocol="missing-representation", **NTU)
        measure(made, name, "missing-representation", {"accuracy_zero-fill_0.2": share})
    found = rows(built(made, "degraded-pretraining"))
    assert found.keys() == {("slim", False), ("slim:degraded", False), ("SLiM", True), ("SLiM:degraded", True)}
    assert found["slim:degraded", False]["zero-fill_0.2"].value == pytest.approx(70)
    assert found["SLiM:degraded", True]["clean"].value == 83.86


def test_nearest_neighbours_by_either_protocol(made):
    made.run("slim", 0.9, protocol="linear", **NTU | {"knn": 0.5})
    name = made.run("mamp", 0.6, protocol="retrieval", **NTU)
    measure(made, name, "retrieval", {"map": 0.3})
    found = rows(built(made, "retrieval"))
    assert (found["slim", False]["accuracy"].value, found["mamp", False]["accuracy"].value) == (50, 60)
    assert (found["slim", False]["map"].value, found["mamp", False]["map"].value) == (None, 30)
    assert found["UmURL", True]["stream"].value == "joint + bone + motion"


@pytest.mark.parametrize(("name", "figures"), list(PRINTED.items()))
def test_without_runs_it_shows_every_published_figure(made, name, figures):
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


def test_the_command_says_what_fills_it(tmp_path, capsys):
    assert main(["compare", "--table", "finetune", "--results", str(tmp_path)]) == 0
    assert "skelbench eval RUN --protocol finetune,supervised" in " ".join(capsys.readouterr().out.split())


def test_coordinates_without_a_network_compete_with_the_encoders_of_every_block(made):
    """Whatever is ahead is marked, and letters say from whom it is not told apart."""
    for epochs, preset in ((9, "small"), (3, "quick")):
        made.run("slim", np.arange(400) < 200, protocol="retrieval", preset=preset, epochs=epochs, knn=None)
    made.run("raw", np.arange(400) < 300, protocol="retrieval", preset="quick", encoder="raw", knn=None)
    table = built(made, "retrieval", significance=True)
    found = {(row["method"].value, row["preset"].value): row for row in table.rows if not row["method"].published}
    assert found.keys() == {(method, preset) for method in ("slim", "raw") for preset in ("small", "quick")}
    for (method, _), row in found.items():
        assert row["accuracy"].mark == ("best" if method == "raw" else "second")
        assert row["accuracy_letters"].value == ("a" if method == "raw" else "b")
