"""The order probe on features that do and do not know the direction of time."""

import numpy as np
import pytest

from skelbench.evaluation.stats.paired import wilson
from skelbench.reporting.diagnostics.order import PROBE, better, probe
from skelbench.reporting.diagnostics.tables import order


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    short = PROBE.model_copy(update={"min_steps": 60, "epochs": 1, "tolerance": None, "lr": 0.1})
    monkeypatch.setattr("skelbench.reporting.diagnostics.order.PROBE", short)


def pair(n, sign, seed):
    """Features forward and backward: noise of the clip, shared by both, and ``sign`` times a trace of the direction."""
    clip = np.random.default_rng(seed).normal(size=(n, 6)).astype(np.float32)
    trace = np.zeros((n, 6), dtype=np.float32)
    trace[:, 2] = sign
    return clip + trace, clip - trace


def test_features_that_ignore_order_are_at_chance():
    found = probe(pair(80, 0.0, 0), pair(60, 0.0, 1), seed=0)
    assert found["accuracy"] == 0.5  # a clip and its reverse look the same: one of the two is always wrong
    assert set(found["right"]) == {1}
    assert found["interval"] == list(wilson(30, 60))


def test_features_that_encode_order_are_recognized():
    found = probe(pair(80, 4.0, 2), pair(60, 4.0, 3), seed=0)
    assert found["accuracy"] > 0.98 and len(found["right"]) == 60
    assert found["accuracy"] == pytest.approx(np.mean(found["right"]) / 2)
    assert found["interval"][0] < found["accuracy"] <= found["interval"][1]
    # The trace runs the other way in test: what was learned is wrong there.
    assert probe(pair(80, 4.0, 2), pair(60, -4.0, 3), seed=0)["accuracy"] < 0.02


def test_sign_test_counts_clips():
    assert better([2, 2, 2, 2, 2, 1], [1, 1, 0, 1, 1, 1]) == pytest.approx(2 * 0.5**5)
    assert better([1, 2, 0], [1, 2, 0]) == pytest.approx(1)
    assert better([2, 0], [0, 2]) == pytest.approx(1)


def test_p_values_of_a_table_are_adjusted_over_its_runs():
    def record(right):
        facts = {"interval": (0.4, 0.6), "train_accuracy": 1.0, "notes": [], "train_clips": 9, "test_clips": 6}
        return {"accuracy": np.mean(right) / 2, "right": right, **facts}

    def p_values(twins):
        return [row["p"].value and pytest.approx(row["p"].value) for row in order(runs, twins).rows]

    runs = {"a": record([2] * 5 + [1]), "b": record([2] * 6), "untrained": record([1] * 6)}
    assert p_values({"a": "untrained"}) == [2 * 0.5**5, None, None]
    # Holm: of two, the smaller counts twice.
    assert p_values({"a": "untrained", "b": "untrained"}) == [2 * 0.5**5, 2 * 2 * 0.5**6, None]
