"""Result of every importer, and the steps that all formats share: pose, bodies, center, checks, storing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers.bodies import (
    ALL_ZERO,
    Pose,
    Units,
    Unusable,
    Up,
    center,
    check_usable,
    find_pose,
    seen_longest,
)
from skelbench.data.store.clip_store import Skipped
from skelbench.data.store.splits import Rule
from skelbench.data.store.writer import Clip, StoreWriter
from skelbench.views.skeleton.topology import Topology

SAMPLE = 64
"""Clips of each part that are read to find the axis that points up."""

Entries = Iterator[tuple[str, Callable[[], Clip]]]
"""Names of clips, each with a function that reads the clip unchanged or raises :class:`Unusable`."""


@dataclass(frozen=True)
class ImportOptions:
    """Facts that a file does not contain; the defaults fit every format in its published form."""

    topology: str | None = None
    """Name of the skeleton; None = the skeleton with this number of joints."""
    up: Up = "auto"
    """Axis that points up in the file; "auto" = found from the bodies."""
    units: Units = "m"
    scale_2d: Literal["image", "body"] = "image"
    """2-D poses: the image's height becomes 3 meters, or each clip's largest body 1.7 meters."""
    max_bodies: int = 2
    """Largest number of bodies of a clip; those seen longest are kept (2-D: highest sum of confidence)."""
    fps: float = 30.0
    label_fields: tuple[str, ...] = ("label",)
    """Ragged npz: fields whose combinations are the classes."""
    clip_seconds: float = 0.0
    """Length of the clips that recordings of keypoints or motion capture are cut into; 0 = not cut."""
    image_size: tuple[int, int] | None = None
    """Width and height of the images, for keypoints in fractions of them; None = the file says it."""


@dataclass
class Recording:
    """One or several files that belong together, recognized and checked as far as possible without the coordinates."""

    kind: str
    """Format, in words."""
    clips: Mapping[str, Callable[[], Entries]]
    """Entries of each part by its place (file, or array in a file)."""
    total: int
    """Entries of all parts."""
    topology: Topology
    classes: Sequence[str]
    splits: Mapping[str, Rule]
    """The first one is the default unless ``default_split`` names another."""
    lineage: str
    default_split: str = ""
    flat: bool = False
    """Whether poses are 2-D: their reader scales and centers them. Other poses are scaled and centered when stored."""
    up: Up = "auto"
    """Axis that points up by definition of the format; "auto" = found from the bodies."""
    centered: bool = True
    """Whether each clip is centered in its first frame; else its coordinates stay where they are."""
    empty_frames: bool = False
    """Whether frames that show nobody are kept."""
    sources: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Split -> where its training and test clips are in the files, in words."""
    license: str = ""
    fps: float | None = None
    """Frames per second; None = as in the options."""
    details: dict[str, Any] = field(default_factory=dict)


def write(
    recording: Recording,
    path: Path,
    options: ImportOptions,
    *,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Skipped, ...]:
    """Store a recording at ``path`` and return what was skipped, with reasons. ``progress(done, total)`` per entry."""
    settings = {name: getattr(recording, name) for name in ("topology", "classes", "splits", "lineage", "license")}
    settings["default_split"] = recording.default_split or next(iter(recording.splits))
    pose = _pose_of(recording, options)
    with StoreWriter(path, **settings, fps=recording.fps or options.fps, overwrite=overwrite) as writer:
        entries = (entry for part in recording.clips.values() for entry in part())
        for position, (name, read) in enumerate(entries, 1):
            try:
                clip = _posed(read(), pose, recording, options.max_bodies)
                check_usable(clip.x_MTJC, clip.confidence_MTJ)
            except Unusable as error:
                writer.skipped.append(Skipped(name=name, reason=str(error), expected=error.expected))
            else:
                writer.add_clip(clip)
            if progress is not None:
                progress(position, recording.total)
        if dropped := writer.drop_empty_splits():
            recording.details["splits_left_out"] = ", ".join(dropped)
        lowest = min(writer.index["label"])
        if lowest and recording.classes[0] == "label 0":
            recording.details["labels"] = f"from {lowest}, so class 'label 0' has no clip; number them from 0"
        writer.details.update(recording.details)
    return tuple(writer.skipped)


def _pose_of(recording: Recording, options: ImportOptions) -> Pose:
    """Return the rotation and scale of a file; every part must have the same."""
    poses: dict[str, Pose] = {}
    for place, part in recording.clips.items():
        sample = [clip.x_MTJC for clip in islice(_shown(part()), SAMPLE)]
        if sample:  # else no clip of this part is usable, which is reported when all are read
            facts = (recording.topology, options.up, options.units, place)
            poses[place] = find_pose(sample, *facts, usual=recording.up, flat=recording.flat)
    if len({pose.up for pose in poses.values()}) > 1:
        axes = ", ".join(f"{pose.up} in {place}" for place, pose in poses.items())
        raise SkelbenchError(f"its parts stand along different axes ({axes}); say which one points up with --up")
    pose = next(iter(poses.values()), Pose("y"))
    recording.details["up_axis_of_file"] = pose.up
    return pose


def _shown(entries: Entries) -> Iterator[Clip]:
    """Iterate over the clips that can be read and show somebody."""
    for _, read in entries:
        with suppress(Unusable):
            if (clip := read()).x_MTJC.any():
                yield clip


def _posed(clip: Clip, pose: Pose, recording: Recording, most: int) -> Clip:
    """Return a clip in meters with Y up, of at most ``most`` bodies."""
    x_MTJC, confidence_MTJ = pose.apply(clip.x_MTJC), clip.confidence_MTJ
    if recording.flat:
        return clip._replace(x_MTJC=x_MTJC, origin=pose.apply(np.asarray(clip.origin)))
    seen_MT = np.any(x_MTJC, axis=(2, 3))
    if not seen_MT.any():
        raise Unusable(ALL_ZERO, expected=True)
    if not clip.empty_body:
        bodies = seen_longest(seen_MT, most)
        x_MTJC, seen_MT = x_MTJC[bodies], seen_MT[bodies]
        confidence_MTJ = None if confidence_MTJ is None else confidence_MTJ[bodies]
    if not recording.empty_frames:
        frames = seen_MT.any(axis=0)
        x_MTJC, confidence_MTJ = x_MTJC[:, frames], None if confidence_MTJ is None else confidence_MTJ[:, frames]
    origin = pose.apply(np.asarray(clip.origin))
    if recording.centered:
        x_MTJC, shift_C = center(x_MTJC, recording.topology.center)
        origin = origin + shift_C
    if confidence_MTJ is not None:  # joints that are not there stay at 0
        x_MTJC = x_MTJC * (confidence_MTJ > 0)[..., None]
    return clip._replace(x_MTJC=x_MTJC, origin=origin, confidence_MTJ=confidence_MTJ)
