"""``skelbench study --on`` an engine with a queue: submit, print the state, wait, cancel."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from skelbench.core.console import err, make_table, out
from skelbench.core.errors import SkelbenchError
from skelbench.core.text import plain

if TYPE_CHECKING:
    from skelbench.pipeline.session import Session
    from skelbench.pipeline.studies.engine import Failures, Queue
    from skelbench.pipeline.studies.study import Study
    from skelbench.pipeline.studies.trials import Status, Trial

    States = list[tuple[Trial, Status]]

AGAIN = "the same command submits missing trials later; --status prints their state, --wait waits, --cancel cancels"
POLL_SECONDS, LONGEST_POLL_SECONDS = 1.0, 30.0
"""First and longest time between two requests to the queue, which others share."""


def act(
    study: Study, states: States, session: Session, protocols: list[str], engine: Queue, asked: str
) -> States | None:
    """Act on ``--emit``, ``--status``, ``--cancel`` or ``--wait``; "" = submit only.

    Returns the states of a study that has ended, else None.
    """
    missing = [(trial, state) for trial, state in states if not state.done]
    if asked == "--emit":
        out.print(engine.emit(missing) or f"# {study.name}: nothing to submit\n", end="", soft_wrap=True)
        return None
    if asked == "--cancel":
        jobs = engine.cancel()
        out.print(f"{study.name}: {jobs} job{'s' * (jobs != 1)} cancelled; what ran has been asked to save its state")
        return None
    if asked == "--status":
        _show(study, states, engine)
        return None
    if not missing:
        return states
    done = f"{study.name}: {len(states)} trials, {len(states) - len(missing)} done"
    err.print(f"{done}; {engine.submit(missing)}", soft_wrap=True)
    if asked != "--wait":
        err.print(AGAIN, soft_wrap=True)
        return None
    _wait(study, [trial for trial, _ in missing], engine)
    from skelbench.pipeline.studies.trials import status

    return [(trial, state if state.done else status(trial, session, protocols)) for trial, state in states]


def failures(states: States, engine: Queue) -> Failures:
    """Trials that are neither done nor in the queue, with reasons and logs."""
    lost = "it is neither done nor in the queue; issue the same command again", engine.context.logs
    return {trial.id: _failure(engine, trial, state) or lost for trial, state in states if not state.done}


def _failure(engine: Queue, trial: Trial, state: Status) -> tuple[str, Path] | None:
    if state.state == "running" and state.run:
        return "another command works on it; issue this one again when that has ended", state.run.path
    return engine.failure(trial, state)


def _show(study: Study, states: States, engine: Queue) -> None:
    there = engine.queued()
    rows = []
    counts: Counter[str] = Counter()
    for trial, state in states:
        word, more = state.state, str(state)
        if state.done:
            pass
        elif trial.id in there:
            word, more = there[trial.id].partition(" ")[0], there[trial.id]
            more += f" at {100 * state.share:.0f} %" if state.share else ""
        elif failure := engine.failure(trial, state):
            word, more = "failed", f"failed: {failure[0]} (see {failure[1]})"
        counts[word] += 1
        rows.append((" ".join(filter(None, (trial.method, trial.settings))), trial.resolved.spec.tokens,
                     trial.resolved.spec.seed, trial.id, plain(more)))  # fmt: skip
    out.print(make_table(("trial", "tokens", "seed", "id", "state"), rows, title=study.name))
    out.print(f"{len(states)} trials: {', '.join(f'{count} {word}' for word, count in counts.items())}")


def _wait(study: Study, trials: Sequence[Trial], engine: Queue) -> None:
    """Wait until no trial is in the queue; print how many wait and run when that changes."""
    ids, said, pause = {trial.id for trial in trials}, "", POLL_SECONDS
    try:
        while True:
            try:
                words = sorted(word for id_, word in engine.queued().items() if id_ in ids)
                counts = Counter(word.partition(" ")[0] for word in words)
                now = f"{study.name}: {', '.join(f'{count} {word}' for word, count in counts.items())}"
                if not words:
                    return
            except SkelbenchError as error:  # for example while its controller restarts
                now = f"note: {error}; asking again"
            if now != said:
                err.print(now)
                said, pause = now, POLL_SECONDS
            time.sleep(pause)
            pause = min(LONGEST_POLL_SECONDS, pause * 1.5)
    except KeyboardInterrupt:
        err.print(f"{study.name}: queued jobs continue; the same command waits again, --cancel cancels them")
        raise
