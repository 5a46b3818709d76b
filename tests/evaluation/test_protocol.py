import dataclasses

import numpy as np
import pytest
import torch
from skelbench_plugins.mamp import MampLinear

from skelbench.core.errors import SkelbenchError
from skelbench.evaluation.knn import Knn
from skelbench.evaluation.linear import Linear, SlimLinear

SHORT = Linear(min_steps=300, tolerance=None, val_share=0)
PROTOCOLS = [SHORT, SlimLinear(), Knn(), Knn(k=5), MampLinear(epochs=10, batch_size=32, val_share=0)]
names = pytest.mark.parametrize("protocol", PROTOCOLS, ids=["linear", "linear@slim", "knn", "knn5", "mamp"])


trained = pytest.mark.parametrize(
    "protocol", [Linear(min_steps=200, tolerance=None), MampLinear(epochs=12, batch_size=32)], ids=["linear", "mamp"]
)


@trained
def test_the_headline_is_the_last_checkpoint_and_the_others_are_labeled(protocol, make_features):
    features = make_features(n_train=300, separation=0.3)
    result = protocol.evaluate(features, 0, "cpu")
    first, second = ([row for row in result.curve if row["fit"] == fit] for fit in ("all-train", "held-out"))
    assert result.metrics["accuracy"] == pytest.approx(first[-1]["test_accuracy"])
    assert result.metrics["accuracy_best_on_test"] == max(row["test_accuracy"] for row in first)
    best = max(second, key=lambda row: (row["val_accuracy"], -row["val_loss"]))
    assert result.metrics["selected_step"] == best["step"]
    assert result.metrics["accuracy_selected"] == best["test_accuracy"]
    # Other test labels change what is measured, never what is chosen.
    other = protocol.evaluate(dataclasses.replace(features, test_y=np.roll(features.test_y, 1)), 0, "cpu")
    assert other.metrics["selected_step"] == result.metrics["selected_step"]


@trained
def test_a_seed_fixes_every_bit_and_seeds_differ(protocol, make_features):
    results = []
    for i, seed in enumerate((4, 4, 5)):
        torch.manual_seed(i)  # nothing comes from the global generator
        results.append(protocol.evaluate(make_features(separation=0.3), seed, "cpu"))
    first, again, other = results
    assert first.metrics == again.metrics and first.curve == again.curve and other.curve != first.curve
    assert np.array_equal(first.predictions["predicted"], again.predictions["predicted"])


@names
def test_predictions_account_for_the_headline(protocol, make_features):
    features = make_features(classes=12, separation=0.7)
    result = protocol.evaluate(features, seed=0, device="cpu")
    assert np.array_equal(result.predictions["ids"], features.test_ids)
    assert np.array_equal(result.predictions["labels"], features.test_y)
    assert result.predictions["predicted"].dtype == np.int64
    right = result.predictions["predicted"] == features.test_y
    assert result.metrics["accuracy"] == pytest.approx(right.mean(), abs=1e-12)
    assert result.metrics["n_test"] == 300 and result.metrics["n_train"] == 200
    assert all(isinstance(value, float) for value in result.metrics.values())


def test_bad_features_are_one_error(make_features):
    good = make_features()
    holed = good.test_x.copy()
    holed[7, 3] = np.nan
    wrong_label = good.train_y.copy()
    wrong_label[2] = 5
    cases = [
        (dict(test_x=holed), f"not finite, the first of clip {good.test_ids[7]}"),
        (dict(train_y=wrong_label), f"clip {good.train_ids[2]} of the train split has label 5, outside 0..4"),
        (dict(train_ids=good.train_ids[:-1]), "one clip id per row"),
        (dict(test_ids=np.r_[good.test_ids[:-1], good.test_ids[0]]), "twice in the test split"),
        (dict(test_ids=np.r_[good.test_ids[:-1], good.train_ids[0]]), f"the first is clip {good.train_ids[0]}"),
        (dict(num_classes=1), "at least 2 classes"),
    ]
    for changes, message in cases:
        with pytest.raises(SkelbenchError, match=message):
            dataclasses.replace(good, **changes)
