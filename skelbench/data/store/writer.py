"""Writing a clip store: one streaming pass, moved into place when complete."""

from __future__ import annotations

import hashlib
import math
import os
import shutil
import zlib
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.core.files import unwritable, write_atomic, write_json
from skelbench.core.leases import Busy, Lease
from skelbench.core.version import __version__
from skelbench.data.store.clip_store import EMPTY_BODY, FIELDS, FORMAT, Meta, Skipped, fingerprint
from skelbench.data.store.splits import EmptySplit, Rule, check_name, make_split, resolve
from skelbench.views.skeleton.topology import Topology


class Clip(NamedTuple):
    """One clip, as :meth:`StoreWriter.add` takes it."""

    x_MTJC: np.ndarray
    """Coordinates in meters with ``origin`` subtracted. Bodies that are zero throughout are absent, and not stored."""
    label: int
    origin: np.ndarray | Sequence[float] = (0.0, 0.0, 0.0)
    name: str = ""
    """Name in the dataset, unique; "" = none."""
    who: Mapping[str, int] = {}
    """subject, camera, setup, trial, as far as known."""
    empty_body: bool = False
    """Whether an empty second body (all zeros) is kept."""
    confidence_MTJ: np.ndarray | None = None
    """From 0 to 1; given for every clip or for none."""


class StoreWriter:
    """Writes a clip store in one pass: ``with StoreWriter(path, ...) as writer: writer.add(...)``.

    Clips go to a hidden folder next to ``path``, which is renamed to ``path`` when the block ends without an error: a
    killed run leaves no incomplete store. An existing ``path`` is rejected unless ``overwrite``, and kept until the
    new one is complete. Coordinates are meters with Y up; :class:`Meta` documents the settings. You may add to
    ``skipped`` and ``details`` until the block ends: ``writer.skipped.append(...)``, ``writer.details[...] = ...``.
    """

    def __init__(
        self,
        path: Path,
        *,
        topology: Topology,
        classes: Sequence[str],
        splits: Mapping[str, Rule],
        default_split: str,
        lineage: str,
        license: str = "",
        fps: float = 30.0,
        details: Mapping[str, Any] | None = None,
        overwrite: bool = False,
    ) -> None:
        self.path, self.topology, self.overwrite = Path(path), topology, overwrite
        self.classes, self.splits, self.default_split = tuple(classes), dict(splits), default_split
        self.described = {"lineage": lineage, "license": license, "fps": fps}
        self.skipped: list[Skipped] = []
        self.details = dict(details or {})
        self.partial = self.path.with_name(f".{self.path.name}.partial")
        self.index = {name: array("i") for name in (*FIELDS, "flags")}  # lists of integers would take ten times as much
        self.origins, self.sums = array("f"), array("L")
        self.names: list[str] = []
        self.known: set[str] = set()
        self.flat = True
        self.confidence: _Rows | None = None

    def __enter__(self) -> StoreWriter:
        for name in self.splits:
            check_name(name, self.path.name)
        self.lock = Lease(self.path.with_name(f".{self.path.name}.lock"))
        with disk_errors(self.path), ExitStack() as stack:
            try:
                stack.enter_context(self.lock)
            except Busy:
                raise SkelbenchError(f"{self.path} is being written by another process; wait for it to end") from None
            if self.path.exists() and not self.overwrite:
                raise SkelbenchError(f"{self.path} exists already; choose another name, or replace it with --force")
            if self.path.is_symlink() or (self.path.exists() and not (self.path / "meta.json").is_file()):
                raise SkelbenchError(f"{self.path} is a link or no clip store, and is not overwritten")
            # Whoever holds the lock is the only writer, so anything already there was left by a killed one.
            shutil.rmtree(self.partial, ignore_errors=True)
            self.partial.mkdir()
            self.frames = _Rows(self.partial / "frames.npy", self.topology.num_joints)
            stack.pop_all()  # held until the block ends
        return self

    def add(
        self,
        x_MTJC: np.ndarray,
        label: int,
        *,
        subject: int = 0,
        camera: int = 0,
        setup: int = 0,
        trial: int = 0,
        **fields: Any,
    ) -> None:
        """Append one clip, [M, T, J, 3] meters; raise if no run could use it. ``fields``: of :class:`Clip`."""
        who = {"subject": subject, "camera": camera, "setup": setup, "trial": trial}
        self.add_clip(Clip(x_MTJC, label, who=who, **fields))

    def add_clip(self, clip: Clip) -> None:
        """Append one clip; raise if no run could use it."""
        name, label, confidence_MTJ = clip.name, clip.label, clip.confidence_MTJ
        where, joints = f"{self.path.name}, clip {len(self.names)}", self.topology.num_joints
        where += f" ({name})" if name else ""
        x_MTJC = np.asarray(clip.x_MTJC, dtype=np.float32)
        if x_MTJC.ndim != 4 or x_MTJC.shape[2:] != (joints, 3) or 0 in x_MTJC.shape:
            raise SkelbenchError(f"{where}: expected [bodies, frames, {joints}, 3], got {list(x_MTJC.shape)}")
        finite_T = np.isfinite(x_MTJC).all(axis=(0, 2, 3))
        if not finite_T.all():
            frame = int(np.argmin(finite_T))
            raise SkelbenchError(f"{where}, frame {frame}: a coordinate is not finite; repair or leave out this clip")
        if not 0 <= label < len(self.classes):
            raise SkelbenchError(f"{where}: label {label} is outside 0..{len(self.classes) - 1}; correct it")
        if name and name in self.known:
            raise SkelbenchError(f"{self.path.name}: two clips are called {name!r}; remove one or rename it")
        origin_C = np.asarray(clip.origin, dtype=np.float32)
        if origin_C.shape != (3,) or not np.isfinite(origin_C).all():
            raise SkelbenchError(f"{where}: origin {clip.origin} is not a position; give three finite numbers, meters")
        there_M = np.any(x_MTJC.reshape(len(x_MTJC), -1), axis=1)
        if not clip.empty_body and not there_M.all():
            there_M[0] |= not there_M.any()
            x_MTJC = x_MTJC[there_M]
            confidence_MTJ = None if confidence_MTJ is None else np.asarray(confidence_MTJ)[there_M]
        bodies, length = x_MTJC.shape[:2]
        with disk_errors(self.path):
            crc = self._add_confidence(confidence_MTJ, x_MTJC.shape[:3], where)
            crc = self.frames.write(x_MTJC.transpose(0, 3, 1, 2), crc)
        numbers = {"length": length, "bodies": bodies, "label": label, **clip.who}
        numbers["flags"] = EMPTY_BODY if clip.empty_body else 0
        for field, values in self.index.items():
            try:
                values.append(int(numbers.get(field, 0)))
            except OverflowError:
                raise SkelbenchError(f"{where}: {field} {numbers[field]} does not fit 32 bits") from None
        self.flat = self.flat and not x_MTJC[..., 2].any()
        self.origins.extend(origin_C.tolist())
        self.sums.append(crc)
        self.names.append(name)
        self.known.add(name)

    def drop_empty_splits(self) -> list[str]:
        """Remove splits without training or test clips, which a part of a dataset may have; return their names.

        Raises :class:`SkelbenchError` if no clip or no split is left.
        """
        index, dropped = self._index(), []
        for name, rule in list(self.splits.items()):
            try:
                make_split(name, rule, index, self.path.name)
            except EmptySplit:
                dropped.append(name)
                del self.splits[name]
        if not self.splits:
            first = "".join(f"; {len(self.skipped)} skipped, {clip.name}: {clip.reason}" for clip in self.skipped[:1])
            reason = "every split lacks training or test clips" if self.names else "there are no clips to store"
            raise SkelbenchError(f"{self.path.name}: {reason}{first}; bring other files")
        if self.default_split not in self.splits:
            self.default_split = next(iter(self.splits))
        return dropped

    def _index(self) -> dict[str, np.ndarray]:
        index: dict[str, np.ndarray] = {name: np.array(values, dtype=np.int32) for name, values in self.index.items()}
        index["origin"] = np.array(self.origins, dtype=np.float32).reshape(-1, 3)
        index["name"] = np.array(self.names)
        index["crc32"] = np.array(self.sums, dtype=np.uint32)
        return index

    def _add_confidence(self, confidence_MTJ: np.ndarray | None, shape: tuple[int, ...], where: str) -> int:
        """Write the confidence of a clip, if it has one; return the checksum of what was written."""
        if (confidence_MTJ is not None) != (self.confidence is not None) and self.names:
            raise SkelbenchError(f"{where}: confidence is given for some clips only; give it for all or none")
        if confidence_MTJ is None:
            return 0
        confidence_MTJ = np.asarray(confidence_MTJ, dtype=np.float32)
        if confidence_MTJ.shape != shape or not ((confidence_MTJ >= 0) & (confidence_MTJ <= 1)).all():
            raise SkelbenchError(f"{where}: confidence must be numbers from 0 to 1, {list(shape)}; correct it")
        self.confidence = self.confidence or _Rows(self.partial / "confidence.npy", self.topology.num_joints)
        return self.confidence.write(confidence_MTJ)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            for file in filter(None, (self.frames, self.confidence)):
                file.close()
            shutil.rmtree(self.partial, ignore_errors=True)
            self.lock.release()

    def _finish(self) -> None:
        if not self.names:
            raise SkelbenchError(f"{self.path.name}: there are no clips to store")
        index = self._index()
        for name, rule in self.splits.items():
            make_split(name, rule, index, self.path.name)
        described = dict(
            self.described,
            format=FORMAT,
            name=self.path.name,
            topology=self.topology.name,
            classes=self.classes,
            splits=self.splits,
            default_split=resolve(self.default_split, self.splits, "", self.path.name),
            clips=len(self.names),
            rows=self.frames.rows,
            body_frames=self.frames.rows // 3,
            frames_sha256=self.frames.digest.hexdigest(),
            confidence_sha256=self.confidence.digest.hexdigest() if self.confidence else "",
            skipped=tuple(self.skipped),
            dimensions=2 if self.flat else 3,
            details=self.details,
            written_by=f"skelbench {__version__}",
        )
        meta = Meta(**described)
        meta = meta.model_copy(update={"fingerprint": fingerprint(meta, index)})
        with disk_errors(self.path):
            for rows in filter(None, (self.frames, self.confidence)):
                rows.finish()
            write_atomic(self.partial / "index.npz", lambda file: np.savez(file, **index))  # type: ignore[arg-type]
            write_json(self.partial / "meta.json", meta.model_dump(mode="json"))
            old = self.path.with_name(f".{self.path.name}.old")
            shutil.rmtree(old, ignore_errors=True)
            if self.path.exists():  # a folder cannot be replaced in one step
                os.replace(self.path, old)
            os.replace(self.partial, self.path)
            shutil.rmtree(old, ignore_errors=True)


class _Rows:
    """A .npy file, float32 [rows, J], written row by row; computes the hash of its rows."""

    def __init__(self, path: Path, joints: int) -> None:
        self.file: IO[bytes] = open(path, "wb")
        self.joints, self.rows, self.digest = joints, 0, hashlib.sha256()
        self._write_header()

    def write(self, x: np.ndarray, crc: int = 0) -> int:
        """Append an array whose last axis is the joints; returns ``crc``, the checksum so far, updated."""
        data = np.ascontiguousarray(x, dtype="<f4").data.cast("B")
        self.file.write(data)
        self.digest.update(data)
        self.rows += len(data) // (4 * self.joints)
        return zlib.crc32(data, crc)

    def finish(self) -> None:
        """Write the header with the final number of rows, and sync the file to the disk."""
        self.file.seek(0)
        self._write_header()
        self.file.flush()
        os.fsync(self.file.fileno())

    def close(self) -> None:
        """Close the file, complete or not."""
        with suppress(OSError):  # a full disk shows again on closing; what matters has been raised or synced
            self.file.close()

    def _write_header(self) -> None:
        # numpy pads the header for growth of the first axis, so the final one has the size of the first.
        header = {"descr": "<f4", "fortran_order": False, "shape": (self.rows, self.joints)}
        np.lib.format.write_array_header_1_0(self.file, header)


def make_once(path: Path, make: Callable[[], object]) -> None:
    """Call ``make``, which writes a store at ``path``, unless there is one; other processes wait meanwhile."""
    if not path.exists():
        with Lease(path.with_name(f".{path.name}.make"), math.inf):
            if not path.exists():  # another process may have made it while this one waited
                make()


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn an OSError into one error that names ``path``."""
    try:
        yield
    except OSError as error:
        raise unwritable(path, error) from error
