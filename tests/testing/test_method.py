"""Each check of methods passes a correct method and finds a broken method."""

import re
from pathlib import Path

import pytest

from skelbench.testing import find
from skelbench.testing.method import CHECKS

BROKEN = Path(__file__).with_name("broken.py")
FOUND = {
    "settings": "none of speed",
    "builds": "roles names 'haed'",
    "bodies": r"broken.py:\d+, error: RuntimeError: shape",
    "clip-lengths": r"broken.py, line \d+ \(error\)",
    "native": "did you mean 'vit'",
    "another-skeleton": r"size of tensor a \(75\)",
    "flat-poses": "inf|nan",
    "labels": "where every clip has another label",
    "gradients": "none in spare.bias, spare.weight",
    "teacher": "teacher is the same after two steps",
    "bf16": "a loss within 5% or 0.01 of float32's",
    "learns": r"after \d+ steps",
    "seed": "the same losses from the same seed",
    "resume": "step 2 has loss",
    "processes": "step.mean",
    "pieces": "whole_batch",
    "features": "hooks",
    "devices": r"device.*broken.py, line \d+ \(error\)",
    "cost": "a module with the role 'student'",
}
"""Check -> part of what it says of the broken method with its name."""
FURTHER = [
    ("settings-space", "settings", "method.momentun"),
    ("variants", "builds", "unknown setting of .* 'deep'"),
    ("unhooked", "cost", "decoder is never called"),
]


@pytest.fixture(scope="module")
def methods():
    return {thing.name: thing for thing in find(BROKEN)}


def test_a_correct_method_passes(methods):
    states = {result.name: result for result in methods["pose"].results()}
    assert {name for name, result in states.items() if result.state != "passed"} == {"native"}, states


def test_every_check_has_a_broken_method():
    assert {check.name for check in CHECKS} == FOUND.keys()


@pytest.mark.parametrize(("name", "check", "message"), [*((name, name, FOUND[name]) for name in FOUND), *FURTHER])
def test_a_broken_method_is_found(name, check, message, methods):
    (result,) = methods[name].results(only=[check])
    assert result.state == "failed" and re.search(message, result.message), result
