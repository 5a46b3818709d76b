"""What every importer hands over: clips one after the other, and what is known about all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from skelbench.data.store.clip_store import Skipped
from skelbench.data.store.splits import Rule
from skelbench.data.store.writer import StoreWriter
from skelbench.errors import SkelbenchError
from skelbench.skeleton.topology import Topology


class Clip(NamedTuple):
    """One clip, as :meth:`skelbench.data.store.writer.StoreWriter.add` takes it."""

    x_MTJC: np.ndarray
    label: int
    origin: np.ndarray | Sequence[float] = (0.0, 0.0, 0.0)
    name: str = ""
    who: Mapping[str, int] = {}
    """subject, camera, setup, trial, as far as known."""
    flags: int = 0
    source_frames: int | None = None
    confidence_MTJ: np.ndarray | None = None


@dataclass
class Recording:
    """A file, or files that belong together, recognised and checked as far as that goes without the coordinates."""

    kind: str
    """What the file was recognised as, for people."""
    clips: Callable[[], Iterator[Clip | Skipped]]
    """Reads on; may add to ``details`` while it does."""
    total: int
    """Entries that ``clips`` yields."""
    topology: Topology
    classes: Sequence[str]
    splits: Mapping[str, Rule]
    default_split: str
    lineage: str
    licence: str = ""
    fps: float = 30.0
    details: dict[str, Any] = field(default_factory=dict)
    close: Callable[[], None] = lambda: None


def write(
    recording: Recording, path: Path, *, overwrite: bool = False, progress: Callable[[int, int], None] | None = None
) -> tuple[Skipped, ...]:
    """Store a recording at ``path``; what was left out, and why. ``progress(done, total)`` per entry."""
    with StoreWriter(
        path,
        topology=recording.topology,
        classes=recording.classes,
        splits=recording.splits,
        default_split=recording.default_split,
        lineage=recording.lineage,
        licence=recording.licence,
        fps=recording.fps,
        overwrite=overwrite,
    ) as writer:
        for done, entry in enumerate(recording.clips(), 1):
            if isinstance(entry, Skipped):
                writer.skip(entry.name, entry.reason, entry.expected)
            elif not np.isfinite(entry.x_MTJC).all() or not np.isfinite(entry.origin).all():
                writer.skip(entry.name or f"clip {done - 1}", "a coordinate is not a finite number")
            else:
                numbers = entry._asdict()
                writer.add(**numbers.pop("who"), **numbers)
            if progress is not None:
                progress(done, recording.total)
        writer.details.update(recording.details)
        if not writer.origins and writer.skipped:
            first = writer.skipped[0]
            raise SkelbenchError(
                f"none of the {recording.total} clips can be used (the first, {first.name}: {first.reason}); check "
                f"that this is the right file"
            )
        if dropped := writer.drop_empty_splits():
            writer.details["splits_left_out"] = recording.details["splits_left_out"] = ", ".join(dropped)
        if writer.skipped and not writer.splits:
            first = writer.skipped[0]
            raise SkelbenchError(
                f"{len(writer.skipped)} of the {recording.total} clips cannot be used (the first, {first.name}: "
                f"{first.reason}), and the others are all on one side of split {', '.join(dropped)}; repair the clips "
                f"or bring more"
            )
        skipped = tuple(writer.skipped)
    return skipped
