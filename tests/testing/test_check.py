"""A check passes, fails, is skipped or is an expected failure; an expected failure that passes is an error."""

from dataclasses import replace

import pytest

from skelbench.core.errors import SkelbenchError
from skelbench.plugin.host import get_host
from skelbench.testing import Check, Failed, Skipped, check_method, find, run_checks


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


def test_a_failure_says_what_was_expected_and_seen():
    assert states(2) == ["passed", "passed"]
    large, odd = run_checks(CHECKS, 11)
    assert (large.state, large.expected, large.seen, large.look) == ("failed", "at most 10", "11", "its size")
    assert (odd.state, odd.seen, odd.traceback) == ("failed", "it is odd", "")


def test_a_check_that_does_not_apply_and_a_check_that_raises():
    skipped, raised = run_checks(CHECKS, None)
    assert (skipped.state, skipped.reason, skipped.bad) == ("skipped", "there is nothing to check", False)
    assert raised.bad and raised.seen.startswith("TypeError: ") and "in even" in raised.traceback


def test_an_expected_failure_and_one_that_passes():
    assert states(11, small="large by design", even="no") == ["expected failure", "expected failure"]
    assert states(2, small="large by design") == ["stale excuse", "passed"]
    with pytest.raises(SkelbenchError, match="unknown check 'smal'; did you mean 'small'"):
        list(run_checks(CHECKS, 1, {"smal": "x"}))


def test_a_file_that_is_edited_is_read_again(tmp_path):
    path = tmp_path / "wave.py"
    text = "from skelbench.views import Augment\n\n\nclass {}(Augment):\n    'x.'\n    kind = '{}'\n"
    for name in ("first", "second"):
        path.write_text(text.format(name.title(), name))
        assert [thing.name for thing in find(str(path))] == [name]


def test_a_given_descriptor_is_checked_though_it_is_announced_too():
    spec = replace(get_host().get("methods", "mamp"), citation="")
    (result,) = check_method(spec, only=["settings"])
    assert result.bad and "citation is empty" in result.sentence
