"""Engines: they run the trials of a study, on this machine or on others (torch-free)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Ge

from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.request import Arguments, Option

if TYPE_CHECKING:
    from skelbench.pipeline.session import Session
    from skelbench.pipeline.studies.display import Display
    from skelbench.pipeline.studies.trials import Status, Trial

QUEUE = "With --on slurm"
"""Panel of the options of engines with a queue."""
Failures = dict[str, tuple[str, Path]]
"""Trials that failed: id -> (reason, log)."""


class ResourceRequest(Arguments):
    """Resources that the options of ``skelbench study`` ask for; None = not given."""

    jobs: Annotated[int | None, Option("1 with a GPU, else one per core, at most 4"), Ge(1)] = None
    """Number of runs at the same time."""
    partition: Annotated[str | None, Option("SBATCH_PARTITION, else the cluster's", panel=QUEUE)] = None
    """Partition of the cluster."""
    gpus: Annotated[int | None, Option("1 with --device cuda, else 0", panel=QUEUE), Ge(0)] = None
    """GPUs of each trial, 0 or 1."""
    cpus: Annotated[int | None, Option("4 with a GPU, else 1", panel=QUEUE), Ge(1)] = None
    """Cores of each trial."""
    mem: Annotated[str | None, Option("16G", panel=QUEUE)] = None
    """Memory of each trial, for example 32G."""
    time: Annotated[str | None, Option("4h", panel=QUEUE)] = None
    """Time limit of a job, for example 4h, 90m or 1d12h. A longer trial continues in another job."""
    max_parallel: Annotated[int | None, Option("no limit", panel=QUEUE), Ge(1)] = None
    """Number of trials at the same time."""
    setup: Annotated[tuple[str, ...] | None, Option(metavar="LINE", panel=QUEUE)] = None
    """Shell command before each trial, for example 'module load cuda'. Repeatable."""

    def given(self) -> list[str]:
        """Names of the fields that are given."""
        return [name for name in type(self).model_fields if getattr(self, name) is not None]


@dataclass(frozen=True)
class StudyContext:
    """The study of an engine: its name, and the session and protocols of its trials."""

    study: str
    session: Session
    protocols: Sequence[str]

    @property
    def logs(self) -> Path:
        """Folder of the logs of the trials."""
        return self.session.results.root / "studies" / self.study


class Engine(ABC):
    """Base class of engines; each command makes one."""

    takes: ClassVar[tuple[str, ...]] = ()
    """Fields of :class:`ResourceRequest` that it supports; others are rejected."""

    def __init__(self, context: StudyContext, request: ResourceRequest) -> None:
        self.context, self.request = context, request

    @classmethod
    def device(cls, request: ResourceRequest, device: str | None) -> str | None:
        """Device that trials are resolved for; ``device`` is the user's choice, None = device of this machine."""
        return device

    @abstractmethod
    def run(self, trials: Sequence[tuple[Trial, Status]], display: Display) -> Failures:
        """Run every trial by :func:`skelbench.pipeline.studies.runner.command`; return those that failed.

        A failed trial does not affect the others. ``display`` shows the progress.

        Raises:
            skelbench.pipeline.studies.runner.Stopped: after a signal, when every trial has saved its state.
        """


class Queue(Engine):
    """An engine that submits trials and returns; the state of trials is read later."""

    @abstractmethod
    def emit(self, trials: Sequence[tuple[Trial, Status]]) -> str:
        """Return the text that :meth:`submit` would submit; nothing is submitted or written."""

    @abstractmethod
    def submit(self, trials: Sequence[tuple[Trial, Status]]) -> str:
        """Submit the trials that are not in the queue, all or none; return a message for the user."""

    @abstractmethod
    def queued(self) -> Mapping[str, str]:
        """Trials that wait or run, of all studies of the same results: id -> ``queued (job 12_3)``."""

    @abstractmethod
    def failure(self, trial: Trial, state: Status) -> tuple[str, Path] | None:
        """Why a submitted trial is neither queued nor done, and its log; None if it was never submitted."""

    @abstractmethod
    def cancel(self) -> int:
        """Cancel waiting jobs and stop running ones, which save their state; return the number of jobs."""

    def run(self, trials: Sequence[tuple[Trial, Status]], display: Display) -> Failures:
        """Submit; nothing has failed yet."""
        display.message(self.submit(trials))
        return {}


def check_taken(engine: type[Engine], name: str, request: ResourceRequest, asked: Sequence[str]) -> None:
    """Reject an option that ``engine`` does not support; ``asked``: --status and similar, which need a queue."""
    advice = "leave it out" if issubclass(engine, Queue) else "leave it out, or choose an engine that does: --on slurm"
    for field in request.given():
        if field not in engine.takes:
            option = f"--{field.replace('_', '-')}"
            instead = "use --max-parallel N" if (field, "max_parallel" in engine.takes) == ("jobs", True) else advice
            raise SkelbenchError(f"{option} is not supported by engine {name}; {instead}")
    if asked and not issubclass(engine, Queue):
        raise SkelbenchError(f"{asked[0]} needs an engine with a queue; leave it out, or choose one: --on slurm")
    if len(asked) > 1:
        raise SkelbenchError(f"{' and '.join(asked)} contradict each other; leave one of them out")
