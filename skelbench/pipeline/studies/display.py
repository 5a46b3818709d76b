"""Progress of a study: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from skelbench.core.console import duration
from skelbench.core.text import plain
from skelbench.pipeline.studies.trials import Trial
from skelbench.pipeline.studies.worker_process import Work

LINE_SECONDS = 30.0
"""Without a terminal: seconds between lines about running trials."""


class Display:
    """Count trials and show which run; the base class prints plain lines."""

    def __init__(self, console: Console, name: str, total: int, done: int, jobs: int) -> None:
        self.console, self.name, self.total, self.jobs = console, name, total, jobs
        self.finished, self.failed = done, 0
        self._started = self._last_line = time.monotonic()
        self._share_done = 0.0
        """Trials' worth of training that this command has done and ended."""

    def started(self, work: Work) -> None:
        resumed = f", resumed at {100 * work.share_before:.0f} %" if 0 < work.share_before < 1 else ""
        self.message(f"{work.trial.title}: started{resumed}")

    def ended(self, work: Work, failure: str | None) -> None:
        self._share_done += 1 - work.share_before
        self.failed += failure is not None
        self.finished += failure is None
        outcome = f"failed: {failure}" if failure else f"done in {duration(work.seconds)}"
        self.message(f"{work.trial.title}: {outcome}")

    def refresh(self, working: Sequence[Work], waiting: Sequence[tuple[Trial, float]]) -> None:
        """Show the state if it is time to; ``waiting``: trials and the shares of their training that are done."""
        if time.monotonic() - self._last_line >= LINE_SECONDS:
            running = "; ".join(f"{work.trial.title} {facts(work)}" for work in working)
            self.message(", ".join((self.count(working, waiting), running or "waiting for another command")))

    def message(self, text: str) -> None:
        """Print one line."""
        self._last_line = time.monotonic()
        self.console.print(plain(f"{self.name}: {text}"), soft_wrap=True)

    def count(self, working: Sequence[Work], waiting: Sequence[tuple[Trial, float]]) -> str:
        """``3/18 trials, 1 failed, ETA 0:42:10``."""
        parts = [f"{self.finished}/{self.total} trials", f"{self.failed} failed" if self.failed else ""]
        done = self._share_done + sum(work.share - work.share_before for work in working)
        if done > 0:
            left = sum(1 - work.share for work in working) + sum(1 - share for _, share in waiting)
            parts.append(f"ETA {duration(left / done * (time.monotonic() - self._started))}")
        return ", ".join(filter(None, parts))


class Bars(Display):
    """On a terminal: a bar for the study and one for each running trial."""

    def __init__(self, console: Console, name: str, total: int, done: int, jobs: int, progress: Progress) -> None:
        super().__init__(console, name, total, done, jobs)
        self._progress = progress
        self._bars: dict[str, TaskID] = {}
        self._whole = progress.add_task(plain(name), total=total, completed=done, facts="")

    def started(self, work: Work) -> None:
        self._bars[work.trial.id] = self._progress.add_task(plain(work.trial.title), total=1.0, facts="")

    def ended(self, work: Work, failure: str | None) -> None:
        self._progress.remove_task(self._bars.pop(work.trial.id))
        super().ended(work, failure)

    def refresh(self, working: Sequence[Work], waiting: Sequence[tuple[Trial, float]]) -> None:
        done = self.finished + self.failed
        self._progress.update(self._whole, completed=done, facts=plain(self.count(working, waiting)))
        for work in working:
            self._progress.update(self._bars[work.trial.id], completed=work.share, facts=plain(facts(work)))


def facts(work: Work) -> str:
    """``43 %, 120 clips/s, loss=3.21`` for a trial that trains, else its stage."""
    if work.stage != "training":
        return work.stage
    line, parts = work.line, [f"{100 * work.share:.0f} %"]
    parts += [f"{line['clips_per_s']:.4g} clips/s"] if "clips_per_s" in line else []
    parts += [f"loss={line['loss']:.4g}"] if "loss" in line else []
    return ", ".join(parts)


@contextmanager
def display(console: Console, name: str, total: int, done: int, jobs: int) -> Iterator[Display]:
    """Yield the display for ``console``, of a study of ``total`` trials of which ``done`` were done before."""
    if not console.is_terminal:
        yield Display(console, name, total, done, jobs)
        return
    what, said = (TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[facts]}"))
    columns = what, BarColumn(bar_width=24), said
    with Progress(*columns, console=console, refresh_per_second=4) as progress:
        yield Bars(console, name, total, done, jobs, progress)
