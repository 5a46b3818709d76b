"""Writing a clip store as other code reads it, so that it runs on the same clips.

:func:`export_pyskl` writes the pickle of pyskl and mmaction2, :func:`export_mamp_npz` the npz of CTR-GCN and MAMP:
``x_train``, ``x_test`` float32 [N, T, 150], frame -> body -> joint -> xyz, and ``y_train``, ``y_test`` one-hot float64
[N, K]; rows are in the scripts' order.
"""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.core.files import write_whole
from skelbench.data.importers.pose2d import IMAGE_M
from skelbench.data.store.clip_store import ClipStore
from skelbench.data.store.splits import FieldRule, Rule, for_choosing

SecondBody = Literal["zero", "repeat"]


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
    NTU RGB+D 120 script). Clips in neither part of the split are skipped.
    """
    path = Path(path)
    chosen = store.split(split)
    if for_choosing(chosen.name):
        raise SkelbenchError(f"split {chosen.name} is for choosing settings; export the split that it is part of")
    if store.topology.name != "ntu25" or store.max_bodies > 2:
        kind = f"skeleton {store.topology.name} and up to {store.max_bodies} bodies"
        raise SkelbenchError(f"dataset {store.meta.name} has {kind}; mamp-npz holds ntu25 and two bodies")
    if path.exists() and not overwrite:
        raise SkelbenchError(f"{path} exists already; choose another file, or replace it with --force")
    rule = store.meta.splits[chosen.name]
    rows = {"train": _order(store, rule, chosen.train), "test": _order(store, rule, chosen.test)}
    frames, total, counter = int(store.lengths.max()), sum(map(len, rows.values())), count(1)

    def blocks(clips: np.ndarray) -> Iterator[np.ndarray]:
        for clip in clips.tolist():
            store.check(np.array([clip]))
            yield _row(store.clip(clip), frames, second_body)
            if progress is not None:
                progress(next(counter), total)

    def write(stream: IO[bytes]) -> None:
        with zipfile.ZipFile(stream, "w", allowZip64=True) as file:
            for part, clips in rows.items():
                _member(file, f"x_{part}", np.dtype("<f4"), (len(clips), frames, 150), blocks(clips))
                one_hot = (np.eye(1, store.num_classes, label) for label in store.labels[clips].tolist())
                _member(file, f"y_{part}", np.dtype("<f8"), (len(clips), store.num_classes), one_hot)

    write_whole(path, write)
    return path


def export_pyskl(store: ClipStore, path: Path, *, overwrite: bool = False) -> Path:
    """Write all clips and splits of ``store`` as ``path``, a pickle of pyskl; the file appears whole or not at all.

    2-D clips get confidence and an image of 3 by 3 meters with y down; a clip without a name is called by its number.
    """
    path = Path(path)
    if path.exists() and not overwrite:
        raise SkelbenchError(f"{path} exists already; choose another file, or replace it with --force")
    flat, image = store.meta.dimensions == 2, (IMAGE_M, IMAGE_M)
    names = [str(name) for name in (range(len(store)) if store.names is None else store.names)]
    annotations: list[dict[str, Any]] = []
    for clip, name in enumerate(names):
        store.check(np.array([clip]))
        x_MTJC = store.clip(clip)
        entry = {"frame_dir": name, "label": int(store.labels[clip]), "total_frames": x_MTJC.shape[1]}
        if flat:
            entry |= {"img_shape": image, "original_shape": image, "keypoint_score": store.confidence(clip)}
            x_MTJC = (x_MTJC + store.index["origin"][clip])[..., :2] * np.array([1, -1], dtype=np.float32)
        annotations.append(entry | {"keypoint": x_MTJC})
    split: dict[str, list[str]] = {}
    for chosen in map(store.split, store.meta.splits):
        split |= {
            f"{chosen.name}_train": [names[i] for i in chosen.train],
            f"{chosen.name}_val": [names[i] for i in chosen.test],
        }
    write_whole(path, lambda stream: pickle.dump({"split": split, "annotations": annotations}, stream, protocol=4))
    return path


def _order(store: ClipStore, rule: Rule, clips: np.ndarray) -> np.ndarray:
    """Return clips in the scripts' order: by the field of the split, then by name; else as stored."""
    if not isinstance(rule, FieldRule):
        return clips
    names = store.names[clips] if store.names is not None else clips
    return clips[np.lexsort((names, store.index[rule.field][clips]))]


def _row(x_MTJC: np.ndarray, frames: int, second_body: SecondBody) -> np.ndarray:
    """Return a clip [M, T, 25, 3] as one row [1, frames, 2, 25, 3]."""
    row = np.zeros((1, frames, 2, 25, 3), dtype="<f4")
    row[0, : x_MTJC.shape[1], : len(x_MTJC)] = x_MTJC.transpose(1, 0, 2, 3)
    if len(x_MTJC) == 1 and second_body == "repeat":
        row[0, :, 1] = row[0, :, 0]
    return row


def _member(file: zipfile.ZipFile, name: str, dtype: np.dtype, shape: tuple[int, ...], blocks: Iterable) -> None:
    """Write one uncompressed array, block by block."""
    with file.open(f"{name}.npy", "w", force_zip64=True) as stream:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(stream, header)
        for block in blocks:
            stream.write(np.ascontiguousarray(block, dtype=dtype).tobytes())
