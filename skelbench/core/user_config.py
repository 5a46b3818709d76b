"""User configuration: an option goes before an environment variable, then ``skelbench.toml``, then the default.

The file is searched in the current folder and its parents, once per process and folder (torch-free).
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from skelbench.core.errors import SkelbenchError, did_you_mean

FILE = "skelbench.toml"
Kind = Literal["folder", "paths", "names", "flag", "text", "number"]
WRITTEN: dict[Kind, str] = {
    "folder": '"FOLDER"',
    "paths": '["FILE.py", "FOLDER"]',
    "names": '["NAME"]',
    "flag": "true or false",
    "text": '"NAME"',
    "number": "a whole number from 1 on",
}
"""Example of a value of each kind in the file."""
FLAGS = {"1": True, "true": True, "0": False, "false": False}
"""Accepted values of a flag in an environment variable."""


@dataclass(frozen=True)
class Setting:
    """A setting that holds for every command."""

    variable: str
    kind: Kind
    about: str
    default: str
    """Description of the default."""


SETTINGS = {
    "results": Setting("SKELBENCH_RESULTS", "folder", "where runs are kept", "results in the current folder"),
    "data": Setting("SKELBENCH_DATA", "folder", "where datasets are kept", "the user's data folder"),
    "plugins": Setting("SKELBENCH_PLUGIN_PATH", "paths", "plugin files, and folders of them", "none"),
    "entry_points": Setting("SKELBENCH_PLUGINS", "names", "installed plugins that are loaded", "all"),
    "observe": Setting("SKELBENCH_OBSERVE", "names", "observers of runs", "none"),
    "device": Setting("SKELBENCH_DEVICE", "text", "cpu, cuda or cuda:N", "cuda when there is one, else cpu"),
    "deterministic": Setting("SKELBENCH_DETERMINISTIC", "flag", "the same bits on a GPU, more slowly", "false"),
    "threads": Setting("OMP_NUM_THREADS", "number", "threads of a process on a CPU", "as many as are fastest"),
    "timeout": Setting("SKELBENCH_TIMEOUT", "number", "seconds that processes of one run wait for each other", "600"),
}
"""Settings by key in the file."""


class Found(NamedTuple):
    """Value of a setting, None if it is not set, and the source of the value."""

    value: Any
    source: str
    """Name of a variable, path of a file, or ``default``."""


def said(key: str) -> Any:
    """Value of ``key``, one of :data:`SETTINGS`: a path, a tuple of paths or names, a flag, text or a number; None if
    it is not set.

    Raises:
        SkelbenchError: the file cannot be read, or a value is not valid.
    """
    return found(key).value


def found(key: str) -> Found:
    """Value of ``key`` as :func:`said` returns it, with its source."""
    setting = SETTINGS[key]
    text = os.environ.get(setting.variable)
    if text or (text is not None and setting.kind == "names"):  # an empty list of names means none
        return Found(_checked(setting.kind, _parsed(setting.kind, text), Path(), setting.variable), setting.variable)
    file, values = _file(Path.cwd())
    return Found(values[key], str(file)) if key in values else Found(None, "default")


@cache
def _file(folder: Path) -> tuple[Path | None, dict[str, Any]]:
    """``skelbench.toml`` of ``folder`` or its nearest parent that has one, and its values; paths are below its folder.

    Raises:
        SkelbenchError: another user might have put it there to run code, or it is not valid.
    """
    file = next((path for directory in (folder, *folder.parents) if (path := directory / FILE).is_file()), None)
    if file is None:
        return None, {}
    if file.parent.stat().st_mode & 0o002 and file.stat().st_uid not in (0, os.getuid()):
        raise SkelbenchError(
            f"{file} is another user's, in a folder where everybody can write; work in a folder of your own"
        )
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SkelbenchError(f"{file} cannot be read as TOML: {error}; correct it or move it away") from error
    for key in document:
        if key not in SETTINGS:
            raise SkelbenchError(f"{file}: {did_you_mean(key, SETTINGS, 'key')}")
    checked = {key: _checked(SETTINGS[key].kind, x, file.parent, f"{file}: {key}") for key, x in document.items()}
    return file, checked


def _parsed(kind: Kind, text: str) -> Any:
    """Value of a variable as TOML would give it."""
    match kind:
        case "paths":
            return [item for item in text.split(os.pathsep) if item]
        case "names":
            return [name for item in text.split(",") if (name := item.strip())]
        case "flag":
            return FLAGS.get(text.lower(), text)
        case "number" if text.isascii() and text.isdigit():
            return int(text)
    return text


def _checked(kind: Kind, value: Any, folder: Path, where: str) -> Any:
    several = isinstance(value, list) and all(isinstance(item, str) and item for item in value)
    match kind:
        case "folder" if isinstance(value, str) and value:
            return folder / os.path.expanduser(value)
        case "paths" if several:
            return tuple(folder / os.path.expanduser(item) for item in value)
        case "names" if several:
            return tuple(value)
        case "flag" if isinstance(value, bool):
            return value
        case "text" if isinstance(value, str) and value:
            return value
        case "number" if type(value) is int and value > 0:
            return value
    raise SkelbenchError(f"{where} = {value!r:.60} is not valid; write {WRITTEN[kind]}")


def cache_root() -> Path:
    """``$XDG_CACHE_HOME/skelbench``, else ``~/.cache/skelbench``: its files may be deleted at any time."""
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "skelbench"
