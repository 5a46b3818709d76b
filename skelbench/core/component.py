"""Settings, and components: a frozen config and the code that does it, declared together (torch-free).

A family (crops, augmentations, masks, degradations, optimizers, schedules) is a base class, a component a subclass with
a ``kind``. A field typed by a family takes any of its components, those of a plugin too, or their settings with
the ``kind``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from types import UnionType
from typing import Annotated, Any, ClassVar, Self, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
)
from pydantic_core import CoreSchema, core_schema

from skelbench.core.errors import SkelbenchError

Share = Annotated[float, Field(gt=0, lt=1)]
"""A part of a whole: more than none of it, less than all."""


class Spec(BaseModel):
    """Base of all declarative settings: unknown fields, numbers that are not finite, true and false for a number and
    defaults that are not valid are refused, instances are frozen and hashable. A string below a field documents it."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True, validate_default=True
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        for name, field in cls.model_fields.items():
            if _without_order(field.annotation):
                raise TypeError(
                    f"{cls.__name__}.{name} is a set, whose order in a record would be another in every process; "
                    f"write tuple[...]"
                )

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
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
    """The types that a value may have: of a union those of its parts."""
    if get_origin(annotation) in (Union, UnionType, Annotated):
        for part in get_args(annotation):
            yield from _leaves(part)
    else:
        yield annotation


class Grown(Spec):
    """Base of settings that got fields after they were first recorded: ``ADDED`` ones are left out of the record where
    they have their defaults, so what was recorded before they were there keeps its id."""

    ADDED: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="wrap")
    def _as_before(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields = type(self).model_fields
        told = {name for name in fields if name not in self.ADDED or getattr(self, name) != fields[name].default}
        return {name: value for name, value in handler(self).items() if name in told}


class Component(Spec):
    """Base of families. A family sets ``family``, a component ``kind``, and ``version`` when its results change."""

    family: ClassVar[str] = ""
    """What the plugin host calls the family: ``augmentations``."""
    kind: ClassVar[str] = ""
    """Name within the family; "" for the family itself."""
    version: ClassVar[int] = 1

    @classmethod
    def of(cls, value: Any) -> Self:
        """A component of this family: ``value`` itself, or made from a mapping of settings with its ``kind``.

        Raises:
            SkelbenchError: there is no such kind; names the nearest one.
            ValueError: it is neither, or the settings do not hold.
        """
        if isinstance(value, cls):
            return value
        if "family" not in vars(cls):
            raise SkelbenchError(f'class {cls.__name__} of the {cls.family} has no kind; add one to it: kind = "..."')
        if not isinstance(value, Mapping) or not isinstance(value.get("kind"), str):
            raise ValueError(f"{value!r} is none of the {cls.family}: one is expected, or its settings with a 'kind'")
        component = find(cls.family, value["kind"])
        if not (isinstance(component, type) and issubclass(component, cls)):
            raise SkelbenchError(f"{value['kind']!r} of the {cls.family} is no subclass of {cls.__name__}; make it one")
        return component.model_validate({name: setting for name, setting in value.items() if name != "kind"})

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        if cls.kind or not cls.family:
            return handler(source)
        dump = core_schema.plain_serializer_function_ser_schema(
            lambda value, info: value.model_dump(mode=info.mode), info_arg=True
        )
        return core_schema.no_info_plain_validator_function(cls.of, serialization=dump)

    @model_serializer(mode="wrap")
    def _with_kind(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {"kind": self.kind, **handler(self)}


Finder = Callable[[str, str], Any]
Lister = Callable[[str], list[str]]
_finder: Finder | None = None
_lister: Lister | None = None


def install(finder: Finder, lister: Lister) -> None:
    """Have :func:`find` and :func:`known` answered by the plugin host, which stands above everything that asks it."""
    global _finder, _lister
    _finder, _lister = finder, lister


def find(kind: str, name: str) -> Any:
    """What plugins announce as ``name`` of ``kind``, loaded: ``find("augmentations", "rotate")`` is a class,
    ``find("topologies", "ntu25")`` a topology.

    Raises:
        SkelbenchError: nothing has that name; names the nearest one.
    """
    assert _finder is not None, "skelbench/__init__.py installs it"
    return _finder(kind, name)


def known(kind: str) -> list[str]:
    """The names that :func:`find` takes for ``kind``, sorted."""
    assert _lister is not None, "skelbench/__init__.py installs it"
    return _lister(kind)
