"""Counts that ship with skelbench, and a cache of others in the user's cache folder.

Torch-free: if every count is there, PyTorch is not imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from skelbench.core.files import keep_newest, read_json, write_json
from skelbench.core.hashing import canonical_json, digest, hash_of_code
from skelbench.core.spec import GridSpec
from skelbench.core.user_config import cache_root
from skelbench.core.version import installed
from skelbench.evaluation.cost.count import CostRow, MacCount, MethodOnGrid, own_setting
from skelbench.plugin.descriptors import MethodSpec
from skelbench.plugin.host import Host

SHIPPED = Path(__file__).with_name("counted.json")
"""Counts of the shipped methods, by :func:`key_of`; ``python -m benchmarks.flops`` writes and checks them."""
KEPT = 4
"""Number of files that are kept: one for each recent state of the code."""


def key_of(method: MethodSpec, grid: GridSpec) -> str:
    """Name of a count: the method with its version and published setting, on a token grid."""
    return canonical_json([method.name, method.version, own_setting(method), grid.model_dump(mode="json")])


def kept_rows(
    host: Host, pairs: Iterable[MethodOnGrid], folder: Path | None = None, again: bool = False,
    report: Callable[[int], object] = lambda rows: None,
) -> Iterator[CostRow]:  # fmt: skip
    """:func:`~skelbench.evaluation.cost.report.flops_rows`, counted only if neither :data:`SHIPPED` nor ``folder``
    (:func:`cache_root`) has them, or ``again``.

    Each file in ``folder`` belongs to one version of the code that decides counts. A damaged file or entry is counted
    again, and each count is written at once. ``report`` gets the number of kept rows, then 1 for each counted row.
    """
    pairs, encoders = [*pairs], dict[Any, MacCount]()
    keys, shipped = [key_of(*pair) for pair in pairs], {} if again else _read(SHIPPED)
    missing = not shipped.keys() >= {*keys}
    file = (folder or cache_root()) / f"costs-{digest(_states(host)) if missing else ''}.json"
    own = _read(file)
    kept = [None if again else _row(shipped.get(key, own.get(key))) for key in keys]
    report(len(kept) - kept.count(None))
    for pair, key, row in zip(pairs, keys, kept, strict=True):
        if row is None:
            from skelbench.evaluation.cost.report import flops_rows

            row = next(flops_rows(host, [pair], encoders), None)
            if row is not None:
                own[key] = asdict(row)
                with suppress(OSError):
                    write_json(file, own)
                    keep_newest(file.parent.glob("costs-*.json"), KEPT)
            report(1)
        if row is not None:
            yield row


def _states(host: Host) -> list[str]:
    """Versions and hashes of everything that decides counts: this package, the counters, and all plugins."""
    states, folders = [installed("torch"), installed("fvcore")], {Path(__file__).parents[2]}
    for kind in ("methods", "encoders", "targets"):
        for descriptor in host.all(kind):
            states.append(f"{kind} {descriptor.name} {host.identity(descriptor)}")
            origin = host.origin(descriptor)
            if origin.path and not origin.source_hash:  # the hash of a single file is in its identity
                folder = Path(origin.path).parent
                while (folder.parent / "__init__.py").exists():
                    folder = folder.parent
                folders.add(folder)
    return states + [hash_of_code(folder) for folder in sorted(folders)]


def _read(file: Path) -> dict[str, Any]:
    try:
        content = read_json(file)
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _row(entry: Any) -> CostRow | None:
    """The row of an entry; None if it is missing or damaged."""
    try:
        return CostRow(**entry | {"encoder": MacCount(**entry["encoder"])})
    except (TypeError, KeyError, ValueError):
        return None
