"""Tables of studies from a made results directory: which runs fill a row, and what stands beside it."""

import itertools
import re
from functools import cache

import numpy as np
import pytest
from fabricated import COLLAPSE, Fabricated

from skelbench.core.errors import SkelbenchError
from skelbench.evaluation.stats.paired import holm
from skelbench.plugin.host import Host
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.render import render
from skelbench.reporting.study_rows import announced

ABLATIONS = ("objective", "stm", "saa", "centring", "batch")
STUDIES = ("token-budget", "target-control", *ABLATIONS)


@pytest.fixture
def made(tmp_path):
    return Fabricated(tmp_path / "results")


@cache
def shipped():
    return Host()


def table(made, name, host=None, **inputs):
    host = host or shipped()
    return host.load(host.get("tables", name))(TableInputs(host, made.store, **inputs))


def by(built, *keys):
    """Rows by the values of columns."""
    names = built.values(keys[0]) if len(keys) == 1 else zip(*map(built.values, keys))
    return dict(zip(names, built.rows))


def said(built):
    return " ".join(built.notes)


# ------------------------------------------------------------------------------------------------ what fills a row
def test_only_the_exact_preset_and_variant_fill_a_row(made):
    """Better runs that lie around, with other settings, grids, probes, epochs or outcomes, change nothing."""
    made.run("slim", 0.5)
    made.run("slim:mfp-only", 0.4)
    alone = by(table(made, "objective"), "title")
    made.run("slim", 0.99, modified={"train.epochs": 400})
    made.run("slim:mfp-only", 0.99, seed=1, modified={"method.momentum": 0.9})
    made.run("slim:mfp-only", 0.99, seed=2, standard=False)
    made.run("slim:mfp-only", 0.99, seed=3, checkpoint="50")
    made.run("slim:mfp-only", 0.99, seed=4, outcome="interrupted")
    made.run("slim:mfp-only", 0.99, seed=5, setting="native")
    made.run("slim:mfp-only", 0.99, seed=6, tokens=30)
    built = table(made, "objective")
    again = by(built, "title", "frames", "patch")
    for title, row in alone.items():
        assert again[title, 64, 8] == row
    assert again["slim:mfp-only", 120, 4]["accuracy"].value == pytest.approx(100 * round(0.99 * 40) / 40)
    assert {row["seeds"].value for row in built.rows} == {1, None}


def test_all_shows_changed_runs_as_further_rows(made):
    made.run("slim", 0.5)
    made.run("slim:mfp-only", 0.4)
    for seed in (0, 1):
        made.run("slim:mfp-only", 0.9, seed=seed, modified={"train.epochs": 3})
    exact, everything = table(made, "objective"), table(made, "objective", exact_only=False)
    assert len(exact.rows) == 5 and len(everything.rows) == 6
    further = everything.rows[-1]
    assert further["changed"].value == "train.epochs=3" and further["preset"].value == "small+"
    assert further["seeds"].value == 2 and further["mfp"].value == "slim:mfp-only"
    assert further["paper_xsub"].value is None and further["p_value"].value is None
    assert further["accuracy"].mark is None and further["knn"].value == pytest.approx(40)
    for before, after in zip(exact.rows, everything.rows, strict=False):
        assert before["accuracy"] == after["accuracy"] and before["p_value"] == after["p_value"]
    assert "| Changed settings |" in render(everything, "md") and "Changed settings" not in render(exact, "md")


def test_a_study_with_changed_settings_is_a_block_of_its_own(made):
    shorter = {"modified": {"train.epochs": 3}}
    for seed in (0, 1):
        made.run("slim", 0.5, seed=seed, **shorter)
        made.run("slim:mfp-only", 0.4, seed=seed, **shorter)
    made.run("slim:mfp-only", 0.9, modified={"train.epochs": 4})
    assert not table(made, "objective").rows
    rows = by(table(made, "objective", exact_only=False), "title")
    assert set(rows) == {"slim", "slim:mfp-only"}
    assert {row["changed"].value for row in rows.values()} == {"train.epochs=3"}
    assert rows["slim:mfp-only"]["difference"].value == pytest.approx(-10)
    assert rows["slim:mfp-only"]["p_value"].value is not None and rows["slim"]["accuracy"].mark == "best"


def test_blocks_are_ranked_and_tested_apart(made):
    blocks = ({}, {"split": "cross-subject"}, {"preset": "ablation"}, {"hardware": "H200"}, {"protocol": "linear@slim"})
    for place, block in enumerate(blocks):
        made.run("slim", 0.5 + place / 20, seed=place, **block)
        made.run("slim:mfp-only", 0.4, seed=place, **block)
    built = table(made, "objective")
    assert len(built.rows) == 22  # rows without a run once for the same trainings, not for each probe
    marks = [row["accuracy"].mark for row in built.rows if row["accuracy"].value is not None]
    assert marks == ["second", "best"] * 5
    assert {"split", "preset", "hardware", "protocol"} <= {column.key for column in built.shown}
    assert "dataset moves" in said(built) and "preset small" not in said(built)


def test_runs_of_an_older_version_are_left_out_and_named(made):
    old = made.run("slim:mfp-only", 0.9, version=1, finished=1.0)
    new = made.run("slim:mfp-only", 0.4, version=2, finished=2.0)
    made.run("slim", 0.5)
    built = table(made, "objective")
    row = by(built, "title")["slim:mfp-only"]
    assert row["run"].value == new and row["accuracy"].value == pytest.approx(40)
    assert f"Left out, because later runs of the same rows differ in more than the seed: {old}." in built.notes


def test_published_accuracies_stand_beside_their_own_data_set_alone(made):
    for dataset in ("mini", "ntu60"):
        for title in ("slim", "slim:mfp-only"):
            made.run(title, dataset=dataset)
    rows = by(table(made, "objective"), "title", "dataset")
    assert rows["slim", "mini"]["paper_xsub"].value is None and rows["slim", "ntu60"]["paper_xsub"].value == 87.7
    mini = Fabricated(made.root / "mini")
    for title in ("slim", "slim:mfp-only"):
        mini.run(title, dataset="mini")
    assert not [column for column in table(mini, "objective").shown if column.published]


# ------------------------------------------------------------------------------------------------ tests between rows
def test_rows_are_tested_clip_by_clip_against_the_full_method(made):
    """Against every sign flip of the test clips' differences, averaged over seeds; Holm over the rows."""
    rng = np.random.default_rng(0)
    shares = (("slim:mfp-only", 0.4), ("slim:glcl-only", 0.2), ("slim", 0.9))
    right = {title: rng.random((2, 12)) < share for title, share in shares}
    for title, right_SC in right.items():
        for seed, right_C in enumerate(right_SC):
            made.run(title, right_C, seed=seed, knn=None)
    rows = by(table(made, "objective"), "title")
    ps = []
    for title in ("slim:glcl-only", "slim:mfp-only"):
        d_C = (right[title].astype(int) - right["slim"]).mean(0)
        flips = np.array(list(itertools.product((-1, 1), repeat=12))) @ d_C
        ps.append(np.mean(np.abs(flips) >= abs(d_C.sum()) - 1e-9))
        cell = rows[title]["difference"]
        assert cell.value == pytest.approx(100 * d_C.mean())
        assert cell.interval[0] < cell.value < cell.interval[1] and not cell.footnotes
    adjusted = [rows[title]["p_value"].value for title in ("slim:glcl-only", "slim:mfp-only")]
    assert adjusted == pytest.approx(list(holm(ps))) and 0 < min(adjusted) < 0.05
    assert rows["slim"]["difference"].value is None and rows["slim"]["p_value"].value is None


def test_differences_are_over_shared_seeds(made):
    for seed, right in ((0, 0.5), (1, 0.9)):
        made.run("slim", right, seed=seed)
    made.run("slim:mfp-only", 0.4, seed=0)
    made.run("slim:cl-only", 0.4, seed=3)
    built = table(made, "objective")
    rows = by(built, "title")
    assert rows["slim:mfp-only"]["difference"].value == pytest.approx(-10)  # of seed 0, not 40 - 70
    assert rows["slim:mfp-only"]["difference"].footnotes == ("shared",) and "shared" in built.footnotes
    assert rows["slim:cl-only"]["difference"].value is None


def test_a_row_no_better_than_untrained_is_marked(made):
    for seed in (0, 1):
        made.run("untrained", 0.5, seed=seed)
        made.run("slim", 0.9, seed=seed)
        made.run("slim:mfp-only", (0.9, 0.55)[seed], seed=seed)  # one seed of two is not enough
    made.run("slim:glcl-only", 0.9, seed=3)
    rows = by(table(made, "objective"), "title")
    assert rows["slim"]["control"].value == pytest.approx(40) and not rows["slim"]["control"].footnotes
    assert rows["slim:mfp-only"]["control"].footnotes == ("untrained",)
    assert rows["slim:glcl-only"]["control"].value is None and not rows["slim:glcl-only"]["control"].footnotes


# ------------------------------------------------------------------------------------------------ empty and missing
@pytest.mark.parametrize("name", STUDIES)
def test_an_empty_store_says_what_to_run(made, name):
    assert f"`skelbench study {name}`" in " ".join(render(table(made, name)).split())
    made.run("untrained")
    made.run("slim", checkpoint="50")
    assert table(made, name).rows == ()


def test_missing_rows_are_shown_with_what_the_paper_says(made):
    made.run("slim:rotation-none", 0.4, dataset="ntu60")
    built = table(made, "saa")
    assert [row["paper_xsub"].value for row in built.rows] == [81.6, 84.8, 85.3, 85.9, 84.4, 86.4, 87.7]
    assert [row["paper_xview"].value for row in built.rows] == [86.9, 89.9, 90.6, 91.0, 90.0, 91.7, 92.7]
    assert [row["accuracy"].value is None for row in built.rows] == [False] + [True] * 6
    assert "No run yet: slim:rotation-limited, slim:mirroring-none" in said(built) and "study saa`" in said(built)


@pytest.mark.parametrize("name", ABLATIONS)
def test_every_variant_has_its_row(made, name):
    """The variants of a table are SLiM's own, one row each, and the full method comes last."""
    variants = {row.variant for row in _rows(name)}
    assert variants - {""} <= set(shipped().get("methods", "slim").variants)
    for place, variant in enumerate(sorted(variants)):
        made.run(f"slim:{variant}" if variant else "slim", 0.3 + place / 20)
    built = table(made, name)
    assert all(row["accuracy"].value is not None for row in built.rows) and "No run yet" not in said(built)
    assert built.rows[-1]["title"].value == "slim" and len(built.rows) == len(variants)
    assert sum(row["p_value"].value is not None for row in built.rows) == len(variants) - 1


def _rows(name):
    return shipped().load(shipped().get("tables", name)).rows


def test_every_ablation_of_the_method_is_in_a_table():
    targets = shipped().load(shipped().get("rows", "slim-target-control"))
    shown = {row.variant for name in ABLATIONS for row in _rows(name)} | {row.variant for row in targets}
    told_by_robustness = {"degraded"}  # a protocol with a figure per corruption
    assert (shown - {""}) | told_by_robustness == set(shipped().get("methods", "slim").variants)


def test_studies_run_what_their_tables_show():
    for name in STUDIES:
        study = shipped().load(shipped().get("studies", name))
        methods = set(study.grid["method"]) | {trial["method"] for trial in study.trials}
        if name in ABLATIONS:
            assert methods == {row.title for row in _rows(name)}


# ------------------------------------------------------------------------------------------------ target control
def log(start, end, rank_end, lines=100):
    """A loss that falls, ranks every tenth line."""
    losses = np.geomspace(start, end, lines)
    return [
        {"step": i + 1, "epoch": float(i), "clips_seen": 16 * (i + 1), "mfp": float(loss)}
        | ({"rank_masked": 30.0 if i < 90 else rank_end, "rank_pooled": 12.0} if i % 10 == 0 else {})
        for i, loss in enumerate(losses)
    ]


def test_four_targets_in_the_papers_order_with_their_curves(made):
    for seed, end in enumerate((1e-5, 3e-5)):
        logged = log(0.3, end, 1.1 + seed / 10)
        made.run("slim:target-features", 0.4, seed=seed, metrics=logged, collapse=[COLLAPSE] * seed, dataset="ntu60")
    made.run("slim:target-coordinates", 0.4, dataset="ntu60")
    made.run("slim", 0.8, metrics=log(6.0, 3.0, 20.0), dataset="ntu60")
    built = table(made, "target-control")
    assert [tuple(row[key].value for key in ("target", "loss", "module")) for row in built.rows] == [
        ("coordinates", "MSE", "decoder"),
        ("features", "MSE", "none"),
        ("features + head", "MSE", "predictor"),
        ("prototypes", "CE", "none"),
    ]
    row = built.rows[1]
    first, last = np.geomspace(0.3, 1e-5, 100), np.geomspace(0.3, 3e-5, 100)
    start, end = (np.mean([first[part].mean(), last[part].mean()]) for part in (slice(2), slice(-5, None)))
    assert row["loss_start"].value == pytest.approx(start) and row["loss_end"].value == pytest.approx(end)
    assert row["loss_fall"].value == pytest.approx(start / end)
    assert row["rank_start"].value == 30 and row["rank_end"].value == pytest.approx(1.15)
    assert row["rank_end"].plus_minus == pytest.approx(12.7062 * 0.05, rel=1e-4) and row["loss_end"].plus_minus > 0
    assert row["rank_encoder"].value == 12 and built.rows[3]["rank_end"].plus_minus is None
    assert row["rank_end"].footnotes == ("collapse",) and not built.rows[3]["rank_end"].footnotes
    assert row["collapse"].value == "seed 1: features at masked positions, effective rank 1.12 since step 300"
    assert built.rows[3]["collapse"].value is None
    assert built.rows[0]["loss_start"].value is None  # nothing was logged
    assert [row["paper_mean"].value for row in built.rows] == [86.96, 86.92, 87.59, 90.17]
    assert built.rows[3]["paper_xsub"].plus_minus == 0.11
    assert "loss 0.313 to 3.3e-05 (about 9,500 times), rank 1.12" in said(built)


# ------------------------------------------------------------------------------------------------ token budget
def test_token_budgets_are_compared_with_a_methods_own_dense_row(made):
    for method, rights in (("mamp", (0.5, 0.6, 0.8)), ("slim", (0.9, 0.9, 0.9))):
        for tokens, right in zip((8, 15, 30), rights, strict=True):
            made.run(method, right, tokens=tokens)
    made.run("slim:half-batch", 0.7)
    built = table(made, "token-budget")
    rows = by(built, "method", "frames", "patch")
    assert [(row["method"].value, row["tokens"].value) for row in built.rows] == [
        *(("skeletonmae", f"{tokens}x25+1") for tokens in (8, 15, 30)),
        *(("mamp", f"{tokens}x25+1") for tokens in (8, 15, 30)),
        ("sjepa", "30x25+1"),
        ("gfp", "30x25+1"),
        ("slim:half-batch", "8x25+1"),
        *(("slim", f"{tokens}x25+1") for tokens in (8, 15, 30)),
    ]
    assert rows["mamp", 64, 8]["difference"].value == pytest.approx(-30)
    assert rows["mamp", 120, 8]["difference"].value == pytest.approx(-20)
    assert rows["slim", 64, 8]["p_value"].value == 1 and rows["mamp", 64, 8]["p_value"].value < 0.05
    for empty in (("mamp", 120, 4), ("slim:half-batch", 64, 8), ("skeletonmae", 64, 8)):
        assert rows[empty]["difference"].value is None
    assert rows["slim", 120, 4]["gflops"].value == 1  # 0.25 GMAC per body, two bodies, two FLOPs each
    assert rows["slim", 120, 4]["step_gflops"].value == 80
    missing = next(note for note in built.notes if note.startswith("No run yet"))
    assert "skeletonmae at 8 tokens" in missing and "sjepa" not in missing and "mamp" not in missing


def test_published_token_budgets(made):
    made.run("slim", tokens=8, dataset="ntu60")
    rows = by(table(made, "token-budget"), "method", "frames", "patch")
    published = {key: (row["paper_gflops"].value, row["paper_mean"].value) for key, row in rows.items()}
    assert published["slim", 64, 8] == (3.59, 90.55) and published["slim:half-batch", 64, 8] == (3.59, 89.60)
    assert published["skeletonmae", 120, 8] == (8.36, 74.00) and published["mamp", 120, 4] == (28.32, 87.00)
    assert published["sjepa", 120, 4] == (28.32, 87.55) and published["gfp", 120, 4] == (28.32, 88.95)
    assert all(row["paper_mean"].published for row in rows.values())


def test_other_methods_join_once_they_have_two_budgets(made):
    made.run("slim")
    made.run("mine", 0.9, tokens=8)
    made.run("slim", 0.9, tokens=4)
    assert "mine" not in by(table(made, "token-budget"), "method")
    made.run("mine", 0.5, tokens=30)
    rows = by(table(made, "token-budget"), "method", "tokens")
    assert rows["mine", "8x25+1"]["difference"].value == pytest.approx(40)
    assert rows["slim", "4x25+1"]["accuracy"].value == 90 and rows["slim", "4x25+1"]["paper_mean"].value is None


# ------------------------------------------------------------------------------------------------ rows of strangers
STRANGER = """
from pathlib import Path

from skelbench.plugin import PublishedSpec, RowsSpec, hookimpl
from skelbench.reporting.study_rows import Printed, Row, variants


@hookimpl
def skelbench_rows():
    return [
        RowsSpec(name="bee-targets", table="target-control", target=":TARGETS"),
        RowsSpec(name="bee-budgets", table="token-budget", target=":BUDGETS"),
        RowsSpec(name="bee-nothing", table="stm", target=":NOTHING"),
    ]


@hookimpl
def skelbench_published():
    file = Path(__file__).with_name("bee.csv")
    return [PublishedSpec(name="bee", file=str(file), notes={"token-budget": "Bees count differently."})]


TARGETS = variants("bee", ("target", "loss"), ("nectar", "MSE", "target-nectar", ""), ("pollen", "CE", "", ""))
BUDGETS = [Row(method="bee", grid=(64, 8), planned=False, printed=Printed("bee", "Bee", "8x25"))]
NOTHING = ["no row"]
"""
BEE = """method,variant,dataset,split,protocol,metric,value,std,source,note
Bee,8x25,ntu60,xsub+xview mean,linear,accuracy,91.5,,"Bee paper, Table 1",
Bee,8x25,ntu60,,inference,encoder_gflops,5.72,,"Bee paper, Table 1",
"""


@pytest.fixture
def stranger(tmp_path):
    (tmp_path / "bee.csv").write_text(BEE)
    (tmp_path / "bees.py").write_text(f"{STRANGER}\n# of {tmp_path}, and no other\n")
    return Host([tmp_path / "bees.py"])


def test_a_plugin_adds_rows_with_published_figures_to_the_tables_of_any_method(made, stranger):
    made.run("bee", 0.7, dataset="ntu60")
    made.run("bee:target-nectar", 0.4, dataset="ntu60")
    made.run("slim:target-features", 0.3, dataset="ntu60")
    made.run("slim", 0.6, tokens=15, dataset="ntu60")
    made.run("slim", 0.6, tokens=30, dataset="ntu60")
    budgets = table(made, "token-budget", host=stranger)
    assert budgets.rows[0]["method"].value == "bee" and budgets.rows[0]["paper_mean"].value == 91.5
    assert "Bees count differently." in budgets.notes and "bee at" not in said(budgets)
    rows = by(table(made, "target-control", host=stranger), "title")
    assert rows["bee:target-nectar"]["target"].value == "nectar"
    assert rows["bee:target-nectar"]["difference"].value == pytest.approx(-30)
    assert rows["slim:target-features"]["difference"].value is None and "slim" in rows
    assert "title" in [column.key for column in table(made, "target-control", host=stranger).shown]


def test_announced_rows_that_are_none_are_refused(made, stranger):
    with pytest.raises(SkelbenchError, match="rows 'bee-nothing' of plugin 'bees' hold a str, not a skelbench"):
        announced(TableInputs(stranger, made.store), "stm")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("method,value\nBee,1\n", "no column 'variant'"),
        (BEE.replace("5.72", "much"), "could not convert"),
        (None, "No such"),
    ],
)
def test_published_figures_that_cannot_be_read_are_named_and_spoil_no_table(
    made, stranger, tmp_path, caplog, content, message
):
    path = tmp_path / "bee.csv"
    path.unlink() if content is None else path.write_text(content)
    made.run("bee", 0.7)
    made.run("slim", tokens=30)
    made.run("slim")
    methods = [row["method"].value for _ in range(2) for row in table(made, "token-budget", host=stranger).rows]
    assert "slim" in methods and "bee" not in methods
    (record,) = [record for record in caplog.records if "left out" in record.message]
    assert re.search(f"plugin 'bees': .*bee.csv cannot be read: .*{message}", record.message)


# ------------------------------------------------------------------------------------------------ how it looks
