"""The report as text: what it says of made-up results, and that no name in it is more than words."""

import json
import re

import numpy as np
import pytest
from fabricated import Fabricated, correct
from hostile import EVIL, edit

from skelbench.core.errors import SkelbenchError
from skelbench.plugin.host import Host
from skelbench.records.store import ResultStore
from skelbench.reporting.filters import Filters
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.linear import table as linear
from skelbench.reporting.page import tables
from skelbench.reporting.page.build import build
from skelbench.reporting.page.charts import charts, curves, thinned
from skelbench.reporting.page.provenance import Provenance
from skelbench.reporting.page.summary import sentences
from skelbench.reporting.page.tables import uncounted
from skelbench.reporting.page.text import data
from skelbench.reporting.table import Cell

TABLES = ("linear", "semi", "target-control")


def inputs_of(root, **options):
    return TableInputs(Host(), ResultStore(root), **options)


@pytest.fixture(scope="module")
def page(hostile):
    inputs = inputs_of(hostile / "results")
    inputs.data_root = hostile / "data"
    return build(inputs, names=TABLES)


@pytest.fixture(scope="module")
def held(page):
    """The data that the page's script reads."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])


def text_of(page):
    """What a reader sees, without scripts and styles."""
    page = re.sub(r"<(script|style).*?</\1>", "", page, flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", page))


def test_a_figure_of_another_split_is_said_to_be_one(tmp_path):
    Fabricated(tmp_path).run("slim:cl-only", 0.9, dataset="ntu60", preset="ablation")
    found = text_of(build(inputs_of(tmp_path), names=("objective",)))
    assert found.count("another split, so not to be compared: printed for ntu60 xsub, ours is of ntu60 cross-view") == 1


def test_no_name_ends_an_element_or_starts_one(page):
    assert page.count("<script") == 3 and page.count("</script>") == 3
    assert "alert(1)" in page and not re.search(r"<\s*img|<script>alert", page)
    assert not re.search("[\u2028\u2029\u202e]", page)


def test_a_page_names_no_address_and_a_policy_forbids_every_other(page):
    outside = re.sub(r'<script type="text/plain" id="plotly">.*?</script>', "", page, flags=re.S)
    assert re.findall(r'(?:src|href)="(?!#)[^"]*', outside) == []
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1].replace("&#39;", "'")
    rules = dict(part.split(" ", 1) for part in policy.split("; "))
    assert rules["default-src"] == rules["connect-src"] == rules["form-action"] == rules["base-uri"] == "'none'"
    assert re.fullmatch(r"'sha256-\S+' 'sha256-\S+'", rules["script-src"]) and "unsafe" not in rules["script-src"]


def test_the_summary_says_who_leads_and_what_went_wrong(page):
    text = text_of(page).replace("&#39;", "'")
    said = "5 runs of 5 methods and variants and 1 of controls, on 1 data set (evil), 1 seed: 5 done, 1 failed"
    assert said in text
    assert "slim (8x25+1) leads with" in text and "paired tests tell the two apart" in text
    assert "ibot (seed 0) collapsed: features at masked positions, effective rank 1.12" in text
    assert "amr (seed 0) failed" in text and "Not the paper's training" in text
    assert "1 folder has files that are damaged" in text
    assert "1 run was made or evaluated with changed settings and left out of the tables" in text


def test_every_number_of_a_table_leads_to_its_runs_and_says_which_figure_it_is(page, held):
    row = re.search(
        r'<tr class="row ours" data-runs="(\d+)">(?:(?!</tr>).)*?>slim<(?:(?!</tr>).)*>last<.*?</tr>', page, re.S
    )
    run = held["runs"][int(row[1])]
    assert run["title"] == "slim" and run["fingerprint"] and run["spec"]["data"]["name"] == "evil"
    (shown, recorded) = re.search(r'data-k="accuracy" data-v="([\d.]+)" data-o="([^"]*)"', row[0]).groups()
    (probe,) = [one for one in run["evaluations"] if one["protocol"] == "linear" and one["checkpoint"] == "last"]
    assert float(shown) == pytest.approx(100 * probe["metrics"]["accuracy"]) and recorded.startswith("linear accuracy")
    assert 'data-k="knn" data-v="40.0" data-o="knn accuracy (in percent)"' in row[0]
    assert 'data-k="clips_seen" data-v="40000.0" data-o="clips_seen of run.json"' in row[0]


def test_what_no_record_holds_is_not_said_to_be_recorded(tmp_path):
    root = tmp_path / "r"
    name = Fabricated(root).run("slim", correct(0.5, 400))
    known = Provenance(ResultStore(root).read())
    from skelbench.reporting.table import Cell

    assert known.origin(known.places(name), "accuracy", Cell(50.0)) == "linear accuracy (in percent)"
    assert known.origin(known.places(name), "difference", Cell(12.34)) == ""
    assert known.origin([], "accuracy", Cell(50.0)) == "" == known.origin([0], "paper", Cell(50.0, published=True))


def test_figures_hold_every_setting_every_curve_and_the_confusion(held):
    charts = held["charts"]
    final = {(one["title"], one["protocol"]): one for one in charts["points"] if one["checkpoint"] == "last"}
    assert final["slim", "linear"]["gflops"] == pytest.approx(0.1) and final["slim", "linear"]["clips"] == 40_000
    assert final["slim", "linear"]["pflops"] == pytest.approx(1e-6 * 2 * 40 * 40_000)
    (kept,) = [one for one in charts["points"] if one["checkpoint"] != "last"]
    assert kept["checkpoint"] == "12.5" and kept["clips"] == pytest.approx(40_000 * 12.5 / 150, rel=1e-5)
    (curve,) = [one for one in charts["curves"] if one["title"].startswith("mamp")]
    x, y = curve["lines"]["loss"]
    assert len(x) == len(y) <= 300 and (x[0], y[0]) == (32, 3.0) and x[-1] == 32 * 1200
    first = charts["confusion"][0]
    assert "slim" in first["title"] and len(first["share"]) == 4 and "alert(1)" in first["names"][0]
    assert all(sum(line) == pytest.approx(100, abs=0.5) for line in first["share"])


def test_a_line_over_training_goes_through_the_same_runs_at_every_point(tmp_path):
    made = Fabricated(tmp_path)
    names = [made.run("slim", right, seed=seed, knn=None) for seed, right in enumerate((0.8, 0.4))]
    made.run("slim", 0.6, checkpoint="75", knn=None)
    inputs = inputs_of(tmp_path)
    found = charts(inputs, known := Provenance(inputs.stored))["ways"]
    assert [(one["clips"], one["accuracy"]) for one in found] == [(20_000, 60), (40_000, 80)]
    assert {tuple(one["runs"]) for one in found} == {tuple(known.places(names[0]))}
    assert {(one["way"], one["name"]) for one in found} == {(0, "slim 8x25+1, seed 0")}


def test_tables_that_only_papers_fill_are_folded_away(page):
    own, printed = page.split("Published figures that no run stands beside")
    assert 'id="table-linear" open' in own and 'id="table-semi">' in printed
    assert 'id="table-target-control"' not in page  # without rows


def test_only_a_pair_that_was_tested_is_said_to_be_alike(tmp_path):
    made = Fabricated(tmp_path)
    for method, share, seeds in (("slim", 0.9, (0, 1)), ("mamp", 0.2, (2, 3)), ("gfp", 0.1, (0, 3))):
        for seed in seeds:
            made.run(method, share, seed=seed)
    made.run("untrained", 0.1)
    inputs = inputs_of(tmp_path, significance=True)
    (lead,) = [one.text for one in sentences(inputs.runs, linear(inputs), 0, 0) if " leads " in one.text]
    assert "before mamp (8x25+1) with 20.0 %; the two were not tested against each other" in lead
    assert "not an untrained encoder of every seed to compare it with" in lead


def test_a_count_is_not_taken_for_a_figure_of_the_same_value(tmp_path):
    made = Fabricated(tmp_path)
    name = made.run("slim", 1.0)
    for path in (made.root / name).glob("eval-*.json"):
        record = json.loads(path.read_text())
        path.write_text(json.dumps(record | {"metrics": record["metrics"] | {"train_accuracy": 1.0}}))
    known = Provenance(inputs_of(tmp_path).runs)
    assert known.origin([0], "seeds", Cell(1)) == known.origin([0], "against_p", Cell(1.0)) == ""
    assert known.origin([0], "train_accuracy", Cell(1.0)) == "linear train_accuracy"


def test_an_evaluation_with_changed_settings_is_left_out_and_that_is_said(tmp_path):
    made = Fabricated(tmp_path)
    name = made.run("slim", 0.9)
    path = next(path for path in (made.root / name).glob("eval-*.json") if '"linear"' in path.read_text())
    path.write_text(json.dumps(json.loads(path.read_text()) | {"standard": False}))
    inputs = inputs_of(tmp_path)
    table = linear(inputs)
    assert inputs.left_out == 1 and not table.rows and "Without a linear probe" not in " ".join(table.notes)


def test_runs_without_a_linear_probe_are_named(tmp_path):
    made = Fabricated(tmp_path)
    made.run("mamp", 0.5)
    made.run("slim", 0.9, protocol="knn", knn=None)
    assert "Without a linear probe and left out: slim-moves" in linear(inputs_of(tmp_path)).notes[-1]


def test_training_curves_are_of_the_runs_that_tables_show(tmp_path):
    made = Fabricated(tmp_path)
    lines = [{"step": step, "epoch": 1.0, "clips_seen": 16 * step, "loss": 1 / step} for step in (1, 2)]
    made.run("slim", 0.5, metrics=lines)
    made.run("mamp", 0.5, metrics=lines, modified={"train.lr": 1})
    for exact, blocks in ((True, {"slim": "small"}), (False, {"slim": "small", "mamp": "small+"})):
        inputs = inputs_of(tmp_path, exact_only=exact)
        found = {one["method"]: one["block"] for one in curves(inputs, Provenance(inputs.runs))}
        assert found == {method: f"moves cross-view, {preset}" for method, preset in blocks.items()}


def test_runs_that_one_table_shows_are_left_out_of_the_others_and_that_is_said(tmp_path):
    made = Fabricated(tmp_path)
    made.run("slim", 0.6, protocol="retrieval")
    for changed in ({"train.epochs": 3}, {"train.lr": 1}):
        made.run("slim", 0.5, modified=changed)
    inputs = inputs_of(tmp_path)
    text = text_of(build(inputs, names=["scaling", "retrieval"]))
    said = "2 runs were made or evaluated with changed settings and left out of the tables, but for 1 in table"
    assert f"{said} scaling; --all adds." in text and inputs.left_out == 2
    after = tables.build(inputs, ["scaling", "semi"]).tables["semi"]
    assert any("Left out: 2 runs with settings changed" in note for note in after.notes)


def test_the_page_tests_no_pairs_for_every_column(tmp_path):
    made = Fabricated(tmp_path / "results")
    for title in ("slim", "mamp"):
        made.run(title, 0.6, protocol="retrieval")
    inputs = TableInputs(Host(), made.store, significance=True)
    built = tables.build(inputs, ["retrieval", "linear", "token-budget"])
    keys = {name: [column.key for column in table.columns] for name, table in built.tables.items()}
    assert not any("letters" in key for key in keys["retrieval"]) and inputs.significance


def test_a_table_that_fails_takes_nothing_with_it(hostile, monkeypatch):
    def broken(inputs):
        raise RuntimeError(f"broken {EVIL}")

    monkeypatch.setattr("skelbench.reporting.linear.table", broken)
    text = build(inputs_of(hostile / "results"), names=TABLES)
    assert "Table linear could not be made: RuntimeError: broken &lt;/script&gt;" in text


def test_a_page_of_some_runs_is_about_these_alone(hostile):
    text = text_of(build(inputs_of(hostile / "results", filters=Filters(method=("mamp",))), names=["linear", "semi"]))
    assert "of 1 runs" in text and "only method mamp" in text and "1 run of 1 method or variant" in text
    assert "1 folder has files that are damaged" in text and "slim" not in text.partition("Published figures")[0]
    with pytest.raises(SkelbenchError, match="no run in .* is of method dino, preset small"):
        build(inputs_of(hostile / "results", filters=Filters(method=("dino",), preset=("small",))), names=["linear"])


def test_a_run_on_other_data_than_it_is_tested_on_is_there_for_both(tmp_path):
    made = Fabricated(tmp_path)
    name = made.run("slim", correct(0.5, 400), knn=None)
    (record,) = (tmp_path / name).glob("eval-*.json")
    spec = json.loads(record.read_text())["spec"]
    edit(record, spec=spec | {"data": spec["data"] | {"name": "pku2"}})
    text = build(inputs_of(tmp_path, filters=Filters(dataset=("pku2",))), names=["linear"])
    assert "pku2 (from moves" in text and 'class="row ours" data-runs="0"' in text


def test_a_pair_tested_on_other_clips_is_left_out_and_said(tmp_path):
    made = Fabricated(tmp_path)
    for title, first in (("slim", 0), ("untrained", 1), ("mamp", 2)):
        made.run(title, correct(0.5, 400), ids=np.arange(first, first + 400), knn=None)
    text = text_of(build(inputs_of(tmp_path), names=["linear"]))
    assert "could not be made" not in text and "3 pairs have no seed or not the same test clips in common" in text


def test_where_a_run_comes_from_and_which_suite_it_is_of(tmp_path):
    root = tmp_path / "r"
    name = Fabricated(root).run("slim", correct(0.5, 400))
    where = {"file": f"{EVIL}.zip", "sha256": "a" * 64, "at": 0.0}
    edit(root / name / "run.json", added=where, suites={"skeleton-v1": "b" * 16})
    (run,) = Provenance(ResultStore(root).read()).runs
    assert "sha256 aaaaaaaaaaaa" in run["added"] and run["suites"] == {"skeleton-v1": "b" * 16}
    assert "elsewhere, from " in text_of(build(inputs_of(root), names=["linear"]))


def test_tables_that_count_models_are_made_only_when_named(hostile, monkeypatch):
    monkeypatch.setattr("skelbench.reporting.flops.table", lambda inputs: 1 / 0)
    host = Host()
    assert uncounted(host) == ["flops", "flops-detail"]
    built = tables.build(inputs_of(hostile / "results"))
    assert {"linear", "semi"} <= built.tables.keys() and not built.tables.keys() & set(uncounted(host))
    assert "flops" in tables.build(inputs_of(hostile / "results"), ["flops"]).failed  # it was begun


def test_an_empty_store_is_a_sentence_and_no_page(tmp_path):
    with pytest.raises(SkelbenchError, match="no runs in .* so there is nothing to report; start with: skelbench run"):
        build(inputs_of(tmp_path / "none"))


@pytest.mark.parametrize("share, said", [(0.55, "do not tell the two apart"), (1.0, "tell the two apart")])
def test_a_lead_is_shown_or_not(tmp_path, share, said):
    made = Fabricated(tmp_path)
    made.run("slim", correct(share, 400))
    made.run("mamp", correct(0.5, 400, shift=200))
    inputs = inputs_of(tmp_path)
    inputs.significance = True
    (lead,) = [one for one in sentences(inputs.runs, linear(inputs), 0, 0) if "leads" in one.text]
    assert f"paired tests {said}" in lead.text and "no untrained encoder to compare it with" in lead.text
    assert [name.split("-")[0] for name in lead.runs] == ["slim"]


def told(root, **options):
    """The sentences on who leads, without those on presets."""
    inputs = inputs_of(root, **options)
    inputs.significance = True
    return [one.text for one in sentences([], linear(inputs), 0, 0)[1:]]


def test_machines_and_changed_settings_are_named_and_make_no_block_of_their_own(tmp_path):
    made = Fabricated(tmp_path)
    made.run("slim", correct(0.5, 400), hardware="cpu x2")
    made.run("mamp", correct(0.6, 400), hardware="H100 x1")
    made.run("gfp", correct(0.7, 400), hardware="cpu x2", modified={"train.epochs": 9})
    (said,) = told(tmp_path)
    assert "cross-view, preset small: mamp (8x25+1, H100 x1) leads with 60.0 %, before slim (8x25+1, cpu x2)" in said
    (said,) = told(tmp_path, exact_only=False)
    assert "preset small: gfp (8x25+1, train.epochs=9, cpu x2) leads with 70.0 %, before mamp (8x25+1, H100 x1)" in said


def test_versions_of_the_data_are_not_compared(tmp_path):
    made = Fabricated(tmp_path)
    for title, version in (("slim", "a"), ("mamp", "b")):
        made.run(title, correct(0.5, 400), fingerprint=64 * version)
    said = told(tmp_path)
    assert len(said) == 2 and all("alone in its block" in one for one in said)
    assert {one.partition(",")[0] for one in said} == {f"moves cross-view (data {12 * one})" for one in "ab"}


def test_no_neighbour_is_ahead_where_no_method_was_compared_by_one(tmp_path):
    made = Fabricated(tmp_path)
    made.run("slim", correct(0.7, 400), knn=None)
    made.run("raw", correct(0.5, 400), knn=0.45)
    (said,) = told(tmp_path)
    assert "slim" in said and "neighbour" not in said
    made.run("mamp", correct(0.6, 400), knn=0.4)
    assert "By the nearest neighbour alone the control raw" in told(tmp_path)[0]


def test_finished_trainings_come_first_and_snapshots_are_called_so(tmp_path):
    made = Fabricated(tmp_path)
    made.run("slim", correct(0.7, 400), checkpoint="14.65")
    made.run("slim", correct(0.8, 400))
    finished, snapshot = told(tmp_path)
    assert finished.startswith("moves cross-view, preset small: slim")
    assert snapshot.startswith("moves cross-view, preset small, snapshot at epoch 14.65: slim")


def test_thinned_lines_keep_their_ends_and_extremes():
    y = np.sin(np.arange(10_000) / 7.0)
    y[4321], y[5000:5100] = 9.0, np.nan
    kept = thinned(y, 200)
    assert len(kept) <= 200 and {0, 4321, 9999} <= set(kept.tolist()) and (np.diff(kept) > 0).all()


def test_json_in_a_page_is_ascii_without_angles_and_reads_back():
    nasty = {"</script>": ["<!--", float("nan"), {"x": "a\u2028b"}], "n": 1.5}
    text = data(nasty)
    assert text.isascii() and "<" not in text
    assert json.loads(text) == {"</script>": ["<!--", None, {"x": "a\ufffdb"}], "n": 1.5}
