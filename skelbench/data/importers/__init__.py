"""Importing files that others prepared into clip stores.

:mod:`files` recognizes formats by their content, :mod:`pair_files` finds files that belong together; one module per
format turns files into a :class:`~skelbench.data.importers.recording.Recording`; :mod:`recording` stores it.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers.files import recognize
from skelbench.data.importers.ragged import RAGGED
from skelbench.data.importers.recording import ImportOptions, Recording, write
from skelbench.data.store.clip_store import Skipped, first_line
from skelbench.data.store.roots import check_name

__all__ = ["ImportOptions", "Imported", "import_files", "name_for"]


@dataclass(frozen=True)
class Imported:
    """Result of an import: the store's folder, the recognized recording, and what was skipped."""

    path: Path
    recording: Recording
    skipped: tuple[Skipped, ...]

    @property
    def unexpected(self) -> list[Skipped]:
        """Entries that were skipped although the format does not foresee it."""
        return [entry for entry in self.skipped if not entry.expected]


def import_files(
    files: Sequence[Path | str],
    name: str,
    root: Path,
    options: ImportOptions | None = None,
    *,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Imported:
    """Store the clips in ``files`` as ``root``/``name``; skip unusable clips, refuse unusable files.

    A single npy file is completed with its companions (:mod:`pair_files`); of several files, an array of clips is
    followed by its labels, and the training part by the test part.
    """
    path, options = Path(root) / check_name(name), options or ImportOptions()
    try:
        # Coordinates that are NaN or too large for float32 are found and named; numpy need not warn as well.
        with np.errstate(invalid="ignore", over="ignore"):
            recording = recognize([Path(file) for file in files], options)
            if options.label_fields != ImportOptions.label_fields and recording.kind != RAGGED:
                raise SkelbenchError(f"{files[0]}: --label-fields is for ragged npz; leave it out")
            skipped = write(recording, path, options, overwrite=overwrite, progress=progress)
    except (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise SkelbenchError(f"{files[0]} cannot be read ({first_line(error)}); download or copy it again") from error
    return Imported(path, recording, skipped)


def name_for(file: Path) -> str:
    """Return a dataset's name made from a file's."""
    return check_name(re.sub(r"[^a-z0-9_.-]+", "-", file.stem.lower()).strip("-.") or "imported")
