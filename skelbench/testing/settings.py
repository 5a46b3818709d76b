"""Checks of descriptors and settings that every kind of plugin has in common."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from skelbench.core.component import Spec
from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import validated
from skelbench.pipeline.presets import PRESETS
from skelbench.plugin.descriptors import Descriptor
from skelbench.testing.check import Failed

NO_SETTING = "no_such_setting"


def check_fields(descriptor: Descriptor, wanted: Mapping[str, str]) -> None:
    """Fail unless each field named in ``wanted`` has a text; the value says what the field is for."""
    for name, purpose in wanted.items():
        if not getattr(descriptor, name).strip():
            look = f"the {type(descriptor).__name__} of {descriptor.name}"
            raise Failed(f"a {name}, {purpose}", f"{name} is empty", look)


def check_presets(cls: type[Spec], presets: Mapping[str, Mapping[str, Any]], look: str) -> None:
    """Fail unless ``presets`` are presets of the harness with valid settings, and the defaults are valid."""
    for preset, values in {"": {}, **presets}.items():
        if preset not in ("", *PRESETS):
            raise Failed(f"presets of the harness: {', '.join(PRESETS)}", preset, look)
        try:
            validated(cls, dict(values), f"preset {preset}" if preset else "settings")
        except SkelbenchError as error:
            where = look if preset else f"defaults of {cls.__name__}"
            raise Failed("valid settings in every preset, and without one", str(error), where) from error


def check_settings(cls: type, values: dict[str, Any], where: str) -> None:
    """Fail unless ``values`` survive a JSON round trip, unknown names are rejected, and settings are frozen."""
    if not (isinstance(cls, type) and issubclass(cls, Spec)):
        look = "the base class of the settings: from skelbench.methods import Config"
        raise Failed("settings that derive from skelbench.methods.Config", f"{cls!r}", look)
    config = validated(cls, values, where)
    record = json.loads(json.dumps(config.model_dump(mode="json")))
    record.pop("kind", None)  # name of a component, not a setting
    loaded = validated(cls, record, where)
    if loaded != config:
        odd = next(name for name in cls.model_fields if getattr(loaded, name) != getattr(config, name))
        raise Failed(
            "the same settings after they were written to run.json and read again",
            f"{odd} was {getattr(config, odd)!r} and came back as {getattr(loaded, odd)!r}",
            f"the type of {odd}, which must be made of plain values",
        )
    for name, change in (('extra="forbid"', {"extra": "forbid"}), ("frozen=True", {"frozen": True})):
        if any(cls.model_config.get(key) != value for key, value in change.items()):
            seen = f"{NO_SETTING}=1 is accepted" if "extra" in change else "fields can be assigned"
            look = f"model_config of {cls.__name__}, which must keep {name}"
            raise Failed("settings that reject unknown names and cannot be changed", seen, look)
