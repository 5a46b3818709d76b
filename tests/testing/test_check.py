"""A check passes, fails, is skipped or excused, and an excuse that is no longer needed is a failure."""

from dataclasses import replace

import pytest

from skelbench.core.errors import SkelbenchError
from skelbench.plugin.host import get_host
from skelbench.testing import Check, Failed, Skipped, find, run_checks


def small(subject):
    if subject is None:
        raise Skipped("there is nothing to look at")
    if subject > 10:
        raise Failed("at most 10", str(subject), "its size")


def even(subject):
    if subject % 2:
        raise SkelbenchError("it is odd")


CHECKS = [Check("small", "it is small", small), Check("even", "it is even", even)]


def states(subject, **excuses):
    return [result.state for result in run_checks(CHECKS, subject, excuses)]


def test_what_holds_passes_and_what_does_not_says_what_was_seen():
    assert states(2) == ["passed", "passed"]
    large, odd = run_checks(CHECKS, 11, {})
    assert (large.state, large.expected, large.seen, large.look) == ("failed", "at most 10", "11", "its size")
    assert (odd.state, odd.seen, odd.traceback) == ("failed", "it is odd", "")


def test_a_check_that_does_not_apply_and_one_whose_code_raises():
    skipped, raised = run_checks(CHECKS, None, {})
    assert (skipped.state, skipped.reason, skipped.bad) == ("skipped", "there is nothing to look at", False)
    assert raised.bad and raised.seen.startswith("TypeError: ") and "in even" in raised.traceback


def test_an_excuse_that_is_needed_and_one_that_is_not():
    assert states(11, small="large by design", even="no") == ["expected failure", "expected failure"]
    assert states(2, small="large by design") == ["stale excuse", "passed"]


def test_an_excuse_for_no_check():
    with pytest.raises(SkelbenchError, match="expected_failures: unknown check 'smal'; did you mean 'small'"):
        list(run_checks(CHECKS, 1, {"smal": "x"}))


def test_a_file_that_is_edited_is_checked_as_it_is(tmp_path):
    path = tmp_path / "wave.py"
    text = "from skelbench.views import Augment\n\n\nclass {}(Augment):\n    'x.'\n    kind = '{}'\n"
    for name in ("first", "second"):
        path.write_text(text.format(name.title(), name))
        assert [thing.name for thing in find(str(path))] == [name]


def test_a_descriptor_that_is_announced_too_is_the_one_that_is_checked():
    spec = replace(get_host().get("methods", "mamp"), summary="another")
    (thing,) = find(spec)
    assert thing._made[0].get("methods", "mamp") is spec
