"""Records of ``skelbench tune``: one JSON file per method and way of tuning, in ``<results>/tuned/``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from skelbench.core.component import Spec
from skelbench.core.files import read_json, write_json
from skelbench.core.hashing import digest
from skelbench.core.spec import file_name
from skelbench.core.spelling import american
from skelbench.records.errors import damage, if_whole
from skelbench.records.schema import Share, facts_of
from skelbench.records.store import ResultStore


class TunedTrial(Spec):
    """One trial: its settings, and its accuracy on the held-out subjects."""

    number: int
    settings: dict[str, Any]
    """Empty for trial 0: the defaults."""
    run: str
    """pretrain_id."""
    accuracy: Share | None = None
    """None = failed."""
    failure: str = ""
    seconds: float = Field(ge=0)
    """Time of training and probing."""


class Retrained(Spec):
    """Runs of one setting on all training subjects, one per seed."""

    settings: dict[str, Any]
    runs: tuple[str, ...]
    evaluations: tuple[str, ...]
    accuracy: tuple[Share, ...] = Field(min_length=1)
    by_subject: tuple[tuple[float, int], ...] = ()
    """(recognized clips as a mean over seeds, clips) of each test subject; empty if subjects are not known."""
    n_test: int = Field(ge=1)
    seconds: float = Field(ge=0)


class Compared(Spec):
    """Tuned minus default, as :class:`skelbench.evaluation.stats.paired.SeedsTest`."""

    difference: float
    spread: float | None
    interval: tuple[float, float]
    p_value: Share
    seeds: int
    """Number of seeds that both settings have."""
    over: str = ""
    """Units of the interval: ``400 clips``, ``20 subjects``."""


class TuningRecord(Spec):
    """One tuning of a method: its space, trials and result."""

    format: Literal[1] = 1
    method: str
    """Name as the user types it: ``slim:glcl-only``."""
    setting: str
    dataset: str
    data: str
    """Fingerprint of the dataset."""
    split: str
    preset: str
    changed: dict[str, Any] = {}
    """Settings given with ``--set``, in trials and defaults alike."""
    tokens: int
    probe: str
    hardware: str
    budget_clips: int = Field(ge=1)
    """Training clips of one trial."""
    sampler: str
    seed: int
    """Seed of the sampler and the trials."""
    space: dict[str, dict[str, Any]]
    """Setting -> its bounds and distribution."""
    held_out: dict[str, Any]
    """The tuning split, its held-out subjects, cameras or setups, and a hash of them."""
    asked: int = Field(ge=1)
    """Number of trials, including the defaults."""
    trials: tuple[TunedTrial, ...] = Field(min_length=1)
    winner: int | None = None
    """Number of the trial with the highest accuracy, the earliest of equals; None = every trial failed."""
    seeds: tuple[int, ...]
    """Seeds of the retraining; no trial has one of them."""
    default: Retrained | None = None
    tuned: Retrained | None = None
    compared: Compared | None = None
    """None if the defaults won or one side is missing."""
    diverged: dict[Literal["default", "tuned"], str] = {}
    """Side whose retraining diverged -> the seed and the reason."""
    command: str
    environment: dict[str, Any]
    finished: float

    @property
    def name(self) -> str:
        """Name of the file: equal for the same request."""
        request = {"preset", "changed", "probe", "sampler", "space", "asked", "seeds"}
        values = self.model_dump(mode="json", include=request)
        values["default"] = self.trials[0].run  # its id covers method, data, held-out subjects, budget and seed
        place = f"{self.dataset}-{self.split}-{self.tokens}t-{self.preset}".replace("/", ".").replace(" ", "-")
        return f"{file_name(self.method)}-{place}-{digest(values)}.json"

    @property
    def chosen_on(self) -> str:
        """The split of the trials."""
        return str(self.held_out["split"])

    @property
    def complete(self) -> bool:
        """Whether both sides were retrained."""
        return self.default is not None and self.tuned is not None

    @property
    def failed(self) -> int:
        """Number of trials without an accuracy."""
        return sum(trial.accuracy is None for trial in self.trials)

    @property
    def hours(self) -> float:
        """Hours of training and probing of all trials."""
        return sum(trial.seconds for trial in self.trials) / 3600


def write(store: ResultStore, record: TuningRecord) -> Path:
    """Write ``record`` and return its path; a complete record is never replaced by an incomplete one."""
    path = store.root / "tuned" / record.name
    if not record.complete and path.exists() and (stored := if_whole(partial(_read, path))) and stored.complete:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, record.model_dump(mode="json"))
    return path


def read_all(store: ResultStore) -> Iterator[TuningRecord]:
    """Every record that is not damaged, by name."""
    for path in sorted((store.root / "tuned").glob("*.json")):
        if record := if_whole(partial(_read, path)):
            yield record


def _read(path: Path) -> TuningRecord:
    with damage(f"{path} is damaged; remove it and issue its `skelbench tune` again"):
        return facts_of(TuningRecord, american(read_json(path)))
