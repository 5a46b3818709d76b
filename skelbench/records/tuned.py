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
from skelbench.records.errors import Damaged, if_whole
from skelbench.records.schema import Share, facts_of
from skelbench.records.store import ResultStore


class TunedTrial(Spec):
    """One trial: what was changed, and what came of it on the held-out subjects."""

    number: int
    settings: dict[str, Any]
    """Empty for trial 0: the defaults."""
    run: str
    """pretrain_id."""
    accuracy: Share | None = None
    """None = failed."""
    failure: str = ""
    seconds: float = Field(ge=0)
    """Of training and probing."""


class Retrained(Spec):
    """Runs of one setting on all training subjects, one per seed."""

    settings: dict[str, Any]
    runs: tuple[str, ...]
    evaluations: tuple[str, ...]
    accuracy: tuple[Share, ...] = Field(min_length=1)
    by_subject: tuple[tuple[float, int], ...] = ()
    """Clips recognised (means over seeds) and clips, of each test subject; empty in older records, and where subjects
    are not known."""
    n_test: int = Field(ge=1)
    seconds: float = Field(ge=0)


class Compared(Spec):
    """Tuned minus default over the seeds of both, as :class:`skelbench.evaluation.stats.paired.SeedsTest`."""

    difference: float
    spread: float | None
    interval: tuple[float, float]
    p_value: Share
    seeds: int | None = None
    """That both have, which ``spread`` is over; None in older records: all that were retrained."""
    over: str = ""
    """What the interval is over: ``400 clips``, ``20 subjects``."""


class TuningRecord(Spec):
    """How a method was tuned and what it gave."""

    format: Literal[1] = 1
    method: str
    """As it is typed: ``slim:glcl-only``."""
    setting: str
    dataset: str
    data: str
    """The data set's fingerprint."""
    split: str
    preset: str
    changed: dict[str, Any] = {}
    """Settings given with ``--set``, in trials and defaults alike."""
    tokens: int
    probe: str
    hardware: str
    budget_clips: int = Field(ge=1)
    """Clips that a trial sees in training."""
    sampler: str
    seed: int
    """Of draws and trials."""
    space: dict[str, dict[str, Any]]
    """Setting -> its bounds as numbers, and how it is drawn."""
    held_out: dict[str, Any]
    """The tuning split, the subjects held out, of how many, the cameras or setups if some were, and a hash of them."""
    asked: int = Field(ge=1)
    """Trials, the defaults among them."""
    trials: tuple[TunedTrial, ...] = Field(min_length=1)
    winner: int | None = None
    """Number of the trial with the highest accuracy, the earliest of equals; None = every trial failed."""
    seeds: tuple[int, ...]
    """Of the retraining; none of them is a trial's."""
    default: Retrained | None = None
    tuned: Retrained | None = None
    compared: Compared | None = None
    """None where the defaults won, or something is missing."""
    diverged: dict[Literal["default", "tuned"], str] = {}
    """Of a side without accuracies that will never have any: the seed with which it diverged, and how."""
    command: str
    environment: dict[str, Any]
    finished: float

    @property
    def name(self) -> str:
        """Of its file: the same for the same question."""
        told = self.model_dump(
            mode="json", include={"preset", "changed", "probe", "sampler", "space", "asked", "seeds"}
        )
        told["default"] = self.trials[0].run  # method, data, who is held out, budget and seed are in its id
        place = f"{self.dataset}-{self.split}-{self.tokens}t-{self.preset}".replace("/", ".").replace(" ", "-")
        return f"{file_name(self.method)}-{place}-{digest(told)}.json"

    @property
    def chosen_on(self) -> str:
        """The split of the trials."""
        return str(self.held_out["split"])

    @property
    def complete(self) -> bool:
        """Whether both sides were trained again."""
        return self.default is not None and self.tuned is not None

    @property
    def failed(self) -> int:
        """Trials without an accuracy."""
        return sum(trial.accuracy is None for trial in self.trials)

    @property
    def hours(self) -> float:
        """Training and probing of all trials."""
        return sum(trial.seconds for trial in self.trials) / 3600


def write(store: ResultStore, record: TuningRecord) -> Path:
    """Write ``record`` whole; returns where. One that is there and complete is not lost to one that is not."""
    path = store.root / "tuned" / record.name
    if not record.complete and path.exists() and (there := if_whole(partial(_read, path))) and there.complete:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, record.model_dump(mode="json"))
    return path


def read_all(store: ResultStore) -> Iterator[TuningRecord]:
    """Every record, by name, but for damaged ones."""
    for path in sorted((store.root / "tuned").glob("*.json")):
        if record := if_whole(partial(_read, path)):
            yield record


def _read(path: Path) -> TuningRecord:
    try:
        return facts_of(TuningRecord, read_json(path))
    except (OSError, ValueError) as error:
        raise Damaged.because(f"{path} is damaged; remove it and issue its `skelbench tune` again", error) from error
