"""Writing a clip store in other people's formats, so that their code can be run on the same clips.

mamp-npz: what the CTR-GCN and MAMP scripts save and their feeders read: ``x_train``, ``x_test`` float32 [N, T, 150],
frame -> body -> joint -> xyz, zeros behind the last frame, T = frames of the longest clip; ``y_train``, ``y_test``
one-hot float64 [N, K]. Rows follow the original scripts where the split is one of index fields: by that field, then by
name. Arrays that those feeders do not look at (``length_train``, ``name_train``, ..., ``skelbench``) keep the rest, so
that ``data import`` gives back the same clips.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import count
from pathlib import Path
from typing import IO, Literal

import numpy as np
from pydantic import ValidationError

from skelbench.core.component import Spec
from skelbench.core.errors import SkelbenchError
from skelbench.core.files import write_whole
from skelbench.data.store.clip_store import ClipStore, Flag
from skelbench.data.store.splits import FieldRule, Rule, for_choosing

META = "skelbench"
"""Name of the array with the :class:`ExportedMeta`, as JSON text."""

SecondBody = Literal["zero", "repeat"]


class ExportedMeta(Spec):
    """What an exported file says about itself."""

    topology: str
    classes: tuple[str, ...]
    splits: dict[str, Rule]
    split: str
    second_body: SecondBody
    lineage: str
    licence: str
    fps: float

    @classmethod
    def parse(cls, text: str, where: str) -> ExportedMeta:
        """From JSON; refuses in one sentence."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            field = ".".join(map(str, error.errors()[0]["loc"])) or "top level"
            raise SkelbenchError(
                f"{where}: array {META!r} is not skelbench's own ({field}); export the data set again"
            ) from None


@dataclass(frozen=True)
class NumbersOfClip:
    """What the layout of frames cannot hold, [N] each (origin [N, 3])."""

    length: np.ndarray
    bodies: np.ndarray
    subject: np.ndarray
    camera: np.ndarray
    setup: np.ndarray
    trial: np.ndarray
    flags: np.ndarray
    source_frames: np.ndarray
    origin: np.ndarray
    fps: np.ndarray | None = None
    """None where it is the same for all."""

    @classmethod
    def parse(cls, arrays: Mapping[str, np.ndarray], clips: int, where: str) -> NumbersOfClip:
        """From arrays of these names; refuses what is missing or of the wrong shape."""
        for field in fields(cls):
            array = arrays.get(field.name)
            if array is None and field.name == "fps":
                continue
            shape, kinds = {"origin": ((clips, 3), "f"), "fps": ((clips,), "f")}.get(field.name, ((clips,), "iu"))
            if array is None or array.shape != shape or array.dtype.kind not in kinds:
                raise SkelbenchError(f"{where}: its array of {field.name} does not fit; export the data set again")
            if clips and kinds == "iu" and not -(2**31) <= int(array.min()) <= int(array.max()) < 2**31:
                raise SkelbenchError(
                    f"{where}: its array of {field.name} holds a number beyond 2^31; export the data set again"
                )
        flags = arrays["flags"].astype(np.int64)
        if (flags & ~sum(Flag)).any() or ((flags & Flag.EMPTY_BODY > 0) & (arrays["bodies"] < 2)).any():
            raise SkelbenchError(
                f"{where}: its array of flags says what no clip, or no clip of one body, can have; export the data set "
                f"again"
            )
        return cls(**{field.name: arrays[field.name] for field in fields(cls) if field.name in arrays})


def export_mamp_npz(
    store: ClipStore,
    path: Path,
    *,
    split: str | None = None,
    second_body: SecondBody = "zero",
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Write a split of ``store`` as ``path``; the file appears whole or not at all.

    ``second_body``: a clip of one body has zeros for a second one (the NTU RGB+D 60 script), or its body twice (the
    NTU RGB+D 120 script). Clips in neither part of the split are left out.
    """
    path = Path(path)
    chosen = store.split(split)
    if for_choosing(chosen.name):
        raise SkelbenchError(
            f"split {chosen.name} is for choosing settings, which no other code knows; export the split it is part of"
        )
    rule = store.meta.splits[chosen.name]
    if store.topology.name != "ntu25":
        raise SkelbenchError(
            f"data set {store.meta.name} has skeleton {store.topology.name}, the feeders of mamp-npz read ntu25 only; "
            f"choose a data set of NTU or PKU skeletons"
        )
    if store.max_bodies > 2:
        raise SkelbenchError(f"data set {store.meta.name} has clips of {store.max_bodies} bodies, mamp-npz holds two")
    if path.is_dir():
        raise SkelbenchError(f"{path} is a folder; name a file in it")
    if path.exists() and not overwrite:
        raise SkelbenchError(f"{path} exists already; choose another file, or replace it with --force")
    rows = {"train": _order(store, rule, chosen.train), "test": _order(store, rule, chosen.test)}
    kept = store.meta.model_dump(include={"topology", "classes", "splits", "lineage", "licence", "fps"})
    meta = ExportedMeta(**kept, split=chosen.name, second_body=second_body)
    frames, total, done = int(store.lengths.max()), sum(map(len, rows.values())), count(1)

    def blocks(clips: np.ndarray) -> Iterator[np.ndarray]:
        for clip in clips.tolist():
            store.check(np.array([clip]))
            yield _row(store.clip(clip), frames, second_body)
            if progress is not None:
                progress(next(done), total)

    def confidence(clips: np.ndarray) -> Iterator[np.ndarray]:
        for clip in clips.tolist():
            yield _row(store.confidence(clip)[..., None], frames, second_body)[..., 0]

    def write(stream: IO[bytes]) -> None:
        with zipfile.ZipFile(stream, "w", allowZip64=True) as file:
            for part, clips in rows.items():
                _member(file, f"x_{part}", np.dtype("<f4"), (len(clips), frames, 150), blocks(clips))
                one_hot = (np.eye(1, store.num_classes, label) for label in store.labels[clips].tolist())
                _member(file, f"y_{part}", np.dtype("<f8"), (len(clips), store.num_classes), one_hot)
            for part, clips in rows.items():
                kept = [field.name for field in fields(NumbersOfClip) if field.name in store.index]
                arrays = {name: store.index[name][clips] for name in kept}
                if store.confidence_FJ is not None:
                    shape = (len(clips), frames, 2, 25)
                    _member(file, f"confidence_{part}", np.dtype("<f4"), shape, confidence(clips))
                if store.names is not None:
                    arrays["name"] = store.names[clips]
                for name, array in arrays.items():
                    _member(file, f"{name}_{part}", array.dtype, array.shape, [array])
            text = np.array(meta.model_dump_json())
            _member(file, META, text.dtype, (), [text])

    write_whole(path, write)
    return path


def _order(store: ClipStore, rule: Rule, clips: np.ndarray) -> np.ndarray:
    """The scripts' order: by the field of the split, then by name; as stored where there is no field."""
    if not isinstance(rule, FieldRule):
        return clips
    names = store.names[clips] if store.names is not None else clips
    return clips[np.lexsort((names, store.index[rule.field][clips]))]


def _row(x_MTJC: np.ndarray, frames: int, second_body: SecondBody) -> np.ndarray:
    """A clip [M, T, 25, C] as one row [1, frames, 2, 25, C]."""
    row = np.zeros((1, frames, 2, 25, x_MTJC.shape[-1]), dtype="<f4")
    row[0, : x_MTJC.shape[1], : len(x_MTJC)] = x_MTJC.transpose(1, 0, 2, 3)
    if len(x_MTJC) == 1 and second_body == "repeat":
        row[0, :, 1] = row[0, :, 0]
    return row


def _member(file: zipfile.ZipFile, name: str, dtype: np.dtype, shape: tuple[int, ...], blocks: Iterable) -> None:
    """One uncompressed array, block by block."""
    with file.open(f"{name}.npy", "w", force_zip64=True) as stream:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(stream, header)
        for block in blocks:
            stream.write(np.ascontiguousarray(block, dtype=dtype).tobytes())
