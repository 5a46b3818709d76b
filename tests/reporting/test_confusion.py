"""Classes and predicted classes: matrix and picture."""

import numpy as np
import pytest
from skelbench_plugins.figures import confusion
from small import write_small_store

from skelbench.cli.main import main
from skelbench.plugin.host import Host
from skelbench.reporting.confusion import classes_of, matrix
from skelbench.reporting.figures import NothingToDraw
from skelbench.reporting.inputs import TableInputs

LABELS = np.array([0] * 10 + [1] * 10 + [2] * 5)
PREDICTED = np.array([0] * 7 + [1] * 3 + [1] * 4 + [0] * 5 + [2] + [2] * 5)


def run(made, title="slim", labels=LABELS, predicted=PREDICTED, **more):
    return made.run(title, predicted == labels, labels=labels, predicted=predicted, knn=None, **more)


def test_matrix_counts_every_clip_and_averages_draws():
    counts = matrix({"labels": np.array([0, 0, 1]), "predicted": np.array([[0, 1, 1], [0, 0, 1]])}, 3)
    assert counts.tolist() == [[1.5, 0.5, 0], [0, 1, 0], [0, 0, 0]]


def test_classes_have_names_if_the_dataset_exists(tmp_path):
    write_small_store(tmp_path)
    found = {"labels": np.array([0, 1]), "predicted": np.array([1, 0])}
    names = classes_of(found, "small", Host(), tmp_path)
    assert len(names) > 1 and not names[0].startswith("class ")
    assert classes_of(found, "elsewhere", Host(), tmp_path) == ["class 0", "class 1"]
    many = {"labels": np.array([0, 500]), "predicted": np.array([1, 0])}
    assert len(classes_of(many, "small", Host(), tmp_path)) == 501  # another dataset of this name


# ------------------------------------------------------------------------------------------------ picture
def drawn(figure):
    return [axes.images[0].get_array() for axes in figure.axes if axes.images]


def test_the_figure_shows_fractions_averaged_over_seeds(made):
    other = np.where(np.arange(25) < 10, 0, PREDICTED)
    run(made)
    run(made, predicted=other, seed=1)
    (share,) = drawn(confusion.draw(TableInputs(Host(), made.store)))
    assert share[0].tolist() == pytest.approx([0.85, 0.15, 0]) and share[1].tolist() == pytest.approx([0.5, 0.4, 0.1])


def test_only_the_most_accurate_settings_are_drawn(made):
    with pytest.raises(NothingToDraw, match="was evaluated by linear; start with"):
        confusion.draw(TableInputs(Host(), made.store))
    names = [run(made, title) for title in ("slim", "mamp", "gfp", "amr")]
    run(made, "dino", predicted=LABELS)
    run(made, "raw", predicted=LABELS)
    figure = confusion.draw(TableInputs(Host(), made.store))
    assert "the 4 most accurate of 6 settings, baselines last" in figure.get_suptitle()
    assert len(drawn(figure)) == 4 and "raw" not in [axes.get_title(loc="left") for axes in figure.axes]
    assert np.array_equal(drawn(figure)[0][:3, :3], np.eye(3))
    assert len(drawn(confusion.draw(TableInputs(Host(), made.store, only=names[:2])))) == 2


# ------------------------------------------------------------------------------------------------ commands
def test_the_command_draws_the_confusion_matrix(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = run(made)
    place = ["--results", str(made.root)]
    assert main(["plot", "confusion", "--run", name, "--dpi", "50", *place]) == 0
    assert (tmp_path / "confusion.png").read_bytes().startswith(b"\x89PNG")
    assert main(["plot", "confusion", "--run", "nobody", *place]) == 2
