"""Result of every importer: clips one after the other, and what is known about all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers.bodies import Unusable, check_usable
from skelbench.data.store.clip_store import Skipped
from skelbench.data.store.splits import Rule
from skelbench.data.store.writer import Clip, StoreWriter
from skelbench.views.skeleton.topology import Topology


@dataclass
class Recording:
    """A file, or files that belong together, recognized and checked as far as possible without the coordinates."""

    kind: str
    """Format, in words."""
    clips: Callable[[], Iterator[tuple[str, Callable[[], Clip]]]]
    """Names of the entries, each with the function that makes its clip or raises :class:`Unusable`."""
    total: int
    """Entries that ``clips`` yields."""
    topology: Topology
    classes: Sequence[str]
    splits: Mapping[str, Rule]
    """The first one is the default unless ``default_split`` names another."""
    lineage: str
    default_split: str = ""
    sources: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Place of the training and the test clips of a split in the files, in words."""
    strict: bool = False
    """Whether an unusable clip refuses the file instead of being skipped."""
    flat: bool = False
    """Whether poses are of the image plane."""
    licence: str = ""
    fps: float = 30.0
    details: dict[str, Any] = field(default_factory=dict)


def write(
    recording: Recording, path: Path, *, overwrite: bool = False, progress: Callable[[int, int], None] | None = None
) -> tuple[Skipped, ...]:
    """Store a recording at ``path`` and return what was skipped, with reasons. ``progress(done, total)`` per entry."""
    settings = {name: getattr(recording, name) for name in ("topology", "classes", "lineage", "licence", "fps")}
    default = recording.default_split or next(iter(recording.splits))
    with StoreWriter(path, splits=recording.splits, default_split=default, **settings, overwrite=overwrite) as writer:
        for done, (name, make) in enumerate(recording.clips(), 1):
            try:
                clip = make()
                check_usable(clip.x_MTJC, clip.confidence_MTJ)
            except Unusable as error:
                if recording.strict:
                    raise SkelbenchError(f"{name}: {error}; repair or remove this clip") from None
                writer.skip(name, str(error), error.expected)
            else:
                writer.add_clip(clip)
            if progress is not None:
                progress(done, recording.total)
        lowest = min(writer.index["label"], default=0)
        if lowest and recording.classes[0] == "label 0":
            recording.details["labels"] = f"from {lowest}, so class 'label 0' has no clip; number them from 0"
        first = "".join(f" (the first skipped clip, {one.name}: {one.reason})" for one in writer.skipped[:1])
        if not writer.names and first:
            raise SkelbenchError(f"none of the {recording.total} clips can be used{first}; check the file")
        if dropped := writer.drop_empty_splits():
            recording.details["splits_left_out"] = ", ".join(dropped)
        if not writer.splits and first:
            raise SkelbenchError(
                f"{len(writer.skipped)} of the {recording.total} clips cannot be used{first}, and the others are all "
                f"on one side of split {', '.join(dropped)}; repair the clips or bring more"
            )
        writer.details.update(recording.details)
    return tuple(writer.skipped)
