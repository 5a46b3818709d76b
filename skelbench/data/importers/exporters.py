"""Writing a clip store in other people's formats, so that their code runs on the same clips, and reading it back.

mamp-npz is what the CTR-GCN and MAMP scripts save: ``x_train``, ``x_test`` float32 [N, T, 150], frame -> body -> joint
-> xyz; ``y_train``, ``y_test`` one-hot float64 [N, K]; rows in the scripts' order. Further arrays (``length_train``,
``name_train``, ..., ``skelbench``) keep what this layout cannot hold, so that ``data import`` gives the same clips.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count, repeat
from pathlib import Path
from typing import IO, Literal

import numpy as np
from pydantic import ValidationError

from skelbench.core.component import Spec
from skelbench.core.errors import SkelbenchError
from skelbench.core.files import write_whole
from skelbench.data.importers.labels import read_labels
from skelbench.data.importers.options import ImportOptions
from skelbench.data.importers.recording import Entries, Recording
from skelbench.data.importers.tables import Npz
from skelbench.data.store.clip_store import ClipStore, first_line
from skelbench.data.store.splits import FieldRule, NameRule, RandomRule, Rule, for_choosing
from skelbench.data.store.writer import Clip
from skelbench.views.skeleton.topology import get_topology

META = "skelbench"
"""Name of the array with the :class:`ExportedMeta`, as JSON text."""

SecondBody = Literal["zero", "repeat"]

NUMBERS = ("length", "bodies", "subject", "camera", "setup", "trial", "flags", "source_frames", "origin", "fps")
"""Arrays of the index that the layout of frames cannot hold; ``fps`` only if clips differ in it."""
PARTS = ("train", "test")


class ExportedMeta(Spec):
    """Description of an exported file."""

    topology: str
    classes: tuple[str, ...]
    splits: dict[str, Rule]
    split: str
    second_body: SecondBody
    lineage: str
    licence: str
    fps: float


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
        raise SkelbenchError(f"split {chosen.name} is for choosing settings; export the split that it is part of")
    rule = store.meta.splits[chosen.name]
    if store.topology.name != "ntu25":
        raise SkelbenchError(f"data set {store.meta.name} has skeleton {store.topology.name}, mamp-npz holds ntu25")
    if store.max_bodies > 2:
        raise SkelbenchError(f"data set {store.meta.name} has clips of {store.max_bodies} bodies, mamp-npz holds two")
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
                arrays = {name: store.index[name][clips] for name in NUMBERS if name in store.index}
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


# ------------------------------------------------------------------------------------------------ reading it back
def exported(npz: Npz, options: ImportOptions) -> Recording:
    """Return the recording in a file that :func:`export_mamp_npz` wrote: the same clips, bit by bit."""
    path = npz.path
    try:
        meta = ExportedMeta.model_validate_json(str(npz[META]))
        index = {name: np.concatenate([npz[f"{name}_{part}"] for part in PARTS]) for name in NUMBERS[:-1]}
        if f"fps_{PARTS[0]}" in npz:
            index["fps"] = np.concatenate([npz[f"fps_{part}"] for part in PARTS])
        tables = [npz.table(f"x_{part}") for part in PARTS]
        labels = [read_labels(npz[f"y_{part}"], npz.where(f"y_{part}"))[0] for part in PARTS]
    except (ValidationError, KeyError) as error:
        raise SkelbenchError(f"{path} is incomplete ({first_line(error)}); export the dataset again") from None
    index["label"], counts = np.concatenate(labels), [len(part) for part in labels]
    if any(len(values) != sum(counts) for values in index.values()) or [table.shape[0] for table in tables] != counts:
        raise SkelbenchError(f"{path}: its arrays do not fit together; export the dataset again")
    if options != ImportOptions():
        raise SkelbenchError(f"{path} says everything about itself, as skelbench wrote it; leave out all of them")
    names = [f"{part}_{row:06}" for part, size in zip(PARTS, counts) for row in range(size)]
    if kept := f"name_{PARTS[0]}" in npz:
        names = np.concatenate([npz[f"name_{part}"] for part in PARTS]).tolist()
    # The clips that a random rule chooses depend on the order of all clips.
    splits = {name: rule for name, rule in meta.splits.items() if not isinstance(rule, RandomRule)}
    if meta.split not in splits:
        kept, train = True, counts[0]
        splits[meta.split] = NameRule(field="name", train=tuple(names[:train]), test=tuple(names[train:]))

    def make(i: int, values: np.ndarray, sure_TMJ: np.ndarray | None) -> Clip:
        bodies, length = int(index["bodies"][i]), int(index["length"][i])
        return Clip(
            values.reshape(len(values), 2, 25, 3).transpose(1, 0, 2, 3)[:bodies, :length],
            int(index["label"][i]),
            origin=index["origin"][i],
            name=names[i] if kept else "",
            who={key: int(index[key][i]) for key in ("subject", "camera", "setup", "trial")},
            flags=int(index["flags"][i]),
            source_frames=int(index["source_frames"][i]),
            confidence_MTJ=None if sure_TMJ is None else sure_TMJ.transpose(1, 0, 2)[:bodies, :length],
            fps=float(index["fps"][i]) if "fps" in index else None,
        )

    def read() -> Entries:
        row = count()
        for part, table in zip(PARTS, tables):
            key = f"confidence_{part}"
            sure = npz.table(key).rows() if key in npz else repeat(None)
            for values, sure_TMJ, i in zip(table.rows(), sure, row):
                yield names[i], partial(make, i, values, sure_TMJ)

    return Recording(
        kind="skelbench's own mamp-npz",
        clips={str(path): read},
        coordinates="stored",
        total=sum(counts),
        topology=get_topology(meta.topology),
        classes=meta.classes,
        splits=splits,
        default_split=meta.split,
        sources={meta.split: (f"{path.name}: array 'x_train'", f"{path.name}: array 'x_test'")},
        lineage=meta.lineage,
        licence=meta.licence,
        fps=meta.fps,
    )
