"""Reading other people's files into clip stores.

:mod:`files` tells formats apart by their content, :mod:`together` what belongs together; one module per format
(:mod:`padded`, :mod:`annotations`, :mod:`slots`, :mod:`hdf5`, :mod:`ragged`) turns files into a
:class:`~skelbench.data.importers.recording.Recording`; :mod:`recording` stores it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers.files import recognise
from skelbench.data.importers.options import ImportOptions
from skelbench.data.importers.ragged import RAGGED
from skelbench.data.importers.recording import Recording, write
from skelbench.data.store.clip_store import Skipped
from skelbench.data.store.roots import check_name

__all__ = ["ImportOptions", "Imported", "import_files", "name_for"]


@dataclass(frozen=True)
class Imported:
    """What became of files: the store's folder, what they were recognised as, and what was left out."""

    path: Path
    recording: Recording
    skipped: tuple[Skipped, ...]

    @property
    def unexpected(self) -> list[Skipped]:
        """What was left out although nothing said it would be."""
        return [one for one in self.skipped if not one.expected]


def import_files(
    files: Sequence[Path | str],
    name: str,
    root: Path,
    options: ImportOptions | None = None,
    *,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Imported:
    """Store the clips in ``files`` as ``root``/``name``; unusable clips are left out, unusable files refused.

    One file is completed with what belongs to it from its folder; of several, an array of clips is followed by its
    labels, and the training part by the test part.
    """
    check_name(name)
    # Numbers that are none, or too large for float32, are noticed and named; numpy need not say so as well.
    with np.errstate(invalid="ignore", over="ignore"):
        options = options or ImportOptions()
        recording = recognise([Path(file) for file in files], options)
        try:
            if options.label_fields != ImportOptions.label_fields and recording.kind != RAGGED:
                raise SkelbenchError(
                    f"{files[0]}: --label-fields is for ragged npz, this is {recording.kind}; leave it out"
                )
            if options.of_flat and not recording.flat:
                raise SkelbenchError(
                    f"{files[0]}: {' and '.join(options.of_flat)} scale 2-D poses, and these are 3-D; leave them out "
                    "(--units says what their coordinates are in)"
                )
            skipped = write(recording, Path(root) / name, overwrite=overwrite, progress=progress)
        finally:
            recording.close()
    return Imported(Path(root) / name, recording, skipped)


def name_for(file: Path) -> str:
    """A data set's name made from a file's."""
    return check_name(re.sub(r"[^a-z0-9_.-]+", "-", file.stem.lower()).strip("-.") or "imported")
