"""Base classes of declarative settings (torch-free)."""

from __future__ import annotations

from collections.abc import Iterator, Set
from types import UnionType
from typing import Annotated, Any, ClassVar, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from skelbench.core.spelling import VALUES, known

Share = Annotated[float, Field(gt=0, lt=1)]
"""A fraction between 0 and 1, without the limits."""


class Spec(BaseModel):
    """Base of all declarative settings, frozen and hashable. A string below a field documents it.

    Unknown fields, numbers that are not finite, booleans for numbers, and invalid defaults are errors.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, validate_default=True)

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        for name, field in cls.model_fields.items():
            if _without_order(field.annotation):
                raise TypeError(
                    f"{cls.__name__}.{name} is a set, which has another order in every process; write tuple[...]"
                )

    @model_validator(mode="before")
    @classmethod
    def _either_spelling(cls, values: Any) -> Any:
        return {known(name, cls.model_fields): values[name] for name in values} if isinstance(values, dict) else values

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, str) and value in VALUES:
            choices = get_args(cls.model_fields[str(info.field_name)].annotation)
            return known(value, choices, VALUES)
        if isinstance(value, bool):  # pydantic takes it for 1 or 0
            types = set(_leaves(cls.model_fields[str(info.field_name)].annotation))
            if types & {int, float} and not types & {bool, Any}:
                raise ValueError(f"a number is expected, not {str(value).lower()}")
        return value


def _without_order(annotation: Any) -> bool:
    origin = get_origin(annotation) or annotation
    if isinstance(origin, type) and issubclass(origin, Set):
        return True
    return any(map(_without_order, get_args(annotation)))


def _leaves(annotation: Any) -> Iterator[Any]:
    """Types of a value: the parts of a union."""
    if get_origin(annotation) in (Union, UnionType, Annotated):
        for part in get_args(annotation):
            yield from _leaves(part)
    else:
        yield annotation


class Grown(Spec):
    """Base of settings with fields that are newer than recorded ids.

    A record leaves out ``ADDED`` fields with default values, so that older records keep their ids.
    """

    ADDED: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="wrap")
    def _as_before(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields = type(self).model_fields
        names = {name for name in fields if name not in self.ADDED or getattr(self, name) != fields[name].default}
        return {name: value for name, value in handler(self).items() if name in names}
