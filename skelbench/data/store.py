"""The clip store: one folder per data set, memory-mapped when read.

``frames.npy``  float32 [F, J], channel first: frame t, axis c, body m of clip i is row
                ``offset[i] + (m * 3 + c) * length[i] + t``, with ``offset`` the running sum of 3 * length * bodies.
``index.npz``   arrays with one entry per clip: length, bodies, label, subject, camera, setup, trial (int32),
                origin float32 [N, 3] (``origin + x`` = camera coordinates, metres).
``meta.json``   :class:`Meta`.

:mod:`skelbench.data.writer` writes stores, :mod:`skelbench.data.source` feeds clips to a device.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from skelbench.data.splits import FieldRule, RandomRule, Split, make_split, resolve
from skelbench.errors import SkelbenchError
from skelbench.skeleton.spec import Spec
from skelbench.skeleton.topology import Topology, get_topology

FORMAT = 1
FIELDS = ("length", "bodies", "label", "subject", "camera", "setup", "trial")


class Meta(Spec):
    """``meta.json`` of a clip store."""

    format: int
    name: str
    topology: str
    classes: tuple[str, ...]
    splits: dict[str, FieldRule | RandomRule]
    default_split: str
    units: str
    up_axis: str
    fps: float
    lineage: str
    """How the clips were made from what was recorded; results on different lineages do not compare."""
    licence: str
    clips: int
    rows: int
    body_frames: int
    frames_sha256: str
    """Of the array's bytes, without the .npy header."""
    fingerprint: str
    """Changes whenever coordinates, index, topology, classes or splits do; part of every run's identity."""
    written_by: str


def fingerprint(meta: Meta, index: Mapping[str, np.ndarray]) -> str:
    """Hash of what decides a result: coordinates, index, topology, classes and splits."""
    parts = meta.model_dump(mode="json", include={"topology", "classes", "splits", "frames_sha256"})
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode())
    for name in (*FIELDS, "origin"):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(index[name]).tobytes())
    return digest.hexdigest()


class ClipStore:
    """A clip store opened for reading; :meth:`open` checks everything but the coordinates themselves."""

    def __init__(self, path: Path, meta: Meta, index: Mapping[str, np.ndarray], frames_FJ: np.ndarray) -> None:
        self.path, self.meta, self.index = path, meta, dict(index)
        self.frames_FJ = frames_FJ
        """float32 memory map, copy on write: nothing done to it reaches the disk."""
        rows = 3 * self.lengths * self.bodies
        self.offsets = np.cumsum(rows) - rows
        """int64 [N], first row of each clip."""

    @classmethod
    def open(cls, path: Path | str) -> ClipStore:
        """Open and check a store; a missing, damaged or newer one raises :class:`SkelbenchError`."""
        path = Path(path)
        if not path.is_dir():
            raise SkelbenchError(f"there is no clip store at {path}; import or prepare the data set first")
        meta = _read_meta(path)
        index = _read_index(path)
        if meta.fingerprint != fingerprint(meta, index):
            raise _damaged(path, "index.npz and meta.json do not belong together")
        if meta.clips < 1 or any(len(values) != meta.clips for values in index.values()):
            raise _damaged(path, f"index.npz does not hold the {meta.clips} clips that meta.json counts")
        try:
            frames_FJ = np.load(path / "frames.npy", mmap_mode="c", allow_pickle=False)
        except Exception as error:  # damaged bytes make numpy raise almost anything
            raise _damaged(path, f"frames.npy cannot be mapped ({first_line(error)})") from error
        joints = get_topology(meta.topology).num_joints
        if frames_FJ.dtype != np.float32 or frames_FJ.shape != (meta.rows, joints):
            raise _damaged(path, f"frames.npy is not float32 [{meta.rows}, {joints}]")
        store = cls(path, meta, index, frames_FJ)
        if index["length"].min() < 1 or index["bodies"].min() < 1 or store._end != meta.rows:
            raise _damaged(path, "the lengths in index.npz do not add up to the rows of frames.npy")
        return store

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
        """Hash of coordinates, index, topology, classes and splits."""
        return self.meta.fingerprint

    @cached_property
    def max_bodies(self) -> int:
        """M of the data set: most bodies in any clip."""
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
    def labels(self) -> np.ndarray:
        """int64 [N]."""
        return self.index["label"].astype(np.int64)

    def __len__(self) -> int:
        return self.meta.clips

    @property
    def _end(self) -> int:
        return int(self.offsets[-1] + 3 * self.lengths[-1] * self.bodies[-1])

    def split(self, name: str | None = None) -> Split:
        """Train and test ids of a split (None = the default one; "xsub", "xview", "xset" are understood)."""
        where = f"data set {self.meta.name}"
        name = resolve(name, self.meta.splits, self.meta.default_split, where)
        return make_split(name, self.meta.splits[name], self.index, where)

    def clip(self, i: int) -> np.ndarray:
        """Clip ``i`` as float32 [M, T, J, 3] (a copy), metres, relative to ``origin[i]``."""
        if not 0 <= i < len(self):
            raise SkelbenchError(f"data set {self.meta.name} has clips 0 to {len(self) - 1}, there is no clip {i}")
        bodies, length, start = int(self.bodies[i]), int(self.lengths[i]), int(self.offsets[i])
        rows = self.frames_FJ[start : start + 3 * bodies * length]
        return np.array(rows.reshape(bodies, 3, length, -1).transpose(0, 2, 3, 1), order="C")

    def verify(self) -> None:
        """Read every coordinate and compare with the recorded hash; raises if a single bit differs."""
        digest = hashlib.sha256()
        for start in range(0, len(self.frames_FJ), 1 << 16):
            digest.update(self.frames_FJ[start : start + (1 << 16)])
        if digest.hexdigest() != self.meta.frames_sha256:
            raise _damaged(self.path, "the coordinates in frames.npy are not those that were written")


def _damaged(path: Path, reason: str) -> SkelbenchError:
    return SkelbenchError(f"the clip store at {path} is damaged: {reason}; delete the folder and make it again")


def first_line(error: Exception) -> str:
    """What went wrong, short enough to stand within a sentence."""
    return (str(error) or type(error).__name__).splitlines()[0]


def _read_meta(path: Path) -> Meta:
    try:
        raw = json.loads((path / "meta.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SkelbenchError(f"{path} is not a clip store (no meta.json); name a folder made by skelbench") from None
    except (OSError, ValueError) as error:
        raise _damaged(path, f"meta.json cannot be read ({first_line(error)})") from error
    version = raw.get("format") if isinstance(raw, dict) else None
    if isinstance(version, int) and version > FORMAT:
        raise SkelbenchError(
            f"the clip store at {path} has format {version}, this skelbench reads up to {FORMAT}; update skelbench"
        )
    try:
        return Meta.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise _damaged(path, f"meta.json, {field or 'top level'}: {first['msg'].lower()}") from None


def _read_index(path: Path) -> dict[str, np.ndarray]:
    index = {}
    try:
        with np.load(path / "index.npz", allow_pickle=False) as file:
            for name in (*FIELDS, "origin"):
                index[name] = file[name]
    except KeyError:
        raise _damaged(path, f"index.npz has no array {name!r}") from None
    except Exception as error:  # damaged bytes make zipfile and numpy raise almost anything
        raise _damaged(path, f"index.npz cannot be read ({first_line(error)})") from error
    return index
