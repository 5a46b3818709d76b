"""No test label reaches the training or the selection of a protocol."""

from dataclasses import replace

import numpy as np
import pytest

from skelbench.evaluation.knn import Knn, Knn5, Knn20
from skelbench.evaluation.linear import Linear, SlimLinear
from skelbench.evaluation.retrieval import Retrieval
from skelbench.evaluation.swept import LinearSwept

CLASSES = 5
PROTOCOLS = {
    "knn": Knn(),
    "knn@5": Knn5(),
    "knn@20": Knn20(),
    "retrieval": Retrieval(),
    "linear-swept": LinearSwept(lrs=(1e-3, 1e-2), weight_decays=(0.0, 0.1), min_steps=60, epochs=1),
    "linear": Linear(min_steps=60, epochs=1, tolerance=None),
    "linear@slim": SlimLinear(lr=1e-2, epochs=60),
}

pytestmark = pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)


@pytest.fixture
def features(make_features):
    """``features(separation)``: of ten subjects."""

    def make(separation, **how):
        made = make_features(separation=separation, classes=CLASSES, **how)
        return replace(made, train_subjects=np.arange(len(made.train_y)) // CLASSES % 10)

    return make


def evaluate(protocol, features):
    return protocol.evaluate(features, seed=0, device="cpu")


def test_permuted_test_labels_give_chance_level_and_equal_predictions(protocol, features):
    made = features(30.0, n_test=1000)
    before = evaluate(protocol, made)
    labels = np.random.default_rng(1).permutation(made.test_y)
    after = evaluate(protocol, replace(made, test_y=labels))
    assert after.metrics["accuracy"] == pytest.approx(1 / CLASSES, abs=0.05)
    assert np.array_equal(before.predictions["predicted"], after.predictions["predicted"])
    for name in ("chosen_lr", "chosen_weight_decay", "held_out_accuracy", "train_loss", "train_accuracy"):
        assert before.metrics.get(name) == after.metrics.get(name)
