import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skelbench.core.errors import SkelbenchError
from skelbench.evaluation import knn
from skelbench.evaluation.knn import Knn
from skelbench.evaluation.protocol import Features


def reference(features: Features, k: int, metric: str) -> list[int]:
    predicted = []
    for query in features.test_x.astype(np.float64):
        scored = []
        for clip, label in zip(features.train_x.astype(np.float64), features.train_y):
            if metric == "cosine":
                scored.append((query @ clip / np.linalg.norm(query) / np.linalg.norm(clip), label))
            else:
                scored.append((-np.linalg.norm(query - clip), label))
        near = sorted(scored, key=lambda pair: -pair[0])[:k]
        classes = {label for _, label in near}
        vote = {c: (sum(1 for _, y in near if y == c), sum(s for s, y in near if y == c)) for c in classes}
        predicted.append(max(vote, key=vote.get))
    return predicted


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.sampled_from([1, 2, 4, 7]), st.sampled_from(["cosine", "euclidean"]))
def test_equals_the_loop(seed, k, metric):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(70, 6)) + 1, rng.integers(0, 4, 70)
    features = Features(x[:40], y[:40], x[40:], y[40:], np.arange(40), np.arange(40, 70), 4)
    result = Knn(k=k, metric=metric).evaluate(features, seed=0, device="cpu")
    assert result.predictions["predicted"].tolist() == reference(features, k, metric)


def test_ties_go_to_the_more_similar_class_then_to_the_first_clip():
    angles = np.deg2rad([0.0, 40.0, 10.0, 20.0])
    gallery = np.stack([np.cos(angles), np.sin(angles)], 1)
    query = np.array([[1.0, 0.0]])

    def predict(train_x, train_y, k):
        features = Features(train_x, np.array(train_y), query, np.array([0]), np.arange(4), np.array([9]), 3)
        return int(Knn(k=k).evaluate(features, seed=0, device="cpu").predictions["predicted"][0])

    # Two votes each: similarities 1 + 0.766 for class 2, 0.985 + 0.940 for class 1.
    assert predict(gallery, [2, 2, 1, 1], 4) == 1
    assert predict(gallery, [2, 2, 1, 1], 1) == 2
    assert predict(np.repeat(query, 4, 0), [2, 0, 1, 0], 1) == 2


def test_chunks_do_not_change_the_result(make_features, monkeypatch):
    features = make_features(separation=0.5)
    whole = Knn(k=3).evaluate(features, seed=0, device="cpu")
    monkeypatch.setattr(knn, "CHUNK", 7)
    seen = []
    parts = Knn(k=3).evaluate(features, 0, "cpu", progress=lambda done, total: seen.append((done, total)))
    assert np.array_equal(whole.predictions["predicted"], parts.predictions["predicted"])
    assert seen[0] == (7, 300) and seen[-1] == (300, 300)


def test_too_large_k_and_empty_features(make_features):
    features = make_features(n_train=10)
    with pytest.raises(SkelbenchError, match="k = 11 neighbors .* gallery has 10"):
        Knn(k=11).evaluate(features, seed=0, device="cpu")
    zeroed = features.test_x.copy()
    zeroed[3] = 0
    result = Knn().evaluate(dataclasses.replace(features, test_x=zeroed), seed=0, device="cpu")
    assert any(note.startswith("1 clips have all-zero features") for note in result.notes)
