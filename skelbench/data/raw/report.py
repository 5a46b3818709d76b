"""What preparing a data set from its raw files has in common, whichever data set it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from skelbench.core.errors import SkelbenchError
from skelbench.data.raw.files import RawFile
from skelbench.data.store.writer import StoreWriter

Progress = Callable[[int, int, int], None]
"""Called with what is done, the total, and how much was left out unexpectedly."""


@dataclass
class Report:
    """What came of preparing a data set, beside the store."""

    path: Path
    """The store."""
    clips: int = 0
    unexpected: list[tuple[str, str]] = field(default_factory=list)
    """What was left out though it should not have been: name and reason."""
    notes: list[str] = field(default_factory=list)
    """Sentences on what was left out as it should be, and on what is not there."""

    def ignore(self, files: Sequence[RawFile], what: str) -> None:
        """Note files that are nothing to worry about."""
        if files:
            some = ", ".join(file.name for file in files[:3]) + (", ..." if len(files) > 3 else "")
            self.notes.append(f"{what} ignored: {len(files):,} ({some})")

    def close(self, writer: StoreWriter, what: str) -> None:
        """Put everything into the store that is about to be finished; raises if there is no clip."""
        self.clips = len(writer.names)
        if not self.clips:
            name, reason = self.unexpected[0] if self.unexpected else (str(self.path), f"there are no {what}")
            raise SkelbenchError(f"none of the {what} could be used; {name}: {reason}")
        for name, reason in self.unexpected:
            writer.skip(name, reason)
        for name in writer.drop_empty_splits():
            self.notes.append(f"the split {name} is left out: these {what} do not give it both training and test clips")
        if not writer.splits:
            raise SkelbenchError(f"these {what} leave every split without training or without test clips; add others")
