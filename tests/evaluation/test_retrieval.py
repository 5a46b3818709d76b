"""mAP and recall against their definitions, clip by clip."""

import dataclasses

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skelbench.core.errors import SkelbenchError
from skelbench.evaluation import knn
from skelbench.evaluation.knn import Knn
from skelbench.evaluation.protocol import Features
from skelbench.evaluation.retrieval import Retrieval


def evaluate(features, **kwargs):
    return Retrieval().evaluate(features, 0, "cpu", **kwargs)


def whole_numbers(seed, gallery=30, queries=12, classes=3):
    """Features whose cosines are exact, so that many of them tie: directions along and between two axes."""
    rng = np.random.default_rng(seed)
    x = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]], np.float32)[rng.integers(0, 4, gallery + queries)]
    y = rng.integers(0, classes, gallery + queries)
    sides = x[:gallery], y[:gallery], x[gallery:], y[gallery:]
    return Features(*sides, np.arange(gallery), np.arange(gallery, gallery + queries), classes + 1)


def reference(features):
    """Average precision and recall, spelt out: ties enter together; the nearest are in the order of the gallery."""
    precisions, places = [], []
    for query, label in zip(features.test_x.astype(np.float64), features.test_y):
        cosine = [query @ clip / np.linalg.norm(query) / np.linalg.norm(clip) for clip in features.train_x]
        hits = [value for value, other in zip(cosine, features.train_y) if other == label]
        shares = [sum(h >= value for h in hits) / sum(c >= value for c in cosine) for value in hits]
        precisions.append(np.mean(shares) if shares else 0.0)
        order = sorted(range(len(cosine)), key=lambda i: (-cosine[i], i))
        places.append(next((place for place, i in enumerate(order) if features.train_y[i] == label), np.inf))
    return np.mean(precisions), {k: np.mean([place < k for place in places]) for k in (1, 5, 10)}


@settings(max_examples=30, deadline=None, derandomize=True)  # near ties are not the same in single precision
@example(3669, False)
@given(st.integers(0, 10_000), st.booleans())
def test_equals_the_definition(seed, ties):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(45, 5)), rng.integers(0, 4, 45)
    plain = Features(x[:30], y[:30], x[30:], y[30:], np.arange(30), np.arange(30, 45), 4)
    features = whole_numbers(seed) if ties else plain
    metrics = evaluate(features).metrics
    precision, recall = reference(features)
    assert metrics["map"] == pytest.approx(precision, abs=1e-6)
    assert {k: metrics[f"recall_at_{k}"] for k in recall} == pytest.approx(recall)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_the_order_of_the_gallery_changes_no_average_precision(seed):
    features = whole_numbers(seed)
    order = np.random.default_rng(seed + 1).permutation(30)
    sides = {name: getattr(features, name)[order] for name in ("train_x", "train_y", "train_ids")}
    moved = dataclasses.replace(features, **sides)
    assert evaluate(moved).metrics["map"] == pytest.approx(evaluate(features).metrics["map"])


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.booleans())
def test_accuracy_is_that_of_knn_and_of_recall_at_1(seed, ties):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(45, 5)), rng.integers(0, 4, 45)
    plain = Features(x[:30], y[:30], x[30:], y[30:], np.arange(30), np.arange(30, 45), 4)
    features = whole_numbers(seed) if ties else plain
    here, nearest = evaluate(features), Knn().evaluate(features, 0, "cpu")
    assert np.array_equal(here.predictions["predicted"], nearest.predictions["predicted"])
    assert here.metrics["accuracy"] == nearest.metrics["accuracy"] == here.metrics["recall_at_1"]


def test_what_ranks_nothing_has_the_share_of_its_class():
    """All features alike: every clip enters at once, whatever the gallery's order."""
    y = np.sort(np.arange(40) % 4)
    x = np.ones((48, 3), np.float32)
    features = Features(x[:40], y, x[40:], np.arange(8) % 4, np.arange(40), np.arange(40, 48), 4)
    metrics = evaluate(features).metrics
    assert metrics["map"] == pytest.approx(0.25)
    assert metrics["accuracy"] == metrics["recall_at_10"] == 0.25  # the first ten are of the first class


def test_a_gallery_of_fewer_clips_than_recall_looks_at_holds_no_more_hits_for_it():
    """No class of the queries is in it, or that of some."""
    x = np.eye(7, 4, dtype=np.float32) + 1
    features = Features(x[:3], np.array([0, 0, 1]), x[3:], np.array([2, 2, 2, 1]), np.arange(3), np.arange(3, 7), 3)
    metrics = evaluate(features).metrics
    assert metrics["recall_at_5"] == metrics["recall_at_10"] == reference(features)[1][10] == 0.25


def test_chunks_do_not_change_the_result(make_features, monkeypatch):
    features, seen = make_features(separation=0.5), []
    whole = evaluate(features)
    monkeypatch.setattr(knn, "CHUNK", 7)
    parts = evaluate(features, progress=lambda done, total: seen.append((done, total)))
    assert parts.metrics == pytest.approx(whole.metrics)
    assert seen[0] == (7, 300) and seen[-1] == (300, 300)


def test_streams_are_measured_together_and_alone(make_features):
    good, poor = make_features(separation=3.0), make_features(separation=0.2, seed=1)
    poor = dataclasses.replace(
        poor, **{name: getattr(good, name) for name in ("train_y", "test_y", "train_ids", "test_ids")}
    )
    sets = {"joint": good, "bone": poor}
    fused = Retrieval().fuse(sets, 0, "cpu", None, (1.0, 1.0), "scores").metrics
    for name, part in sets.items():
        alone = evaluate(part).metrics
        for figure in ("map", "accuracy", "recall_at_5"):
            assert fused[f"{figure}_{name}"] == alone[figure]
    assert fused["map_bone"] < fused["map"] and "map_bone" in Retrieval.measures
    assert Retrieval.measures["map_bone"].label == "bone mAP"
    joined = Retrieval().fuse(sets, 0, "cpu", None, (1.0, 0.0), "scores").metrics
    assert joined["map"] == fused["map_joint"]
    with pytest.raises(SkelbenchError, match="a ranking has no logits"):
        Retrieval().fuse(sets, 0, "cpu", None, (1.0, 1.0), "logits")
