"""Checks of settings that every kind of plugin has in common."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from skelbench.core.component import Spec
from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import validated
from skelbench.pipeline.presets import PRESETS
from skelbench.testing.check import Failed

NO_SETTING = "no_such_setting"


def check_presets(cls: type[Spec], presets: Mapping[str, Mapping[str, Any]], look: str) -> None:
    """``presets`` are of the harness and hold settings ``cls``, whose bare defaults are valid too."""
    for preset, values in {"": {}, **presets}.items():
        if preset not in ("", *PRESETS):
            raise Failed(f"presets of the harness: {', '.join(PRESETS)}", preset, look)
        try:
            validated(cls, dict(values), f"preset {preset}" if preset else "settings")
        except SkelbenchError as error:
            where = look if preset else f"defaults of {cls.__name__}"
            raise Failed("valid settings in every preset, and without one", str(error), where) from error


def check_settings(cls: type, values: dict[str, Any], where: str) -> None:
    """``values`` survive the way into a record and back, unchangeable, and a name that is no setting is refused."""
    if not (isinstance(cls, type) and issubclass(cls, Spec)):
        look = "the base class of the settings: from skelbench.methods import Config"
        raise Failed("settings that derive from skelbench.methods.Config", f"{cls!r}", look)
    config = validated(cls, values, where)
    record = json.loads(json.dumps(config.model_dump(mode="json")))
    record.pop("kind", None)  # of a component: its name within the family
    back = validated(cls, record, where)
    if back != config:
        odd = next(name for name in cls.model_fields if getattr(back, name) != getattr(config, name))
        raise Failed(
            "settings that are the same after they were written to run.json and read again",
            f"{odd} was {getattr(config, odd)!r} and came back as {getattr(back, odd)!r}",
            f"the type of {odd}, which must be made of plain values",
        )
    try:
        cls.model_validate({**record, NO_SETTING: 1})
    except (ValueError, SkelbenchError):
        pass
    else:
        raise Failed(
            "a setting that does not exist is refused, as a misspelt one would have no effect",
            f"{NO_SETTING}=1 was taken",
            f'model_config of {cls.__name__}, which must keep extra="forbid"',
        )
    if not cls.model_config.get("frozen"):
        look = f"model_config of {cls.__name__}, which must keep frozen=True"
        raise Failed("settings that cannot be changed once they are part of an identity", "they can", look)
