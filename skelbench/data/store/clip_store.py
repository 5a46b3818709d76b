"""The clip store: one folder per dataset, memory-mapped when read.

- ``frames.npy``: float32 [F, J], channel first: frame t, axis c, body m of clip i is row
  ``offset[i] + (m * 3 + c) * length[i] + t``, with ``offset`` the running sum of 3 * length * bodies.
- ``index.npz``: arrays with one entry per clip: length, bodies, label, subject, camera, setup, trial (int32),
  origin float32 [N, 3] (``origin + x`` = camera coordinates, meters), name (text, "" = none),
  flags int32 (:data:`EMPTY_BODY` or 0),
  crc32 uint32 (of the clip's rows in confidence.npy, if there is one, and then in frames.npy).
- ``confidence.npy``: optional, float32 [F / 3, J] in [0, 1]: how sure the joint at frame t, body m of clip i is, in row
  ``offset[i] // 3 + m * length[i] + t``.
- ``meta.json``: :class:`Meta`.

:mod:`skelbench.data.store.writer` writes stores, :mod:`skelbench.data.store.source` feeds clips to a device.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from pydantic import Field

from skelbench.core.component import Spec
from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.files import read_json
from skelbench.data.store.splits import (
    EACH_SUBJECT,
    TUNE,
    VIEWS,
    EmptySplit,
    FieldRule,
    HeldOut,
    NameRule,
    Rule,
    Split,
    hold_out,
    make_split,
    resolve,
)
from skelbench.views.skeleton.topology import Topology, get_topology

FORMAT = 2
Loaded = TypeVar("Loaded")
WHO = ("subject", "camera", "setup", "trial")
FIELDS = ("length", "bodies", "label", *WHO)
"""Integer arrays of the index that decide results."""
EMPTY_BODY = 32
"""Flag of a clip with a second body that is zero in every frame, as the NTU pipeline writes for single people."""


class Skipped(Spec):
    """An entry of the source that did not become a clip."""

    name: str
    reason: str
    expected: bool = False
    """Whether it was expected, for example a sample on the official list of incomplete ones."""


class Meta(Spec):
    """``meta.json`` of a clip store."""

    format: int
    name: str
    topology: str
    classes: tuple[str, ...]
    splits: dict[str, Rule] = {}
    default_split: str = ""
    units: str = "m"
    up_axis: str = "y"
    fps: float = Field(30.0, gt=0)
    """Frames per second. Views count frames, so no result depends on it."""
    lineage: str = ""
    """Processing steps from recordings to clips; results on different lineages cannot be compared."""
    license: str = ""
    clips: int
    rows: int
    body_frames: int
    frames_sha256: str = ""
    """Hash of the array's bytes, without the .npy header."""
    confidence_sha256: str = ""
    """Hash of the confidence array; empty = no confidence is stored."""
    fingerprint: str = ""
    """Result of :func:`fingerprint`; part of every run's identity."""
    written_by: str
    dimensions: Literal[2, 3] = 3
    """2 for poses of the image plane, where z is 0 everywhere and rotations must keep it 0."""
    skipped: tuple[Skipped, ...] = ()
    """Skipped clips with reasons."""
    details: dict[str, Any] = {}
    """Constants of the pipeline and counts of the source, as its importer knows them."""


def fingerprint(meta: Meta, index: Mapping[str, np.ndarray]) -> str:
    """Hash of what decides a result: coordinates, confidence, index, names, topology, classes and splits."""
    parts = meta.model_dump(mode="json", include={"topology", "classes", "splits", "frames_sha256"})
    # Absent parts are not hashed: stores from before confidence and names existed keep their fingerprint.
    if meta.confidence_sha256:
        parts["confidence_sha256"] = meta.confidence_sha256
    if index["name"].any():
        parts["names"] = index["name"].tolist()
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode())
    for name in (*FIELDS, "origin"):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(index[name]).tobytes())
    return digest.hexdigest()


class ClipStore:
    """A clip store opened for reading; :meth:`open` checks everything but the coordinates themselves."""

    def __init__(
        self,
        path: Path,
        meta: Meta,
        index: Mapping[str, np.ndarray],
        frames_FJ: np.ndarray,
        confidence_FJ: np.ndarray | None = None,
    ) -> None:
        self.path, self.meta, self.index = path, meta, dict(index)
        self.frames_FJ = frames_FJ
        """float32 memory map, copy on write: changes never reach the disk."""
        self.confidence_FJ = confidence_FJ
        """float32 [F / 3, J], a memory map like :attr:`frames_FJ`; None if the store has no confidence."""
        rows = 3 * self.lengths * self.bodies
        self.offsets = np.cumsum(rows) - rows
        """int64 [N], first row of each clip."""
        self.compared = np.zeros(meta.clips, dtype=bool)
        """Mask of the clips that :meth:`check` has verified, bool [N]."""

    @classmethod
    def open(cls, path: Path | str) -> ClipStore:
        """Open and check a store, which has the name of its folder.

        Raises :class:`SkelbenchError` if it is missing, damaged, older or newer.
        """
        path = Path(path)
        meta = _read_meta(path).model_copy(update={"name": path.absolute().name})  # not in the fingerprint
        index = _load(path, "index.npz", _read_index)
        # The fingerprint covers what the arrays hold, so what the writer has checked needs no second check.
        if meta.fingerprint != fingerprint(meta, index) or len(index["length"]) != meta.clips:
            raise _damaged(path, "index.npz and meta.json do not belong together")
        try:
            joints = get_topology(meta.topology).num_joints
        except SkelbenchError as error:
            advice = "if its skeleton is a plugin's, name that with --plugin FILE"
            raise SkelbenchError(f"dataset {path.name}: {str(error).rstrip('.')}; {advice}") from error
        frames_FJ = _map(path, "frames.npy", (meta.rows, joints))
        confidence_FJ = _map(path, "confidence.npy", (meta.rows // 3, joints)) if meta.confidence_sha256 else None
        return cls(path, meta, index, frames_FJ, confidence_FJ)

    @cached_property
    def topology(self) -> Topology:
        """The skeleton of every clip."""
        return get_topology(self.meta.topology)

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names; label k is ``classes[k]``."""
        return self.meta.classes

    @property
    def num_classes(self) -> int:
        """Number of classes, those without a clip included."""
        return len(self.meta.classes)

    @property
    def fingerprint(self) -> str:
        """Hash of coordinates, confidence, index, names, topology, classes and splits."""
        return self.meta.fingerprint

    @cached_property
    def max_bodies(self) -> int:
        """M of the dataset: most bodies in any clip."""
        return int(self.bodies.max())

    @cached_property
    def lengths(self) -> np.ndarray:
        """int64 [N], frames per clip."""
        return self.index["length"].astype(np.int64)

    @cached_property
    def bodies(self) -> np.ndarray:
        """int64 [N], bodies per clip."""
        return self.index["bodies"].astype(np.int64)

    @cached_property
    def present(self) -> np.ndarray:
        """int64 [N], number of bodies per clip, without an empty second body (:data:`EMPTY_BODY`)."""
        return self.bodies - ((self.index["flags"] & EMPTY_BODY) != 0)

    @cached_property
    def labels(self) -> np.ndarray:
        """int64 [N]."""
        return self.index["label"].astype(np.int64)

    @cached_property
    def names(self) -> np.ndarray | None:
        """Text [N], each clip's name in its dataset; None when no clip has one."""
        return self.index["name"] if self.index["name"].any() else None

    def __len__(self) -> int:
        return self.meta.clips

    def split(self, name: str | None = None, min_frames: int = 0) -> Split:
        """Return train and test ids of a split (None = the default one; "xsub", "xview", "xset" are understood).

        Training clips of fewer than ``min_frames`` frames are excluded, test clips never, so accuracies cover the
        same clips. ``SPLIT~tune``, ``SPLIT~tune-camera``, ``SPLIT~tune-setup``: see :meth:`held_out`.
        ``leave-one-subject-out``: its last fold, which tests on the last subject; evaluations use all folds.
        """
        where = f"dataset {self.meta.name}"
        if name == EACH_SUBJECT and name not in self.meta.splits:
            others = np.unique(self.index["subject"])[:-1].tolist()
            split = make_split(name, FieldRule(field="subject", train=tuple(others)), self.index, where)
        elif name is None or TUNE not in name or name in self.meta.splits:
            name = resolve(name, self.meta.splits, self.meta.default_split, where)
            split = make_split(name, self.meta.splits[name], self.index, where)
        else:
            base, _, end = name.partition(TUNE)
            fields = {base + TUNE: "", **{f"{base}{TUNE}-{field}": field for field in VIEWS}}
            if name not in fields:
                raise SkelbenchError(f"{where}: {did_you_mean(name, list(fields), 'split')}")
            split = hold_out(self.split(base), self.meta.name, self.index, fields[name]).split
        train = split.train[self.lengths[split.train] >= min_frames]
        if not len(train):
            reason = f"no training clip of split {split.name!r} has {min_frames} frames"
            raise EmptySplit(f"{where}: {reason}; lower min_frames")
        return replace(split, train=train)

    def held_out(self, name: str | None = None) -> HeldOut:
        """Return the split for choosing settings for split ``name``; it tests on some of the training subjects.

        A split that tests on other cameras or setups than it trains on holds out some cameras or setups too, if
        there are several.
        """
        if name is not None and TUNE in name and name not in self.meta.splits:
            raise SkelbenchError(
                f"dataset {self.meta.name}: split {name!r} is held out already; leave out {TUNE!r} and what follows it"
            )
        split = self.split(name)
        rule, field, camera = self.meta.splits[split.name], "", self.index["camera"]
        if isinstance(rule, FieldRule) and rule.field in VIEWS:
            field = rule.field
        elif isinstance(rule, NameRule) and not set(camera[split.train]) & set(camera[split.test]):
            field = "camera"
        if field:
            with suppress(EmptySplit):  # too few cameras or subjects to hold out both
                return hold_out(split, self.meta.name, self.index, field)
        return hold_out(split, self.meta.name, self.index)

    def clip(self, i: int) -> np.ndarray:
        """Clip ``i`` as float32 [M, T, J, 3] (a copy), meters, relative to ``origin[i]``."""
        bodies, length, start = self._place(i)
        rows = self.frames_FJ[start : start + 3 * bodies * length]
        return np.array(rows.reshape(bodies, 3, length, -1).transpose(0, 2, 3, 1), order="C")

    def confidence(self, i: int) -> np.ndarray:
        """Confidence of clip ``i`` as float32 [M, T, J] (a copy), in [0, 1]; all ones where none is stored."""
        bodies, length, start = self._place(i)
        if self.confidence_FJ is None:
            return np.ones((bodies, length, self.topology.num_joints), dtype=np.float32)
        rows = self.confidence_FJ[start // 3 : start // 3 + bodies * length]
        return np.array(rows.reshape(bodies, length, -1), order="C")

    def verify(self) -> None:
        """Read every number and compare with the recorded hash; raises if a single bit differs."""
        if _sha256(self.frames_FJ) != self.meta.frames_sha256:
            raise _damaged(self.path, "the coordinates in frames.npy are not those that were written")
        if self.confidence_FJ is not None and _sha256(self.confidence_FJ) != self.meta.confidence_sha256:
            raise _damaged(self.path, "the values in confidence.npy are not those that were written")

    def check(self, ids: np.ndarray) -> None:
        """Compare the checksums of the clips ``ids`` with the stored ones, once per clip; raise if one differs."""
        ids = np.unique(ids[~self.compared[ids]])
        wrong = ids[self._checksums(ids) != self.index["crc32"][ids]]
        if len(wrong):
            raise _damaged(self.path, f"{self.title(wrong[0])} is not what was written")
        self.compared[ids] = True

    def _checksums(self, ids: np.ndarray) -> np.ndarray:
        """CRC-32 of the clips ``ids`` as they are on disk now, uint32."""
        starts = self.offsets[ids] // 3
        ends, sums = starts + self.bodies[ids] * self.lengths[ids], [0] * len(ids)
        for rows_FJ, width in (self.confidence_FJ, 1), (self.frames_FJ, 3):  # rows per frame of a body
            if rows_FJ is not None:
                parts, rows_FJ = zip((width * starts).tolist(), (width * ends).tolist()), np.asarray(rows_FJ)
                sums = [zlib.crc32(rows_FJ[start:end].data, crc) for (start, end), crc in zip(parts, sums)]
        return np.array(sums, dtype=np.uint32)

    def recurring(self, ids: np.ndarray, store: ClipStore, other_ids: np.ndarray) -> np.ndarray:
        """Return the clips of ``ids`` that have exactly the numbers of a clip of ``other_ids`` in ``store``."""
        by_checksum: dict[int, list[int]] = {}
        for i in other_ids.tolist():
            by_checksum.setdefault(int(store.index["crc32"][i]), []).append(i)
        candidates = [(i, by_checksum.get(int(self.index["crc32"][i]), ())) for i in ids.tolist()]
        alike = [i for i, matches in candidates if any(np.array_equal(self.clip(i), store.clip(o)) for o in matches)]
        return np.array(alike, dtype=np.int64)

    def title(self, i: int) -> str:
        """``clip 17``, ``clip 17 (S001C001P001R001A018)``."""
        return f"clip {i}" + (f" ({self.names[i]})" if self.names is not None and self.names[i] else "")

    def _place(self, i: int) -> tuple[int, int, int]:
        """Return bodies, frames and first row of clip ``i``."""
        if not 0 <= i < len(self):
            raise SkelbenchError(f"dataset {self.meta.name} has clips 0 to {len(self) - 1}, there is no clip {i}")
        return int(self.bodies[i]), int(self.lengths[i]), int(self.offsets[i])


def _damaged(path: Path, reason: str) -> SkelbenchError:
    return SkelbenchError(f"the clip store at {path} is damaged: {reason}; delete the folder and make it again")


def _load(path: Path, name: str, read: Callable[[Path], Loaded]) -> Loaded:
    """Return ``read(path / name)``; the error advises to delete the store only if the content is damaged."""
    try:
        return read(path / name)
    except Exception as error:  # damaged bytes make zipfile and numpy raise almost anything
        if isinstance(error, OSError) and error.strerror:
            reason = f"{path / name} cannot be read ({error.strerror}); check its access rights and the disk"
            raise SkelbenchError(reason) from error
        raise _damaged(path, f"{name} cannot be read ({first_line(error)})") from error


def _map(path: Path, name: str, shape: tuple[int, int]) -> np.ndarray:
    """Map ``path``/``name`` into memory: float32 of this shape, copy on write."""
    array = _load(path, name, lambda file: np.load(file, mmap_mode="c", allow_pickle=False))
    if array.dtype != np.float32 or array.shape != shape:
        raise _damaged(path, f"{name} is not float32 {list(shape)}")
    return array


def _sha256(rows: np.ndarray) -> str:
    digest = hashlib.sha256()
    for start in range(0, len(rows), 1 << 16):
        digest.update(rows[start : start + (1 << 16)].data)
    return digest.hexdigest()


def first_line(error: Exception) -> str:
    """Return the first line of an error's message."""
    return (str(error) or type(error).__name__).splitlines()[0]


def _read_meta(path: Path) -> Meta:
    if not (path / "meta.json").exists():
        raise SkelbenchError(f"there is no clip store at {path}; import or prepare the dataset first")
    raw = _load(path, "meta.json", read_json)
    version = raw.get("format") if isinstance(raw, dict) else None
    if isinstance(version, int) and version != FORMAT:
        advice = "update skelbench" if version > FORMAT else "make the dataset again"
        raise SkelbenchError(f"the clip store at {path} has format {version}, not {FORMAT}; {advice}")
    return _load(path, "meta.json", lambda _: Meta.model_validate(raw))


def _read_index(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as file:
        return {name: np.asarray(file[name]) for name in (*FIELDS, "flags", "origin", "name", "crc32")}
