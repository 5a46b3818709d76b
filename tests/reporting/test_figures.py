"""Values that figures draw: the lines of their axes against numbers chosen here."""

import itertools
import json

import numpy as np
import pytest
from fabricated import Fabricated, correct
from matplotlib.text import Text
from skelbench_plugins.figures import coverage, robustness
from small import write_small_store

from skelbench.plugin.host import Host
from skelbench.records.store import ResultStore
from skelbench.reporting import published
from skelbench.reporting.figures import curves, scaling, token_budget
from skelbench.reporting.figures.base import PALE, method_look, save
from skelbench.reporting.inputs import TableInputs


@pytest.fixture
def run(tmp_path):
    """``run("slim", 8, seed, accuracy)`` makes a finished run, with ``accuracy`` also a linear probe on 400 clips."""

    def make(method="slim", tokens=8, seed=0, accuracy=None, variant="", **more):
        right = None if accuracy is None else correct(accuracy, 400)
        title = f"{method}:{variant}" if variant else method
        return Fabricated(tmp_path / "r").run(title, right, tokens=tokens, seed=seed, knn=None, **more)

    return make


@pytest.fixture
def context(tmp_path, host):
    """``context(all_=False)``: inputs over the results of a test."""
    return lambda all_=False, **more: TableInputs(host, ResultStore(tmp_path / "r"), exact_only=not all_, **more)


def panels(figure):
    return figure.axes


def line(axes, label):
    """The line called ``label`` as (x, y) pairs."""
    (found,) = [found for found in axes.lines if found.get_label() == label]
    return [tuple(pair) for pair in np.asarray(found.get_xydata(), dtype=float).tolist()]


def names(axes):
    """Texts next to points."""
    return [text.get_text() for text in axes.texts if text.get_label() != "_note"]


def words(figure):
    return " ".join(" ".join(text.get_text() for text in figure.findobj(Text)).split())


def pairs(*expected):
    return [pytest.approx(pair) for pair in expected]


def test_a_line_goes_through_the_means_over_seeds_and_costs_are_those_of_two_bodies(run, context):
    for tokens, (first, second) in {8: (0.70, 0.72), 15: (0.74, 0.75), 30: (0.75, 0.80)}.items():
        run("slim", tokens, 0, first)
        run("slim", tokens, 1, second)
        run("untrained", tokens, 0, 0.25)
        run("untrained", tokens, 1, 0.35)
    ours, paper = panels(token_budget.draw(context()))
    assert line(ours, "SLiM") == pairs((0.2, 71), (0.4, 74.5), (1.0, 77.5))
    assert line(ours, "_SLiM, seeds") == pairs((0.2, 70), (0.2, 72), (0.4, 74), (0.4, 75), (1.0, 75), (1.0, 80))
    assert line(ours, "untrained encoder") == pairs((0.2, 30), (0.4, 30), (1.0, 30))
    assert ours.get_xscale() == "log"
    assert names(ours) == ["8", "15", "30"]


def test_each_dataset_split_and_preset_has_a_panel(run, context):
    run(accuracy=0.5)
    run(accuracy=0.6, split="cross-subject")
    run(accuracy=0.7, preset="quick", epochs=10)
    run(accuracy=0.8, dataset="ntu60", setting="native")
    run(accuracy=0.8, dataset="pku", variant="glcl-only")
    run(accuracy=0.8, dataset="tiny", modified={"train.lr": 1})
    run("untrained", accuracy=0.8, dataset="small")
    run(accuracy=0.8, dataset="toyota", outcome="failed")
    *ours, _ = panels(token_budget.draw(context()))
    assert [line(axes, "SLiM") for axes in ours] == [pairs((0.2, 60)), pairs((0.2, 70)), pairs((0.2, 50))]
    assert len(panels(token_budget.draw(context(all_=True)))) == 5


def test_runs_that_finished_last_count_and_nothing_is_chosen_by_its_accuracy(run, context):
    run(accuracy=0.9, finished=1.0, batch_size=8)
    run(accuracy=0.5, finished=2.0)
    run(accuracy=0.6, finished=3.0, seed=1)
    run(accuracy=0.7, tokens=15)
    assert line(panels(token_budget.draw(context()))[0], "SLiM") == pairs((0.2, 55), (0.4, 70))


def logged(losses, ranks=(), pooled=()):
    """Lines of metrics.jsonl, ten clips apart; None = not logged."""
    lines = []
    for step, (loss, rank, wide) in enumerate(itertools.zip_longest(losses, ranks, pooled), 1):
        values = {"mfp": loss, "loss": loss, "rank_masked": rank, "rank_pooled": wide}
        lines.append(
            {"step": step, "epoch": step / 10, "clips_seen": 10 * step}
            | {k: v for k, v in values.items() if v is not None}
        )
    return lines


@pytest.fixture
def control(run):
    """``control(target, losses, ranks, pooled)`` makes a run with another target, or SLiM itself."""

    def make(target, losses, ranks=(), pooled=(), **more):
        variant = "" if target == "prototypes" else f"target-{target}"
        return run(target=target, variant=variant, metrics=logged(losses, ranks, pooled), **more)

    return make


def test_loss_and_rank_are_geometric_means_next_to_every_seed(control, context):
    control("features", [0.4, 0.2, 0.1], [8, None, 4], [40, None, 22])
    control("features", [0.1, 0.2, 0.0001], [2, None, 1], [10, None, 22], seed=1)
    loss, rank = panels(curves.draw_targets(context()))
    assert line(loss, "features") == pairs((10, 0.2), (20, 0.2), (30, 0.1**2.5))
    seeds = [found.get_ydata().tolist() for found in loss.lines if found.get_label() == "_seed"]
    assert sorted(seeds) == [[0.1, 0.2, 0.0001], [0.4, 0.2, 0.1]]
    assert line(rank, "features") == pairs((10, 4), (30, 2))
    assert line(rank, "_faint") == pairs((10, 20), (30, 22))
    assert [y for _, y in line(rank, "_one")] == [1, 1]
    assert loss.get_yscale() == rank.get_yscale() == "log" and rank.get_xlabel() == "Clips seen"
    assert rank.get_ylim()[0] < 1


def test_curves_show_every_run_with_a_row_for_each_rank_that_was_logged(run, context):
    run("mamp", 8, metrics=logged([3.0, 2.0], [None, None], [9, 8]))
    run("mamp", 30, metrics=logged([2.0, 1.0]))
    run("slim", 8, variant="glcl-only", metrics=logged([6.0, 5.0]))
    run("untrained", 8)
    figure = curves.draw(context())
    loss, rank = panels(figure)
    assert line(loss, "MAMP, 8 tokens") == pairs((10, 3), (20, 2))
    assert line(loss, "SLiM:glcl-only, 8 tokens") == pairs((10, 6), (20, 5))
    assert line(rank, "MAMP, 8 tokens") == pairs((10, 9), (20, 8))
    looks = {found.get_label(): (found.get_color(), str(found.get_linestyle())) for found in loss.lines}
    assert looks["MAMP, 8 tokens"][0] == looks["MAMP, 30 tokens"][0] and len(set(looks.values())) == 3
    assert [axes.get_ylabel() for axes in (loss, rank)] == ["Loss", "Rank, pooled features"]


def test_a_negative_loss_has_a_linear_axis_and_arithmetic_mean(run, context, tmp_path):
    run("mamp", metrics=logged([0.1, -0.5, -0.9]))
    run("mamp", metrics=logged([0.3, -0.7, -0.5]), seed=1)
    figure = curves.draw(context())
    (loss,) = panels(figure)
    assert loss.get_yscale() == "linear" and not names(loss)
    assert line(loss, "MAMP, 8 tokens") == pairs((10, 0.2), (20, -0.6), (30, -0.7))
    save(figure, tmp_path / "f.png", "png")


def test_bars_are_intervals_and_published_points_have_their_own_panel(run, context):
    run(accuracy=0.7)
    figure = token_budget.draw_trade_off(context())
    ours, paper = panels(figure)
    (bar,) = [found.get_ydata() for found in ours.lines if found.get_label() == "_interval"]
    assert tuple(bar) == pytest.approx((65.3, 74.3), abs=0.1)  # Wilson's interval at 70 % of 400 clips
    assert line(ours, "_SLiM") == pairs((0.2, 70)) and names(ours) == ["SLiM-8"]
    cost = {row["variant"]: row["value"] for row in published.load(Host(), "slim-token_budget", metric="encoder_gflops",
                                                                   method="SLiM")}  # fmt: skip
    assert line(paper, "_SLiM, published")[-1] == pytest.approx((cost["30x25"], 90.90))
    assert "chance" in words(figure) and "not measured here" in words(figure)


def test_a_method_has_one_look_and_its_variants_have_a_marker_of_their_own(host):
    assert method_look(host, "S-JEPA") == method_look(host, "sjepa") != method_look(host, "slim")
    variants = [method_look(host, f"slim:{variant}")["marker"] for variant in ("glcl-only", "mfp-only")]
    assert len({method_look(host, "slim")["marker"], *variants}) == 3
    assert method_look(host, "untrained")["color"] == PALE


def test_curves_include_runs_with_another_training_length(run, context):
    run(metrics=logged([3.0, 2.0]), modified={"budget clips": 20})
    assert line(panels(curves.draw(context()))[0], "SLiM, 8 tokens, 20 clips") == pairs((10, 3), (20, 2))


def test_snapshots_are_drawn_at_their_clips_and_differ_from_finished_runs(run, context):
    run(accuracy=0.8)
    for checkpoint, share in (("75", 0.6), ("37.5", 0.4)):  # of 150 epochs and 40,000 clips
        run(accuracy=share, checkpoint=checkpoint, standard=False)
    clips, flops = panels(scaling.draw(context()))
    assert line(clips, "SLiM") == pairs((40_000, 80))
    assert line(clips, "_SLiM, snapshots") == pairs((10_000, 40), (20_000, 60))
    assert line(clips, "_way") == pairs((10_000, 40), (20_000, 60), (40_000, 80))
    # A step is 40 GFLOPs per clip and body: 2 * 40e9 * 40,000 = 3.2e15.
    assert line(flops, "SLiM") == pairs((3200, 80))
    assert line(flops, "_SLiM, snapshots") == pairs((800, 40), (1600, 60))


def test_accuracy_falls_with_severity_and_bands_are_draws(run, context, tmp_path):
    for seed, more in ((0, 0.0), (1, 0.02)):
        levels = {"missing_0.32": (0.5 + more, 0.01), "missing_0.12": (0.7 + more, 0.03), "noise_0.05": (0.6, 0.0)}
        degraded(run, tmp_path, levels, seed=seed)
    figure = robustness.draw(context())
    missing, noise, *_ = panels(figure)
    assert line(missing, "SLiM") == pairs((0, 80), (0.12, 71), (0.32, 51))
    assert line(noise, "SLiM") == pairs((0, 80), (0.05, 60))
    (band,) = missing.collections
    edges = {round(float(x), 2): [] for x in band.get_paths()[0].vertices[:, 0]}
    for x, y in band.get_paths()[0].vertices:
        edges[round(float(x), 2)].append(float(y))
    assert (min(edges[0.12]), max(edges[0.12])) == pytest.approx((68, 74))
    assert [tick.get_text() for tick in missing.get_xticklabels()] == ["0", "12", "32"]
    assert missing.get_ylim() == noise.get_ylim()


def degraded(run, tmp_path, levels, accuracy=0.8, protocol="robustness", **more):
    """A run measured under ``levels``: name -> (accuracy, standard deviation)."""
    name = run(accuracy=accuracy, protocol=protocol, **more)
    (path,) = (
        path
        for path in (tmp_path / "r" / name).glob("eval-*.json")
        if json.loads(path.read_text())["spec"]["protocol"] == protocol
    )
    record = json.loads(path.read_text())
    for level, (accuracy, sd) in levels.items():
        record["metrics"] |= {f"accuracy_{level}": accuracy, f"accuracy_{level}_sd": sd}
    path.write_text(json.dumps(record))
    return name


def covered(method, tmp_path, **settings):
    asked = coverage.Coverage(method=method, masks=500, dataset="small", **settings)
    return coverage.draw(TableInputs(Host(), ResultStore(tmp_path / "r"), data_root=tmp_path, settings=asked))


def test_coverage_equals_the_drawn_masks(tmp_path, monkeypatch):
    write_small_store(tmp_path)
    row = {"method": "SLiM", "variant": "8x25", "metric": "coverage", "value": 0.695, "std": 0.114}
    row |= {"source": "P, s (x)"}
    monkeypatch.setattr(published, "tables", lambda host: {"mine": [row]})
    figure = covered("slim", tmp_path, tokens=8)
    whole, *local = panels(figure)
    (mean,) = {x for x, _ in line(whole, "mean")}
    assert 0.68 < mean < 0.71 and [x for x, _ in line(whole, "published mean")] == [0.695, 0.695]
    assert (
        all("published mean" not in {found.get_label() for found in axes.lines} for axes in local) and len(local) == 3
    )
    bars = sum(patch.get_height() for patch in whole.patches if patch.get_width() < 0.1)
    assert bars == pytest.approx(100)
    assert "global1, global2" in words(figure) and "0.695 ± 0.114 (P, s), not measured here" in words(figure)
    again = panels(covered("slim", tmp_path, tokens=8))[0]
    assert {x for x, _ in line(again, "mean")} == {mean}
