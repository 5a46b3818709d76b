"""The engine of this machine: each trial is a process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from skelbench.pipeline.studies.engine import Engine, Failures
from skelbench.plugin import EngineSpec, hookimpl

if TYPE_CHECKING:
    from skelbench.pipeline.studies.display import Display
    from skelbench.pipeline.studies.trials import Status, Trial


class Local(Engine):
    """Run ``--jobs`` processes at a time on this machine."""

    takes = ("jobs",)

    def run(self, trials: Sequence[tuple[Trial, Status]], display: Display) -> Failures:
        """Run every trial to its end."""
        from skelbench.pipeline.studies.runner import Runner, processes

        context = self.context
        _, threads = processes(context.session.device, self.request.jobs)
        runner = Runner(context.session, context.protocols, context.logs, display.jobs, threads)
        return runner.run(trials, display)


@hookimpl
def skelbench_engines() -> list[EngineSpec]:
    return [EngineSpec(name="local", target=":Local", summary="processes of this machine")]
