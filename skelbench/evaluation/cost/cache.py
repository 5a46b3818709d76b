"""Cache of counted costs in the user's cache folder. Torch-free: if every count is there, PyTorch is not imported."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from skelbench.core.errors import SkelbenchError
from skelbench.core.files import keep_newest, read_json, write_json
from skelbench.core.hashing import digest, hash_of_code
from skelbench.core.spec import GridSpec
from skelbench.core.user_config import cache_root
from skelbench.core.version import installed
from skelbench.evaluation.cost.count import CostRow, MacCount, MethodOnGrid, own_setting
from skelbench.plugin.descriptors import Descriptor, MethodSpec
from skelbench.plugin.host import Host
from skelbench.views.skeleton.topology import NTU25

KEPT = 4
"""Files that stay: one for each recent state of the code."""

log = logging.getLogger(__name__)


def kept_rows(host: Host, pairs: Iterable[MethodOnGrid], folder: Path | None = None) -> Iterator[CostRow]:
    """:func:`skelbench.evaluation.cost.rows.flops_rows`, counting only rows that ``folder`` (:func:`cache_root`) lacks.

    A file is of one state of this package, PyTorch and fvcore; an entry is of one method, grid and state of its plugin.
    A damaged file or entry is counted again.
    """
    counters = [hash_of_code(Path(__file__).parents[2]), *(installed(name) for name in ("torch", "fvcore"))]
    file = (folder or cache_root()) / f"costs-{digest(counters)}.json"
    found = _read(file)
    rows, encoders, counted = dict[str, Any](), dict[Any, MacCount](), False
    try:
        for method, grid in pairs:
            key = _key(host, method, grid)
            row = _row(found.get(key))
            if row is None:
                from skelbench.evaluation.cost.rows import flops_rows

                row = next(flops_rows(host, [(method, grid)], encoders), None)
                counted = True
            if row is not None:
                rows |= {key: asdict(row)} if key else {}
                yield row
    finally:  # also if the command is stopped half-way
        if counted:
            _write(file, found | rows)


def _key(host: Host, method: MethodSpec, grid: GridSpec) -> str:
    """Hash of everything else that decides the counts of a method on a grid; "" if its settings name unknown parts."""
    try:
        own = own_setting(method)
        parts: list[Descriptor] = [method, host.get("encoders", own.get("encoder", "vit"))]
        if not _ships(host, method):  # its class may name encoders and targets of other plugins
            parts += [one for kind in ("encoders", "targets") for one in host.all(kind) if not _ships(host, one)]
        states = [f"{one.name} {host.identity(one)} {_code_of(host, one)}" for one in parts]
        return digest([*states, own, grid.model_dump(mode="json"), repr(NTU25)], 32)
    except (SkelbenchError, TypeError, ValueError, OSError):
        return ""


def _ships(host: Host, descriptor: Descriptor) -> bool:
    origin = host.origin(descriptor)
    return origin.dist == "skelbench" and not origin.source_hash


def _code_of(host: Host, descriptor: Descriptor) -> str:
    """Hash of the package that announces ``descriptor``; "" for a single file, whose hash is in its identity."""
    origin = host.origin(descriptor)
    if origin.source_hash or not origin.path:
        return ""
    folder = Path(origin.path).parent
    while (folder.parent / "__init__.py").exists():
        folder = folder.parent
    return hash_of_code(folder)


def _read(file: Path) -> dict[str, Any]:
    try:
        found = read_json(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _row(entry: Any) -> CostRow | None:
    """The row of an entry; None if it is missing or damaged."""
    try:
        return CostRow(**entry | {"encoder": MacCount(**entry["encoder"])})
    except (TypeError, KeyError, ValueError):
        return None


def _write(file: Path, rows: dict[str, Any]) -> None:
    try:
        write_json(file, rows)
        keep_newest(file.parent.glob("costs-*.json"), KEPT)
    except OSError as error:
        log.debug("counts are not kept: %s", error)
