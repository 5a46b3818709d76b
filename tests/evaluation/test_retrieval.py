"""mAP and recall against their definitions, clip by clip."""

import dataclasses

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skelbench.core.errors import SkelbenchError
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
    """Average precision and recall, spelled out: ties enter together; the nearest are in the order of the gallery."""
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


def test_streams_are_measured_together_and_separately(make_features):
    good, poor = make_features(separation=3.0), make_features(separation=0.2, seed=1)
    poor = dataclasses.replace(
        poor, **{name: getattr(good, name) for name in ("train_y", "test_y", "train_ids", "test_ids")}
    )
    sets = {"joint": good, "bone": poor}
    fused = Retrieval().fuse(sets, 0, "cpu", None, (1.0, 1.0), "scores").metrics
    for name, part in sets.items():
        alone = evaluate(part).metrics
        assert all(fused[f"{figure}_{name}"] == alone[figure] for figure in ("map", "accuracy", "recall_at_5"))
    assert fused["map_bone"] < fused["map"] and Retrieval.measures["map_bone"].label == "bone mAP"
    with pytest.raises(SkelbenchError, match="a ranking has no logits"):
        Retrieval().fuse(sets, 0, "cpu", None, (1.0, 1.0), "logits")
