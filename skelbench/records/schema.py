"""Fields that readers of run.json, evaluation records and cost.json require."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

Model = TypeVar("Model", bound=BaseModel)
Share = Annotated[float, Field(ge=0, le=1)]


class _Facts(BaseModel):
    """Required fields of a file, which may have more."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class RunFacts(_Facts):
    """Fields of run.json."""

    preset: str
    modified: dict[str, Any]
    environment: dict[str, Any] = {}
    outcome: str
    created: float = 0.0
    finished: float | None = None


class _Metrics(_Facts):
    accuracy: Share
    n_test: Annotated[float, Field(ge=1)]


class RecordFacts(_Facts):
    """Fields of an evaluation record."""

    id: str
    standard: bool
    metrics: _Metrics
    predictions: str
    finished: float


class CostFacts(_Facts):
    """Fields of cost.json."""

    grid: Annotated[str, Field(pattern=r"^\d+ x \d+")]
    encoder: dict[str, Any]
    parameters: dict[str, Any]
    step: dict[str, Any] | None
    latency: dict[str, Any]
    peak_memory: dict[str, Any]


def facts_of(model: type[Model], values: Any) -> Model:
    """Validate ``values`` as ``model``; ValueError with the first field that is not valid."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "it"
        raise ValueError(f"{place}: {first['msg'][0].lower()}{first['msg'][1:]}") from None
