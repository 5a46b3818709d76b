"""The frame of all evaluations, from a made results directory."""

import json

import numpy as np
import pytest
from fabricated import COLLAPSE, MACS, correct

from skelbench.core.errors import SkelbenchError
from skelbench.evaluation.outcomes import paired_over_seeds, predictions
from skelbench.plugin.host import Host
from skelbench.records.run_dir import RunDir
from skelbench.reporting.frame import COLUMNS, frame
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.linear import table


def test_a_row_has_the_facts_of_the_run(made):
    name = made.run("slim:glcl-only", 0.7, tokens=15, collapse=[COLLAPSE])
    row = frame(made.store.read()).set_index("protocol").loc["linear"]
    assert (row["run"], row["title"], row["method"], row["variant"]) == (name, "slim:glcl-only", "slim", "glcl-only")
    assert (row["tokens"], row["frames"], row["patch"], row["data"]) == ("15x25+1", 120, 8, "f" * 12)
    assert row["exact"] and row["changed"] == "" and row["preset"] == "small"
    assert row["collapse"].startswith("features at masked tokens") and row["collapse"].endswith("since step 300")
    assert row["gflops"] == 2e-9 * MACS[15] and row["step_gflops"] == 40 and row["batch_size"] == 32
    clips = made.store.find(name)[0].info["clips_seen"]
    assert row["train_flops"] == 2 * 40e9 * clips  # clips of two bodies
    assert tuple(frame(made.store.read()).columns) == COLUMNS


def test_unfinished_runs_are_skipped_and_baselines_found(made):
    made.run("slim", 0.8)
    made.run("slim", 0.9, seed=1, outcome="interrupted")
    twin = made.run("untrained", 0.5)
    rows = frame(made.store.read()).query("protocol == 'linear'").set_index("title")
    assert set(rows["seed"]) == {0}
    assert rows.loc["slim", "control_run"] == twin and rows.loc["slim", "difference"] == pytest.approx(0.3)


def test_second_stages_with_first_stages_per_seed_are_one_setting(made):
    parents = [made.run("aimclr", seed=seed, knn=None).rsplit("-", 1)[1] for seed in range(3)]
    for seed, parent in enumerate(parents):
        made.run("actclr", 0.6 + 0.05 * seed, seed=seed, init_from=parent, knn=None)
    made.run("actclr", 0.3, seed=3, init_from=parents[0], modified={"init_from": parents[0]}, knn=None)
    rows = frame(made.store.read()).query("method == 'actclr'").sort_values("seed")
    assert rows["group"].nunique() == rows["training"].nunique() == 2
    assert list(rows["group"] == rows["group"].iloc[0]) == [True, True, True, False]
    built = table(TableInputs(Host(), made.store))
    row = next(row for row in built.rows if row["method"].value == "actclr")
    assert row["seeds"].value == 3 and row["accuracy"].value == pytest.approx(65)


def fused(made, title, share, partner, **run):
    """A run with an evaluation of joints, by itself, and of bones by ``partner``; None = by itself as well."""
    partners = () if partner is None else (partner.rpartition("-")[2],)
    both = {"streams": ("joint", "bone"), "fusion": "scores", "standard": False, "knn": None}
    return made.run(title, share, partners=partners, **both, **run)


def test_fused_runs_with_partners_per_seed_are_one_setting(made):
    bones = [made.run("cmd:bone", None, seed=seed, trained_on=("bone",), knn=None) for seed in (0, 1)]
    other = made.run("moco:bone", None, seed=2, trained_on=("bone",), knn=None)
    changed = made.run("cmd:bone", None, seed=3, trained_on=("bone",), knn=None, modified={"train.lr": 1.0})
    for seed, partner in enumerate((*bones, other, changed, f"{bones[0]}@50", None)):
        fused(made, "cmd", 0.5, partner, seed=seed)
    rows = frame(made.store.read()).set_index("seed").sort_index()
    assert rows["group"].nunique() == 5 and rows.loc[0, "group"] == rows.loc[1, "group"]
    said = ["", "", "with moco:bone", "with cmd:bone (train.lr=1.0)", "with cmd:bone@50", ""]
    assert [changed for changed in rows["changed"]] == said
    assert set(rows["trained_on"][:5]) == {"joint + bone"} and rows.loc[5, "trained_on"] == "joint"


def test_the_control_of_fused_runs_is_fused_too(made):
    """Neither an encoder of both streams nor a newer run replaces the run's own result."""
    bone = made.run("cmd:bone", None, seed=1, trained_on=("bone",), knn=None)
    twins = [made.run("untrained", None, seed=seed, knn=None) for seed in (1, 2)]
    shares = {twins[0]: 0.7, twins[1]: 0.9, None: 0.2}
    for partner, share in shares.items():
        fused(made, "untrained", share, partner)
    fused(made, "cmd", 0.75, bone)
    fused(made, "cmd", 0.6, None)
    rows = frame(made.store.read()).query("title == 'cmd'")
    assert sorted(zip(rows["accuracy"], rows["control_accuracy"])) == [(0.6, 0.2), (0.75, 0.7)]


def test_draws_count_once_per_clip(made):
    rng = np.random.default_rng(0)
    a_DC, b_DC = rng.random((3, 40)) < 0.7, rng.random((2, 40)) < 0.4
    made.run("slim", a_DC, knn=None, drawn="label subsets")
    made.run("untrained", b_DC, knn=None)
    every = frame(made.store.read())
    row = every.set_index("method").loc["slim"]
    assert (row["draws"], row["drawn"]) == (3, "label subsets")
    assert row["accuracy_sd"] == pytest.approx(a_DC.mean(1).std(ddof=1))
    d_C = a_DC.mean(0) - b_DC.mean(0)
    assert row["difference"] == pytest.approx(d_C.mean())
    test = paired_over_seeds(made.store, every[every["method"] == "slim"], every[every["method"] == "untrained"])
    assert test.p_value == pytest.approx(row["p_value"]) and test.clips == 40
    flips = np.where(rng.random((20_000, 40)) < 0.5, d_C, -d_C).sum(1)
    assert row["p_value"] == pytest.approx((np.abs(flips) >= abs(d_C.sum()) - 1e-9).mean(), abs=0.01)


def test_raw_coordinates_are_compared_with_every_seed(made):
    for seed, right in ((1, 0.9), (2, 0.7)):
        made.run("slim", right, seed=seed, knn=None)
    made.run("raw", 0.5, encoder="raw", knn=None)
    every = frame(made.store.read())
    slim, raw = (every[every["method"] == name] for name in ("slim", "raw"))
    test = paired_over_seeds(made.store, slim, raw)
    assert test.seeds == 2 and test.difference == pytest.approx(0.3)
    assert paired_over_seeds(made.store, raw, slim).difference == pytest.approx(-0.3)


def test_pairs_use_the_common_seeds(made):
    for seed, right in ((0, 0.9), (1, 0.7), (2, 0.2)):
        made.run("slim", right, seed=seed, knn=None)
    for seed, right in ((1, 0.5), (0, 0.6)):
        made.run("mamp", right, seed=seed, knn=None)
    made.run("gfp", 0.5, seed=7, knn=None)
    every = frame(made.store.read())
    slim, mamp, gfp = (every[every["method"] == name] for name in ("slim", "mamp", "gfp"))
    test = paired_over_seeds(made.store, slim, mamp)
    assert test.seeds == 2 and test.difference == pytest.approx((0.9 + 0.7 - 0.6 - 0.5) / 2)
    assert test.spread == pytest.approx(np.std([0.3, 0.2], ddof=1))
    assert paired_over_seeds(made.store, slim, gfp) is None


def test_other_test_clips_are_rejected(made):
    made.run("slim", correct(0.5), knn=None)
    made.run("mamp", correct(0.5), ids=np.arange(1, 41), knn=None)
    every = frame(made.store.read())
    with pytest.raises(SkelbenchError, match="different test clips.*--force"):
        paired_over_seeds(made.store, every[every["method"] == "slim"], every[every["method"] == "mamp"])


def test_an_encoder_that_reads_bodies_together_costs_as_much_for_one(made):
    folder = made.root / made.run("slim", tokens=15)
    plain = frame(made.store.read()).iloc[0]
    assert plain["clip_gflops"] == 2 * plain["gflops"] == 4e-9 * MACS[15]
    cost = json.loads((folder / "cost.json").read_text())
    (folder / "cost.json").write_text(json.dumps(cost | {"encoder": cost["encoder"] | {"bodies": 2}}))
    together = frame(made.store.read()).iloc[0]
    assert together["clip_gflops"] == together["gflops"] == plain["gflops"]


def test_an_encoder_is_named_with_its_changed_settings(made):
    made.run("slim", seed=0)
    made.run("mamp")
    made.run("mamp", seed=1, modified={"encoder.dim": 32}, encoder_config={"dim": 32, "cls": True})
    made.run("gfp", encoder="stgcn", encoder_config={})
    made.run("mamp", setting="native", seed=2, encoder_config={"dim": 64, "cls": False})
    rows = frame(made.store.read()).query("protocol == 'linear'").set_index(["method", "seed"])["encoder"]
    assert rows.to_dict() == {
        ("slim", 0): "vit",
        ("mamp", 0): "vit",
        ("mamp", 1): "vit (dim=32)",
        ("mamp", 2): "vit",
        ("gfp", 0): "stgcn",
    }


def test_damaged_predictions_are_an_error(made):
    run = RunDir(made.store.root / made.run("slim", correct(0.5), knn=None))
    (record,) = run.records()
    path = run.path / record["predictions"]
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(SkelbenchError, match="missing or damaged"):
        predictions(run, record)
