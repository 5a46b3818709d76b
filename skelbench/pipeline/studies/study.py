"""A study: its runs and their evaluations (torch-free).

The trials of a study are the cross product of ``grid``, in the order of its axes, then the single ``trials``. Later
settings win: the study's own ``dataset``, ``split``, ``preset``, ``native`` and ``budget``, then ``set``, then the
trial, then options of the command line. An option of the command line also replaces an axis of the grid.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import ConfigDict, Field, field_validator, model_validator

from skelbench.core.component import Spec
from skelbench.pipeline.budget import Budget
from skelbench.pipeline.request import Request

TRIAL = ("method", "dataset", "split", "tokens", "preset", "native", "budget")
"""Keys of a trial with a place of their own in a request; every other key is a setting, ``train.lr`` or ``lr``."""
STATED = ("dataset", "split", "preset", "native", "budget")
"""Options that a study may give once for all its trials."""


class Study(Spec):
    """A grid of runs. The same fields, by the same names, make up a study's TOML file.

    >>> study = Study(name="rates", grid={"method": ("slim", "mamp"), "train.lr": (1e-3, 2e-3)}, seeds=(0,))
    >>> study.probe
    ('linear', 'knn')
    """

    model_config = ConfigDict(populate_by_name=True)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", description="name in commands, and of the folder of its logs")
    summary: str = Field("", description="its question, in one line")
    table: str = Field("", description="table of `skelbench compare` that shows it; empty = linear")
    figure: str = Field("", description="figure of `skelbench plot` that shows it; empty = none")
    preset: str | None = Field(None, description="preset of trials without one; none = as in `run`")
    gpu_preset: str | None = Field(None, description="preset with a GPU; none = preset")
    plugins: tuple[str, ...] = Field((), description="plugin files that its trials need, relative to its file")
    dataset: str | None = None
    split: str | None = None
    native: bool | None = None
    budget: str | None = Field(None, description="training budget of every trial: clips=40k, flops=2e15")
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = Field((0, 1), min_length=1, description="seeds of every trial")
    probe: tuple[str, ...] = Field(("linear", "knn"), description="protocols; empty = train only")
    sets: dict[str, Any] = Field({}, alias="set", description="settings of every trial")
    grid: dict[str, tuple[Any, ...]] = Field({}, description="axis -> values: the trials are their cross product")
    trials: tuple[dict[str, Any], ...] = Field((), description="further trials, one by one")
    then: str = Field("", description="command to type for each finished run (RUN) after the study")

    @field_validator("seeds")
    @classmethod
    def _counted(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(seeds))

    @field_validator("probe", mode="before")
    @classmethod
    def _split(cls, probe: Any) -> Any:
        """Accept ``"linear,knn"`` too, and ``"none"``."""
        names = probe.split(",") if isinstance(probe, str) else probe
        if isinstance(names, list | tuple) and all(isinstance(name, str) for name in names):
            return tuple(dict.fromkeys(name.strip() for name in names if name.strip() not in ("", "none")))
        return names

    @model_validator(mode="after")
    def _has_trials(self) -> Study:
        for axis, values in self.grid.items():
            if not values:
                raise ValueError(f"axis {axis} of the grid is empty")
        for trial in self.points():
            if not isinstance(trial.get("method"), str):
                raise ValueError("a trial without a method; name it in [grid], in [set] or in the trial itself")
            if "seed" in trial:
                raise ValueError("seeds belong to the whole study: write seeds = [0, 1] at the top")
        return self

    def points(self) -> Iterator[dict[str, Any]]:
        """Settings of each trial, in the order in which trials are run, without seeds."""
        base = {key: value for key in STATED if (value := getattr(self, key)) is not None}
        base = merged(base, self.sets)
        if self.grid or not self.trials:
            for values in itertools.product(*self.grid.values()):
                yield merged(base, dict(zip(self.grid, values)))
        for trial in self.trials:
            yield merged(base, trial)

    def requests(self, gpu: bool = False) -> Iterator[Request]:
        """Every trial with every seed, all trials of one seed before the next: an early stop leaves a whole grid."""
        if gpu and self.gpu_preset:
            yield from self.model_copy(update={"preset": self.gpu_preset}).requests()
            return
        for seed, point in itertools.product(self.seeds, self.points()):
            own = {key: point[key] for key in TRIAL if key in point}
            own |= {"budget": Budget.parse(own["budget"])} if own.get("budget") is not None else {}
            yield Request(**own, seed=seed, sets={key: value for key, value in point.items() if key not in TRIAL})

    def varied(self) -> list[str]:
        """Keys in which trials differ, in the order of the study file."""
        points = list(self.points())
        keys = dict.fromkeys(itertools.chain.from_iterable(points))
        return [key for key in keys if any(point.get(key) != points[0].get(key) for point in points)]

    def replaced(self, key: str, values: Sequence[Any]) -> Study:
        """Return the study with ``values`` for ``key`` in every trial; several values become or replace an axis."""
        fields: dict[str, Any] = {name: None for name in STATED if name == key}
        fields |= {"gpu_preset": None} if key == "preset" else {}
        sets = {k: v for k, v in self.sets.items() if not same(k, key)}
        trials = [{k: v for k, v in trial.items() if not same(k, key)} for trial in self.trials]
        grid = {key if same(k, key) else k: tuple(values) if same(k, key) else axis for k, axis in self.grid.items()}
        if len(values) == 1:
            (fields if key in STATED else sets)[key] = values[0]
        else:
            if grid or not trials:
                grid[key] = tuple(values)
            trials = [{**trial, key: value} for trial in trials for value in values]
        return self.model_copy(update={**fields, "sets": sets, "grid": grid, "trials": tuple(trials)})


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Merge ``first`` and ``second``, which wins; ``lr`` and ``train.lr`` are one key."""
    return {key: value for key, value in first.items() if not any(same(key, other) for other in second)} | dict(second)


def same(key: str, other: str) -> bool:
    """Whether two keys name one setting: they are equal, or one of them lacks the section."""
    if key == other:
        return True
    if ("." in key) == ("." in other):
        return False
    return key.rsplit(".", 1)[-1] == other.rsplit(".", 1)[-1] and not {key, other} & set(TRIAL)
