"""Studies by name or from TOML files, with the options of a command, and written as such files (torch-free)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from skelbench.core.errors import SkelbenchError, did_you_mean, nearest
from skelbench.core.spec import validated
from skelbench.pipeline.request import SECTIONS, RunRequest, check_set_once, parse_sets, read_toml
from skelbench.pipeline.studies.study import Study
from skelbench.plugin.files import named_files
from skelbench.plugin.host import Host

KEYS = tuple(field.alias or name for name, field in Study.model_fields.items())


def read_study(path: Path) -> Study:
    """The study of a TOML file; its name is the file's name unless the file sets ``name``.

    SkelbenchError names the file, the key and the nearest right one.
    """
    document = read_toml(path, "study file")
    for key in document:
        if key not in KEYS:
            raise SkelbenchError(f"{path}: {did_you_mean(key, KEYS, 'key')}")
    values = {"name": path.stem, **document}
    values["plugins"] = named_files(values.get("plugins", []), path)
    for key in ("grid", "set"):
        if key in values:
            values[key] = _flat(values[key], f"{path}: [{key}]")
    for axis, points in values.get("grid", {}).items():
        if not isinstance(points, list):
            pair = f"{axis} = {literal(points)}"
            raise SkelbenchError(f"{path}: [grid] {pair} is not a list; write {axis} = [{literal(points)}]")
    if isinstance(values.get("trials"), list):
        values["trials"] = [_flat(trial, f"{path}: [[trials]]") for trial in values["trials"]]
    return validated(Study, values, str(path))


def write_study(study: Study) -> str:
    """``study`` as the text of a TOML file."""
    content = study.model_dump(by_alias=True)
    bare = {name: Study.model_fields[name].default for name in Study.model_fields}
    top = (
        "name", "summary", "table", "figure", "preset", "gpu_preset", "dataset", "split", "native", "budget", "then",
    )  # fmt: skip
    lines = [f"{name} = {literal(content[name])}" for name in top if content[name] != bare[name]]
    lines += [f"plugins = {literal([str(Path(file).resolve()) for file in study.plugins])}"] * bool(study.plugins)
    lines += [f"seeds = {literal(study.seeds)}", f"probe = {literal(study.probe)}"]
    tables = [("[grid]", study.grid), ("[set]", study.sets), *(("[[trials]]", trial) for trial in study.trials)]
    for title, table in tables:
        if table or title == "[[trials]]":  # a trial may have no settings
            lines += ["", title, *(f"{_key(key)} = {literal(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def literal(value: Any) -> str:
    """``value`` in TOML; None, which TOML lacks, is written as the text ``none``."""
    if value is None:
        return '"none"'
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_key(key)} = {literal(inner)}' for key, inner in value.items())}}}"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(key: str) -> str:
    """Quote a key, so that its dots are no separators."""
    return key if re.fullmatch(r"[\w-]+", key, re.ASCII) else literal(key)


def _flat(table: Any, where: str) -> dict[str, Any]:
    """Keys of a table by their dotted names: ``train.lr = 1`` is read by TOML as a table ``train``.

    A table that is not a section, nor a misspelled one, is the value of a setting (``target_settings``).
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


def _is_file(name: str) -> bool:
    return name.endswith(".toml") or "/" in name


@contextmanager
def naming_file(name: str) -> Iterator[None]:
    """Begin error messages with the file of study ``name``, if it has one."""
    try:
        yield
    except SkelbenchError as error:
        if not _is_file(name):
            raise
        raise SkelbenchError(f"{name}: {error}") from error


def named_study(name: str, host: Host) -> Study:
    """The study of a TOML file, or of a plugin."""
    if _is_file(name):
        return read_study(Path(name))
    descriptor = host.get("studies", name)
    study: Study = host.checked(descriptor, host.load(descriptor), Study, "skelbench.pipeline.studies.study.Study")
    return study.model_copy(update={"name": descriptor.name, "summary": study.summary or descriptor.summary})


def with_options(study: Study, options: Mapping[str, Any], sets: Sequence[str]) -> Study:
    """``study`` with options of the command line in every trial; None = as in the study."""
    settings = parse_sets(sets)
    if "seed" in settings:
        raise SkelbenchError("--set seed: every trial is run with each seed of the study; write --seeds 0,1")
    options_given = {key: value for key, value in options.items() if value is not None}
    check_set_once(settings, options_given)
    fields: dict[str, Any] = {key: options_given.pop(key) for key in ("seeds", "probe") if key in options_given}
    if "probe" in fields:
        fields["probe"] = RunRequest(method="any", probes=fields["probe"]).probes
    if fields:
        study = validated(Study, {**study.model_dump(by_alias=True), **fields}, f"study {study.name}")
    tokens = options_given.pop("tokens", None)
    for key, value in {**options_given, **settings}.items():
        study = study.replaced(key, [value])
    return study if tokens is None else study.replaced("tokens", tokens)
