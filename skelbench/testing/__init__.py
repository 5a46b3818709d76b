"""Checks that every plugin must pass, for authors' own tests and for ``skelbench plugins check``.

The whole test file of an author, one test for each check::

    from skelbench.testing import parametrize_with_checks

    @parametrize_with_checks(["simclr.py"])
    def test_simclr(check): check()

Importing this imports no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from skelbench.core.errors import SkelbenchError
from skelbench.testing.check import Check, CheckResult, Failed, Skipped, run_check, run_checks
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
    "check_augmentation",
    "check_crop",
    "check_dataset",
    "check_degradation",
    "check_encoder",
    "check_mask",
    "check_method",
    "check_optimizer",
    "check_protocol",
    "check_schedule",
    "check_target",
    "check_topology",
    "find",
    "parametrize_with_checks",
    "run_check",
    "run_checks",
]


def check(
    kind: str,
    what: What,
    *,
    expected_failures: Mapping[str, str] | None = None,
    on_result: Callable[[CheckResult], None] | None = None,
    only: Collection[str] = (),
    thorough: bool = False,
) -> list[CheckResult]:
    """Run the checks of every ``kind`` (``"methods"``, ``"encoders"``, ...) that ``what`` is.

    Args:
        what: a name, a plugin file (``"simclr.py"``), or a descriptor that need not be announced.
        expected_failures: name of a check -> why it may fail, besides what the descriptor says.
        on_result: called with each result as it is known.
        only: names of the checks to run; none = all.
        thorough: also those that take minutes.

    Raises:
        SkelbenchError: there is no such thing, or no such check.
    """
    results: list[CheckResult] = []
    for thing in find(what, kind):
        for result in thing.results(expected_failures, only=only, thorough=thorough):
            results.append(result)
            if on_result:
                on_result(result)
    return results


def check_method(
    what: What,
    *,
    expected_failures: Mapping[str, str] | None = None,
    on_result: Callable[[CheckResult], None] | None = None,
    only: Collection[str] = (),
    thorough: bool = False,
) -> list[CheckResult]:
    """:func:`check` of methods: ``check_method("simclr.py")``, ``check_method("slim", only=["gradients"])``.

    ``[result for result in check_method("simclr.py") if result.bad]`` is what has to be mended.
    """
    return check(
        "methods", what, expected_failures=expected_failures, on_result=on_result, only=only, thorough=thorough
    )


# The same of every other kind: check_encoder("vit"), check_protocol("knn.py").
check_encoder = partial(check, "encoders")
check_dataset = partial(check, "datasets")
check_protocol = partial(check, "protocols")
check_target = partial(check, "targets")
check_crop = partial(check, "crops")
check_augmentation = partial(check, "augmentations")
check_mask = partial(check, "masks")
check_degradation = partial(check, "degradations")
check_optimizer = partial(check, "optimizers")
check_schedule = partial(check, "schedules")
check_topology = partial(check, "topologies")


def parametrize_with_checks(
    whats: Iterable[What],
    *,
    kind: str | None = None,
    expected_failures: Mapping[str, str] | None = None,
    thorough: bool = False,
) -> pytest.MarkDecorator:
    """Make a pytest test of each check of each of ``whats`` (see :func:`check`), called ``simclr-gradients``.

    The test takes ``check`` and calls it. A failure that is excused is a strict xfail, so an excuse that is no longer
    needed fails.
    """
    import pytest

    excuses = expected_failures or {}
    parameters = []
    for thing in (thing for what in whats for thing in find(what, kind)):
        for each in thing.checks:
            if thorough or not each.thorough:
                excuse = {**thing.excuses, **excuses}.get(each.name)
                marks = [pytest.mark.xfail(strict=True, reason=excuse)] if excuse else []
                test = partial(_test, thing, each.name)
                parameters.append(pytest.param(test, id=f"{thing.name}-{each.name}", marks=marks))
    if not parameters:
        raise SkelbenchError("there is nothing to check; name plugins of a kind that has checks")
    return pytest.mark.parametrize("check", parameters)


def _test(thing: Thing, name: str) -> None:
    import pytest

    (result,) = thing.results(only=[name])
    if result.state == "skipped":
        pytest.skip(result.reason)
    if result.state in ("failed", "expected failure"):
        pytest.fail(f"{result.sentence}\n{result.traceback}".rstrip(), pytrace=False)
