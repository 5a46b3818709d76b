"""What figures draw: the lines of their axes against figures chosen here, and where their letters lie."""

import itertools
import math
from functools import partial

import matplotlib
import numpy as np
import pytest
from fabricated import Fabricated, correct
from hypothesis import given, settings
from hypothesis import strategies as st

from skelbench.plugin.host import Host
from skelbench.records.store import ResultStore
from skelbench.reporting.figures import NothingToDraw, curves, style, target_control, token_budget
from skelbench.reporting.figures.layout import Heading, Sheet, wrap
from skelbench.reporting.figures.output import save
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.published import load, slug, tables


def made_run(root, method="slim", tokens=8, seed=0, accuracy=None, variant="", **more):
    """A run below ``root``; with ``accuracy`` also a linear probe on 400 clips. Returns its name."""
    right = None if accuracy is None else correct(accuracy, 400)
    title = f"{method}:{variant}" if variant else method
    return Fabricated(root).run(title, right, tokens=tokens, seed=seed, knn=None, **more)


@pytest.fixture
def context(tmp_path, host):
    """``context(all_=False)`` over the results of a test."""
    return lambda all_=False, only=None: TableInputs(host, ResultStore(tmp_path / "r"), exact_only=not all_, only=only)


@pytest.fixture
def run(tmp_path):
    """``run("slim", 8, seed, accuracy)`` makes a finished run."""
    return partial(made_run, tmp_path / "r")


def panels(figure):
    return [axes for axes in figure.axes if axes.lines or axes.texts]


def line(axes, label):
    """The one line called ``label`` as (x, y) pairs."""
    (found,) = [found for found in axes.lines if found.get_label() == label]
    return [tuple(pair) for pair in np.asarray(found.get_xydata(), dtype=float).tolist()]


def labels(axes):
    return {found.get_label() for found in axes.lines if len(found.get_xdata())}


def words(figure):
    return " ".join(" ".join(text.get_text() for text in figure.texts).split())


def pairs(*expected):
    return [pytest.approx(pair) for pair in expected]


# ---------------------------------------------------------------------------------------------- token budget
def test_a_line_goes_through_the_means_over_seeds_and_costs_are_those_of_two_bodies(run, context):
    for tokens, (first, second) in {8: (0.70, 0.72), 15: (0.74, 0.75), 30: (0.75, 0.80)}.items():
        run("slim", tokens, 0, first)
        run("slim", tokens, 1, second)
        run("untrained", tokens, 0, 0.25)
        run("untrained", tokens, 1, 0.35)
    ours, paper = panels(token_budget.draw(context()))
    assert line(ours, "SLiM") == pairs((0.2, 71), (0.4, 74.5), (1.0, 77.5))
    assert line(ours, "_SLiM, seeds") == pairs((0.2, 70), (0.2, 72), (0.4, 74), (0.4, 75), (1.0, 75), (1.0, 80))
    assert line(ours, "untrained") == pairs((0.2, 30), (0.4, 30), (1.0, 30))
    assert ours.get_xscale() == "log"
    assert [text.get_text() for text in ours.texts] == ["8", "15", "30"]
    assert [tick.get_text() for tick in ours.get_xticklabels()] == ["0.2", "0.4", "1"]


def test_the_published_panel_is_the_paper_s_table(run, context, host):
    run(accuracy=0.5)
    figure = token_budget.draw(context())
    paper = panels(figure)[-1]
    rows = load(host, "slim-token_budget")
    cost = {(row["method"], row["variant"]): row["value"] for row in rows if row["metric"] == "encoder_gflops"}
    for method in ("SkeletonMAE", "MAMP", "S-JEPA", "GFP", "SLiM"):
        own = [row for row in rows if row["method"] == method and row["metric"] == "accuracy"]
        shown = [(cost[method, row["variant"]], row["value"]) for row in own if "384" not in row["variant"]]
        assert line(paper, method) == pairs(*shown)
    assert line(paper, "_SLiM, variant") == pairs((3.59, 89.60))
    assert "Published, not measured here" in words(figure)


def test_headings_say_preset_seeds_clips_and_hardware(run, context):
    run(accuracy=0.5)
    run(accuracy=0.5, seed=1)
    run("mamp", accuracy=0.4)
    said = words(token_budget.draw(context()))
    facts = "moves, cross-view", "preset small", "1 to 2 seeds", "40,000 clips seen", "400 test clips", "cpu x2"
    assert all(fact in said for fact in facts)
    assert "within ±4.9" in said  # Wilson's interval at 50 % of 400 clips


def test_the_interval_in_a_heading_is_the_wider_of_clips_and_subjects_as_in_tables(tmp_path, context):
    made = Fabricated(tmp_path / "r")
    made.run("slim", correct(0.5, 400), knn=None, subjects=np.arange(400) // 50)  # four of eight people, wholly
    said = words(token_budget.draw(context()))
    assert "over subjects" in said and "within ±4.9" not in said


def test_each_data_set_split_and_preset_has_a_panel_and_other_runs_have_none(run, context):
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


def test_changed_settings_at_one_budget_are_points_without_a_line(run, context):
    for batch, accuracy in ((8, 0.5), (16, 0.6)):
        run(accuracy=accuracy, batch_size=batch, modified={"train.batch_size": batch})
    axes = panels(token_budget.draw(context(all_=True)))[0]
    assert line(axes, "SLiM") == pairs((0.2, 50), (0.2, 60))
    assert [found.get_linestyle() for found in axes.lines if found.get_label() == "SLiM"] == ["None"]


def test_half_the_batch_stands_beside_the_line_as_in_the_paper(run, context):
    run(accuracy=0.5)
    run(accuracy=0.45, variant="half-batch", batch_size=384)
    axes = panels(token_budget.draw(context()))[0]
    assert line(axes, "SLiM") == pairs((0.2, 50)) and line(axes, "_SLiM, variant") == pairs((0.2, 45))


def test_only_named_runs_are_drawn(run, context):
    named = run(accuracy=0.5)
    run("mamp", accuracy=0.4)
    assert labels(panels(token_budget.draw(context(only=[named])))[0]) == {"SLiM"}


def test_a_method_looks_the_same_in_every_panel_and_no_two_alike(run, context):
    methods = ["slim", "mamp", "skeletonmae", "sjepa", "gfp", "macdiff", "amr", "dino", "ibot", "mine"]
    for place, method in enumerate(methods):
        run(method, accuracy=0.3 + place / 50)
    ours, paper = (
        {found.get_label(): (found.get_color(), found.get_marker()) for found in axes.lines}
        for axes in panels(token_budget.draw(context()))
    )
    assert len({ours[Host().spelling(method)] for method in methods}) == len(methods)
    assert all(ours[method] == paper[method] for method in ("SLiM", "S-JEPA", "GFP"))


def test_methods_are_written_as_in_papers():
    host = Host()
    printed = {slug(row["method"]): row["method"] for rows in tables(host).values() for row in rows}
    ours = {slug(host.spelling(name)): host.spelling(name) for name in host.names("methods")}
    both = ours.keys() & printed.keys()
    assert len(both) > 20 and {name: ours[name] for name in both} == {name: printed[name] for name in both}
    assert [name for name in ours.values() if name == name.lower()] == ["raw", "untrained"]


# ---------------------------------------------------------------------------------------------- target control
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


def made_control(root, target, losses, ranks=(), pooled=(), seed=0, **more):
    """A run with another target, or SLiM itself."""
    variant = "" if target == "prototypes" else f"target-{target}"
    more = {"variant": variant, "metrics": logged(losses, ranks, pooled)} | more
    return made_run(root, target=target, seed=seed, **more)


@pytest.fixture
def control(tmp_path):
    """``control(target, losses, ranks, pooled, seed)`` makes such a run."""
    return partial(made_control, tmp_path / "r")


def test_loss_and_rank_are_geometric_means_over_seeds_with_every_seed_beside_them(control, context):
    control("features", [0.4, 0.2, 0.1], [8, None, 4], [40, None, 22])
    control("features", [0.1, 0.2, 0.0001], [2, None, 1], [10, None, 22], seed=1)
    loss, rank = panels(target_control.draw(context()))
    assert line(loss, "features") == pairs((10, 0.2), (20, 0.2), (30, 0.1**2.5))
    seeds = [found.get_ydata().tolist() for found in loss.lines if found.get_label() == "_seed"]
    assert sorted(seeds) == [[0.1, 0.2, 0.0001], [0.4, 0.2, 0.1]]
    assert line(rank, "features") == pairs((10, 4), (30, 2))
    assert line(rank, "_faint") == pairs((10, 20), (30, 22))
    assert [y for _, y in line(rank, "_one")] == [1, 1]
    assert loss.get_yscale() == rank.get_yscale() == "log" and rank.get_xlabel() == "Clips seen"
    assert rank.get_ylim()[0] < 1


def test_targets_have_the_paper_s_order_whatever_is_there(control, context):
    for target in ("prototypes", "features-predictor", "coordinates", "features"):
        control(target, [0.5], [4])
    control("features", [0.5], [4], seed=1, modified={"train.lr": 1})
    (legend,) = target_control.draw(context(all_=True)).legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "coordinates",
        "features",
        "features + head",
        "prototypes",
        "features (train.lr=1)",
        "pooled features of the encoder",
    ]


def test_only_panels_in_which_a_target_was_controlled_are_drawn(control, run, context):
    control("prototypes", [5.0], tokens=15)
    control("prototypes", [5.0], dataset="ntu60")
    control("features", [0.1], dataset="ntu60")
    control("features", [0.1], dataset="pku", variant="target-features", modified={"train.lr": 1})
    run(variant="glcl-only", target="prototypes", metrics=logged([1.0]), dataset="ntu60")
    loss, _ = panels(target_control.draw(context()))
    assert labels(loss) == {"features", "prototypes"}
    assert line(loss, "prototypes") == pairs((10, 5))
    assert len(panels(target_control.draw(context(all_=True)))) == 4


def test_of_two_versions_the_one_that_finished_last_is_drawn(control, context):
    control("features", [0.9], finished=1.0, batch_size=8)
    control("features", [0.1], finished=2.0)
    assert line(panels(target_control.draw(context()))[0], "features") == pairs((10, 0.1))


def test_a_data_set_that_has_changed_is_another_panel(control, context):
    control("features", [0.9], finished=1.0)
    control("features", [0.1], finished=2.0, fingerprint="a" * 64)
    assert len(panels(target_control.draw(context()))) == 4


def test_what_a_log_axis_cannot_show_is_a_gap(control, context, tmp_path):
    control("features", [0.3, 0.0, -1.0, math.inf, 1e-9, *[0.1] * 9], [None] * 14)
    control("coordinates", [0.0, 0.0], dataset="a")
    figure = target_control.draw(context())
    nothing, loss, *ranks = panels(figure)
    values = dict(line(loss, "features"))
    assert (values[10], values[50]) == pytest.approx((0.3, 1e-9), rel=1e-9)
    assert all(math.isnan(values[x]) for x in (20, 30, 40))
    assert [text.get_text() for axes in (nothing, *ranks) for text in axes.texts] == [
        "nothing above 0", "not logged", "not logged",
    ]  # fmt: skip
    save(figure, tmp_path / "f.png", "png")


def test_the_caption_holds_the_published_end_points(control, context):
    control("features", [0.1])
    said = words(target_control.draw(context()))
    assert "Features without predictor there: loss 0.313 to 3.3e-05" in said and "rank 1.12" in said


# ---------------------------------------------------------------------------------------------- curves
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
    looks = {found.get_label(): (found.get_color(), found.get_linestyle()) for found in loss.lines}
    assert looks["MAMP, 8 tokens"][0] == looks["MAMP, 30 tokens"][0] and len(set(looks.values())) == 3
    assert [axes.get_ylabel() for axes in (loss, rank)] == ["Loss", "Rank, pooled features"]


def test_seeds_of_a_second_stage_are_one_line(run, context):
    """Each began with the weights of a first stage of its own seed."""
    for seed in range(3):
        first = run("skeletonclr", seed=seed).rpartition("-")[2]
        run("actclr", seed=seed, init_from=first, metrics=logged([3.0 + seed, 2.0]))
    figure = curves.draw(context())
    (loss,) = panels(figure)
    assert [found.get_label() for found in loss.lines].count("ActCLR, 8 tokens") == 1
    assert line(loss, "ActCLR, 8 tokens")[0] == pytest.approx((10, 60 ** (1 / 3))) and "3 seeds" in words(figure)


def test_many_methods_are_told_apart_in_lines_and_legend(run, context):
    for number in range(48):
        run(f"method{number:02}", 8, metrics=logged([3.0, 2.0]))
    figure = curves.draw(context())
    (loss,), (legend,) = panels(figure), figure.legends
    for lines in (loss.lines, legend.get_lines()):
        looks = {(one.get_color(), str(one.get_linestyle()), one.get_marker()) for one in lines}
        assert len(looks) == len(lines) == 48


def test_a_negative_loss_has_a_plain_axis_and_the_mean_of_its_seeds(run, context, tmp_path):
    run("mamp", metrics=logged([0.1, -0.5, -0.9]))
    run("mamp", metrics=logged([0.3, -0.7, -0.5]), seed=1)
    figure = curves.draw(context())
    (loss,) = panels(figure)
    assert loss.get_yscale() == "linear" and not loss.texts
    assert line(loss, "MAMP, 8 tokens") == pairs((10, 0.2), (20, -0.6), (30, -0.7))
    save(figure, tmp_path / "f.png", "png")


def test_seeds_that_logged_at_different_clips_meet_where_both_did():
    clips, values = curves.mean(
        [(np.array([10, 20, 30]), np.array([1.0, 2, 3])), (np.array([20, 30]), np.array([8.0, 12]))]
    )
    assert clips.tolist() == [20, 30] and values.tolist() == pytest.approx([4, 6])


# ---------------------------------------------------------------------------------------------- all figures
@pytest.mark.parametrize(
    ("figure", "command"),
    [
        (token_budget, "skelbench study token-budget"),
        (target_control, "skelbench study target-control"),
        (curves, "skelbench run METHOD"),
    ],
)
def test_without_runs_a_sentence_says_what_to_run(figure, command, context, run):
    with pytest.raises(NothingToDraw, match=command):
        figure.draw(context())
    run("untrained", accuracy=0.2)
    with pytest.raises(NothingToDraw, match=command):
        figure.draw(context())


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """Both studies on two data sets, names with what formulas are made of."""
    root = tmp_path_factory.mktemp("r")
    for dataset in ("synthetic", "uav-human $x$"):
        for seed, tokens in itertools.product((0, 1), (8, 15, 30)):
            for method, accuracy in (("slim", 0.5), ("mamp", 0.49), ("untrained", 0.2)):
                made_run(root, method, tokens, seed, accuracy + seed / 50, dataset=dataset)
        for target in ("coordinates", "features", "features-predictor", "prototypes"):
            made_control(root, target, [0.3, 0.1, 1e-5], [9, 5, 1.1], [20, 21, 22], dataset=dataset)
    return TableInputs(Host(), ResultStore(root))


@pytest.mark.parametrize("figure", [token_budget, target_control, curves])
def test_nothing_covers_anything_and_all_is_on_the_page(figure, full):
    with style.house():
        drawn = figure.draw(full)
        drawn.draw_without_rendering()
        page = drawn.bbox
        boxes = [text.get_window_extent() for text in drawn.texts if text.get_text()]
        boxes += [legend.get_window_extent() for legend in drawn.legends]
        boxes += [axes.get_tightbbox() for axes in drawn.axes]
    for box in boxes:
        assert box.x0 >= page.x0 - 1 and box.x1 <= page.x1 + 1 and box.y0 >= page.y0 and box.y1 <= page.y1
    for one, other in itertools.combinations(boxes, 2):
        wide = min(one.x1, other.x1) - max(one.x0, other.x0)
        high = min(one.y1, other.y1) - max(one.y0, other.y0)
        assert wide < 1 or high < 1, (one, other)


@pytest.mark.parametrize(
    ("figure", "kind"), [(token_budget, "svg"), (token_budget, "pdf"), (token_budget, "png"), (target_control, "svg")]
)
def test_the_same_runs_give_the_same_bytes_and_no_settings_are_left_behind(figure, kind, full, tmp_path):
    before = dict(matplotlib.rcParams)
    for name in ("a", "b"):
        save(figure.draw(full), tmp_path / name, kind, dpi=60)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert dict(matplotlib.rcParams) == before


def test_the_user_s_own_settings_of_matplotlib_change_nothing(full, tmp_path):
    save(token_budget.draw(full), tmp_path / "a", "svg")
    with matplotlib.rc_context({"axes.facecolor": "black", "font.size": 30, "lines.linewidth": 9}):
        save(token_budget.draw(full), tmp_path / "b", "svg")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@settings(max_examples=40, deadline=None)
@given(st.floats(1e-12, 1e6), st.floats(1.5, 1e9))
def test_a_log_axis_has_a_few_ticks_within_its_limits(low, ratio):
    sheet = Sheet("t", [[Heading()]], [], [])
    axes = sheet.axes[0][0]
    axes.set_yscale("log")
    axes.set_ylim(low, low * ratio)
    style.log_axis(axes.yaxis, low, low * ratio)
    ticks = [tick for tick in axes.yaxis.get_majorticklocs() if low <= tick <= low * ratio]
    assert 1 <= len(ticks) <= 9


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.05, "0.05"), (300, "300"), (20_000, "20,000"), (1e-5, "10⁻⁵"), (3.3e-5, "3.3·10⁻⁵"), (0, "0")],
)
def test_numbers_are_plain(value, text):
    assert style.number(value) == text


@given(st.lists(st.text("abc-", min_size=1, max_size=12), min_size=1), st.floats(1, 5))
def test_wrapped_lines_keep_every_word(words, inside):
    text = " ".join(words)
    lines = wrap(text, inside, 8)
    assert " ".join(lines) == text and all(lines)
