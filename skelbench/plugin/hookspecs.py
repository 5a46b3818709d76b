"""Hooks of a plugin file: ``skelbench_<kind>()`` returns a list of descriptors of a kind of :data:`KINDS`
(``skelbench_methods`` of MethodSpec, ``skelbench_tables`` of TableSpec, ...); observers watch and return nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from skelbench.plugin.descriptors import KINDS

Hook = TypeVar("Hook", bound=Callable[..., Any])


def hookimpl(function: Hook) -> Hook:
    """Mark a function of a plugin file as the hook that its name says."""
    function.skelbench_hook = True  # type: ignore[attr-defined]
    return function


def skelbench_run_started(run: Mapping[str, Any]) -> None:
    """Observer: a pre-training run begins; ``run`` has ``id``, ``name``, ``directory`` and ``spec``."""


def skelbench_log(run: Mapping[str, Any], step: int, metrics: Mapping[str, float]) -> None:
    """Observer: a line of metrics was written."""


def skelbench_run_finished(run: Mapping[str, Any], outcome: str) -> None:
    """Observer: a run ended with ``outcome`` (done, interrupted, diverged, failed)."""


OBSERVERS = {hook.__name__: hook for hook in (skelbench_run_started, skelbench_log, skelbench_run_finished)}
HOOKS = (*(f"skelbench_{kind}" for kind in KINDS), *OBSERVERS)
