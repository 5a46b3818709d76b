"""Curves of features whose invariances are known."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from skelbench.core.errors import SkelbenchError
from skelbench.reporting.diagnostics.frozen import reversed_in_time
from skelbench.reporting.diagnostics.invariance import agreement
from skelbench.testing.stick7 import STICK7
from skelbench.views.streams import as_stream
from skelbench.views.view import View


def clips(n=12, seed=0):
    return View.of(torch.from_numpy(np.random.default_rng(seed).normal(size=(n, 1, 6, 7, 3)).astype(np.float32)))


def test_agreement_equals_a_loop():
    rng = np.random.default_rng(1)
    original = rng.normal(size=(9, 4)).astype(np.float32)
    changed = original + rng.normal(size=(9, 4)).astype(np.float32)
    mean = original.astype(np.float64).mean(0)

    def cosine(i, j):
        a, b = changed[i] - mean, original[j] - mean
        return a @ b / np.linalg.norm(a) / np.linalg.norm(b)

    got = agreement(changed, original)
    assert got["similarity"] == pytest.approx(np.mean([cosine(i, i) for i in range(9)]))
    assert got["others"] == pytest.approx(np.mean([cosine(i, j) for i in range(9) for j in range(9) if i != j]))
    nearest = [max(range(9), key=lambda j: cosine(i, j)) for i in range(9)]
    assert got["retrieved"] == pytest.approx(np.mean([i == j for i, j in enumerate(nearest)]))
    assert 0 < got["retrieved"] < 1


def test_reversal_reverses_frames_and_confidence():
    view = View.of(clips().x_BMTJC, confidence_RTJ=torch.rand(12, 6, 7))
    back = reversed_in_time(view)
    assert torch.equal(back.x_RTJC[:, 0], view.x_RTJC[:, -1])
    assert torch.equal(back.confidence_RTJ[:, 1], view.confidence_RTJ[:, -2])
    again = reversed_in_time(back)
    assert torch.equal(again.x_RTJC, view.x_RTJC) and torch.equal(again.confidence_RTJ, view.confidence_RTJ)
    with pytest.raises(SkelbenchError, match="padded"):
        reversed_in_time(View.of(clips().x_BMTJC, real_RT=torch.ones(12, 6, dtype=torch.bool)))


def test_motion_is_reversed_frame_by_frame():
    """Motion of the reversed clip; its last frame has none either."""
    view = View.of(clips().x_BMTJC)
    motion = replace(view.with_x(as_stream(view.x_RTJC, "motion", STICK7, 1, 2)), stream="motion")
    expected = as_stream(view.x_RTJC.flip(1), "motion", STICK7, 1, 2)
    assert torch.allclose(reversed_in_time(motion).x_RTJC, expected, atol=1e-6)
