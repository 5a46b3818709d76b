"""The retrieval example: from a run that was really made, and a sentence where it cannot be."""

import shutil

import numpy as np
import pytest
from fabricated import Fabricated
from hostile import edit
from small import silent_session, tiny_run, write_small_store

from skelbench.pipeline.controls import control
from skelbench.pipeline.evaluate import eval_spec, evaluate, feature_sets
from skelbench.pipeline.pretrain import pretrain
from skelbench.plugin.host import Host
from skelbench.records.store import ResultStore
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.page.build import build
from skelbench.reporting.page.neighbours import example


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A trained run and its twin, both probed by their nearest neighbours."""
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


def test_the_neighbours_are_those_of_the_features(place):
    _, session = place
    found, why = example(inputs_of(session), session)
    assert why == "" and [run["title"] for run in found["runs"]] == ["skeletonmae", "untrained"]
    assert found["gallery"] == found["train"] == 12
    run = next(run for run in session.results.read() if run.title == "skeletonmae")
    features = feature_sets(session, run, eval_spec(session.host, run, "knn"))["joint"]
    for query, nearest, similar in zip(found["queries"], found["runs"][0]["nearest"], found["runs"][0]["similarity"]):
        x_D = features.test_x[features.test_ids.tolist().index(query)]
        cosine_G = features.train_x @ x_D / np.linalg.norm(features.train_x, axis=1) / np.linalg.norm(x_D)
        assert nearest == features.train_ids[np.argsort(-cosine_G, kind="stable")[:4]].tolist()
        assert similar == pytest.approx(np.sort(cosine_G)[::-1][:4], abs=1e-3)
        assert {query, *nearest} <= found["clips"].keys() and found["classes"][found["labels"][query]] in "abcd"


def test_the_page_moves_them(place):
    _, session = place
    text = build(inputs_of(session), session, names=["linear"])
    assert 'id="skeletons"' in text and "Test clips of small half" in text


def test_without_the_data_the_page_says_so(place, tmp_path):
    root, session = place
    shutil.copytree(root / "results", tmp_path / "results")
    (tmp_path / "data").mkdir()
    elsewhere = silent_session(tmp_path / "data", session.host, tmp_path / "results")
    found, why = example(inputs_of(elsewhere), elsewhere)
    assert found is None and why.startswith("Not drawn: skeletonmae: ") and "small" in why
    assert "Not drawn: skeletonmae" in build(inputs_of(elsewhere), elsewhere, names=["linear"])


def test_a_better_run_that_cannot_be_shown_is_named(place, tmp_path):
    root, session = place
    shutil.copytree(root / "results", tmp_path / "results")
    here = silent_session(root / "data", session.host, tmp_path / "results")
    made = tiny_run(root / "data", session.host, "skeletonmae", epochs=0.5, seed=1)
    run = pretrain(here, made)
    evaluate(here, run, eval_spec(session.host, run, "knn", like=made), like=made)
    frame = inputs_of(here).frame
    best = (
        frame[frame["method"] == "skeletonmae"].sort_values("accuracy", kind="stable", ascending=False)["run"].iloc[0]
    )
    (tmp_path / "results" / best / "encoder.safetensors").write_bytes(b"")
    found, why = example(inputs_of(here), here)
    assert found["runs"][0]["name"] != best and why.startswith("Not drawn: skeletonmae: ")
    assert "arrow keys step. Not drawn: skeletonmae: " in build(inputs_of(here), here, names=["linear"])


def test_runs_without_weights_make_no_example(tmp_path, place):
    made = Fabricated(tmp_path / "r")
    edit(tmp_path / "r" / made.run("slim") / "run.json", created=1.0)
    found, why = example(TableInputs(place[1].host, ResultStore(tmp_path / "r")), place[1])
    assert found is None and "No finished run has an encoder" in why
