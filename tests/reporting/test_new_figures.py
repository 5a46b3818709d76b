"""Trade-off, scaling, robustness and coverage: their points and lines against figures chosen here."""

import json

import numpy as np
import pytest
from fabricated import Fabricated, correct
from matplotlib.text import Text

from skelbench.cli.main import main
from skelbench.core.errors import SkelbenchError
from skelbench.plugin.host import Host
from skelbench.reporting import published
from skelbench.reporting.figures import NothingToDraw, coverage, labels, robustness, scaling, style, trade_off
from skelbench.reporting.inputs import TableInputs

MASKS = 500


@pytest.fixture
def made(tmp_path):
    return Fabricated(tmp_path / "results")


def run(made, title="slim", share=0.5, **more):
    return made.run(title, correct(share, 400), knn=None, **more)


def inputs(made, all_=False, **more):
    return TableInputs(Host(), made.store, exact_only=not all_, **more)


def panels(figure):
    return [axes for axes in figure.axes if axes.lines or axes.texts]


def line(axes, label):
    (found,) = [found for found in axes.lines if found.get_label() == label]
    return [tuple(pair) for pair in np.asarray(found.get_xydata(), dtype=float).tolist()]


def said(figure):
    return " ".join(" ".join(text.get_text() for text in figure.texts).split())


def pairs(*expected):
    return [pytest.approx(pair) for pair in expected]


# ---------------------------------------------------------------------------------------------- trade-off
def test_points_are_named_after_method_and_tokens(made):
    for tokens, share in ((8, 0.7), (30, 0.8)):
        run(made, tokens=tokens, share=share)
        run(made, tokens=tokens, share=share + 0.02, seed=1)
    run(made, "mine", 0.6)
    ours, paper = panels(trade_off.draw(inputs(made)))
    assert {text.get_text() for text in ours.texts} == {"SLiM-8", "SLiM-30", "mine-8"}
    assert line(ours, "SLiM") == pairs((0.2, 71), (1.0, 81))
    assert {"SLiM-8", "MAMP-30", "GFP-30"} <= {text.get_text() for text in paper.texts}
    assert {found.get_markerfacecolor() for found in paper.lines} == {"white"}
    alone = inputs(made, settings=trade_off.TradeOff(published=False))
    assert len(panels(trade_off.draw(alone))) == 1


def test_that_points_of_one_name_differ_in_settings_is_said_where_there_are_any(made):
    run(made, share=0.7, modified={"train.lr": 1})
    run(made, "mine", share=0.7, modified={"train.lr": 1})
    assert trade_off.ALIKE not in said(trade_off.draw(inputs(made, all_=True)))
    run(made, share=0.8, modified={"train.lr": 2})
    assert trade_off.ALIKE in said(trade_off.draw(inputs(made, all_=True)))


def test_means_over_splits_are_of_settings_with_all_of_them_and_meet_the_published_ones(made):
    for split, share in (("cross-subject", 0.7), ("cross-view", 0.8)):
        run(made, share=share, dataset="ntu60", split=split)
    run(made, "mamp", 0.6, dataset="ntu60", split="cross-view")
    figure = trade_off.draw(inputs(made, settings=trade_off.TradeOff(splits="mean")))
    (axes,) = panels(figure)
    assert line(axes, "SLiM") == pairs((0.2, 75))
    assert "MAMP" not in {found.get_label() for found in axes.lines}
    cost = {row["variant"]: row["value"] for row in published.load(Host(), "slim-token_budget", metric="encoder_gflops",
                                                                   method="SLiM")}  # fmt: skip
    assert line(axes, "SLiM, published")[-1] == pytest.approx((cost["30x25"], 90.90))
    assert "ntu60, cross-subject + cross-view mean" in said(figure) and "not measured here" in said(figure)


def test_a_mean_over_splits_which_share_clips_has_no_interval(made):
    for split in ("cross-subject", "cross-view"):
        run(made, dataset="ntu60", split=split)
    assert "test clips (95" in said(trade_off.draw(inputs(made)))
    assert "test clips" not in said(trade_off.draw(inputs(made, settings=trade_off.TradeOff(splits="mean"))))


def test_without_two_splits_there_is_no_mean(made):
    run(made)
    with pytest.raises(NothingToDraw, match="leave out --set splits=mean"):
        trade_off.draw(inputs(made, settings=trade_off.TradeOff(splits="mean")))


def test_names_beside_points_do_not_cover_each_other():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4, 3))
    axes = figure.subplots()
    axes.set(xlim=(0, 10), ylim=(0, 10))
    axes.plot([2, 8], [5, 5])
    labels.write(axes, [labels.Name(5 + i / 10, 5, f"method-{i}", "black") for i in range(6)])
    with style.house():
        figure.draw_without_rendering()
        boxes = [Text.get_window_extent(text) for text in axes.texts]  # without the line to the point
    assert len(boxes) == 6
    for place, one in enumerate(boxes):
        for other in boxes[:place]:
            wide, tall = min(one.x1, other.x1) - max(one.x0, other.x0), min(one.y1, other.y1) - max(one.y0, other.y0)
            assert wide <= 1 or tall <= 1


# ---------------------------------------------------------------------------------------------- scaling
def test_snapshots_lie_where_they_were_taken_and_are_told_from_finished_trainings(made):
    run(made, share=0.8)
    for checkpoint, share in (("75", 0.6), ("37.5", 0.4)):  # of 150 epochs and 40,000 clips
        run(made, share=share, checkpoint=checkpoint, standard=False)
    clips, flops = panels(scaling.draw(inputs(made)))
    assert line(clips, "SLiM, 8 tokens") == pairs((40_000, 80))
    assert line(clips, "_SLiM, 8 tokens, snapshots") == pairs((10_000, 40), (20_000, 60))
    assert line(clips, "_way") == pairs((10_000, 40), (20_000, 60), (40_000, 80))
    # A step is 40 GFLOPs per clip and body: 2 * 40e9 * 40,000 = 3.2e15.
    assert line(flops, "SLiM, 8 tokens") == pairs((3.2, 80))
    assert line(flops, "_SLiM, 8 tokens, snapshots") == pairs((0.8, 40), (1.6, 60))


def test_snapshots_of_another_probe_are_left_out_unless_all_is_shown(made):
    run(made, share=0.8)
    run(made, share=0.6, checkpoint="75", standard=False, modified={"train.lr": 1})
    figure = scaling.draw(inputs(made))
    assert not [found for found in figure.axes[0].lines if found.get_label() == "_SLiM, 8 tokens, snapshots"
                and len(found.get_xdata())]  # fmt: skip
    assert "No snapshot was evaluated yet" in said(figure)
    assert line(scaling.draw(inputs(made, True)).axes[0], "_SLiM, 8 tokens (train.lr=1), snapshots") == pairs(
        (20_000, 60)
    )


def test_a_way_is_of_the_same_seeds_from_its_first_snapshot_to_its_end(made):
    run(made, share=0.8)
    run(made, share=0.4, seed=1)
    for checkpoint, share in (("75", 0.6), ("37.5", 0.5)):
        run(made, share=share, checkpoint=checkpoint, standard=False)
    clips = scaling.draw(inputs(made)).axes[0]
    assert line(clips, "SLiM, 8 tokens") == pairs((40_000, 60))  # both seeds
    assert line(clips, "_SLiM, 8 tokens, snapshots") == pairs((10_000, 50), (20_000, 60))
    assert line(clips, "_way") == pairs((10_000, 50), (20_000, 60), (40_000, 80))


def test_seeds_without_a_snapshot_in_common_go_ways_of_their_own(made):
    for seed, checkpoint, share in ((0, "75", 0.6), (1, "37.5", 0.5)):
        run(made, share=share + 0.1, seed=seed)
        run(made, share=share, seed=seed, checkpoint=checkpoint, standard=False)
    clips = scaling.draw(inputs(made)).axes[0]
    ways = [found.get_xydata().tolist() for found in clips.lines if found.get_label() == "_way"]
    assert sorted(ways) == [pairs((10_000, 50), (40_000, 60)), pairs((20_000, 60), (40_000, 70))]
    assert line(clips, "SLiM, 8 tokens") == pairs((40_000, 65))


def test_an_untrained_encoder_counts_once_however_many_runs_stand_above_it(made):
    for seed, share in ((0, 0.2), (1, 0.4)):
        run(made, "untrained", share, seed=seed)
        run(made, share=0.7, seed=seed)
    for method in ("mamp", "gfp"):
        run(made, method, share=0.6)
    assert [y for _, y in line(scaling.draw(inputs(made)).axes[0], "_untrained")] == pairs(30, 30)


@pytest.mark.parametrize("grids", [(8,), (8, 30)])
def test_no_two_lines_look_the_same(grids):
    lines = [scaling.Line(f"method{n}", tokens) for n in range(48) for tokens in grids]
    looks = scaling._looks(lines)
    assert len({(look["color"], look["marker"]) for look in looks.values()}) == len(lines)


def test_trainings_of_other_lengths_are_one_line_and_the_untrained_encoder_is_below(made):
    run(made, share=0.6)
    lengths = {300: ({"train.epochs": 300}, 0.8), 600: ({"budget clips": "160000"}, 0.9)}
    for epochs, (modified, share) in lengths.items():
        path = made.root / run(made, share=share, epochs=epochs, modified=modified) / "run.json"
        seen = {"clips_seen": epochs * 40_000 // 150}
        path.write_text(json.dumps(json.loads(path.read_text()) | seen))
    run(made, "untrained", 0.2)
    given = inputs(made)
    axes = scaling.draw(given).axes[0]
    assert not given.left_out
    assert line(axes, "SLiM, 8 tokens") == pairs((40_000, 60), (80_000, 80), (160_000, 90))
    assert [y for _, y in line(axes, "_untrained")] == pairs(20, 20) and not axes.texts
    for title, share in (("untrained", 0.3), ("slim", 0.7)):
        run(made, title, share, tokens=15)
    figure = scaling.draw(inputs(made))
    (legend,) = figure.legends
    named = {text.get_text(): key.get_linestyle() for text, key in zip(legend.get_texts(), legend.get_lines())}
    below = [one for one in figure.axes[0].lines if one.get_label() == "_untrained"]
    drawn = {round(one.get_ydata()[0]): one.get_linestyle() for one in below}
    assert drawn == {20: named["untrained encoder, 8x25+1"], 30: named["untrained encoder, 15x25+1"]}
    assert drawn[20] != drawn[30]


# ---------------------------------------------------------------------------------------------- robustness
def degraded(made, levels, share=0.8, protocol="robustness", **more):
    """A run measured under ``levels``: name -> (accuracy, standard deviation)."""
    name = run(made, share=share, protocol=protocol, **more)
    (path,) = (
        path
        for path in (made.root / name).glob("eval-*.json")
        if json.loads(path.read_text())["spec"]["protocol"] == protocol
    )
    record = json.loads(path.read_text())
    for level, (accuracy, sd) in levels.items():
        record["metrics"] |= {f"accuracy_{level}": accuracy, f"accuracy_{level}_sd": sd}
    path.write_text(json.dumps(record))
    return name


def test_accuracy_falls_with_severity_and_bands_are_draws(made):
    for seed, more in ((0, 0.0), (1, 0.02)):
        levels = {"missing_0.32": (0.5 + more, 0.01), "missing_0.12": (0.7 + more, 0.03), "noise_0.05": (0.6, 0.0)}
        degraded(made, levels, seed=seed)
    figure = robustness.draw(inputs(made))
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


def test_of_evaluations_with_one_label_the_newest_version_and_the_most_seeds_count(made):
    for version, share in ((1, 0.3), (2, 0.8)):
        degraded(made, {"missing_0.12": (share - 0.1, 0.01)}, share=share, version=version)
    for seed in (1, 2):
        degraded(made, {"missing_0.12": (0.5, 0.01)}, share=0.8, version=2, seed=seed)
    degraded(made, {"missing_0.12": (0.1, 0.01)}, share=0.8, version=2, protocol="missing-representation")
    missing, *_ = panels(robustness.draw(inputs(made)))
    assert line(missing, "SLiM") == pairs((0, 80), (0.12, (70 + 50 + 50) / 3))


def test_a_method_s_own_setting_has_panels_of_its_own(made):
    degraded(made, {"missing_0.12": (0.7, 0.01)})
    degraded(made, {"missing_0.12": (0.85, 0.01)}, share=0.9, seed=1, setting="native")
    found = {
        block.heading.note: block.lines["missing"]["SLiM"] for block in robustness.measured(inputs(made).frame, Host())
    }
    accuracies = {"setting native" in note: [level.accuracy for level in levels] for note, levels in found.items()}
    assert accuracies == {False: pytest.approx([80, 70]), True: pytest.approx([90, 85])}


def test_published_curves_stand_in_the_panel_of_their_data_set(made):
    degraded(made, {"missing_0.12": (0.7, 0.01)}, dataset="ntu60", split="cross-subject")
    figure = robustness.draw(inputs(made))
    first = panels(figure)[0]
    assert line(first, "SLiM, published")[:2] == pairs((0, 87.9), (0.12, 87.86))
    assert said(figure).count("Published, not measured here") == 1  # X-View, which nothing here is of


# ---------------------------------------------------------------------------------------------- coverage
def covered(method, tmp_path, **settings):
    from skelbench.records.store import ResultStore
    from skelbench.reporting.figures.coverage import Coverage

    asked = Coverage(method=method, masks=MASKS, dataset="small", **settings)
    return coverage.draw(TableInputs(Host(), ResultStore(tmp_path / "r"), data_root=tmp_path, settings=asked))


def test_coverage_is_that_of_the_masks_drawn(tmp_path, monkeypatch):
    from small import write_small_store

    write_small_store(tmp_path)
    row = {"method": "SLiM", "variant": "8x25", "metric": "coverage", "value": 0.695, "std": 0.114}
    row |= {"source": "P, s (x)"}
    monkeypatch.setattr(published, "tables", lambda host: {"mine": [row]})
    figure = covered("slim", tmp_path, tokens=8)
    whole, *local = panels(figure)
    (mean,) = {x for x, _ in line(whole, "mean")}
    assert 0.68 < mean < 0.71 and [x for x, _ in line(whole, "published")] == [0.695, 0.695]
    assert all("published" not in {found.get_label() for found in axes.lines} for axes in local) and len(local) == 3
    bars = sum(patch.get_height() for patch in whole.patches if patch.get_width() < 0.1)
    assert bars == pytest.approx(100)
    assert "global1, global2" in said(figure) and "0.695 ± 0.114 (P, s), not measured here" in said(figure)
    again = panels(covered("slim", tmp_path, tokens=8))[0]
    assert {x for x, _ in line(again, "mean")} == {mean}


def test_a_constant_ratio_is_one_bar_and_a_method_without_masks_is_refused(tmp_path):
    from small import write_small_store

    write_small_store(tmp_path)
    figure = covered("macdiff", tmp_path, tokens=8)
    (axes,) = panels(figure)
    assert sum(patch.get_height() > 0 for patch in axes.patches if patch.get_width() == pytest.approx(0.02)) == 1
    with pytest.raises(SkelbenchError, match="dino asks for no masked views"):
        covered("dino", tmp_path)


# ---------------------------------------------------------------------------------------------- all of them
@pytest.mark.parametrize(
    ("figure", "command"),
    [
        (trade_off, "skelbench study token-budget"),
        (scaling, "skelbench run METHOD"),
        (robustness, "skelbench eval RUN --protocol robustness"),
        (coverage, "skelbench plot coverage --method NAME"),
    ],
)
def test_without_runs_a_sentence_says_what_to_run(figure, command, made):
    with pytest.raises(NothingToDraw, match=command):
        figure.draw(inputs(made))


@pytest.mark.parametrize("figure", [trade_off, scaling, robustness])
def test_nothing_covers_anything_and_all_is_on_the_page(figure, made):
    for dataset in ("ntu60", "uav-human $x$"):
        for method in ("slim", "mamp", "skeletonmae", "a"):
            for tokens in (8, 30):
                run(made, method, 0.5, tokens=tokens, dataset=dataset)
            degraded(made, {"missing_0.12": (0.7, 0.01), "noise_0.01": (0.6, 0.01)}, title=method, dataset=dataset)
    for lr in (1e-4, 2e-4):
        run(made, "a", modified={f"method.some_long_setting_{i}": lr for i in range(6)})
    with style.house():
        drawn = figure.draw(inputs(made, all_=True))
        drawn.draw_without_rendering()
        boxes = [text.get_window_extent() for text in drawn.texts if text.get_text()]
        boxes += [legend.get_window_extent() for legend in drawn.legends]
        boxes += [axes.get_tightbbox() for axes in drawn.axes]
    for place, one in enumerate(boxes):
        assert one.x0 >= drawn.bbox.x0 - 1 and one.x1 <= drawn.bbox.x1 + 1 and one.y0 >= 0 and one.y1 <= drawn.bbox.y1
        for other in boxes[:place]:
            wide, tall = min(one.x1, other.x1) - max(one.x0, other.x0), min(one.y1, other.y1) - max(one.y0, other.y0)
            assert wide <= 1 or tall <= 1


def test_settings_are_given_by_set(made, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run(made)
    place = ["--results", str(made.root), "--dpi", "50"]
    assert main(["plot", "trade-off", "--set", "published=false", *place]) == 0
    assert (tmp_path / "trade-off.png").exists()
    for wrong, answer in (("publishd=1", "did you mean 'published'"), ("splits=men", "did you mean 'mean'")):
        assert main(["plot", "trade-off", "--set", wrong, *place]) == 2
        assert answer in capsys.readouterr().err
    assert main(["plot", "coverage", "--method", "slim", "--set", "method=slim", *place]) == 2
    assert "leave one of them out" in capsys.readouterr().err
    assert main(["plot", "coverage", "--method", "slim,mamp", *place]) == 2
    assert "room for one method, not for slim,mamp" in capsys.readouterr().err
    assert main(["plot", "curves", "--set", "a=1", *place]) == 2
