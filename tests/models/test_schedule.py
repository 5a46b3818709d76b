import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skelbench.models.schedule import cosine, linear_ramp


def test_cosine_passes_through_its_known_points():
    assert [cosine(0.994, 1.0, f) for f in (0, 0.5, 1)] == pytest.approx([0.994, 0.997, 1.0], abs=1e-12)
    assert cosine(2.0, 0.0, 1 / 3) == pytest.approx(1 + math.cos(math.pi / 3))


def test_linear_ramp_is_straight():
    assert [linear_ramp(0.04, 0.07, f) for f in (0, 1 / 3, 1)] == pytest.approx([0.04, 0.05, 0.07])


@pytest.mark.parametrize("schedule", [cosine, linear_ramp])
@given(start=st.floats(-9, 9), end=st.floats(-9, 9), a=st.floats(-1, 2), b=st.floats(-1, 2))
def test_schedules_go_one_way_and_stay_between_their_ends(schedule, start, end, a, b):
    first, second = schedule(start, end, min(a, b)), schedule(start, end, max(a, b))
    low, high = min(start, end) - 1e-9, max(start, end) + 1e-9
    assert low <= first <= high and low <= second <= high
    assert (second - first) * (end - start) >= -1e-9
    assert schedule(start, end, -0.5) == pytest.approx(start, abs=1e-12)
    assert schedule(start, end, 1.5) == pytest.approx(end, abs=1e-12)
