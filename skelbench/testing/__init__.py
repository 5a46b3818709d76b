"""Checks that every plugin must pass, for authors' own tests and for ``skelbench plugins check``.

A whole test file of an author, one test for each check::

    from skelbench.testing import parametrize_with_checks

    @parametrize_with_checks(["simclr.py"])
    def test_simclr(check): check()

Importing this imports no torch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING

from skelbench.core.errors import SkelbenchError
from skelbench.testing.check import Check, CheckResult, Failed, Skipped, run_checks
from skelbench.testing.thing import Thing, What, find

if TYPE_CHECKING:
    import pytest

__all__ = [
    "Check",
    "CheckResult",
    "Failed",
    "Skipped",
    "Thing",
    "check",
    "find",
    "parametrize_with_checks",
    "run_checks",
]


def check(what: What, kind: str | None = None, *, only: Collection[str] = ()) -> list[CheckResult]:
    """Run the checks of everything of ``kind`` (``"methods"``, ``"encoders"``, None for any) that ``what`` names.

    ``[result for result in check("simclr.py") if result.bad]`` is what has to be fixed.

    Args:
        what: a name, or a plugin file (``"simclr.py"``).
        only: names of the checks to run; none = all.

    Raises:
        SkelbenchError: nothing has this name, or no check does.
    """
    return [result for subject in find(what, kind) for result in subject.results(only=only)]


def parametrize_with_checks(whats: Iterable[What], *, kind: str | None = None) -> pytest.MarkDecorator:
    """Make a pytest test of each check of each of ``whats`` (see :func:`check`), named ``simclr-gradients``.

    The test takes ``check`` and calls it. An expected failure is a strict xfail: a reason that is no longer needed
    fails.
    """
    import pytest

    parameters = []
    for subject in (subject for source in whats for subject in find(source, kind)):
        for check in subject.checks:
            reason = subject.excuses.get(check.name)
            marks = [pytest.mark.xfail(strict=True, reason=reason)] if reason else []
            test = partial(_test, subject, check.name)
            parameters.append(pytest.param(test, id=f"{subject.name}-{check.name}", marks=marks))
    if not parameters:
        raise SkelbenchError("there is nothing to check; name plugins of a kind that has checks")
    return pytest.mark.parametrize("check", parameters)


def _test(subject: Thing, name: str) -> None:
    import pytest

    (result,) = subject.results(only=[name])
    if result.state == "skipped":
        pytest.skip(result.message)
    if result.state != "passed":
        pytest.fail(f"{result.message}\n{result.traceback}".rstrip(), pytrace=False)
