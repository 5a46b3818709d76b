"""Folder of the stored datasets, and opening them by name."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.user_config import said
from skelbench.data.store.clip_store import ClipStore

PREPARED = ("ntu60", "ntu120", "pku1", "pku2")
"""Datasets that ``skelbench data prepare`` makes."""


def data_root() -> Path:
    """Return the folder in ``SKELBENCH_DATA`` or ``skelbench.toml``, else ``$XDG_DATA_HOME/skelbench``, else
    ``~/.local/share/skelbench``."""
    if chosen := said("data"):
        return chosen
    shared = os.environ.get("XDG_DATA_HOME")
    return (Path(shared) if shared else Path.home() / ".local" / "share") / "skelbench"


def check_name(name: str) -> str:
    """Return a valid dataset name (also its folder's name): lower case letters, digits, ``-``, ``_``, ``.``."""
    if not re.fullmatch(r"[a-z0-9_][a-z0-9_.-]*", name):
        raise SkelbenchError(f"{name!r} cannot name a dataset; use lower case letters, digits, '-', '_' and '.'")
    return name


SYNTHETIC = "synthetic-v1"
"""Folder that the built-in dataset makes."""


def named_stores(root: Path) -> dict[str, Path]:
    """Name -> folder of every clip store under ``root``, by name, unopened; the built-in dataset has its own name."""
    folders = (path.parent for path in sorted(root.glob("[!.]*/meta.json")))
    return {path.name: path for path in folders if path.name != SYNTHETIC}


def open_dataset(name: str, root: Path, openers: Mapping[str, Any] | None = None) -> ClipStore:
    """Open the store of this name, or the built-in dataset ``openers[name](root)``; raise for both or neither."""
    stores, openers = named_stores(root), openers or {}
    if name in stores and name in openers:
        raise SkelbenchError(f"{name!r} names both a built-in dataset and the store {stores[name]}; rename the folder")
    if name in openers:
        return openers[name](root)
    if name in stores:
        return ClipStore.open(stores[name])
    if name in PREPARED:
        how = f"make it from its files as downloaded: skelbench data prepare {name} --raw FOLDER-OR-ZIP"
        raise SkelbenchError(f"in {root}: there is no dataset {name!r} yet; {how}")
    advice = f"Others come in by skelbench data prepare ({', '.join(PREPARED)}) or skelbench data import FILE"
    raise SkelbenchError(f"in {root}: {did_you_mean(name, [*stores, *openers], 'dataset', advice=advice)}")
