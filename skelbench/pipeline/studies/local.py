"""The engine of this machine: each trial is a process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from skelbench.pipeline.studies.engine import Engine, Failures
from skelbench.plugin import EngineSpec, hookimpl

if TYPE_CHECKING:
    from skelbench.pipeline.session import Session
    from skelbench.pipeline.studies.display import Display
    from skelbench.pipeline.studies.trials import Status, Trial


class Local(Engine):
    """Run ``--jobs`` processes at a time on this machine."""

    takes = ("jobs",)

    def run(self, trials: Sequence[tuple[Trial, Status]], display: Display) -> Failures:
        """Run every trial to its end."""
        from skelbench.pipeline.studies.runner import processes, run_all

        jobs, threads = processes(self.context.session.device, self.request.jobs)
        return run_all(trials, self.context, jobs, threads, display)


def recognize_all(states: Sequence[tuple[Trial, Status]], session: Session) -> None:
    """Record in runs made by other commands that they are trials, so that tables show them."""
    from skelbench.pipeline.studies.trials import recognize

    for trial, state in states:
        if state.done:
            recognize(trial, state, session)


def work_through(
    states: Sequence[tuple[Trial, Status]], engine: Engine, at_once: int, threads: int | None = None
) -> Failures:
    """Run the trials that are not done, ``at_once`` at a time; return those that failed.

    Raises:
        KeyboardInterrupt: after a signal, when every trial has saved its state.
    """
    from skelbench.core.console import err
    from skelbench.pipeline.studies.display import Display
    from skelbench.pipeline.studies.runner import Stopped

    context = engine.context
    session, name = context.session, context.study
    open_trials = [(trial, state) for trial, state in states if not state.done]
    recognize_all(states, session)
    if not open_trials:
        return {}
    session.results.prepare()
    finished, at_once = len(states) - len(open_trials), min(at_once, len(open_trials))
    how = f"{at_once} at a time on {session.device}" + (f", {threads} threads each" if threads else "")
    err.print(f"{name}: {len(states)} trials, {finished} done; {how}; logs in {context.logs}")
    with Display(err, name, len(states), finished) as display:
        try:
            return engine.run(open_trials, display)
        except Stopped:
            display.message(
                f"{display.finished} of {len(states)} trials done; issue the same command again to continue"
            )
            raise KeyboardInterrupt from None


@hookimpl
def skelbench_engines() -> list[EngineSpec]:
    return [EngineSpec(name="local", target=":Local", summary="processes on this machine")]
