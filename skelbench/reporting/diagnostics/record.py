"""Results of diagnoses, stored with their run and read back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from skelbench.core.errors import SkelbenchError
from skelbench.core.files import read_json, write_json
from skelbench.core.hashing import canonical_json, digest

VERSION = {"interpolation": 2, "invariance": 1, "order": 2}
"""Version in the hash of a record's settings: raise it when the measurement changes."""


def kept(
    folder: Path, what: str, spec: Mapping[str, Any], find: Callable[[], Mapping[str, Any]], force: bool = False
) -> tuple[dict[str, Any], Path]:
    """The record of diagnosis ``what`` with the settings ``spec``, and its file: read if it exists, else measured and
    written.

    ``spec`` is everything that decides the result; its hash is in the file's name. The file is whole or absent.
    """
    path = folder / f"diagnose-{what}-{digest(spec)}.json"
    if path.exists() and not force:
        try:
            record = read_json(path)
            if not isinstance(record, dict) or record.get("spec") != json.loads(canonical_json(spec)):
                raise ValueError("it is another diagnosis")
            return record, path
        except (OSError, ValueError) as error:
            raise SkelbenchError(f"{path} is damaged; issue the command again with --force") from error
    started = time.monotonic()
    record = {"diagnosis": what, "spec": dict(spec), **find()}
    record |= {"seconds": time.monotonic() - started, "finished": time.time()}
    write_json(path, record)
    return record, path
