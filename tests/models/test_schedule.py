import math

import pytest

from skelbench.models.schedule import cosine, linear_ramp


def test_cosine_passes_through_its_known_points():
    assert [cosine(0.994, 1.0, f) for f in (0, 0.5, 1)] == pytest.approx([0.994, 0.997, 1.0], abs=1e-12)
    assert cosine(2.0, 0.0, 1 / 3) == pytest.approx(1 + math.cos(math.pi / 3))


def test_linear_ramp_is_straight():
    assert [linear_ramp(0.04, 0.07, f) for f in (0, 1 / 3, 1)] == pytest.approx([0.04, 0.05, 0.07])
