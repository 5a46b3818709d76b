"""Studies as TOML files: read, and written so that the file gives the same trials."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skelbench.core.errors import SkelbenchError, did_you_mean, nearest
from skelbench.core.spec import validated
from skelbench.pipeline.request import SECTIONS
from skelbench.pipeline.studies.study import Study
from skelbench.plugin.files import named_files

KEYS = tuple(field.alias or name for name, field in Study.model_fields.items())


def read_study(path: Path) -> Study:
    """The study of a TOML file; its name is that of the file unless it says another.

    SkelbenchError names the file, the key and the nearest right one.
    """
    try:
        document = tomllib.loads(path.read_text())
    except FileNotFoundError as error:
        raise SkelbenchError(f"study file {path} does not exist; `skelbench study` lists the built-in ones") from error
    except (OSError, ValueError) as error:
        raise SkelbenchError(f"study file {path} cannot be read as TOML: {error}") from error
    for key in document:
        if key not in KEYS:
            raise SkelbenchError(f"{path}: {did_you_mean(key, KEYS, 'key')}")
    values = {"name": path.stem, **document}
    values["plugins"] = named_files(values.get("plugins", []), path)
    for key in ("grid", "set"):
        if key in values:
            values[key] = _flat(values[key], f"{path}: [{key}]")
    for axis, held in values.get("grid", {}).items():
        if not isinstance(held, list):
            pair = f"{axis} = {literal(held)}"
            raise SkelbenchError(f"{path}: [grid] {pair} is not a list; write {axis} = [{literal(held)}]")
    if "trials" in values:
        if not isinstance(values["trials"], list):
            raise SkelbenchError(f"{path}: trials is not a list of tables; begin each trial with [[trials]]")
        values["trials"] = [_flat(trial, f"{path}: [[trials]]") for trial in values["trials"]]
    return validated(Study, values, str(path))


def write_study(study: Study) -> str:
    """``study`` as the text of a TOML file."""
    held = study.model_dump(by_alias=True)
    bare = {name: Study.model_fields[name].default for name in Study.model_fields}
    top = (
        "name", "summary", "table", "figure", "preset", "gpu_preset", "dataset", "split", "native", "budget", "then",
    )  # fmt: skip
    lines = [f"{name} = {literal(held[name])}" for name in top if held[name] != bare[name]]
    lines += [f"plugins = {literal([str(Path(file).resolve()) for file in study.plugins])}"] * bool(study.plugins)
    lines += [f"seeds = {literal(study.seeds)}", f"probe = {literal(study.probe)}"]
    tables = [("[grid]", study.grid), ("[set]", study.sets), *(("[[trials]]", trial) for trial in study.trials)]
    for title, table in tables:
        if table or title == "[[trials]]":  # one without settings of its own is a trial too
            lines += ["", title, *(f"{_key(key)} = {literal(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def literal(value: Any) -> str:
    """``value`` in TOML: text, numbers, truth values and lists of them (tuples are lists); tables inline; None, which
    TOML has no word for, as the text that stands for it in settings."""
    if value is None:
        return '"none"'
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_key(key)} = {literal(inner)}' for key, inner in value.items())}}}"
    raise SkelbenchError(f"{value!r} cannot be written in TOML; use text, a number, true, false or a list of them")


def _key(key: str) -> str:
    """A key as one piece: dots are part of it."""
    plain = key and all(char.isascii() and (char.isalnum() or char in "-_") for char in key)
    return key if plain else literal(key)


def _flat(table: Any, where: str) -> dict[str, Any]:
    """Keys of a table by their dotted names: ``train.lr = 1`` is read by TOML as a table ``train``.

    A table that is no section, and no misspelt one, is the value of a setting (``target_settings``).
    """
    if not isinstance(table, dict):
        raise SkelbenchError(f"{where} is not a table of keys and values")
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict) and key in SECTIONS:
            flat |= {f"{key}.{name}": inner for name, inner in value.items()}
        elif isinstance(value, dict) and nearest(key, SECTIONS):
            raise SkelbenchError(f"{where} {did_you_mean(key, SECTIONS, 'section')}")
        else:
            flat[key] = value
    return flat
