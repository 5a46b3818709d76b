"""The nearest neighbors on the report page: from a run that was really made, and the reason where there are none."""

import shutil

import numpy as np
import pytest
from fabricated import Fabricated
from small import silent_session, tiny_run, write_small_store

from skelbench.pipeline.controls import control
from skelbench.pipeline.evaluate import eval_spec, evaluate, feature_sets
from skelbench.pipeline.pretrain import pretrain
from skelbench.plugin.host import Host
from skelbench.records.store import ResultStore
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.page.build import build
from skelbench.reporting.page.neighbours import nearest_neighbours


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A trained run and its untrained baseline, both evaluated by 1-NN accuracy."""
    root = tmp_path_factory.mktemp("neighbours")
    (root / "data").mkdir()
    write_small_store(root / "data")
    session = silent_session(root / "data", Host(), root / "results")
    made = tiny_run(root / "data", session.host, "skeletonmae", epochs=0.5)
    for one in (made, control(made, session.host)):
        run = pretrain(session, one)
        evaluate(session, run, eval_spec(session.host, run, "knn", like=made), like=made)
    return root, session


def inputs_of(session):
    return TableInputs(session.host, session.results, exact_only=False)


def test_neighbours_are_those_of_the_features(place):
    _, session = place
    found, reason = nearest_neighbours(inputs_of(session), session)
    assert reason == "" and [run["title"] for run in found["runs"]] == ["skeletonmae", "untrained"]
    assert found["gallery"] == found["train"] == 12
    run = next(run for run in session.results.read() if run.title == "skeletonmae")
    features = feature_sets(session, run, eval_spec(session.host, run, "knn"))["joint"]
    for query, nearest, similar in zip(found["queries"], found["runs"][0]["nearest"], found["runs"][0]["similarity"]):
        x_D = features.test_x[features.test_ids.tolist().index(query)]
        cosine_G = features.train_x @ x_D / np.linalg.norm(features.train_x, axis=1) / np.linalg.norm(x_D)
        assert nearest == features.train_ids[np.argsort(-cosine_G, kind="stable")[:4]].tolist()
        assert similar == pytest.approx(np.sort(cosine_G)[::-1][:4], abs=1e-3)
        assert {query, *nearest} <= found["clips"].keys() and found["classes"][found["labels"][query]] in "abcd"
    assert "Test clips of small half" in build(inputs_of(session), session, names=["linear"])


def test_without_the_data_the_page_gives_the_reason(place, tmp_path):
    root, session = place
    shutil.copytree(root / "results", tmp_path / "results")
    (tmp_path / "data").mkdir()
    elsewhere = silent_session(tmp_path / "data", session.host, tmp_path / "results")
    assert "Not drawn: skeletonmae: " in build(inputs_of(elsewhere), elsewhere, names=["linear"])
    made = Fabricated(tmp_path / "r")
    made.run("slim")
    found, reason = nearest_neighbours(TableInputs(session.host, ResultStore(tmp_path / "r")), session)
    assert found is None and "No finished run has an encoder" in reason
