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
State = Literal["passed", "failed", "skipped", "expected failure"]


class Failed(Exception):
    """Expected result, actual result, and where an author should look first.

    >>> str(Failed("a finite loss", "nan", "training_step"))
    'expected: a finite loss; seen: nan; check training_step'
    """

    def __init__(self, expected: str, seen: str, look: str = "") -> None:
        super().__init__(f"expected: {expected}; seen: {seen}" + (f"; check {look}" if look else ""))
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
    """Requirement, as one short statement."""
    run: Callable[[Subject], None]


@dataclass(frozen=True)
class CheckResult:
    """Outcome of one check."""

    name: str
    state: State
    about: str
    """Requirement, as one short statement."""
    message: str = ""
    """Expected result, actual result and where to look; the reason if it was skipped or may fail."""
    seconds: float = 0.0
    traceback: str = ""
    """Traceback of an exception that the plugin's code raised."""

    @property
    def bad(self) -> bool:
        """Whether something has to be fixed."""
        return self.state == "failed"


def run_checks(
    checks: Iterable[Check[Subject]],
    subject: Subject,
    expected_failures: Mapping[str, str] | None = None,
    *,
    only: Collection[str] = (),
) -> Iterator[CheckResult]:
    """Run ``checks`` in order and yield each result as soon as it is known.

    Args:
        expected_failures: name of a check -> why this subject may fail it.
        only: names of the checks to run; none = all.

    Raises:
        SkelbenchError: ``expected_failures`` or ``only`` names no check.
    """
    checks, reasons = list(checks), expected_failures or {}
    names = [check.name for check in checks]
    for name in (*reasons, *only):
        if name not in names:
            raise SkelbenchError(did_you_mean(name, names, "check"))
    for check in checks:
        if not only or check.name in only:
            started = time.perf_counter()
            state, message, trace = _run(check, subject)
            if state == "failed" and check.name in reasons:
                state, message = "expected failure", reasons[check.name]
            yield CheckResult(check.name, state, check.about, message, time.perf_counter() - started, trace)


def _run(check: Check[Subject], subject: Subject) -> tuple[State, str, str]:
    """Return state, message and traceback."""
    try:
        check.run(subject)
    except Skipped as skipped:
        return "skipped", str(skipped), ""
    except Failed as failed:
        return "failed", str(failed) if failed.look else f"{failed}; check {line_of(failed)}", ""
    except SkelbenchError as error:
        return "failed", str(Failed(check.about, str(error), line_of(error))), ""
    except (Exception, SystemExit) as error:
        message = str(Failed(check.about, f"{type(error).__name__}: {error}", line_of(error)))
        return "failed", message, "".join(traceback.format_exception(error))
    return "passed", "", ""


def line_of(error: BaseException) -> str:
    """Return ``file.py, line 12 (training_step)``: innermost frame of ``error`` or its cause, outside PyTorch."""
    frames = traceback.extract_tb((error.__cause__ or error).__traceback__)
    own = [frame for frame in frames if "/torch/" not in frame.filename and not frame.filename.startswith("<")]
    return f"{own[-1].filename}, line {own[-1].lineno} ({own[-1].name})" if own else ""
