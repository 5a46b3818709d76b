"""``skelbench study --on`` an engine with a queue: submit, print the state, cancel."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from skelbench.core.console import err, make_table, out
from skelbench.core.text import plain

if TYPE_CHECKING:
    from skelbench.pipeline.studies.engine import Queue
    from skelbench.pipeline.studies.study import Study
    from skelbench.pipeline.studies.trials import Status, Trial

    States = list[tuple[Trial, Status]]

AGAIN = "the same command submits missing trials later; --status prints their state, --cancel cancels"


def act(study: Study, states: States, engine: Queue, asked: str) -> bool:
    """Act on ``--emit``, ``--status`` or ``--cancel``; "" = submit. Return whether nothing is left to submit."""
    missing = [(trial, state) for trial, state in states if not state.done]
    if asked == "--emit":
        out.print(engine.emit(missing) or f"# {study.name}: nothing to submit\n", end="", soft_wrap=True)
    elif asked == "--cancel":
        jobs = engine.cancel()
        out.print(f"{study.name}: {jobs} job{'s' * (jobs != 1)} cancelled; running trials save their state")
    elif asked == "--status":
        _show(study, states, engine)
    elif missing:
        progress = f"{study.name}: {len(states)} trials, {len(states) - len(missing)} done"
        err.print(f"{progress}; {engine.submit(missing)}", soft_wrap=True)
        err.print(AGAIN, soft_wrap=True)
    else:
        return True
    return False


def _show(study: Study, states: States, engine: Queue) -> None:
    queued = engine.queued()
    rows = []
    counts: Counter[str] = Counter()
    for trial, state in states:
        word, more = state.state, str(state)
        if state.done:
            pass
        elif trial.id in queued:
            word, more = queued[trial.id].partition(" ")[0], queued[trial.id]
            more += f" at {100 * state.share:.0f} %" if state.share else ""
        elif failure := engine.failure(trial, state):
            word, more = "failed", f"failed: {failure[0]} (see {failure[1]})"
        counts[word] += 1
        rows.append((" ".join(filter(None, (trial.method, trial.settings))), trial.resolved.spec.tokens,
                     trial.resolved.spec.seed, trial.id, plain(more)))  # fmt: skip
    out.print(make_table(("trial", "tokens", "seed", "id", "state"), rows, title=study.name))
    out.print(f"{len(states)} trials: {', '.join(f'{count} {word}' for word, count in counts.items())}")
