import math
from io import StringIO

import numpy as np
import pandas as pd
import pytest
from fabricated import Fabricated, correct

from skelbench.core.errors import SkelbenchError
from skelbench.evaluation.stats.paired import holm, mcnemar, seeds_test
from skelbench.plugin.host import Host
from skelbench.records.measures import Measure
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.linear import GROUPS, REQUIRED, Papers, build, table
from skelbench.reporting.render import render, to_csv
from skelbench.reporting.seeds import accuracy


def record(run, method, seed=0, accuracy=0.5, protocol="linear", **fields):
    base = {
        "run": run, "title": method, "setting": "shared", "dataset": "synthetic", "split": "cross-view",
        "tokens": "8x25", "preset": "small", "encoder": "vit", "stream": "joint", "hardware": "cpu x2",
        "trained_on": "joint", "seed": seed, "protocol": protocol,
        "checkpoint": "last", "accuracy": accuracy,
        "accuracy_selected": accuracy - 0.01, "accuracy_best_on_test": accuracy + 0.02, "n_test": 400,
        "control_run": "u", "control_accuracy": 0.25, "p_value": 0.01, "raw_evaluation": None,
        "raw_difference": np.nan, "raw_p_value": np.nan, "evaluation": f"{run} {protocol}", "gflops": 2.86,
        "clips_seen": 1000, "train_seconds": 90.0,
    }  # fmt: skip
    return base | fields


def untrained(run="u", seed=0, **fields):
    fields = {"trained_on": "", **fields}
    return record(run, "untrained", seed, 0.25, control_run=None, control_accuracy=np.nan, p_value=np.nan, **fields)


def frame(*records):
    return pd.DataFrame(list(records), columns=list(REQUIRED))


def only(table):
    (row,) = table.rows
    return row


def wilson(share, n, z=1.959963984540054):
    centre, half = share + z * z / (2 * n), z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return tuple(100 * (centre + sign * half) / (1 + z * z / n) for sign in (-1, 1))


def test_one_run():
    row = only(build(frame(record("r", "slim", accuracy=0.7), record("r", "slim", accuracy=0.6, protocol="knn"))))
    assert row["accuracy"].value == pytest.approx(70) and row["accuracy"].plus_minus is None
    assert row["accuracy"].interval == pytest.approx(wilson(0.7, 400))
    assert row["accuracy_selected"].value == pytest.approx(69)
    assert row["knn"].value == pytest.approx(60)
    assert row["difference"].value == pytest.approx(45) and row["p_value"].value == pytest.approx(0.01)
    assert row["gflops"].value == 2.86 and row["clips_seen"].value == 1000 and row["train_minutes"].value == 1.5
    assert row["seeds"].value == 1 and row["run"].value == "r"


def test_further_figures_are_columns_that_readers_ask_for():
    mean_ap, loss = Measure("mAP", share=True), Measure("loss")
    runs = [
        record("a", "slim", 0, measures={"loss": (1.5, loss)}),
        record("a", "slim", 0, protocol="near", measures={"map": (0.4, mean_ap)}),
        record("b", "slim", 1, measures={"loss": (2.5, loss)}),
        record("b", "slim", 1, protocol="near", measures={"map": (0.5, mean_ap)}),
        record("c", "mae", 0, measures={}),
    ]
    table = build(pd.DataFrame(runs), metrics=["map"])
    cells = {row["method"].value: (row["map"].value, row["map"].plus_minus, row["loss"].value) for row in table.rows}
    assert cells["slim"] == pytest.approx((45, 12.7062 * 5, 2), rel=1e-4) and cells["mae"] == (None, None, None)
    assert [column.header for column in table.shown][-1] == "mAP" and "loss" in to_csv(table).splitlines()[0]
    assert "45.0 ± 63.5" in render(table)


def test_seeds_become_one_row_with_a_t_interval_and_the_largest_p():
    runs = [record(f"r{s}", "slim", s, a, p_value=p) for s, a, p in ((2, 0.7, 0.04), (0, 0.6, 0.001), (1, 0.65, 0.02))]
    knn = [record(f"r{s}", "slim", s, 0.5 + s / 100, protocol="knn") for s in range(3)]
    row = only(build(frame(*runs, *knn)))
    t = 4.30265 / 3**0.5  # 97.5 % at two degrees of freedom, for a mean of three
    assert row["accuracy"].value == pytest.approx(65) and row["accuracy"].plus_minus == pytest.approx(5 * t, rel=1e-5)
    assert row["accuracy"].plus_minus_over == "3 seeds" and row["accuracy"].interval_over == "400 clips"
    assert row["accuracy"].interval == pytest.approx(wilson(0.65, 400))
    assert row["knn"].value == pytest.approx(51) and row["knn"].plus_minus == pytest.approx(t, rel=1e-5)
    assert row["seeds"].value == 3 and row["run"].value == "r0, r1, r2"
    assert row["p_value"].value == pytest.approx(0.04) and row["difference"].plus_minus == pytest.approx(
        5 * t, rel=1e-5
    )


def test_seeds_that_point_in_opposite_directions_show_nothing():
    """As a method that learns with one seed and collapses with the other, either clearly."""
    ours = [record(f"r{s}", "slim", s, a, p_value=1e-4, control_accuracy=0.25) for s, a in ((0, 0.4), (1, 0.1))]
    controls = [untrained(run=f"u{s}", seed=s) for s in (0, 1)]
    (row, _) = build(frame(*ours, *controls)).rows
    assert row["difference"].value == pytest.approx(0) and row["p_value"].value == 1.0


def test_p_values_are_holm_adjusted_over_rows():
    ours = (("a", "slim", 0.01, 0.9), ("b", "mae", 0.04, 0.8), ("c", "mamp", 0.03, 0.7))
    table = build(frame(*(record(run, name, accuracy=a, p_value=p) for run, name, p, a in ours), untrained()))
    assert [row["method"].value for row in table.rows] == ["slim", "mae", "mamp", "untrained"]
    ps = [row["p_value"].value for row in table.rows]
    assert ps[:3] == pytest.approx([0.03, 0.06, 0.06]) and ps[3] is None


def test_marks_by_accuracy_and_best_on_test_is_never_ranked():
    frames = [frame(record("a", "slim", accuracy=0.9), record("b", "mae", accuracy=0.8), untrained())]
    table = build(*frames)
    assert [row["accuracy"].mark for row in table.rows] == ["best", "second", None]
    assert "accuracy_best_on_test" not in {column.key for column in table.columns}  # nor in CSV and JSON
    assert "Best on test" not in render(table) and "best_on_test" not in to_csv(table)
    table = build(*frames, best_on_test=True)
    assert [row["accuracy_best_on_test"].value for row in table.rows] == pytest.approx([92, 82, 27])
    assert {row["accuracy_best_on_test"].mark for row in table.rows} == {None}
    (column,) = [c for c in table.columns if c.key == "accuracy_best_on_test"]
    assert "chosen on test data" in table.footnotes[column.footnotes[0]]


def test_settings_stay_apart_and_are_shown_where_they_differ():
    other = {"hardware": "H200", "dataset": "ntu60", "protocol": "linear@slim", "checkpoint": "50"}
    for key, value in other.items():
        table = build(frame(record("a", "slim"), record("b", "slim", 1, **{key: value})))
        assert len(table.rows) == 2
        assert [c.shown for c in table.columns if c.key == key] == [True]
        if key != "hardware":  # other data and probes are no rivals
            assert {row["accuracy"].mark for row in table.rows} == {None}
    table = build(frame(record("a", "slim")))
    assert not any(c.shown for c in table.columns if c.key in ("dataset", "split", "preset", "hardware", "protocol"))
    common = "dataset synthetic, split cross-view, protocol linear, checkpoint last, preset small, hardware cpu x2"
    assert common in table.notes[0]
    assert "cpu x2" in render(table, "csv")


def test_variants_stay_apart():
    """`slim` and `slim:glcl-only` under the same preset are two rows, not two seeds."""
    table = build(frame(record("a", "slim", accuracy=0.7), record("b", "slim:glcl-only", 1, accuracy=0.5)))
    assert [(row["method"].value, row["seeds"].value) for row in table.rows] == [("slim", 1), ("slim:glcl-only", 1)]


def test_a_repeated_seed_is_not_averaged():
    table = build(frame(record("a", "slim", accuracy=0.6), record("b", "slim", accuracy=0.7)))
    assert [(row["run"].value, row["seeds"].value) for row in table.rows] == [("b", 1), ("a", 1)]


def test_a_run_evaluated_twice_gets_two_rows_and_an_ambiguous_knn_none():
    knn = record("a", "slim", protocol="knn")
    table = build(frame(record("a", "slim", accuracy=0.6), record("a", "slim", accuracy=0.7), knn, knn))
    assert [row["accuracy"].value for row in table.rows] == pytest.approx([70, 60])
    assert [row["knn"].value for row in table.rows] == [None, None]


def test_knn_of_another_checkpoint_is_not_taken():
    table = build(frame(record("a", "slim"), record("a", "slim", protocol="knn", checkpoint="50")))
    assert only(table)["knn"].value is None


def test_columns_of_none_are_numbers_that_are_missing():
    bare = record("a", "slim") | dict.fromkeys(
        ("control_run", "control_accuracy", "p_value", "gflops", "clips_seen", "train_seconds", "accuracy_selected")
    )
    row = only(build(frame(bare)))
    assert row["accuracy"].value == 50
    for key in ("difference", "p_value", "gflops", "clips_seen", "train_minutes", "accuracy_selected"):
        assert row[key].value is None


def test_a_missing_control_says_what_to_run():
    lonely = record("a", "slim", control_run=None, control_accuracy=np.nan, p_value=np.nan)
    table = build(frame(lonely, record("b", "slim", 1)))
    row = only(table)
    assert row["difference"].value is None and row["p_value"].value is None
    assert "`skelbench run` again" in table.footnotes[row["difference"].footnotes[0]]
    assert "control" not in build(frame(record("b", "slim"), untrained())).footnotes


def test_seeds_without_knn_leave_it_empty():
    row = only(build(frame(record("a", "slim"), record("b", "slim", 1), record("a", "slim", protocol="knn"))))
    assert row["knn"].value is None


@pytest.mark.parametrize("empty", [frame(), frame(record("z", "mae", protocol="knn"))])
def test_nothing_to_compare_says_what_to_run(empty):
    table = build(empty)
    assert table.rows == () and "skelbench run METHOD --tokens 8" in render(table)


def test_bad_frames():
    with pytest.raises(SkelbenchError, match="lacks the columns n_test, p_value"):
        build(frame(record("a", "slim")).drop(columns=["n_test", "p_value"]))
    with pytest.raises(SkelbenchError, match="accuracy .*shares"):
        build(frame(record("a", "slim", accuracy=70.0)))


def test_golden():
    table = build(frame(record("r0", "slim", 0, 0.71), record("r0", "slim", 0, 0.625, "knn"), untrained()))
    assert render(table, "md").splitlines()[4:6] == [
        "| slim | 8x25 | 1 | **71.0 [66.4, 75.2]** | **70.0** | 62.5 | +46.0 | 0.01 | 2.86 | 1,000 | 1.5 | r0 |",
        "| untrained | 8x25 | 1 | <ins>25.0 [21.0, 29.5]</ins> | <ins>24.0</ins> | – | – | – | 2.86 "
        "| 1,000 | 1.5 | u |",
    ]


def test_p_values_are_adjusted_within_a_data_set_split_preset_and_probe():
    """What is run elsewhere changes nothing here."""
    ours = [record(run, name, accuracy=0.9, p_value=p) for run, name, p in (("a", "slim", 0.01), ("b", "mae", 0.04))]
    elsewhere = ({"dataset": "ntu60"}, {"split": "xsub"}, {"preset": "quick"}, {"protocol": "linear@slim"})
    others = [record(f"o{i}", "mae", i, p_value=0.03, **what) for i, what in enumerate(elsewhere)]
    found = {row["run"].value: row["p_value"].value for row in build(frame(*ours, *others)).rows}
    assert found == {"a": 0.02, "b": 0.04, **{f"o{i}": 0.03 for i in range(4)}}


# ------------------------------------------------------------------------------------------------ subjects, draws
def shown(table):
    return {row["method"].value: row for row in table.rows}


def test_brackets_are_over_subjects_where_these_make_them_wider(made):
    who = np.arange(160) // 20
    made.run("slim", np.isin(who, [0, 1, 2, 3, 4, 5]), subjects=who, knn=None)
    made.run("mamp", np.arange(160) % 4 > 0, subjects=who, knn=None)
    made.run("untrained", np.arange(160) % 2 > 0, subjects=who, knn=None)
    built = table(TableInputs(Host(), made.store))
    slim, mamp = (shown(built)[name]["accuracy"] for name in ("slim", "mamp"))
    assert (slim.interval_over, slim.footnotes) == ("8 subjects", ("subjects",)) and mamp.interval_over == "160 clips"
    assert slim.interval[1] - slim.interval[0] > 2 * (mamp.interval[1] - mamp.interval[0]) and not mamp.footnotes
    assert "Subjects: 8 of moves / cross-view." in built.notes and "over test subjects" in render(built, "md")
    said = pd.read_csv(StringIO(to_csv(built))).set_index("method")["accuracy_over"]
    assert (said["slim"], said["mamp"]) == ("8 subjects", "160 clips")
    assert shown(built)["slim"]["p_value"].value > 0.2  # over clips 1e-6


@pytest.mark.parametrize(
    ("subjects", "said"),
    [
        (None, "Subjects: one or not known for moves / cross-view, so over clips alone."),
        (np.zeros(40, int), "Subjects: one or not known for moves / cross-view, so over clips alone."),
        (
            np.arange(40) % 5,
            "Subjects: 5 of moves / cross-view, too few to trust an interval over them, and p is 0.062",
        ),
    ],
)
def test_few_and_unknown_subjects_are_said(made, subjects, said):
    made.run("slim", subjects=subjects)
    assert any(note.startswith(said) for note in table(TableInputs(Host(), made.store)).notes)


def test_an_interval_over_draws_is_not_taken_for_one_over_seeds(made):
    rng = np.random.default_rng(0)
    right_DC = rng.random((5, 40)) < 0.6
    made.run("slim", right_DC, knn=None, drawn="label subsets")
    for seed in (0, 1):
        made.run("mamp", rng.random((5, 40)) < 0.5, knn=None, seed=seed, drawn="label subsets")
    built = table(TableInputs(Host(), made.store))
    slim, mamp = (shown(built)[name]["accuracy"] for name in ("slim", "mamp"))
    half = 2.77645 * 100 * right_DC.mean(1).std(ddof=1) / 5**0.5
    assert slim.plus_minus == pytest.approx(half, rel=1e-5) and slim.plus_minus_over == "5 label subsets"
    assert built.footnotes[slim.footnotes[0]] == "of one seed: ± is a 95 % t interval over its label subsets"
    assert mamp.plus_minus_over == "2 seeds" and not mamp.footnotes


@pytest.mark.parametrize("spread", [None, math.nan])
def test_draws_of_which_no_spread_is_known_have_none(spread):
    one = {"accuracy": [0.5], "n_test": [40], "draws": [5], "drawn": ["label subsets"], "accuracy_sd": [spread]}
    cell = accuracy(pd.DataFrame(one))
    assert cell.value == 50 and cell.plus_minus is None and not cell.footnotes


# ------------------------------------------------------------------------------------------------ significance
def test_significance_tells_rows_of_a_family_apart_and_says_what_could_be_shown(made):
    rng = np.random.default_rng(0)
    for name, share in (("slim", 0.9), ("mamp", 0.88), ("gfp", 0.3)):
        for seed in (0, 1):
            made.run(name, rng.random(400) < share, seed=seed)
    made.run("raw", rng.random(400) < 0.3, encoder="raw")
    made.run("dino", rng.random(400) < 0.9, split="other")
    built = table(TableInputs(Host(), made.store, significance=True))
    found = {name: (row["rank"].value, row["letters"].value) for name, row in shown(built).items()}
    assert found["slim"][1] == found["mamp"][1] == "a" and found["gfp"][1] == found["raw"][1] == "b"
    assert sorted(found[name][0] for name in ("slim", "mamp")) == [1, 2] and found["dino"] == (None, None)
    (said,) = [note for note in built.notes if note.startswith("moves / cross-view:")]
    assert "400 test clips; two rows differ on" in said and "adjusted for 6 pairs:" in said and "untested" not in said
    assert "Rank" not in render(table(TableInputs(Host(), made.store)))


def test_rows_without_a_common_seed_share_a_letter_and_that_is_said(made):
    made.run("slim", 0.9, seed=0)
    made.run("mamp", 0.2, seed=1)
    made.run("gfp", 0.2, seed=0)
    built = table(TableInputs(Host(), made.store, significance=True))
    letters = {name: set(row["letters"].value) for name, row in shown(built).items()}
    assert letters["slim"] & letters["mamp"] and not letters["slim"] & letters["gfp"]
    assert any("2 pairs have no seed or not the same test clips in common" in note for note in built.notes)


def test_over_few_subjects_nothing_can_be_told_apart(made):
    made.run("slim", np.ones(40, bool), subjects=np.arange(40) % 5)
    made.run("mamp", np.zeros(40, bool), subjects=np.arange(40) % 5)
    built = table(TableInputs(Host(), made.store, significance=True))
    assert {row["letters"].value for row in built.rows} == {"a"}
    assert any("5 subjects" in note and "p = 0.062 after adjusting for 1 pair" in note for note in built.notes)


def test_rows_are_held_against_those_of_a_method(made):
    """Of several to that with the same tokens; p is adjusted over the block, and the method is nothing over itself."""
    rng, mine, theirs = np.random.default_rng(0), [], []
    for seed in (0, 1):
        mine.append(rng.random(400) < 0.6)
        theirs.append(rng.random(400) < 0.5)
        made.run("slim", mine[seed], seed=seed)
        made.run("mamp", theirs[seed], seed=seed)
    made.run("mamp", 0.1, tokens=15)
    made.run("gfp", theirs[0])
    made.run("skeletonmae", 0.9, tokens=15)
    made.run("amr", 0.9, tokens=30)  # nothing of several that are as unlike
    made.run("dino", 0.9, split="other")
    built = table(TableInputs(Host(), made.store, against="mamp"))
    found = {(row["method"].value, row["tokens"].value): (row["against"], row["against_p"].value) for row in built.rows}
    test = seeds_test(np.array(mine), np.array(theirs))
    over, p = found["slim", "8x25+1"]
    assert over.value == pytest.approx(100 * test.difference) and over.plus_minus == pytest.approx(
        100 * test.half_width
    )
    assert (
        over.interval == pytest.approx(tuple(100 * end for end in test.interval)) and over.interval_over == "400 clips"
    )
    ps = [test.p_value, 1.0, mcnemar(correct(0.9), correct(0.1))[2]]  # slim, gfp, skeletonmae
    assert [p, found["gfp", "8x25+1"][1], found["skeletonmae", "15x25+1"][1]] == pytest.approx(holm(ps).tolist())
    assert found["gfp", "8x25+1"][0].value == 0 and found["skeletonmae", "15x25+1"][0].value == pytest.approx(80)
    assert {found[key][0].value for key in found if key[0] in ("mamp", "amr", "dino")} == {None}
    assert any(note.startswith("Over mamp:") for note in built.notes) and "Over mamp" in render(built)
    with pytest.raises(SkelbenchError, match="'mam'; did you mean 'mamp'. A filter --method must name it too"):
        table(TableInputs(Host(), made.store, against="mam"))


def test_native_runs_are_marked_and_ranked_apart():
    """A method in its own setting is never set beside shared rows without saying so."""
    ours = (("a", "slim", 0.6, "shared"), ("b", "mamp", 0.5, "shared"), ("c", "mamp", 0.9, "native"))
    table = build(frame(*(record(run, name, accuracy=share, setting=kind) for run, name, share, kind in ours)))
    assert [row["run"].value for row in table.rows] == ["a", "b", "c"]  # after the shared rows, whatever its figure
    assert [row["accuracy"].mark for row in table.rows] == ["best", "second", None]
    assert [row["method"].footnotes for row in table.rows] == [(), (), ("native",)]
    assert "Setting" in [column.header for column in table.shown] and "native" in table.footnotes
    text = " ".join(render(table, "md").split())
    assert "not comparable with shared rows" in text
    assert "native" not in build(frame(record("a", "slim", setting="shared"))).footnotes


# ------------------------------------------------------------------------------------------------ groups, figures
FIGURES = """
from pathlib import Path
from skelbench.plugin import PublishedSpec, RowsSpec, hookimpl
from skelbench.reporting.linear import GROUPS
from skelbench.reporting.study_rows import Printed, Row

def row(method, group, stream="joint", **more):
    return Row(method=method, labels={"group": group}, printed=Printed("figures", method.upper(), stream), **more)

ROWS = [
    row("mine", GROUPS[1]), row("mine", GROUPS[1], "joint + bone (scores)"), row("theirs", GROUPS[1]),
    row("best", GROUPS[3]), row("quiet", GROUPS[2], expected=False), row("odd", "Something else"),
]

@hookimpl
def skelbench_rows():
    return [RowsSpec(name="figures", table="linear", target=":ROWS")]

@hookimpl
def skelbench_published():
    file = str(Path(__file__).with_name("figures.csv"))
    return [PublishedSpec(name="figures", file=file, notes={"linear": "Figures are made up."})]
"""
VALUES = """method,variant,dataset,split,protocol,metric,value,std,source,note
MINE,joint,ntu60,xsub,linear,accuracy,70.0,,,
MINE,joint + bone (scores),ntu60,xsub,linear,accuracy,75.0,,,
THEIRS,joint,ntu60,xsub,linear,accuracy,80.0,0.5,,
BEST,joint,ntu60,xsub,linear,accuracy,90.0,,,
BEST,joint,ntu60,xview,linear,accuracy,95.0,,,
QUIET,joint,ntu60,xsub,linear,accuracy,60.0,,,
ODD,joint,ntu60,xsub,linear,accuracy,50.0,,,
"""


@pytest.fixture
def announced(tmp_path):
    from skelbench.reporting.study_rows import announced

    (tmp_path / "figures.py").write_text(FIGURES)
    (tmp_path / "figures.csv").write_text(VALUES)
    host = Host([tmp_path / "figures.py"])
    (rows,) = (rows for rows in announced(TableInputs(host, None), "linear") if rows[0].method == "mine")
    return Papers(rows, host)


@pytest.fixture
def made(tmp_path):
    return Fabricated(tmp_path / "results")


NTU = {"dataset": "ntu60", "split": "xsub"}


def test_methods_stand_in_groups_with_the_figures_of_papers_beside(announced):
    ours = (record("a", "mine", accuracy=0.6, **NTU), record("b", "mine:other", accuracy=0.7, **NTU))
    others = (record("c", "nobody", accuracy=0.65, **NTU), record("d", "odd", accuracy=0.5, **NTU))
    found = build(frame(*ours, *others, untrained(**NTU)), announced)
    rows = [(row["group"].value, row["method"].value, row["paper"].value) for row in found.rows]
    assert rows == [
        (GROUPS[0], "nobody", None),
        (GROUPS[1], "mine:other", None),  # a variant's figure is not the method's
        (GROUPS[1], "mine", 70.0),
        (GROUPS[1], "THEIRS", 80.0),
        (GROUPS[3], "BEST", 90.0),
        ("Something else", "odd", 50.0),
        ("Controls", "untrained", None),
    ]
    marks = {row["method"].value: row["accuracy"].mark for row in found.rows}
    assert marks["mine:other"] == "best" and marks["nobody"] == "second"  # over all groups, by what was measured
    printed = [row for row in found.rows if row["method"].published]
    assert [(row["method"].value, row["seeds"].value, row["run"].value) for row in printed] == [
        ("THEIRS", None, None),
        ("BEST", None, None),
    ]
    assert "Figures are made up." in found.notes
    assert [head for head, _ in found.sections] == [GROUPS[0], GROUPS[1], GROUPS[3], "Something else", "Controls"]


def test_a_figure_stands_beside_its_own_stream_data_and_split(announced):
    elsewhere = build(frame(record("a", "mine"), record("b", "theirs", dataset="ntu60", split="other")), announced)
    assert {row["paper"].value for row in elsewhere.rows} == {None} and len(elsewhere.rows) == 2
    assert not any(column.key == "paper" and column.shown for column in elsewhere.columns)
    alone = build(frame(record("a", "mine", **NTU)), announced)
    assert [head for head, _ in alone.sections] == [GROUPS[1], GROUPS[3], "Something else"]  # of figures alone
    fused = build(frame(record("a", "mine", stream="joint + bone (scores)", **NTU)), announced)
    assert [(row["method"].value, row["paper"].value) for row in fused.rows] == [("mine", 75.0)]


def test_a_papers_short_name_of_a_split_is_that_of_the_data_set(announced):
    """Runs have the full name, whatever was typed."""
    found = build(frame(record("a", "mine", dataset="ntu60", split="cross-subject")), announced)
    papers = {row["method"].value: row["paper"].value for row in found.rows}
    assert (papers["mine"], papers["THEIRS"], papers["BEST"]) == (70.0, 80.0, 90.0)
    assert {row["split"].value for row in found.rows} == {"cross-subject"}


def test_one_group_needs_no_heading(announced):
    found = build(frame(record("a", "mine"), record("b", "theirs", 1), untrained()), announced)
    assert [head for head, _ in found.sections] == [""]
    assert [row["group"].value for row in found.rows] == [GROUPS[1], GROUPS[1], "Controls"]


def test_rows_say_what_they_were_trained_on_where_it_is_not_what_they_look_at():
    plain = build(frame(record("a", "slim"), untrained()))
    assert not {"trained_on", "stream"} & {column.key for column in plain.shown}
    three = "joint + bone + motion"
    found = build(frame(record("a", "slim", accuracy=0.6), record("b", "cmd", trained_on=three), untrained()))
    assert {"trained_on", "stream"} <= {column.key for column in found.shown}
    told = {row["method"].value: (row["trained_on"].value, row["stream"].value) for row in found.rows}
    assert told == {"slim": ("joint", "joint"), "cmd": (three, "joint"), "untrained": ("", "joint")}
    assert any("streams that training looked at" in note for note in found.notes)
    assert [row["accuracy"].mark for row in found.rows] == ["best", "second", None]  # one block


def test_figures_of_three_streams_stand_beside_three_streams_alone():
    """CrosSCLR prints no others; they are shown where results of three streams are, whoever's."""
    from skelbench.reporting.study_rows import announced

    host, three = Host(), "joint + bone + motion (logits)"
    told = Papers([row for rows in announced(TableInputs(host, None), "linear") for row in rows], host)
    for stream, expected in ((three, 77.8), ("joint", None)):
        found = build(frame(record("a", "crosclr", stream=stream, **NTU)), told)
        (row,) = (row for row in found.rows if row["method"].value == "crosclr")
        assert (row["group"].value, row["paper"].value) == (GROUPS[1], expected)
    found = build(frame(record("a", "cmd", stream=three, **NTU)), told)
    assert {row["method"].value: row["paper"].value for row in found.rows} == {"cmd": None, "CrosSCLR": 77.8}


def test_the_papers_first_table_is_whole(made):
    """Every method of Table 1, connected to its plugin by the name that is typed; PSTL is printed PTSL."""
    kind = {"dataset": "ntu60", "split": "xsub", "knn": None}
    names = ("skeletonclr", "aimclr", "cmd", "pstl", "umurl", "usdrl", "mamp", "slim")
    streams = {"cmd": ("joint", "bone", "motion")}
    for name in names:
        made.run(name, 0.5, trained_on=streams.get(name, ("joint",)), **kind)
    made.run("untrained", 0.25, **kind)
    found = table(TableInputs(Host(), made.store))
    paper = {row["method"].value: (row["group"].value, row["paper"].value) for row in found.rows}
    other, contrast, masked, unified = GROUPS
    ours = {
        "skeletonclr": (contrast, 68.3),  # CrosSCLR's own repository
        "aimclr": (contrast, 74.3),
        "cmd": (contrast, 79.8),
        "pstl": (contrast, 77.3),
        "umurl": (other, 82.3),  # of the joint stream, as others report it
        "usdrl": (other, 85.2),
        "mamp": (masked, 84.9),
        "slim": (unified, 87.9),
        "untrained": ("Controls", None),
    }
    assert {name: paper[name] for name in ours} == ours
    alone = {row["method"].value: row["paper"].value for row in found.rows if row["method"].published}
    assert alone == {
        "GL-Transformer": 76.3, "MacDiff": 86.4, "IGM": 86.2, "HSP": 80.7, "CPM": 78.7, "RVTCLR": 74.7, "HYSP": 78.2,
        "HaLP": 79.7, "ActCLR": 80.9, "SkeletonMAE": 74.8, "S-JEPA": 85.3, "GFP": 85.9, "AMR": 87.4,
        # Left out there:
        "HiCo": 81.1, "PCM3": 83.9, "SCD-Net": 86.6, "SkeAttnCLR": 80.3, "ISC": 76.3, "STARS": 87.1,
    }  # fmt: skip
    (cmd,) = (row for row in found.rows if row["method"].value == "cmd")
    assert (cmd["trained_on"].value, cmd["stream"].value) == ("joint + bone + motion", "joint")
    text = render(found, "terminal", 80, "blocks")
    assert max(map(len, text.splitlines())) <= 80 and text.count("Contrastive learning (CL)") > 1
