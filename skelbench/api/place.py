"""The session of a call (results, data, device, plugins), and a run on disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from skelbench.api.plugins import use_plugins
from skelbench.pipeline.observe import named_observers
from skelbench.pipeline.request import RunRequest, Work
from skelbench.pipeline.session import Session, open_session
from skelbench.records.run_dir import RunDir

Place = Path | str | None
Device = Any
"""cpu, cuda or cuda:N, or a ``torch.device``; None = cuda if there is a GPU."""


def open_place(asked: Work) -> Session:
    """The session that a call asks for, by the rules of the command line."""
    host = use_plugins(asked.plugins)
    observers = named_observers(host, asked.observe) if isinstance(asked, RunRequest) else ()
    session = open_session(asked.results, asked.data, asked.device, observers)
    return session if asked.progress else replace(session, progress=_silent)


def path_of(place: Place) -> Path | None:
    return None if place is None else Path(place).expanduser()


@contextmanager
def _silent(**_: Any) -> Iterator[Any]:
    yield lambda *_, **__: None


class RunOnDisk:
    """Directory of a run, directory of its data, and the checkpoint of its encoder."""

    def __init__(self, directory: RunDir, data: Place = None, checkpoint: str = "last") -> None:
        self._directory = directory
        self.data = path_of(data)
        """Directory of the datasets; None = the usual one."""
        self.checkpoint = checkpoint
        """Checkpoint of evaluations and encoder: "last", or the epoch of a kept snapshot."""

    def at(self, results: Place, data: Place, checkpoint: str = "last") -> tuple[Place, Place, str]:
        """Results, data root and checkpoint: the given ones, else the run's own."""
        own = self.checkpoint if checkpoint == "last" else checkpoint
        return self.path.parent if results is None else results, self.data if data is None else data, own

    @property
    def path(self) -> Path:
        """The directory."""
        return self._directory.path
