"""Fields that readers of run.json, evaluation records and cost.json require."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

Model = TypeVar("Model", bound=BaseModel)
Share = Annotated[float, Field(ge=0, le=1)]
Moment = Annotated[float, Field(ge=0, lt=253402300800)]
"""Seconds since 1970, before the year 10000."""


class _Facts(BaseModel):
    """Required fields of a file, which may have more."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _Environment(_Facts):
    hardware: str = ""
    threads: Annotated[int, Field(ge=1)] | None = None
    packages: dict[str, str] = {}
    command: str | None = None


class _Collapse(_Facts):
    what: str
    measure: str
    value: float
    step: int


class _Imported(_Facts):
    file: str
    sha256: str
    read: str
    settings: dict[str, Any]
    left_out: list[str]


class RunFacts(_Facts):
    id: str = ""
    preset: str
    modified: dict[str, Any]
    environment: _Environment = _Environment()
    outcome: str
    reason: str = ""
    variant: str = ""
    setting: str = "shared"
    created: Moment = 0.0
    finished: Moment | None = None
    steps: int | None = None
    clips_seen: float | None = None
    train_seconds: float | None = None
    collapse: list[_Collapse] | None = None
    shortcut: list[_Collapse] | None = None
    imported: _Imported | None = None
    tags: list[str] = []
    note: str = ""

    @model_validator(mode="after")
    def _length(self) -> RunFacts:
        if self.steps and (self.clips_seen is None or self.train_seconds is None):
            raise ValueError("it has steps, but no clips_seen or train_seconds")
        return self


class _Metrics(_Facts):
    accuracy: Share
    n_test: Annotated[float, Field(ge=1)]
    accuracy_selected: Share | None = None
    accuracy_best_on_test: Share | None = None
    accuracy_sd: Annotated[float, Field(ge=0)] | None = None


class _Measure(_Facts):
    model_config = ConfigDict(extra="forbid")
    label: str = ""
    share: bool = False


class RecordFacts(_Facts):
    id: str
    standard: bool
    metrics: _Metrics
    measures: dict[str, _Measure] = {}
    drawn: str = ""
    predictions: str
    notes: list[str] = []
    finished: Moment
    preset: str = ""
    curve: list[dict[str, Any]] = []
    environment: _Environment = _Environment()


class _Encoder(_Facts):
    macs: Annotated[float, Field(ge=0)]
    bodies: Annotated[int, Field(ge=1)] = 1


class _Step(_Facts):
    flops_per_clip: Annotated[float, Field(ge=0)]


class _Parameters(_Facts):
    encoder: int
    trainable: int


class _Time(_Facts):
    median_ms: float
    clips_per_s: float


class _Latency(_Facts):
    one: _Time = Field(alias="batch 1")
    many: _Time = Field(alias="batch 64")


class _Peak(_Facts):
    bytes: float
    how: str


class CostFacts(_Facts):
    grid: Annotated[str, Field(pattern=r"^\d+ x \d+")]
    encoder: _Encoder
    parameters: _Parameters
    step: _Step | None
    latency: _Latency
    peak_memory: _Peak


def facts_of(model: type[Model], values: Any) -> Model:
    """Validate ``values`` as ``model``; ValueError with the first field that is not valid."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "it"
        raise ValueError(f"{place}: {first['msg'][0].lower()}{first['msg'][1:]}") from None
