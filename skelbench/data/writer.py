"""Writing a clip store: one streaming pass, moved into place whole."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout

from skelbench import __version__
from skelbench.data.splits import Rule, make_split, resolve
from skelbench.data.store import FIELDS, FORMAT, Meta, fingerprint
from skelbench.errors import SkelbenchError
from skelbench.skeleton.topology import Topology


class StoreWriter:
    """Writes a clip store in one pass: ``with StoreWriter(path, ...) as writer: writer.add(...)``.

    Clips go to a hidden folder beside ``path``, which takes its place only when the block ends without an error: a
    killed run leaves no store and no half of one. An existing ``path`` is refused unless ``overwrite``.
    ``topology`` and ``splits`` (name -> rule) are those of :class:`Meta`.
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
        licence: str = "",
        fps: float = 30.0,
        overwrite: bool = False,
    ) -> None:
        self.path, self.topology, self.overwrite = Path(path), topology, overwrite
        self.classes, self.splits, self.default_split = tuple(classes), dict(splits), default_split
        self.described = {"lineage": lineage, "licence": licence, "fps": fps, "units": "m", "up_axis": "y"}
        self.partial = self.path.with_name(f".{self.path.name}.partial")
        self.index: dict[str, list[int]] = {name: [] for name in FIELDS}
        self.origins: list[np.ndarray] = []
        self.rows = 0
        self.digest = hashlib.sha256()

    def __enter__(self) -> StoreWriter:
        self.lock = store_lock(self.path)
        with _disk_errors(self.path):
            try:
                self.lock.acquire(timeout=0)
            except Timeout:
                raise SkelbenchError(f"{self.path} is being written by another process; wait for it to end") from None
        try:
            if self.path.exists() and not self.overwrite:
                raise SkelbenchError(f"{self.path} exists already; choose another name, or replace it with --force")
            if self.path.exists() and not (self.path / "meta.json").is_file():
                raise SkelbenchError(f"{self.path} is not a clip store and is not overwritten; choose another name")
            with _disk_errors(self.path):
                # Whoever holds the lock is the only writer, so anything already there was left by a killed one.
                shutil.rmtree(self.partial, ignore_errors=True)
                self.partial.mkdir()
                self.file = open(self.partial / "frames.npy", "wb")
                self._write_header()
        except BaseException:
            self.lock.release()
            raise
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
        origin: np.ndarray | Sequence[float] = (0.0, 0.0, 0.0),
    ) -> None:
        """Append one clip: [M, T, J, 3] metres, ``origin`` already subtracted. Raises on a clip no run could use."""
        clip, joints = len(self.origins), self.topology.num_joints
        x_MTJC = np.asarray(x_MTJC, dtype=np.float32)
        if x_MTJC.ndim != 4 or x_MTJC.shape[2:] != (joints, 3) or 0 in x_MTJC.shape:
            raise SkelbenchError(
                f"{self.path.name}, clip {clip}: expected [bodies, frames, {joints}, 3] with at least one of each, "
                f"got {list(x_MTJC.shape)}; topology {self.topology.name} has {joints} joints"
            )
        finite_T = np.isfinite(x_MTJC).all(axis=(0, 2, 3))
        if not finite_T.all():
            raise SkelbenchError(
                f"{self.path.name}, clip {clip}, frame {int(np.argmin(finite_T))}: "
                f"a coordinate is not finite; repair or leave out this clip"
            )
        if not 0 <= label < len(self.classes):
            raise SkelbenchError(
                f"{self.path.name}, clip {clip}: label {label} is outside 0..{len(self.classes) - 1}; "
                f"correct the label or the list of classes"
            )
        data = np.ascontiguousarray(x_MTJC.transpose(0, 3, 1, 2)).tobytes()
        with _disk_errors(self.path):
            self.file.write(data)
        self.digest.update(data)
        bodies, length = x_MTJC.shape[:2]
        self.rows += bodies * 3 * length
        entry = (length, bodies, label, subject, camera, setup, trial)
        for name, value in zip(FIELDS, entry, strict=True):
            self.index[name].append(int(value))
        self.origins.append(np.asarray(origin, dtype=np.float32))

    def __exit__(self, kind, error, trace) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            with suppress(OSError):  # a full disk shows again on closing; what matters has been raised or synced
                self.file.close()
            shutil.rmtree(self.partial, ignore_errors=True)
            self.lock.release()

    def _finish(self) -> None:
        if not self.origins:
            raise SkelbenchError(f"{self.path.name}: there are no clips to store")
        index = {name: np.array(values, dtype=np.int32) for name, values in self.index.items()}
        index["origin"] = np.stack(self.origins)
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
            clips=len(self.origins),
            rows=self.rows,
            body_frames=self.rows // 3,
            frames_sha256=self.digest.hexdigest(),
            written_by=f"skelbench {__version__}",
        )
        meta = Meta(**described, fingerprint="")
        meta = meta.model_copy(update={"fingerprint": fingerprint(meta, index)})
        with _disk_errors(self.path):
            self.file.seek(0)
            self._write_header()
            _sync(self.file)
            with open(self.partial / "index.npz", "wb") as file:
                np.savez(file, **index)
                _sync(file)
            with open(self.partial / "meta.json", "w", encoding="utf-8") as file:
                file.write(meta.model_dump_json(indent=1))
                _sync(file)
            _sync_folder(self.partial)
            self._move_into_place()

    def _move_into_place(self) -> None:
        old = self.path.with_name(f".{self.path.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        if self.path.exists():
            os.replace(self.path, old)  # a folder cannot be replaced in one step; what is there is whole at any time
        os.replace(self.partial, self.path)
        _sync_folder(self.path.parent)
        shutil.rmtree(old, ignore_errors=True)

    def _write_header(self) -> None:
        # numpy pads the header for growth of the first axis, so the final one has the size of the first.
        shape = (self.rows, self.topology.num_joints)
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self.file, header)


def store_lock(path: Path) -> FileLock:
    """The lock on the store at ``path``, re-entrant within a thread; makes the parent folder if need be."""
    with _disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(path.with_name(f".{path.name}.lock"), is_singleton=True)


@contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise SkelbenchError(f"cannot write {path}: {reason}; free space or choose another place") from error


def _sync(file) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
