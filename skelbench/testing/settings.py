"""Checks of descriptors and settings that every kind of plugin has in common."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from skelbench.core.component import Spec
from skelbench.core.spec import validated
from skelbench.pipeline.presets import PRESETS
from skelbench.plugin.descriptors import Descriptor
from skelbench.testing.check import Failed


def check_summary(descriptor: Descriptor) -> None:
    """Fail unless ``descriptor`` has a summary, which `skelbench plugins list` shows."""
    if not descriptor.summary.strip():
        raise Failed("a summary", "summary is empty", f"the {type(descriptor).__name__} of {descriptor.name}")


def check_presets(cls: type[Spec], presets: Mapping[str, Mapping[str, Any]]) -> None:
    """Fail unless ``presets`` are presets of the harness with valid settings."""
    for preset, values in presets.items():
        if preset not in PRESETS:
            raise Failed(f"presets of the harness: {', '.join(PRESETS)}", preset, "presets of its descriptor")
        validated(cls, dict(values), f"preset {preset}")


def check_settings(cls: type, values: dict[str, Any], where: str) -> None:
    """Fail unless ``values`` survive a JSON round trip, unknown names are rejected, and settings are frozen."""
    if not (isinstance(cls, type) and issubclass(cls, Spec)):
        raise Failed("settings that derive from skelbench.methods.Config", f"{cls!r}", "the class of the settings")
    config = validated(cls, values, where)
    record = json.loads(json.dumps(config.model_dump(mode="json")))
    record.pop("kind", None)  # name of a component, not a setting
    loaded = validated(cls, record, where)
    if loaded != config:
        odd = next(name for name in cls.model_fields if getattr(loaded, name) != getattr(config, name))
        message = f"{odd} was {getattr(config, odd)!r} and came back as {getattr(loaded, odd)!r}"
        raise Failed("the same settings after they were written to run.json and read again", message, f"type of {odd}")
    if cls.model_config.get("extra") != "forbid" or not cls.model_config.get("frozen"):
        look = f'model_config of {cls.__name__}, which must keep extra="forbid" and frozen=True'
        raise Failed("settings that reject unknown names and cannot be changed", f"{cls.model_config}", look)
