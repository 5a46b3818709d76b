"""Engines: what brings the trials of a study to their end, here or on other machines (torch-free)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from skelbench.core.errors import SkelbenchError

if TYPE_CHECKING:
    from skelbench.pipeline.session import Session
    from skelbench.pipeline.studies.display import Display
    from skelbench.pipeline.studies.trials import Status, Trial

Failures = dict[str, tuple[str, Path]]
"""Trials that failed: id -> (reason, log)."""


@dataclass(frozen=True)
class Wishes:
    """What the options of ``skelbench study`` say to an engine; None = nothing. Each field is the option of its name.

    >>> Wishes(cpus=4).said()
    ['cpus']
    """

    jobs: int | None = None
    partition: str | None = None
    gpus: int | None = None
    cpus: int | None = None
    """Of each trial."""
    mem: str | None = None
    time: str | None = None
    max_parallel: int | None = None
    setup: tuple[str, ...] | None = None
    """Lines of shell before a trial."""

    def said(self) -> list[str]:
        """Names of the fields that say something."""
        return [field.name for field in fields(self) if getattr(self, field.name) is not None]


@dataclass(frozen=True)
class Errand:
    """What an engine is asked to do: the study's name, and where and how its trials are run."""

    study: str
    session: Session
    protocols: Sequence[str]

    @property
    def logs(self) -> Path:
        """The study's folder, for the logs of its trials."""
        return self.session.results.root / "studies" / self.study


class Engine(ABC):
    """Base class of engines: one is made for each command. ``wishes`` says nothing but what is in :attr:`takes`."""

    takes: ClassVar[tuple[str, ...]] = ()
    """Fields of :class:`Wishes` that it heeds; any other that is given is refused."""

    def __init__(self, errand: Errand, wishes: Wishes) -> None:
        self.errand, self.wishes = errand, wishes

    @classmethod
    def device(cls, wishes: Wishes, device: str | None) -> str | None:
        """The device that trials are made for; ``device`` is what the user says. None = that of this machine."""
        return device

    @abstractmethod
    def run(self, trials: Sequence[tuple[Trial, Status]], display: Display) -> Failures:
        """Bring every trial to its end, each by :func:`skelbench.pipeline.studies.runner.command`; those that failed.

        One that fails touches no other. ``display`` is told how things are.

        Raises:
            skelbench.pipeline.studies.runner.Stopped: after a signal, when every trial has saved its state.
        """


class Queue(Engine):
    """An engine that hands trials over and returns: whether they are waiting, running or done is asked for later."""

    @abstractmethod
    def emit(self, trials: Sequence[tuple[Trial, Status]]) -> str:
        """What :meth:`submit` would hand over, to be read; nothing is handed over or written."""

    @abstractmethod
    def submit(self, trials: Sequence[tuple[Trial, Status]]) -> str:
        """Hand over those that are not there yet, all or none; what was done, in a sentence."""

    @abstractmethod
    def there(self) -> Mapping[str, str]:
        """The trials that wait or run: id -> ``queued (job 12_3)``. Those of other studies of the same results too."""

    @abstractmethod
    def failure(self, trial: Trial, state: Status) -> tuple[str, Path] | None:
        """Why a trial that was handed over is neither there nor done, and where to read more; None if it never was."""

    @abstractmethod
    def cancel(self) -> int:
        """Take back what waits, and have what runs save its state and end; how many jobs that were."""

    def run(self, trials: Sequence[tuple[Trial, Status]], display: Display) -> Failures:
        """Hand over; nothing has failed yet."""
        display.say(self.submit(trials))
        return {}


def check_taken(engine: type[Engine], name: str, wishes: Wishes, asked: Sequence[str]) -> None:
    """Refuse an option that ``engine`` does not heed; ``asked``: --status and the like, which ask a queue."""
    others = "leave it out" if issubclass(engine, Queue) else "leave it out, or name an engine that does: --on slurm"
    for field in wishes.said():
        if field not in engine.takes:
            option = f"--{field.replace('_', '-')}"
            instead = "say --max-parallel N" if (field, "max_parallel" in engine.takes) == ("jobs", True) else others
            raise SkelbenchError(f"{option} is not heeded by engine {name}; {instead}")
    if asked and not issubclass(engine, Queue):
        raise SkelbenchError(f"{asked[0]} asks an engine with a queue; leave it out, or name one: --on slurm")
    if len(asked) > 1:
        raise SkelbenchError(f"{' and '.join(asked)} contradict each other; leave one of them out")
