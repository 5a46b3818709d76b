"""Classes and what they are taken for: matrix, tables, picture."""

import numpy as np
import pytest
from fabricated import Fabricated
from small import write_small_store

from skelbench.cli.main import main
from skelbench.evaluation.stats.paired import wilson
from skelbench.plugin.host import Host
from skelbench.reporting.confusion import classes, classes_of, matrix, pairs
from skelbench.reporting.figures import NothingToDraw, confusion
from skelbench.reporting.inputs import TableInputs

NAMES = ("sit", "stand", "wave", "jump")
LABELS = np.array([0] * 10 + [1] * 10 + [2] * 5)
PREDICTED = np.array([0] * 7 + [1] * 3 + [1] * 4 + [0] * 5 + [2] + [2] * 5)


@pytest.fixture
def made(tmp_path):
    return Fabricated(tmp_path / "results")


def run(made, title="slim", labels=LABELS, predicted=PREDICTED, **more):
    return made.run(title, predicted == labels, labels=labels, predicted=predicted, knn=None, **more)


def test_matrix_counts_every_clip_and_averages_draws():
    counts = matrix({"labels": np.array([0, 0, 1]), "predicted": np.array([[0, 1, 1], [0, 0, 1]])}, 3)
    assert counts.tolist() == [[1.5, 0.5, 0], [0, 1, 0], [0, 0, 0]]


def test_the_hardest_class_comes_first_with_what_it_is_taken_for():
    counts = matrix({"labels": LABELS, "predicted": PREDICTED}, 4)
    table = classes(counts, NAMES, "T")
    assert table.values("class") == ["stand", "sit", "wave"]  # no clip of jump
    stand, sit, wave = table.rows
    assert (stand["accuracy"].value, stand["taken_for"].value, stand["share"].value) == (40, "sit", 50)
    assert stand["accuracy"].interval == pytest.approx([100 * limit for limit in wilson(4, 10)])
    assert (sit["accuracy"].value, sit["taken_for"].value, sit["share"].value) == (70, "stand", 30)
    assert (wave["accuracy"].value, wave["taken_for"].value, wave["clips"].value) == (100, None, 5)
    assert "All 3 classes. Mean class accuracy 70.0 %, of all clips 64.0 %" in table.notes[0]
    assert "The 2 hardest of 3 classes" in classes(counts, NAMES, "T", top=2).notes[0]
    assert len(classes(counts, NAMES, "T", top=0).rows) == 3


def test_pairs_are_by_what_both_lose_to_each_other():
    table = pairs(matrix({"labels": LABELS, "predicted": PREDICTED}, 4), NAMES)
    cells = [
        tuple(row[key].value for key in ("one", "other", "share", "one_as_other", "other_as_one")) for row in table.rows
    ]
    assert cells[0] == ("sit", "stand", 40, 30, 50)
    assert cells[1] == ("stand", "wave", pytest.approx(100 / 15), 10, 0) and len(cells) == 2
    assert len(pairs(matrix({"labels": LABELS, "predicted": PREDICTED}, 4), NAMES, top=1).rows) == 1
    assert pairs(matrix({"labels": LABELS, "predicted": LABELS}, 4), NAMES).notes == ("No clip was taken for another.",)


def test_classes_have_names_where_the_data_set_is_here(tmp_path):
    write_small_store(tmp_path)
    found = {"labels": np.array([0, 1]), "predicted": np.array([1, 0])}
    names = classes_of(found, "small", Host(), tmp_path)
    assert len(names) > 1 and not names[0].startswith("class ")
    assert classes_of(found, "elsewhere", Host(), tmp_path) == ["class 0", "class 1"]
    many = {"labels": np.array([0, 500]), "predicted": np.array([1, 0])}
    assert len(classes_of(many, "small", Host(), tmp_path)) == 501  # another data set of this name


# ------------------------------------------------------------------------------------------------ picture
def drawn(figure):
    return [axes.images[0].get_array() for axes in figure.axes if axes.images]


def test_the_picture_shows_shares_of_each_class_mean_over_seeds(made):
    other = np.where(np.arange(25) < 10, 0, PREDICTED)
    run(made)
    run(made, predicted=other, seed=1)
    (share,) = drawn(confusion.draw(TableInputs(Host(), made.store)))
    assert share[0].tolist() == pytest.approx([0.85, 0.15, 0]) and share[1].tolist() == pytest.approx([0.5, 0.4, 0.1])


def test_more_than_fit_are_named(made):
    with pytest.raises(NothingToDraw, match="was evaluated by linear; start with"):
        confusion.draw(TableInputs(Host(), made.store))
    names = [run(made, title) for title in ("slim", "mamp", "gfp", "amr", "dino")]
    with pytest.raises(NothingToDraw, match="5 settings were evaluated by linear.*--run"):
        confusion.draw(TableInputs(Host(), made.store))
    assert len(drawn(confusion.draw(TableInputs(Host(), made.store, only=names[:2])))) == 2


# ------------------------------------------------------------------------------------------------ commands
def test_commands(made, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    name = run(made)
    place = ["--results", str(made.root)]
    assert main(["runs", "show", name, "--classes", *place]) == 0
    shown = capsys.readouterr().out
    assert "slim by linear on moves / cross-view: class by class" in shown and "class 1" in shown
    assert "Pairs that are confused most" in shown and "skelbench plot confusion --run" in shown
    assert main(["plot", "confusion", "--run", name, "--dpi", "50", *place]) == 0
    assert (tmp_path / "confusion.png").read_bytes().startswith(b"\x89PNG")
    assert main(["runs", "show", name, "--classes", "--protocol", "knn", *place]) == 2
    assert "was not evaluated with knn; do that first: skelbench eval" in capsys.readouterr().err
    assert main(["plot", "confusion", "--run", "nobody", *place]) == 2
