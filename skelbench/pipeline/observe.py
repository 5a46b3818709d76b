"""Observers: further logs of a run. Their errors do not stop it (torch-free)."""

from __future__ import annotations

import copy
import importlib.util
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skelbench.core.errors import SkelbenchError
from skelbench.core.user_config import said
from skelbench.plugin.descriptors import ObserverSpec
from skelbench.plugin.host import Host
from skelbench.plugin.plugin_errors import plugin_code
from skelbench.plugin.status import one_line

if TYPE_CHECKING:
    from skelbench.training.loop import Trainer

log = logging.getLogger(__name__)


class Observer:
    """Base class of observer plugins: ``Observer(folder)``, one for each command that trains a run.

    ``folder``, below the run's directory, is its own and may not exist yet. A resumed run may have written to it
    before, and repeats the steps since its last saved state. Only the first of several processes has observers.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run_started(self, run: Mapping[str, Any]) -> None:
        """Training begins or resumes; ``run`` has ``id``, ``name``, ``directory`` and ``spec``."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Metrics after ``step`` steps: ``loss``, ``lr``, ``epoch``, ...; some are missing in some lines."""

    def measure(self, trainer: Trainer) -> Mapping[str, float]:
        """Further metrics of a diagnostic step, logged with the others; must not change the training."""
        return {}

    def run_finished(self, outcome: str) -> None:
        """Training ended: done, interrupted, diverged or failed."""


def named_observers(host: Host, names: Iterable[str] | None) -> tuple[ObserverSpec, ...]:
    """The observers with these names, which may be comma separated; None = as in the user configuration.

    Raises:
        SkelbenchError: there is no such observer, or a package that it needs is not installed.
    """
    named = (said("observe") or ()) if names is None else names
    every = dict.fromkeys(part.strip() for name in named for part in name.split(",") if part.strip())
    specs: list[ObserverSpec] = [host.get("observers", name) for name in every]  # type: ignore[misc]
    for spec in specs:
        missing = [name for name in spec.packages if importlib.util.find_spec(name.partition(".")[0]) is None]
        if missing:
            install = f"'{spec.install}'" if spec.install else " ".join(missing)
            raise SkelbenchError(
                f"observer {spec.name} needs {' and '.join(missing)}, which is not installed: pip install {install}, "
                f"or leave out --observe {spec.name}"
            )
    return tuple(specs)


class Observing:
    """The observers of one training of a run; an observer that raises is skipped from then on, with a warning."""

    def __init__(self, host: Host, specs: Iterable[ObserverSpec], run: Mapping[str, Any]) -> None:
        self._run = run
        self._working: dict[str, Observer] = {}
        for spec in specs:
            self._call(spec.name, "beginning", partial(self._begin, host, spec))

    def _begin(self, host: Host, spec: ObserverSpec) -> None:
        cls = host.load(spec)
        with plugin_code(cls, "(folder)"):
            observer = cls(Path(self._run["directory"]) / spec.name)
        self._working[spec.name] = host.checked(spec, observer, Observer, "skelbench.pipeline.observe.Observer")

    def tell(self, event: str, **values: Any) -> None:
        """Call ``run_started``, ``log`` or ``run_finished`` of every observer that still works."""
        if event == "run_started":
            values = {"run": self._run}
        for name, observer in list(self._working.items()):
            self._call(name, event, partial(getattr(observer, event), **copy.deepcopy(values)))

    def measure(self, trainer: Trainer) -> dict[str, float]:
        """Metrics of all observers at a diagnostic step."""
        metrics: dict[str, float] = {}
        for name, observer in list(self._working.items()):
            metrics |= self._call(name, "measure", partial(observer.measure, trainer)) or {}
        return metrics

    def _call(self, name: str, event: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (Exception, SystemExit) as error:
            self._working.pop(name, None)
            log.warning("observer %s failed (%s) and is skipped, the run continues: %s", name, event, one_line(error))
            log.debug("traceback of the failed observer", exc_info=error)
