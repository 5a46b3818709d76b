"""Clips in files: one file (or folder of frames) per clip, classes by folder or by a list.

A folder holds clips directly or in one folder per class. ``labels.csv`` in it takes precedence: columns ``name`` (path
below the folder, without suffix), ``label``, and optionally the numbers ``subject``, ``camera``, ``setup``, ``trial``.
Without either, all clips are of class "unlabeled".
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers.bodies import Unusable
from skelbench.data.importers.labels import random_split
from skelbench.data.importers.pose2d import FlatPose, flat_clip
from skelbench.data.importers.recording import Entries, ImportOptions, Recording
from skelbench.data.store.clip_store import WHO
from skelbench.data.store.splits import FieldRule, Rule
from skelbench.data.store.writer import Clip
from skelbench.views.skeleton.mapping import joint_mapping
from skelbench.views.skeleton.topology import Topology, get_topology

UNLABELED = "unlabeled"


@dataclass(frozen=True)
class Item:
    """A clip's file, or its folder of frames."""

    path: Path
    name: str
    label: str = UNLABELED
    who: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Motion:
    """Joints of a clip in the units of its file: x [M, T, J, 2 or 3], and scores [M, T, J] (None = all joints seen)."""

    x_MTJC: np.ndarray
    score_MTJ: np.ndarray | None = None
    image: tuple[float, float] | None = None
    """(height, width) of the image of 2-D joints; None = unknown."""


def files_in(paths: Sequence[Path], suffix: str) -> list[Path]:
    """Return the files with this suffix among ``paths`` and below them, sorted within each folder."""
    below = [sorted(path.rglob("*")) if path.is_dir() else [path] for path in paths]
    return [file for files in below for file in files if file.suffix.lower() == suffix and file.is_file()]


def items(paths: Sequence[Path], clips: Sequence[Path]) -> list[Item]:
    """Return ``clips`` with names, labels and numbers; each clip is one of ``paths`` or below one of them."""
    entries, listed = list[Item](), dict[Path, dict[str, str]]()
    for root in (path for path in paths if path.is_dir()):
        if (table := root / "labels.csv").exists():
            listed |= {root / row["name"]: row for row in _rows(table)}
    for clip in clips:
        root = next((path for path in paths if path.is_dir() and path in clip.parents), clip.parent)
        place = clip.relative_to(root)
        bare = place if clip.is_dir() else place.with_suffix("")
        row = listed.get(root / bare, {})
        label = row.get("label") or (place.parts[0] if len(place.parts) > 1 else UNLABELED)
        who = {key: int(row[key]) for key in WHO if row.get(key, "").lstrip("-").isdigit()}
        if not listed or row:
            entries.append(Item(clip, bare.as_posix(), label, who))
    if listed and not entries:
        raise SkelbenchError(
            f"{paths[0] / 'labels.csv'} names none of the clips; write paths without suffix, as in a/b"
        )
    return entries


def _rows(table: Path) -> list[dict[str, str]]:
    with open(table, newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    if not rows or not {"name", "label"} <= set(rows[0]):
        raise SkelbenchError(f"{table} needs a first line with the columns name and label")
    return rows


def split_rules(entries: Sequence[Item], labels: np.ndarray, where: str) -> dict[str, Rule]:
    """Return a split by subjects if their numbers are known, else a random one."""
    subjects = sorted({item.who["subject"] for item in entries if "subject" in item.who})
    if len(subjects) > 1:
        rule = FieldRule(field="subject", train=tuple(subjects[::2]), test=tuple(subjects[1::2]))
        return {"by-subject": rule}
    return random_split(labels, where, "cut long recordings: --clip-seconds 4")


def recording(
    kind: str,
    entries: Sequence[Item],
    read: Callable[[Path], Motion],
    topology: Topology,
    options: ImportOptions,
    *,
    joints: Sequence[str] = (),
    flat: bool = False,
    up: str = "y",
    fps: float | None = None,
    where: str = "",
) -> Recording:
    """Return the recording of ``entries``, each cut into pieces of ``options.clip_seconds``.

    ``read`` returns the joints of a file. ``joints`` are their names: if given, clips are converted to
    ``options.topology``, or else to ``topology``.
    """
    read = lru_cache(maxsize=1)(read)  # the pieces of a file are read one after another
    details: dict = {}
    if joints:
        topology = get_topology(options.topology or topology.name)
        mapping = joint_mapping(joints, topology)
        details["joints"] = mapping.summary
    elif options.topology not in (None, topology.name):
        raise SkelbenchError(f"{where} has the joints of {topology.name}; convert it afterwards with data convert")
    pose = FlatPose(options) if flat else None
    frames = round(options.clip_seconds * (fps or options.fps)) if options.clip_seconds else 0
    parts = [part for item in entries for part in _parts(item, read, frames)]
    classes = sorted({item.label for item, _ in parts})
    labels = np.array([classes.index(item.label) for item, _ in parts])
    if not len(labels):
        raise SkelbenchError(f"{where} holds no clips of {kind}; check the path")

    def clip(item: Item, piece: slice | None, name: str) -> Clip:
        try:
            motion = read(item.path)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise Unusable(f"it cannot be read ({error}); check the file") from error
        x, score = motion.x_MTJC, motion.score_MTJ
        if piece is not None:
            x, score = x[:, piece], None if score is None else score[:, piece]
        if joints:
            x, score = mapping.apply(x, np.ones(x.shape[:3]) if score is None else score)
            score = score if "absent" in mapping.kinds.values() else None
        result = Clip(x, classes.index(item.label), name=name, who=item.who, confidence_MTJ=score)
        if pose is None:
            return result
        result = result if score is not None else result._replace(confidence_MTJ=np.ones(x.shape[:3]))
        return flat_clip(result, topology.center, pose, motion.image)

    def clips() -> Entries:
        for item, piece in parts:
            name = item.name if piece is None else f"{item.name}_{piece.start:06}"
            yield name, partial(clip, item, piece, name)

    return Recording(
        kind=kind,
        clips={where: clips},
        total=len(parts),
        topology=topology,
        classes=classes,
        splits=split_rules([item for item, _ in parts], labels, where),
        lineage=f"{kind}, centered at {topology.joints[topology.center]} of the first frame",
        flat=flat,
        up=up,  # type: ignore[arg-type]
        fps=fps,
        details=details,
    )


def _parts(item: Item, read: Callable[[Path], Motion], frames: int) -> list[tuple[Item, slice | None]]:
    """Return the whole clip, or pieces of ``frames`` frames; a last piece shorter than half of that is dropped."""
    if not frames:
        return [(item, None)]
    try:
        length = read(item.path).x_MTJC.shape[1]
    except (ValueError, KeyError, TypeError, IndexError, Unusable):
        return [(item, None)]  # the clip is skipped with its reason
    starts = range(0, max(length - frames // 2, 1), frames)
    return [(item, slice(start, start + frames)) for start in starts]
