"""2-D poses as pyskl publishes them: one pickle per dataset."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from skelbench.data.importers import recognize
from skelbench.data.importers.recording import ImportOptions, Recording


def pyskl_2d(files: Sequence[Path], options: ImportOptions) -> Recording:
    """Return the recording in a pickle of pyskl."""
    return recognize(files, options)
