"""Gallery, retrieval and map: what they show of one untrained encoder and a small dataset, by command."""

import numpy as np
import pytest
from matplotlib.text import Text
from skelbench_plugins.figures import feature_map, gallery, retrieved
from small import silent_session, tiny_run, write_small_store

from skelbench.cli.main import main
from skelbench.evaluation.protocol import Features
from skelbench.pipeline.pretrain import pretrain
from skelbench.plugin.host import Host
from skelbench.records.store import ResultStore
from skelbench.reporting.figures import NothingToDraw
from skelbench.reporting.inputs import TableInputs


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a dataset and an untrained run."""
    root, host = tmp_path_factory.mktemp("figures"), Host()
    write_small_store(root / "data")
    session = silent_session(root / "data", host, root / "results")
    pretrain(session, tiny_run(root / "data", host, "untrained"))
    return root


@pytest.fixture
def inputs(place):
    """``inputs(settings, named=True)``: with the run named, as it has no training to be found by."""

    def make(settings, named=True):
        store = ResultStore(place / "results")
        only = [run.name for run in store.read()] if named else None
        return TableInputs(Host(), store, only=only, data_root=place / "data", settings=settings)

    return make


def said(figure):
    return " ".join(" ".join(text.get_text() for text in figure.findobj(Text)).split())


# ------------------------------------------------------------------------------------------------ gallery
def test_gallery_shows_the_clip_each_part_and_each_view(inputs):
    figure = gallery.draw(inputs(gallery.Gallery(method="slim", dataset="small", frames=2, tokens=8)))
    words = said(figure)
    for row in ("as stored", "rotate alone", "mirror alone", "bone-scale alone", "tube alone", "global1", "local8-2"):
        assert row in words
    assert "% hidden" in words and "hidden by the mask" in [t.get_text() for t in figure.legends[0].get_texts()]
    assert len(figure.axes) == 2 * (1 + 4 + 8)
    assert "Masks that a method draws within its training step are not shown." in words
    with pytest.raises(NothingToDraw, match="skelbench plot gallery --method NAME"):
        gallery.draw(inputs(gallery.Gallery()))


# ------------------------------------------------------------------------------------------------ retrieval
def corner_features():
    """Test clips whose nearest training clip is known: of their class for the even ones, of another for the odd."""
    train_x = np.eye(4, dtype=np.float32)
    test_x = np.repeat(np.eye(4, dtype=np.float32), 2, axis=0) + 0.1
    test_y = np.array([0, 1, 1, 2, 2, 3, 3, 0])
    return Features(train_x, np.arange(4), test_x, test_y, np.arange(4), np.arange(4, 12), num_classes=4)


def test_half_of_the_queries_are_misclassified_and_neighbors_ordered():
    near, index, right = retrieved.nearest(corner_features(), 3)
    assert right[:, 0].tolist() == [True, False] * 4 and (np.diff(near, axis=1) <= 0).all()
    assert index[:, 0].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    queries = retrieved.chosen_queries(right[:, 0], 4, seed=0)
    assert right[queries, 0].tolist() == [True, True, False, False]


def test_retrieval_marks_right_and_wrong_by_color_and_sign(inputs):
    figure = retrieved.draw(inputs(retrieved.Retrieval(queries=4, poses=1, neighbors=2)))
    texts = [axes.xaxis.label for axes in figure.axes]
    marks = {text.get_color() for text in texts if text.get_text().startswith("✓ ")}
    crosses = {text.get_color() for text in texts if text.get_text().startswith("✗ ")}
    assert marks | crosses and marks <= {retrieved.RIGHT[0]} and crosses <= {retrieved.WRONG[0]}
    assert said(figure).count("query ") >= 4 and "1-NN accuracy" in said(figure) and len(figure.axes) == 4 * 3


# ------------------------------------------------------------------------------------------------ map


def test_the_most_frequent_groups_are_colored_and_the_rest_is_gray(inputs):
    figure = feature_map.draw(inputs(feature_map.FeatureMap(groups=1)))
    (axes,) = figure.axes
    counts = {found.get_label(): len(found.get_xdata()) for found in axes.lines}
    (rest,) = [label for label in counts if label.endswith("others")]
    others = counts.pop(rest)
    (colored,) = counts.values()
    assert others and colored >= 1
    whole = feature_map.draw(inputs(feature_map.FeatureMap(color="subject")))
    assert sum(len(found.get_xdata()) for found in whole.axes[0].lines) == others + colored


def test_figures_of_features_are_drawn_by_the_command(place, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    where = ["--results", str(place / "results"), "--data-root", str(place / "data"), "--dpi", "50"]
    assert main(["plot", "map", "--run", "untrained", "--set", "color=subject", "-o", "a.svg", *where]) == 0
    assert main(["plot", "map", "--run", "untrained@50", *where]) == 2
    assert "kept no snapshot at epoch 50" in capsys.readouterr().err
