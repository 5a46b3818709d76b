"""Runs as one file that can be handed on: a zip of their records, stored as they are, behind a manifest of hashes.

``manifest.json`` stands first, then ``runs/NAME/...`` by name. Nothing in the file is compressed and no time of day is
in it, so the same records give the same bytes, and what it unpacks to is no larger than itself.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from skelbench.core.errors import SkelbenchError
from skelbench.core.files import check_regular, write_whole
from skelbench.core.version import __version__
from skelbench.records.provenance import FIELD
from skelbench.records.run_dir import RunDir

FORMAT = 1
MANIFEST = "manifest.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The first time that a zip can say."""
_MODE = 0o100644 << 16


def pack(runs: Sequence[RunDir], output: Path, suites: Mapping[str, str], weights: bool = False) -> dict[str, Any]:
    """Write the records of finished ``runs`` to ``output``, whole or not at all; returns the manifest.

    ``suites``: name and hash of those whose rows they fill. ``weights``: the inference encoders as well.

    Raises:
        SkelbenchError: a run is not done, was itself added, or cannot be read; ``output`` cannot be written.
    """
    contents: dict[str, bytes] = {}
    for run in sorted(runs, key=lambda run: run.name):
        _check(run)
        for path in members_of(run, weights):
            contents[f"runs/{run.name}/{path.name}"] = _read(path)
    manifest = {
        "format": FORMAT,
        "skelbench": __version__,
        "weights": weights,
        "suites": dict(sorted(suites.items())),
        "runs": {run.name: run.spec.id for run in sorted(runs, key=lambda run: run.name)},
        "members": {
            name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in contents.items()
        },
    }
    text = json.dumps(manifest, indent=1, ensure_ascii=True) + "\n"
    data = _zip({MANIFEST: text.encode(), **contents}.items())
    write_whole(output, lambda file: file.write(data))
    return manifest


def _check(run: RunDir) -> None:
    run.check_done()
    if FIELD in run.info:
        raise SkelbenchError(f"run {run.name} was not made here but added from a file; hand on that file instead")


def members_of(run: RunDir, weights: bool) -> list[Path]:
    """The files of a run that are packed, by name: those of its records that are whole, and their predictions."""
    records = [run.path / f"eval-{record['id']}.json" for record in run.records()]
    found = [run.path / "run.json", run.metrics, run.cost_path]
    found += [*records, *(path.with_suffix(".npz") for path in records)]
    found += run.path.glob("encoder*.safetensors") if weights else ()
    return sorted((path for path in found if path.exists()), key=lambda path: path.name)


def _read(path: Path) -> bytes:
    try:
        check_regular(path)
        return path.read_bytes()
    except OSError as error:
        raise SkelbenchError(f"cannot read {path}: {error.strerror or error}; restore it or evaluate again") from error


def _zip(contents: Iterable[tuple[str, bytes]]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        for name, data in contents:
            member = zipfile.ZipInfo(name, _EPOCH)
            member.create_system, member.external_attr = 3, _MODE
            file.writestr(member, data)
    return buffer.getvalue()
