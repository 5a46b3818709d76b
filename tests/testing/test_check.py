"""A check passes, fails, is skipped or is an expected failure."""

import pytest

from skelbench.core.errors import SkelbenchError
from skelbench.testing import Check, Failed, Skipped, run_checks


def small(subject):
    if subject is None:
        raise Skipped("there is nothing to check")
    if subject > 10:
        raise Failed("at most 10", str(subject), "its size")


def even(subject):
    if subject % 2:
        raise SkelbenchError("it is odd")


CHECKS = [Check("small", "it is small", small), Check("even", "it is even", even)]


def states(subject, **reasons):
    return [result.state for result in run_checks(CHECKS, subject, reasons)]


def test_a_failure_states_expected_and_actual_result():
    assert states(2) == ["passed", "passed"]
    large, odd = run_checks(CHECKS, 11)
    assert large.bad and large.message == "expected: at most 10; seen: 11; check its size"
    assert odd.bad and "seen: it is odd" in odd.message and not odd.traceback


def test_a_check_that_does_not_apply_and_a_check_that_raises():
    skipped, raised = run_checks(CHECKS, None)
    assert (skipped.state, skipped.message, skipped.bad) == ("skipped", "there is nothing to check", False)
    assert raised.bad and "seen: TypeError: " in raised.message and "in even" in raised.traceback


def test_an_expected_failure():
    assert states(11, small="large by design", even="no") == ["expected failure", "expected failure"]
    with pytest.raises(SkelbenchError, match="unknown check 'smal'; did you mean 'small'"):
        list(run_checks(CHECKS, 1, {"smal": "x"}))
