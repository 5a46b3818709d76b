"""Write new files: all or none, and never over an existing file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from skelbench.core.errors import SkelbenchError
from skelbench.core.files import unwritable


def write_new(place: Path, files: Mapping[str, str]) -> None:
    """Write ``files``, relative path -> text, below the new folder ``place``; ``{"": text}`` is the new file ``place``.

    SkelbenchError if ``place`` exists or cannot be written; nothing is left behind.
    """
    if not os.path.isdir(place.parent):
        raise SkelbenchError(f"there is no folder {place.parent}; make it or choose another with -o")
    try:
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=".new-") as made:
            whole = Path(made) / place.name
            for name, text in files.items():
                path = whole / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            if os.path.lexists(place):
                raise SkelbenchError(f"{place} exists already and is left as it is; choose another name or folder (-o)")
            os.rename(whole, place)
    except OSError as error:
        raise SkelbenchError(f"{unwritable(place, error)} with -o") from error
