"""A check of a plugin as data: what must hold, and the function that tests it.

A check takes its subject (the plugin's part, built once). It returns, or raises :class:`Failed`, or :class:`Skipped`
with the reason why it does not apply. Any other exception is a failure too, raised by the plugin's code.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from skelbench.core.errors import SkelbenchError, did_you_mean

Subject = TypeVar("Subject")
State = Literal["passed", "failed", "skipped", "expected failure", "stale excuse"]


class Failed(Exception):
    """Expected result, actual result, and where an author should look first.

    >>> str(Failed("a finite loss", "nan", "training_step"))
    'expected: a finite loss; seen: nan; look at training_step'
    """

    def __init__(self, expected: str, seen: str, look: str = "") -> None:
        super().__init__(f"expected: {expected}; seen: {seen}" + (f"; look at {look}" if look else ""))
        self.expected, self.seen, self.look = expected, seen, look


class Skipped(Exception):
    """Reason why a check does not apply to this subject."""


@dataclass(frozen=True)
class Check(Generic[Subject]):
    """One thing that must hold.

    >>> def positive(number):
    ...     if number <= 0:
    ...         raise Failed("a number above 0", str(number))
    >>> [result.state for result in run_checks([Check("positive", "a number is above 0", positive)], -1)]
    ['failed']
    """

    name: str
    """Key in ``expected_failures``."""
    about: str
    """Requirement, in one sentence."""
    run: Callable[[Subject], None]


@dataclass(frozen=True)
class CheckResult:
    """Outcome of one check.

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
    """Why it was skipped or may fail."""
    seconds: float = 0.0
    traceback: str = ""
    """Traceback of an exception that the plugin's code raised."""

    @property
    def bad(self) -> bool:
        """Whether something has to be fixed: an unexpected failure, or an expected failure that passes."""
        return self.state in ("failed", "stale excuse")

    @property
    def sentence(self) -> str:
        """Expected result, actual result and where to look."""
        return str(Failed(self.expected, self.seen, self.look))


def run_checks(
    checks: Iterable[Check[Subject]],
    subject: Subject,
    expected_failures: Mapping[str, str] | None = None,
    *,
    only: Collection[str] = (),
) -> Iterator[CheckResult]:
    """Run ``checks`` in order and yield each result as soon as it is known.

    Args:
        expected_failures: name of a check -> why this subject may fail it. A check that passes anyway is a stale
            excuse.
        only: names of the checks to run; none = all.

    Raises:
        SkelbenchError: ``expected_failures`` or ``only`` names no check.

    >>> anything = Check("any", "nothing must hold", lambda subject: None)
    >>> [result.state for result in run_checks([anything], None, {"any": "it used to fail"})]
    ['stale excuse']
    """
    checks, reasons = list(checks), expected_failures or {}
    names = [check.name for check in checks]
    for name in (*reasons, *only):
        if name not in names:
            raise SkelbenchError(did_you_mean(name, names, "check"))
    for check in checks:
        if not only or check.name in only:
            yield _run(check, subject, reasons.get(check.name, ""))


def _run(check: Check[Subject], subject: Subject, reason: str) -> CheckResult:
    started = time.perf_counter()

    def result(state: State, **more: str) -> CheckResult:
        return CheckResult(check.name, state, check.about, seconds=time.perf_counter() - started, **more)

    try:
        check.run(subject)
    except Skipped as skipped:
        return result("skipped", reason=str(skipped))
    except (Exception, SystemExit) as error:
        seen = {"expected": check.about, "seen": str(error), "look": line_of(error)}
        if isinstance(error, Failed):
            seen |= {"expected": error.expected, "seen": error.seen, "look": error.look or seen["look"]}
        elif not isinstance(error, SkelbenchError):
            seen["seen"] = f"{type(error).__name__}: {error}"
            seen["traceback"] = "".join(traceback.format_exception(error))
        return result("expected failure" if reason else "failed", reason=reason, **seen)
    if reason:
        return result("stale excuse", seen="it passes", look="expected_failures: remove it", reason=reason)
    return result("passed")


def line_of(error: BaseException) -> str:
    """Return ``file.py, line 12 (training_step)``: innermost frame of ``error`` or its cause, outside PyTorch."""
    frames = traceback.extract_tb((error.__cause__ or error).__traceback__)
    own = [frame for frame in frames if "/torch/" not in frame.filename and not frame.filename.startswith("<")]
    return f"{own[-1].filename}, line {own[-1].lineno} ({own[-1].name})" if own else ""
