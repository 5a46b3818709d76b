"""Tables of studies from a made results directory: the runs that fill a row, and the published numbers next to it."""

import itertools
from functools import cache

import numpy as np
import pytest
from fabricated import COLLAPSE

from skelbench.evaluation.stats.paired import holm
from skelbench.plugin.host import Host
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.render import render

ABLATIONS = ("objective", "stm", "saa", "centering", "batch", "release")
STUDIES = ("token-budget", "target-control", *ABLATIONS)


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
    return " ".join((built.common, *built.notes))


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


def test_changed_settings_have_their_own_blocks(made):
    for seed in (0, 1):
        made.run("slim", 0.5, seed=seed, modified={"train.epochs": 3})
        made.run("slim:mfp-only", 0.4, seed=seed, modified={"train.epochs": 3})
    made.run("slim:mfp-only", 0.9, modified={"train.epochs": 4})
    assert not table(made, "objective").rows
    made.run("slim", 0.6)
    made.run("slim:mfp-only", 0.5)
    exact, everything = table(made, "objective"), table(made, "objective", exact_only=False)
    assert len(exact.rows) == 5 and len(everything.rows) == 7
    rows = by(everything, "title", "changed")
    assert rows["slim:mfp-only", "train.epochs=3"]["difference"].value == pytest.approx(-10)
    assert rows["slim:mfp-only", "train.epochs=3"]["preset"].value == "small+"
    assert rows["slim", "train.epochs=3"]["accuracy"].mark == "best"
    assert ("slim:mfp-only", "train.epochs=4") not in rows, "no other row has these settings"
    assert rows["slim:mfp-only", ""]["difference"] == by(exact, "title")["slim:mfp-only"]["difference"]


def test_blocks_are_ranked_and_tested_separately(made):
    blocks = ({}, {"split": "cross-subject"}, {"preset": "ablation"}, {"encoder": "mixer"}, {"protocol": "linear@slim"})
    for place, block in enumerate(blocks):
        made.run("slim", 0.5 + place / 20, seed=place, **block)
        made.run("slim:mfp-only", 0.4, seed=place, **block)
    built = table(made, "objective")
    assert len(built.rows) == 22  # rows without a run once for the same trainings, not for each probe
    marks = [row["accuracy"].mark for row in built.rows if row["accuracy"].value is not None]
    assert marks == ["second", "best"] * 5
    assert {"split", "preset", "encoder", "protocol"} <= {column.key for column in built.columns if column.shown}
    assert "dataset moves" in said(built) and "preset small" not in said(built)


def test_runs_of_an_older_version_are_skipped_and_named(made):
    old = made.run("slim:mfp-only", 0.9, version=1, finished=1.0)
    new = made.run("slim:mfp-only", 0.4, version=2, finished=2.0)
    made.run("slim", 0.5)
    built = table(made, "objective")
    row = by(built, "title")["slim:mfp-only"]
    assert row["run"].value == new and row["accuracy"].value == pytest.approx(40)
    assert f"Skipped, because later runs of the same rows differ in more than the seed: {old}." in built.notes


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


def test_missing_rows_are_shown_with_published_results(made):
    made.run("slim:rotation-none", 0.4, dataset="ntu60")
    built = table(made, "saa")
    assert [row["paper_xsub"].value for row in built.rows] == [81.6, 84.8, 85.3, 85.9, 84.4, 86.4, 87.7]
    assert [row["paper_xview"].value for row in built.rows] == [86.9, 89.9, 90.6, 91.0, 90.0, 91.7, 92.7]
    assert [row["accuracy"].value is None for row in built.rows] == [False] + [True] * 6
    assert "no run yet" in said(built) and "study saa" in said(built)


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


def test_starts_and_ends_of_curves_are_means_over_seeds(made):
    for seed, falls in enumerate((0.5, 0.25)):
        losses = np.linspace(1.0, falls, 100)
        logged = [{"step": i + 1, "epoch": 1.0, "clips_seen": i, "mfp": float(loss)} for i, loss in enumerate(losses)]
        made.run("slim:target-features", 0.4, seed=seed, metrics=logged, collapse=[COLLAPSE] * seed, dataset="ntu60")
    made.run("slim", 0.8, dataset="ntu60")
    built = table(made, "target-control")
    assert built.values("target") == ["coordinates", "features", "features + head", "prototypes"]
    assert built.values("paper_mean") == [86.96, 86.92, 87.59, 90.17]
    row, end = built.rows[1], np.mean([np.linspace(1.0, falls, 100)[-5:].mean() for falls in (0.5, 0.25)])
    assert row["loss_end"].value == pytest.approx(end) and row["loss_end"].plus_minus > 0
    assert row["rank_end"].value is None and row["rank_end"].footnotes == ("collapse",)
    assert row["collapse"].value.startswith("seed 1: features at masked tokens")
    assert "loss 0.313 to 3.3e-05 (about 9,500 times), rank 1.12" in said(built)


def test_published_token_budgets_are_next_to_full_size_runs_only(made):
    for preset, epochs in (("small", 5), ("paper", 7)):
        for tokens in (8, 15):
            made.run("mamp", 0.5, preset=preset, tokens=tokens, epochs=epochs)
    rows = [(row["preset"].value, row["paper_gflops"].value) for row in table(made, "token-budget").rows]
    assert rows == [("paper", 3.59), ("paper", 8.36), ("paper", 28.32), ("small", None), ("small", None)]
    assert len(table(made, "token-budget", exact_only=False).rows) > len(rows)
