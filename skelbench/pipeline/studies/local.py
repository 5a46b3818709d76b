"""The engine of this machine: each trial in a process of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from skelbench.pipeline.studies.engine import Engine, Failures
from skelbench.plugin import EngineSpec, hookimpl

if TYPE_CHECKING:
    from skelbench.pipeline.studies.display import Display
    from skelbench.pipeline.studies.trials import Status, Trial


class Local(Engine):
    """Processes of this machine, some at a time (``--jobs``)."""

    takes = ("jobs",)

    def run(self, trials: Sequence[tuple[Trial, Status]], display: Display) -> Failures:
        """Bring every trial to its end."""
        from skelbench.pipeline.studies.runner import Runner, processes

        errand = self.errand
        _, threads = processes(errand.session.device, self.wishes.jobs)
        runner = Runner(errand.session, errand.protocols, errand.logs, display.jobs, threads)
        return runner.run(trials, display)


@hookimpl
def skelbench_engines() -> list[EngineSpec]:
    return [EngineSpec(name="local", target=":Local", summary="processes of this machine")]
