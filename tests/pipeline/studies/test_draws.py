"""Draws of trials: within bounds, reproducible, trial 0 is the default, the same number for every method."""

import math

import pytest

from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.request import Request
from skelbench.pipeline.resolve import resolve
from skelbench.pipeline.studies.samplers import Axis, axes_of, sobol
from skelbench.plugin import Linear, Log

AXES = (Axis("method.a", 0.1, 40.0, log=True), Axis("method.b", 1e-4, 1.0, True, from_one=True), Axis("c.d", 0.2, 0.3))


def within(axis, value):
    drawn = 1 - value if axis.from_one else value
    return axis.low * (1 - 1e-3) - 1e-11 <= drawn <= axis.high * (1 + 1e-3) + 1e-11


@pytest.mark.parametrize(("trials", "seed"), [(1, 0), (2, 3), (17, 2**32)])
def test_draws_are_within_bounds_reproducible_and_begin_with_the_default(trials, seed):
    drawn = sobol(AXES, trials, seed)
    assert len(drawn) == trials and drawn[0] == {}
    for point in drawn[1:]:
        assert set(point) == {axis.key for axis in AXES}
        assert all(within(axis, point[axis.key]) for axis in AXES)
    assert drawn == sobol(AXES, trials, seed)
    assert sobol(AXES, trials + 7, seed)[:trials] == drawn  # more trials begin with the same ones


def test_draws_are_log_uniform_and_depend_on_the_seed():
    axis = Axis("train.lr", 1e-4, 1e-2, log=True)
    values = [point["train.lr"] for point in sobol([axis], 33, 0)[1:]]
    below = sum(value < 1e-3 for value in values)
    assert below == 16 and len(set(values)) == 32
    assert values != [point["train.lr"] for point in sobol([axis], 33, 1)[1:]]


@pytest.mark.parametrize("preset", ["paper", "quick"])
def test_the_space_of_every_shipped_method_is_around_its_preset(host, data_root, preset):
    methods = {spec.name: spec for spec in host.all("methods") if spec.trains}
    assert {"slim", "mamp", "cmd"} <= methods.keys()
    for method, announced in methods.items():
        sets = {"method.queue": 24} if "queue" in host.config(announced).model_fields else {}  # there are few clips
        spec = resolve(Request(method, "small", preset=preset, tokens=8, sets=sets), host, data_root, "cpu").spec
        axes = axes_of(announced.space, spec, method)
        assert 1 <= len(axes) <= 4
        for axis in axes:
            assert axis.low < axis.high and within(axis, axis.default), (method, axis)
        (lr,) = (axis for axis in axes if axis.key == "train.lr")
        assert (lr.low, lr.high) == (spec.train.lr / 8, spec.train.lr * 8)


def test_a_space_that_does_not_fit_the_run_is_rejected(host, data_root):
    spec = resolve(Request("mamp", "small", preset="quick", tokens=8), host, data_root, "cpu").spec
    for space, said in (
        ({"method.ta": Log(1, 2)}, "the search space of mamp: unknown setting 'method.ta'"),
        ({"method.motion_stride": Log(1, 2)}, "not a real number"),
        ({"train.clip_grad": Log("x0.5", "x2")}, "which is None; give numbers"),
    ):
        with pytest.raises(SkelbenchError, match=said):
            axes_of(space, spec, "mamp")
    (axis,) = axes_of({"train.clip_grad": Linear(1, 2)}, spec, "mamp")
    assert axis.default is None and math.isclose(axis.at(0.5), 1.5)
