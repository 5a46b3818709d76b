"""A check of a plugin as data: what must hold, and the function that finds out.

A check takes its subject (what is checked, built once) and returns, or raises :class:`Failed` with what was expected,
what was seen and where to look, or :class:`Skipped` with the reason why it does not apply. Every other exception is a
failure too: a plugin's code raised it.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from skelbench.core.errors import SkelbenchError, did_you_mean

Subject = TypeVar("Subject")
State = Literal["passed", "failed", "skipped", "expected failure", "stale excuse"]


class Failed(Exception):
    """What was expected, what was seen, and where an author looks first; each a sentence or a part of one.

    >>> str(Failed("a finite loss", "nan", "training_step"))
    'expected a finite loss; seen: nan; look at training_step'
    """

    def __init__(self, expected: str, seen: str, look: str = "") -> None:
        super().__init__(f"expected {expected}; seen: {seen}" + (f"; look at {look}" if look else ""))
        self.expected, self.seen, self.look = expected, seen, look


class Skipped(Exception):
    """Why a check does not apply to this subject."""


@dataclass(frozen=True)
class Check(Generic[Subject]):
    """One thing that must hold.

    >>> def positive(number):
    ...     if number <= 0:
    ...         raise Failed("a number above 0", str(number))
    >>> run_check(Check("positive", "a number is above 0", positive), -1).state
    'failed'
    """

    name: str
    """Slug, as it stands in ``expected_failures``."""
    about: str
    """What must hold, in one sentence."""
    run: Callable[[Subject], None]
    thorough: bool = False
    """Whether it takes minutes and is left out unless it is asked for."""


@dataclass(frozen=True)
class CheckResult:
    """How one check went.

    >>> CheckResult("positive", "failed").bad, CheckResult("positive", "expected failure").bad
    (True, False)
    """

    name: str
    state: State
    about: str = ""
    expected: str = ""
    seen: str = ""
    look: str = ""
    reason: str = ""
    """Of what is skipped or excused."""
    seconds: float = 0.0
    traceback: str = ""
    """Of what the plugin's code raised."""

    @property
    def bad(self) -> bool:
        """Whether the plugin has something to mend: a failure without an excuse, or an excuse without a failure."""
        return self.state in ("failed", "stale excuse")

    @property
    def sentence(self) -> str:
        """What was expected, what was seen and where to look."""
        return f"expected: {self.expected}; seen: {self.seen}" + (f"; look at {self.look}" if self.look else "")


def run_checks(
    checks: Iterable[Check[Subject]],
    subject: Subject,
    expected_failures: Mapping[str, str],
    *,
    only: Collection[str] = (),
    thorough: bool = True,
    home: Collection[str] = (),
) -> Iterator[CheckResult]:
    """Run ``checks`` in order and yield each result as it is known.

    Args:
        expected_failures: name of a check -> why this subject may fail it. One that passes after all is a stale
            excuse.
        only: names of the checks to run; none = all.
        thorough: whether those are run that take minutes (one that ``only`` names is).
        home: files and folders of the plugin, for :attr:`CheckResult.look` where it raised in one of them.

    Raises:
        SkelbenchError: an excuse, or ``only``, names no check.

    >>> anything = Check("any", "nothing must hold", lambda subject: None)
    >>> [result.state for result in run_checks([anything], None, {"any": "it used to fail"})]
    ['stale excuse']
    """
    checks = list(checks)
    names = [check.name for check in checks]
    for where, given in (("expected_failures: ", expected_failures), ("", only)):
        for name in given:
            if name not in names:
                raise SkelbenchError(where + did_you_mean(name, names, "check"))
    for check in checks:
        if check.name in only if only else thorough or not check.thorough:
            yield run_check(check, subject, expected_failures.get(check.name, ""), home)


def run_check(check: Check[Subject], subject: Subject, excuse: str = "", home: Collection[str] = ()) -> CheckResult:
    """One check; ``excuse``: why it may fail; ``home``: see :func:`run_checks`.

    >>> run_check(Check("any", "nothing", lambda subject: None), None).state
    'passed'
    """
    started = time.perf_counter()

    def result(state: State, **more: str) -> CheckResult:
        return CheckResult(check.name, state, check.about, seconds=time.perf_counter() - started, **more)

    try:
        check.run(subject)
    except Skipped as skipped:
        return result("skipped", reason=str(skipped))
    except Failed as failed:
        seen = {"expected": failed.expected, "seen": failed.seen, "look": failed.look or place(failed, home)}
    except SkelbenchError as error:
        seen = {"expected": check.about, "seen": str(error), "look": place(error, home)}
    except (Exception, SystemExit) as error:
        seen = {"expected": check.about, "seen": f"{type(error).__name__}: {error}", "look": place(error, home)}
        seen["traceback"] = "".join(traceback.format_exception(error))
    else:
        if excuse:
            return result("stale excuse", seen="it passes", look="expected_failures: take it out", reason=excuse)
        return result("passed")
    return result("expected failure", reason=excuse, **seen) if excuse else result("failed", **seen)


def place(error: BaseException, home: Collection[str]) -> str:
    """``file.py, line 12 (training_step)``: where ``error``, or what caused it, came through ``home`` last; "" = it
    did not."""
    cause: BaseException | None = error
    while cause is not None:
        for frame in reversed(traceback.extract_tb(cause.__traceback__)):
            if os.path.realpath(frame.filename).startswith(tuple(home)):
                return f"{frame.filename}, line {frame.lineno} ({frame.name})"
        cause = cause.__cause__ or cause.__context__
    return ""


def rests_on(run: Callable[[Subject], None], subject: Subject, name: str) -> None:
    """Skip the check that calls this where the check ``name`` fails, whose fault it would show once more."""
    try:
        run(subject)
    except Exception:
        raise Skipped(f"{name} fails, so there is nothing to compare with") from None
