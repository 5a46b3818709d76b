"""A study's progress: bars on a terminal, plain lines elsewhere; how long the rest takes, from what was measured."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from skelbench.core.console import duration
from skelbench.core.text import plain
from skelbench.pipeline.studies.trials import Trial, makespan
from skelbench.pipeline.studies.worker_process import Work

LINE_SECONDS = 30.0
"""Without a terminal: how often what runs is said."""


class Pace:
    """How long trials take, from what was measured in this sitting.

    Training: seconds per clip and temporal token, of the same method, or of all where it has not been seen yet. What
    comes before and after (imports, probes, cost) counts as much as in the trials that ended.
    """

    def __init__(self) -> None:
        self._rates: dict[str, float] = {}
        """Clips times tokens per second, by method."""
        self._around: list[float] = []

    def see(self, work: Work) -> None:
        """A trial has logged how fast it is."""
        if rate := work.line.get("clips_per_s"):
            self._rates[work.trial.method] = rate * work.trial.resolved.spec.tokens

    def end(self, work: Work) -> None:
        """A trial has come to its end."""
        rate = work.line.get("clips_per_s")
        training = work.trial.clips * (work.share - work.share_before) / rate if rate else 0.0
        self._around.append(max(0.0, work.seconds - training))

    def left(self, working: Sequence[Work], waiting: Sequence[tuple[Trial, float]], jobs: int) -> float | None:
        """Seconds until all is done, None before anything was measured; ``waiting``: trials and their shares done."""
        if not self._rates:
            return None
        overall = sum(1 / rate for rate in self._rates.values()) / len(self._rates)
        around = sum(self._around) / len(self._around) if self._around else 0.0

        def need(trial: Trial, share: float) -> float:
            pace = 1 / self._rates[trial.method] if trial.method in self._rates else overall
            return (1 - share) * trial.clips * trial.resolved.spec.tokens * pace + around

        running = [need(work.trial, work.share) for work in working]
        return makespan([*running, *(need(trial, share) for trial, share in waiting)], jobs)


class Display:
    """Counts trials and says what runs; the base prints plain lines."""

    def __init__(self, console: Console, name: str, total: int, done: int, jobs: int) -> None:
        self.console, self.name, self.total, self.jobs = console, name, total, jobs
        self.finished, self.failed = done, 0
        self.pace = Pace()
        self._last_line = time.monotonic()

    # ------------------------------------------------------------------------------------------ told by the runner
    def started(self, work: Work) -> None:
        going_on = f", going on at {100 * work.share_before:.0f} %" if 0 < work.share_before < 1 else ""
        self.say(f"{work.trial.title}: started{going_on}")

    def ended(self, work: Work, failure: str | None) -> None:
        self.pace.end(work)
        self.failed += failure is not None
        self.finished += failure is None
        what = f"failed: {failure}" if failure else f"done in {duration(work.seconds)}"
        self.say(f"{work.trial.title}: {what}")

    def tick(self, working: Sequence[Work], waiting: Sequence[tuple[Trial, float]]) -> None:
        for work in working:
            self.pace.see(work)
        self.refresh(working, waiting)

    def refresh(self, working: Sequence[Work], waiting: Sequence[tuple[Trial, float]]) -> None:
        """Say how things are, if it is time to."""
        if time.monotonic() - self._last_line >= LINE_SECONDS:
            running = "; ".join(f"{work.trial.title} {facts(work)}" for work in working)
            self.say(", ".join(filter(None, (self.count(working, waiting), running or "waiting for another command"))))

    def say(self, message: str) -> None:
        self._last_line = time.monotonic()
        self.console.print(plain(f"{self.name}: {message}"), soft_wrap=True)

    # ------------------------------------------------------------------------------------------ words
    def count(self, working: Sequence[Work], waiting: Sequence[tuple[Trial, float]]) -> str:
        """``3/18 trials, 1 failed, ETA 0:42:10``."""
        left = self.pace.left(working, waiting, self.jobs)
        parts = [f"{self.finished}/{self.total} trials", f"{self.failed} failed" if self.failed else ""]
        parts += [f"ETA {duration(left)}" if left is not None else ""]
        return ", ".join(filter(None, parts))


class Bars(Display):
    """On a terminal: a bar for the study and one for every trial that runs."""

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
    """``43 %, 120 clips/s, loss=3.21`` of a trial that trains, else what it does."""
    if work.stage != "training":
        return work.stage
    line, parts = work.line, [f"{100 * work.share:.0f} %"]
    parts += [f"{line['clips_per_s']:.4g} clips/s"] if "clips_per_s" in line else []
    parts += [f"loss={line['loss']:.4g}"] if "loss" in line else []
    return ", ".join(parts)


@contextmanager
def display(console: Console, name: str, total: int, done: int, jobs: int) -> Iterator[Display]:
    """The display that suits ``console``, for a study of ``total`` trials of which ``done`` were there before."""
    if not console.is_terminal:
        yield Display(console, name, total, done, jobs)
        return
    what, said = (TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[facts]}"))
    columns = what, BarColumn(bar_width=24), said
    with Progress(*columns, console=console, refresh_per_second=4) as progress:
        yield Bars(console, name, total, done, jobs, progress)
