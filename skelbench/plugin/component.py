"""Components: a frozen config and the code that does it, declared together (torch-free).

A family (crops, augmentations, masks, degradations, optimizers, schedules) is a base class, a component a subclass with
a ``kind``. A field typed by a family takes any component of the family, from a plugin too, or its settings with the
``kind``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import GetCoreSchemaHandler, SerializerFunctionWrapHandler, model_serializer
from pydantic_core import CoreSchema, core_schema

from skelbench.core.component import Grown
from skelbench.core.errors import SkelbenchError
from skelbench.plugin.host import get_host


class Component(Grown):
    """Base of families. A family sets ``family``, a component ``kind``, and ``version`` when its results change."""

    family: ClassVar[str] = ""
    """Name of the family in the plugin host: ``augmentations``."""
    kind: ClassVar[str] = ""
    """Name within the family; "" for the family itself."""
    version: ClassVar[int] = 1

    @classmethod
    def of(cls, value: Any) -> Self:
        """A component of this family: ``value`` itself, or made from a mapping of settings with its ``kind``.

        SkelbenchError if there is no such kind, ValueError if it is neither.
        """
        if isinstance(value, cls):
            return value
        if "family" not in vars(cls):
            raise SkelbenchError(f'class {cls.__name__} of the {cls.family} has no kind; add one to it: kind = "..."')
        if not isinstance(value, Mapping) or not isinstance(value.get("kind"), str):
            raise ValueError(f"{value!r} is none of the {cls.family}: one is expected, or its settings with a 'kind'")
        host = get_host()
        component = host.subclass(host.get(cls.family, value["kind"]), cls)
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
    def _as_before(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {"kind": self.kind, **super()._as_before(handler)}
