"""The pluggy hooks of a plugin.

``skelbench_<kind>()`` returns a list of descriptors of a kind of :data:`KINDS` (``skelbench_methods`` of MethodSpec,
``skelbench_tables`` of TableSpec, ...). Observer hooks return nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pluggy

from skelbench.plugin.descriptors import KINDS

PROJECT = "skelbench"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def _descriptors() -> None:
    """List the descriptors of one kind."""


@hookspec
def skelbench_run_started(run: Mapping[str, Any]) -> None:
    """Observer: a pre-training run begins; ``run`` has ``id``, ``name``, ``directory`` and ``spec``."""


@hookspec
def skelbench_log(run: Mapping[str, Any], step: int, metrics: Mapping[str, float]) -> None:
    """Observer: a line of metrics was written."""


@hookspec
def skelbench_run_finished(run: Mapping[str, Any], outcome: str) -> None:
    """Observer: a run ended with ``outcome`` (done, interrupted, diverged, failed)."""


OBSERVERS = {hook.__name__: hook for hook in (skelbench_run_started, skelbench_log, skelbench_run_finished)}
HOOKS = {f"skelbench_{kind}": _descriptors for kind in KINDS} | OBSERVERS
SURFACE = type("Surface", (), dict(HOOKS))
