"""``compare --table linear``: rows over seeds, tests against controls and between rows, published results beside."""

import numpy as np
import pytest
from fabricated import correct

from skelbench.core.errors import SkelbenchError
from skelbench.evaluation.stats.bootstrap import over_clips
from skelbench.evaluation.stats.paired import holm, seeds_test
from skelbench.plugin.host import Host
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.linear import GROUPS, table


def build(made, **asked):
    return table(TableInputs(Host(), made.store, **asked))


def shown(built):
    return {row["method"].value: row for row in built.rows}


def test_seeds_with_opposite_signs_are_not_significant(made):
    """A method that learns with one seed and collapses with the other, either clearly."""
    for seed, share in ((0, 0.9), (1, 0.1)):
        made.run("untrained", 0.5, seed=seed)
        made.run("slim", share, seed=seed)
    row = shown(build(made))["slim"]
    assert row["difference"].value == pytest.approx(0) and row["p_value"].value == 1.0


def test_p_values_are_holm_adjusted_within_a_block(made):
    shares = {"slim": 0.9, "mamp": 0.75, "gfp": 0.6}
    control = correct(0.25)
    for preset, names in (("small", shares), ("quick", {"slim": 0.9})):
        made.run("untrained", 0.25, preset=preset)
        for name in names:
            made.run(name, shares[name], preset=preset, epochs=7 if preset == "quick" else 5)
    ps = holm([over_clips(1 * correct(share) - control).p_value for share in shares.values()])
    rows = {(row["method"].value, row["preset"].value): row["p_value"].value for row in build(made).rows}
    assert [rows[name, "small"] for name in shares] == pytest.approx(ps.tolist())
    assert rows["slim", "quick"] == pytest.approx(over_clips(1 * correct(0.9) - control).p_value)


def test_different_settings_have_their_own_rows(made):
    made.run("slim", 0.9)
    assert "dataset moves, split cross-view" in build(made).common and "chance" in build(made).common
    differing = {"dataset", "tokens", "protocol"}
    assert not differing & {column.key for column in build(made).columns if column.shown}
    for seed, other in enumerate(({"tokens": 15}, {"dataset": "ntu60"}, {"protocol": "linear@slim"}), start=1):
        made.run("slim", 0.5, seed=seed, **other)
    built = build(made)
    own = [row for row in built.rows if row["seeds"].value]
    assert len(own) == 4 and differing <= {column.key for column in built.columns if column.shown}
    assert len(built.sections) == len({heading for heading, _ in built.sections}) > 2
    assert [row["accuracy"].mark for row in own].count("best") == 1  # other data and probes are no rivals


def test_seeds_trained_on_two_machines_are_one_row(made):
    made.run("slim", 0.6, seed=0, hardware="H200")
    made.run("slim", 0.8, seed=1)
    built = build(made)
    (row,) = built.rows
    assert row["seeds"].value == 2 and row["accuracy"].value == pytest.approx(70)
    assert row["hardware"].value == "H200, cpu x2" and "hardware H200, cpu x2" in built.common


def test_a_repeated_seed_is_not_averaged(made):
    made.run("slim", 0.6)
    made.run("slim", 0.7, version=2)
    built = build(made)
    assert [row["seeds"].value for row in built.rows] == [1, 1]
    difference = built.rows[0]["difference"]
    assert difference.value is None and "`skelbench run` again" in built.footnotes[difference.footnotes[0]]


def test_brackets_are_over_subjects_if_wider(made):
    who = np.arange(160) // 20
    made.run("slim", np.isin(who, [0, 1, 2, 3, 4, 5]), subjects=who, knn=None)
    made.run("mamp", np.arange(160) % 4 > 0, subjects=who, knn=None)
    made.run("untrained", np.arange(160) % 2 > 0, subjects=who, knn=None)
    built = build(made)
    slim, mamp = (shown(built)[name]["accuracy"] for name in ("slim", "mamp"))
    assert slim.interval_over == "8 subjects" and mamp.interval_over == "160 clips"
    assert slim.interval[1] - slim.interval[0] > 2 * (mamp.interval[1] - mamp.interval[0])
    assert "Subjects: 8 of moves / cross-view." in built.notes
    assert shown(built)["slim"]["p_value"].value > 0.2  # over clips 1e-6


def test_rows_without_a_common_seed_share_a_letter_with_a_note(made):
    made.run("slim", 0.9, seed=0)
    made.run("mamp", 0.2, seed=1)
    made.run("gfp", 0.2, seed=0)
    built = build(made, significance=True)
    letters = {name: set(row["letters"].value) for name, row in shown(built).items()}
    assert letters["slim"] & letters["mamp"] and not letters["slim"] & letters["gfp"]
    assert any("2 pairs without a seed or the same test clips in common" in note for note in built.notes)


def test_rows_are_compared_with_a_method(made):
    """Comparison with the row with the same tokens; p is adjusted over the block, and the method has no difference
    to itself."""
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
    built = build(made, against="mamp")
    found = {(row["method"].value, row["tokens"].value): (row["against"], row["against_p"].value) for row in built.rows}
    test = seeds_test(np.array(mine), np.array(theirs))
    over, p = found["slim", "8x25+1"]
    assert over.value == pytest.approx(100 * test.difference) and over.plus_minus == pytest.approx(
        100 * test.half_width
    )
    assert (
        over.interval == pytest.approx(tuple(100 * end for end in test.interval)) and over.interval_over == "400 clips"
    )
    ps = [test.p_value, 1.0, over_clips(1 * correct(0.9) - correct(0.1)).p_value]  # slim, gfp, skeletonmae
    assert [p, found["gfp", "8x25+1"][1], found["skeletonmae", "15x25+1"][1]] == pytest.approx(holm(ps).tolist())
    assert found["gfp", "8x25+1"][0].value == 0 and found["skeletonmae", "15x25+1"][0].value == pytest.approx(80)
    assert {found[key][0].value for key in found if key[0] in ("mamp", "amr", "dino")} == {None}
    assert any(note.startswith("p over MAMP:") for note in built.notes)
    with pytest.raises(SkelbenchError, match="'mam'; did you mean 'mamp'. A filter --method must name it too"):
        build(made, against="mam")


def test_the_papers_first_table_is_complete(made):
    """Every method of Table 1, connected to its plugin by the name that is typed; PSTL is printed PTSL."""
    kind = {"dataset": "ntu60", "split": "xsub", "knn": None}
    names = ("skeletonclr", "aimclr", "cmd", "pstl", "umurl", "usdrl", "mamp", "slim")
    streams = {"cmd": ("joint", "bone", "motion")}
    for name in names:
        made.run(name, 0.5, trained_on=streams.get(name, ("joint",)), **kind)
    made.run("untrained", 0.25, **kind)
    found = build(made)
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
        # Second-hand:
        "MaskSem": 85.9, "MS-CLR": 86.6, "HA-CM": 86.3, "TranCLR": 86.3, "Skeleton2vec": 85.7, "USDRL+": 85.8,
    }  # fmt: skip


def test_runs_with_one_budget_have_their_own_group(made):
    made.run("untrained", 0.25)
    for title, share in (("slim", 0.9), ("mamp", 0.7)):
        made.run(title, share)
        made.run(title, share - 0.1, modified={"budget clips": "200"})
    made.run("gfp", 0.9, modified={"budget clips": "200", "train.lr": 0.1})
    made.run("dino", 0.9, modified={"train.lr": 0.1})
    made.run("mamp", 0.7, seed=1, checkpoint="50", standard=False)
    inputs = TableInputs(Host(), made.store)
    built = table(inputs)
    names = [sorted(row["method"].value for row in rows) for _, rows in built.sections]
    assert names == [["mamp", "slim", "untrained"]] * 2
    assert [row["accuracy"].mark for row in built.rows].count("best") == 2
    assert inputs.left_out == "3 runs with changed settings"
    with pytest.raises(SkelbenchError, match="add --all"):
        build(made, against="dino")
    assert "budget" not in [column.key for column in table(TableInputs(Host(), made.store, budgets=False)).columns]
