import numpy as np
import pytest
from made.clips import random_clips, write_store
from small import write_small_store

from skelbench.cli.options import new_dataset_name
from skelbench.core.errors import SkelbenchError
from skelbench.data.store.roots import named_stores, open_dataset
from skelbench.data.synthetic.dataset import open_synthetic


def test_a_store_has_the_name_of_its_folder(tmp_path):
    """Held-out subjects depend on the dataset's name, which is also a part of a run's identity."""
    write_small_store(tmp_path, "old")
    write_small_store(tmp_path, "new")
    held = {name: open_dataset(name, tmp_path).split("half~tune") for name in ("old", "new")}
    (tmp_path / "new").rename(tmp_path / "other")
    (tmp_path / "old").rename(tmp_path / "new")
    renamed = open_dataset("new", tmp_path)
    assert renamed.meta.name == "new"
    assert np.array_equal(renamed.split("half~tune").test, held["new"].test)


def test_the_name_of_the_built_in_dataset_is_reserved(tmp_path):
    write_small_store(tmp_path, "synthetic-v1")
    with pytest.raises(SkelbenchError, match="synthetic-v1 is not the dataset that is made there"):
        open_synthetic(tmp_path)
    with pytest.raises(SkelbenchError, match="'synthetic-v1' is the name of a built-in dataset"):
        new_dataset_name("synthetic-v1")
    assert named_stores(tmp_path) == {}, "nor is it there by a second name, under which runs would be others"


def test_opening_by_name(tmp_path):
    write_store(tmp_path / "mine", random_clips())
    opened = []
    openers = {"made": lambda root: opened.append(root) or "made store"}
    assert open_dataset("mine", tmp_path, openers).meta.name == "mine"
    assert open_dataset("made", tmp_path, openers) == "made store" and opened == [tmp_path]
    with pytest.raises(SkelbenchError, match="unknown dataset 'mien'; did you mean 'mine'"):
        open_dataset("mien", tmp_path, openers)
    with pytest.raises(SkelbenchError, match="unknown dataset 'x'; known: made, mine"):
        open_dataset("x", tmp_path, openers)
    with pytest.raises(SkelbenchError, match="both a built-in dataset and the store"):
        open_dataset("mine", tmp_path, {"mine": openers["made"]})
