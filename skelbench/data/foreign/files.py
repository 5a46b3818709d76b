"""Which format files are in, by their content, and which files belong together."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from skelbench.data.foreign.annotations import is_annotations, pyskl
from skelbench.data.foreign.exporters import META, ExportedMeta, NumbersOfClip
from skelbench.data.foreign.hdf5 import sgn
from skelbench.data.foreign.labels import read_labels, whole
from skelbench.data.foreign.nwucla import files_of, is_clip, nw_ucla
from skelbench.data.foreign.options import ImportOptions
from skelbench.data.foreign.padded import Part, padded
from skelbench.data.foreign.pickles import Refused, load_pickle
from skelbench.data.foreign.ragged import is_ragged, ragged
from skelbench.data.foreign.recording import Recording
from skelbench.data.foreign.sides import side_of
from skelbench.data.foreign.slots import TITLES, Slots, is_slots, look, slots
from skelbench.data.foreign.tables import Npz, open_npy, values
from skelbench.data.raw.files import RawFile
from skelbench.errors import SkelbenchError

MAX_LABEL_FILE = 32 << 20
"""Larger pickles beside a given array are not looked at."""
MAX_SIBLINGS = 500

FORMATS = (
    "npz of CTR-GCN / MAMP, ragged npz, pyskl pickle, npy + label file of ST-GCN / 2s-AGCN / AimCLR, HDF5 of SGN, "
    "folder of NW-UCLA's JSON files"
)


@dataclass(eq=False)
class Labels:
    """A label file: labels [N] and the clips' names."""

    path: Path
    values: np.ndarray
    names: list[str]


@dataclass(eq=False)
class Counts:
    """An array of whole numbers: labels, or lengths, which only its neighbours can tell."""

    path: Path
    values: np.ndarray
    column: bool
    """[N, 1], which only labels are."""


@dataclass(eq=False)
class Entries:
    """A pickle with pyskl's annotations and no split, as mmaction2 keeps each part in a file of its own."""

    path: Path
    entries: list[Any]


@dataclass(eq=False)
class Damaged:
    """A file beside a given one that by its name holds labels, and why it cannot be read."""

    path: Path
    error: SkelbenchError


Found = Recording | Slots | Labels | Counts | Entries | Damaged


def recognise(files: Sequence[Path], options: ImportOptions) -> Recording:
    """The recording in these files; one that needs others is completed with files beside it, if it is given alone."""
    for path in files:
        if not path.exists():
            raise SkelbenchError(f"there is no file {path}; check the path")
    found = {path: _open(path, options) for path in files}
    complete = [one for one in found.values() if isinstance(one, Recording)]
    if complete and len(files) == 1 and options.train is None:
        return complete[0]
    if complete:
        for one in complete:
            one.close()
        what = "import one file at a time" if len(files) > 1 else "leave out --train"
        raise SkelbenchError(f"{files[0]}: a {complete[0].kind} is complete by itself; {what}")
    if len(files) == 1:
        found |= _siblings(files[0], options)
    lists = {path: one.entries for path, one in found.items() if isinstance(one, Entries)}
    if files[0] in lists or len(files) > 1 and lists:
        return _listed(files, lists, options)
    return slots(_assemble(files, found, options.train), options)


# ------------------------------------------------------------------------------------------------ one file
def _open(path: Path, options: ImportOptions) -> Found:
    if path.is_dir():
        if files := files_of(path):
            return nw_ucla(path, files, options)
        raise SkelbenchError(
            f"{path} is a folder without clips of NW-UCLA; name a file in it (raw recordings are read by: skelbench "
            f"data prepare)"
        )
    if not path.is_file():  # a named pipe would be waited for without end
        raise SkelbenchError(f"{path} is not a regular file but a pipe or a device; save what comes from it as a file")
    try:
        with open(path, "rb") as file:
            start = file.read(64)
    except OSError as error:
        raise SkelbenchError(f"cannot read {path}: {error.strerror or error}; check the file") from error
    if not start:
        raise SkelbenchError(f"{path} is empty; download or copy it again")
    if not any(start):
        raise SkelbenchError(f"{path} begins with zero bytes, as failed downloads do; download or copy it again")
    if start.startswith(b"PK"):
        return _npz(path, options)
    if start.startswith(b"\x93NUMPY"):
        return _npy(path, options)
    if start.startswith(b"\x89HDF\r\n\x1a\n"):
        return sgn(path, options)
    if start[:1] in b"\x80(]})lcIFNKJSUVXT" and not _is_table(start):
        return _pickle(path, options)
    if is_clip(path.name):
        raise SkelbenchError(f"{path} is a single clip of NW-UCLA; name the folder that holds all of them")
    what = "text (raw recordings are read by: skelbench data prepare)" if _is_text(start) else "of unknown content"
    what = "a table; save it as a ragged npz, with arrays joints, offsets and label" if _is_table(start) else what
    raise SkelbenchError(f"{path} is {what}; formats that are imported: {FORMATS}")


def _is_text(start: bytes) -> bool:
    return all(byte in b"\t\r\n" or 32 <= byte < 127 for byte in start)


def _is_table(start: bytes) -> bool:
    """Lines of text in columns. A pickle that is text begins with a bracket, or with a line without a comma."""
    return _is_text(start) and start[:1] != b"(" and any(separator in start.splitlines()[0] for separator in b",;\t")


def _npz(path: Path, options: ImportOptions) -> Recording:
    files: list[RawFile] = []
    with suppress(SkelbenchError):  # a damaged zip, which is said below
        files = files_of(path)
    if files:
        return nw_ucla(path, files, options)
    with ExitStack() as stack:  # a file that is refused is not left open
        npz = Npz(path)
        stack.callback(npz.close)
        recording = _arrays(npz, options)
        stack.pop_all()
    return recording


def _arrays(npz: Npz, options: ImportOptions) -> Recording:
    path = npz.path
    if is_ragged(npz):
        return ragged(npz, options)
    sides = [key.removeprefix("x_") for key in npz.keys if key.startswith("x_") and f"y_{key[2:]}" in npz]
    if not sides:
        keys = ", ".join(map(repr, npz.keys[:20]))
        raise SkelbenchError(f"{path} has arrays {keys}, none of the layouts that are imported: {FORMATS}")
    missing = [key for key in ("x_train", "y_train", "x_test", "y_test") if key not in npz]
    if META in npz and missing:
        raise SkelbenchError(f"{path} has no {', '.join(missing)}; export the data set again, with both parts")
    called = {side: side_of(side)[0] for side in sides}
    half = [key for key in npz.keys if key[:2] in ("x_", "y_") and side_of(key)[0] and key[2:] not in called]
    if half:
        lost = f"{'y' if half[0][0] == 'x' else 'x'}_{half[0][2:]}"
        raise SkelbenchError(f"{path} has {half[0]} but no {lost}; the file is incomplete")
    if len(sides) > 1 and ("" in called.values() or len(set(called.values())) < len(sides)):
        raise SkelbenchError(
            f"{path}: its parts are called {', '.join(sides)}, which does not say which of them trains; save them as "
            f"x_train, y_train and x_test, y_test"
        )
    sides.sort(key=lambda side: _SIDES.index(called[side]))
    parts = [Part(called[side] or side, npz[f"x_{side}"], *read_labels(npz[f"y_{side}"])) for side in sides]
    if META not in npz:
        return padded(parts, "padded npz", options, npz.close)
    meta = ExportedMeta.parse(str(values(npz[META])), str(path))
    for part in parts:
        suffix = f"_{part.name}"
        own = {key for key in npz.keys if key.endswith(suffix)} - {f"{key}{suffix}" for key in ("x", "y", "confidence")}
        arrays = {key.removesuffix(suffix): values(npz[key]) for key in own}
        part.numbers = NumbersOfClip.parse(arrays, len(part.labels), str(path))
        if (key := f"confidence{suffix}") in npz:
            part.confidence = npz[key]
        names = arrays.get("name", np.zeros(0, "U1"))
        part.names = names.tolist() if names.shape == part.labels.shape and names.dtype.kind == "U" else []
    return padded(parts, "skelbench's own mamp-npz", options, npz.close, meta)


_SIDES = ("train", "valid", "test", "")


def _npy(path: Path, options: ImportOptions) -> Slots | Counts:
    table = open_npy(path)
    if is_slots(table):
        return look(table, options)
    shape = table.shape
    if table.dtype.kind in "iu" and (len(shape) == 1 or (len(shape) == 2 and shape[1] == 1)) and shape[0]:
        return Counts(path, values(table).reshape(-1).astype(np.int64), len(shape) == 2)
    raise SkelbenchError(
        f"{path} holds {table.dtype} {list(shape)}, neither clips [N, 3, frames, joints, bodies] nor labels or lengths "
        f"[N]; formats that are imported: {FORMATS}"
    )


def _pickle(path: Path, options: ImportOptions) -> Recording | Labels | Entries:
    try:
        value = load_pickle(path)
    except Refused as error:
        with open(path, "rb") as file:
            if not error.name and _is_text(file.read(4096)):
                raise SkelbenchError(
                    f"{path} is text (raw recordings are read by: skelbench data prepare); formats that are imported: "
                    f"{FORMATS}"
                ) from None
        raise
    if is_annotations(value) and isinstance(value, list):
        return Entries(path, value)
    if is_annotations(value):
        return pyskl(value, path, options)
    labels = _labels(value, path)
    if labels is not None:
        return labels
    what = f"a dictionary with {', '.join(map(repr, list(value)[:5]))}" if isinstance(value, dict) else "no clips"
    raise SkelbenchError(f"{path} is a pickle that holds {what[:200]}; formats that are imported: {FORMATS}")


def _labels(value: Any, path: Path) -> Labels | None:
    """(names, labels), as ST-GCN and its successors save it."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        return None
    names, numbers = value
    if not isinstance(names, list | tuple) or not isinstance(numbers, list | tuple | np.ndarray):
        return None
    if not all(isinstance(name, str) and name.isprintable() and name for name in names):
        return None
    labels, _ = whole(numbers, str(path))
    if len(labels) != len(names):
        raise SkelbenchError(f"{path} has {len(names)} names but {len(labels)} labels; the file is incomplete")
    return Labels(path, labels, [name.removesuffix(".skeleton") for name in names])


# ------------------------------------------------------------------------------------------------ files together
def _siblings(path: Path, options: ImportOptions) -> dict[Path, Found]:
    """What lies beside a file and could belong to it.

    What cannot be used is passed over in silence, unless by its name it is the other part of the file; labels that
    cannot be read are kept in mind, for the array that lacks them.
    """
    found: dict[Path, Found] = {}
    for other in [file for folder in _folders(path.parent) for file in sorted(folder.iterdir())[:MAX_SIBLINGS]]:
        if _pair(path, other) and other.exists():
            found[other] = _open(other, options)
            continue
        with suppress(OSError):
            if not other.name.isprintable() or not other.is_file() or other.samefile(path):
                continue
            with open(other, "rb") as file:
                start = file.read(8)
            try:
                if start.startswith(b"\x93NUMPY"):
                    found[other] = _npy(other, options)
                elif start[:1] in b"\x80(]}" and other.stat().st_size < MAX_LABEL_FILE:
                    labels = _labels(load_pickle(other), other)
                    if labels is not None:
                        found[other] = labels
            except SkelbenchError as error:
                if "label" in other.stem.lower():
                    found[other] = Damaged(other, error)
    return found


def _folders(here: Path) -> list[Path]:
    """A folder and, if it is that of one part ("train"), those beside it that are of the other ("val", "test")."""
    named = here.absolute()
    listed = side_of(named.name)[0] and os.access(named.parent, os.R_OK)
    beside = sorted(named.parent.iterdir()) if listed else []
    return [here, *(one for one in beside if _pair(named, one) and os.access(one, os.R_OK | os.X_OK) and one.is_dir())]


def _pair(one: Path, other: Path) -> bool:
    """Whether two names, or names of folders, differ only in that one says training part and the other does not."""
    if one.parent != other.parent:  # folders of two parts
        return one.name == other.name
    (side, rest), (another, also) = side_of(one.name), side_of(other.name)
    return rest == also and "" not in (side, another) and (side == "train") != (another == "train")


def _listed(files: Sequence[Path], lists: dict[Path, list[Any]], options: ImportOptions) -> Recording:
    """The recording in one or two pickles of annotations without splits."""
    if len(lists) > 2 or not lists.keys() >= set(files):
        names = ", ".join(path.name for path in dict.fromkeys([*files, *lists]))
        raise SkelbenchError(f"{files[0]}: {names} are no two parts of a data set; name two pickles of annotations")
    said = _said(lists)
    order = _in_order({path: (said[path][0], len(entries)) for path, entries in lists.items()}, files, options.train)
    if len(order) == 1:
        return pyskl(lists[files[0]], files[0], options)
    split = {
        part: [entry.get("frame_dir") for entry in lists[path] if isinstance(entry, dict)]
        for part, path in zip(("train", "test"), order, strict=True)
    }
    whole = {"split": split, "annotations": [entry for path in order for entry in lists[path]]}
    recording = pyskl(whole, order[0], options)
    recording.sources = dict.fromkeys(recording.splits, (order[0].name, order[1].name))
    return recording


def _assemble(given: Sequence[Path], found: dict[Path, Found], train: Path | None) -> list[Slots]:
    """Arrays with their labels and lengths, the training part first: the given one and its counterpart, if any."""
    said = _said(found)
    arrays = {path: one for path, one in found.items() if isinstance(one, Slots)}
    beside = [one for one in found.values() if isinstance(one, Labels | Counts | Damaged)]
    main = _main(given, arrays, found, said)
    first = _complete(main, arrays.pop(main), beside, given, said)
    others: dict[Path, Slots] = {}
    for path, one in arrays.items():
        sides = {first.side, said[path][0]}
        if path not in given and (
            one.signature != first.signature
            or sides in ({"train"}, {"test"})
            or (one.x.shape[0] == first.x.shape[0] and sides != {"train", "test"})
        ):
            continue  # the same part in another form, or something else
        if (one.kind, one.topology) != (first.kind, first.topology):
            raise SkelbenchError(
                f"{main} ({TITLES[first.kind]}, {first.topology.name}) and {path.name} ({TITLES[one.kind]}, "
                f"{one.topology.name}) are no two parts of one data set; give two of a kind"
            )
        try:
            others[path] = _complete(path, one, beside, given, said)
        except SkelbenchError:
            if path in given or _pair(path, main):
                raise
    alike = [path for path in others if said[path][1] == said[main][1]]
    if len(others) > 1 and len(alike) == 1 and len(given) == 1:
        others = {alike[0]: others[alike[0]]}
    if len(others) > 1:
        raise SkelbenchError(
            f"{main}: several files could be its other part ({', '.join(path.name for path in others)}); name all "
            f"files: skelbench data import TRAIN_DATA TRAIN_LABELS TEST_DATA TEST_LABELS"
        )
    parts = {main: first} | others
    used = {file for part in parts.values() for file in part.files}
    for path in given:
        if path not in used:
            raise SkelbenchError(f"{path} fits none of the arrays that are given with it; leave it out, or check it")
    sized = {path: (part.side, part.x.shape[0]) for path, part in parts.items()}
    return [parts[path] for path in _in_order(sized, given, train)]


def _said(files: Iterable[Path]) -> dict[Path, tuple[str, str]]:
    """Which part each file is ("train", "test" or "") by its own name, else, where folders differ, by its folder's;
    and the name without that word."""
    several = len({path.parent for path in files}) > 1
    said: dict[Path, tuple[str, str]] = {}
    for path in files:
        side, rest = side_of(path.stem)
        if several and not side:
            side = side_of(path.parent.name)[0]
        said[path] = "test" if side == "valid" else side, rest
    return said


def _in_order(parts: dict[Path, tuple[str, int]], given: Sequence[Path], train: Path | None) -> list[Path]:
    """Of one or two parts (which one it is by its names, and its clips) the training part first.

    As the option says, else as names say, else as the files were given.
    """
    paths = list(parts)
    if train is not None:
        chosen = [path for path in paths if path.resolve() == train.resolve()]
        if len(paths) < 2 or not chosen:
            there = " and ".join(map(str, paths))
            raise SkelbenchError(
                f"--train {train}: it is not one of two files of clips (found: {there}); check the path"
            )
        return chosen + [path for path in paths if path not in chosen]
    if len(paths) < 2:
        return paths
    (side, clips), (another, more) = (parts[path] for path in paths)
    what = f"{paths[0]} ({clips} clips) and {paths[1].name} ({more} clips)"
    if all(path in given for path in paths):
        if side == "test" or another == "train":
            raise SkelbenchError(
                f"{what} are given as training and test part, but their names say something else; give the training "
                f"part first, or confirm with --train {paths[0]}"
            )
    elif {side, another} != {"train", "test"}:
        raise SkelbenchError(
            f"{what} are two parts of a data set, and their names do not say which of them trains (train; val or "
            f"test); say --train {paths[0]} or --train {paths[1]}"
        )
    elif side == "test":
        paths.reverse()
    return paths


def _main(
    given: Sequence[Path], arrays: dict[Path, Slots], found: dict[Path, Found], said: dict[Path, tuple[str, str]]
) -> Path:
    for path in given:
        if path in arrays:
            return path
    one = found[given[0]]
    assert isinstance(one, Labels | Counts)  # an array is one of ``arrays``, and a recording is complete by itself
    fitting = [
        path for path, array in arrays.items() if array.x.shape[0] == len(one.values) and _agree(path, one.path, said)
    ]
    if len(fitting) != 1:
        which = f"several do ({', '.join(path.name for path in fitting)})" if fitting else "none does"
        raise SkelbenchError(
            f"{given[0]} holds {len(one.values)} labels or lengths, and of the arrays beside it {which} have as many "
            f"clips; name the array of clips"
        )
    return fitting[0]


def _agree(one: Path, other: Path, said: dict[Path, tuple[str, str]]) -> bool:
    """Whether two files can belong to the same part, by their names."""
    return {said[one][0], said[other][0]} != {"train", "test"}


def _complete(
    path: Path,
    array: Slots,
    beside: list[Labels | Counts | Damaged],
    given: Sequence[Path],
    said: dict[Path, tuple[str, str]],
) -> Slots:
    """The array with its labels and lengths."""
    clips = array.x.shape[0]
    as_many = [one for one in beside if not isinstance(one, Damaged) and len(one.values) == clips]
    fitting = [one for one in as_many if _agree(path, one.path, said)]
    pickles: list[Labels] = [one for one in fitting if isinstance(one, Labels)]
    numbers: list[Counts] = [one for one in fitting if isinstance(one, Counts)]
    columns = [one for one in numbers if one.column and _may_be("labels", one.path, given)]
    flat = [one for one in numbers if not one.column and _may_be("labels", one.path, given)]
    lengths = [one for one in numbers if not one.column and _may_be("lengths", one.path, given)]
    if len(given) > 1:
        pickles, columns, flat = (_nearest(path, ones, given) for ones in (pickles, columns, flat))
    if not pickles and not columns:
        columns = flat
    labelled: list[Labels | Counts] = [*pickles, *columns]
    if len(labelled) > 1:
        names = ", ".join(one.path.name for one in labelled)
        raise SkelbenchError(f"{path}: several label files fit its {clips} clips ({names}); name the array and its own")
    for one in beside:
        if not labelled and isinstance(one, Damaged) and said[one.path][0] == said[path][0]:
            raise one.error
    if not labelled and as_many and not fitting:
        raise SkelbenchError(
            f"{path} holds {clips} clips, and {as_many[0].path.name}, which has as many labels, belongs to the other "
            f"part by its name; name its own label file, or rename this one if the name is wrong"
        )
    if not labelled:
        raise SkelbenchError(
            f"{path} holds {clips} clips without labels, and no file beside it has as many and is called so "
            f"(train_label.pkl or the like); name its label file too"
        )
    lengths = [one for one in lengths if one not in columns]
    lengths = _nearest(path, lengths, given) if len(given) > 1 else lengths
    if len(lengths) > 1:
        names = ", ".join(one.path.name for one in lengths)
        raise SkelbenchError(f"{path}: several files could hold the lengths of its clips ({names}); name one of them")
    for one in lengths:
        if one.values.min() < 1:
            raise SkelbenchError(f"{one.path}: lengths must be 1 or more; is it the file of lengths?")
        if one.values.max() >= 2**31:
            row = int(one.values.argmax())
            raise SkelbenchError(f"{one.path}: clip {row} has a length beyond 2^31; is it the file of lengths?")
    files = [path, *(one.path for one in (*labelled, *lengths))]
    return replace(
        array,
        labels=pickles[0].values if pickles else whole(columns[0].values, str(columns[0].path))[0],
        names=pickles[0].names if pickles else [],
        num_frame=lengths[0].values if lengths else None,
        side=next(filter(None, (said[file][0] for file in files)), ""),
        files=files,
    )


_CALLED = {"labels": ("label", "class", "target"), "lengths": ("num_frame", "frames", "len")}
"""What is in the name of a file of either."""


def _may_be(what: str, path: Path, given: Sequence[Path]) -> bool:
    """Whether a file may hold ``labels``, or ``lengths``: its name says so, or it was given and says nothing else."""
    called = [kind for kind, words in _CALLED.items() if any(word in path.stem.lower() for word in words)]
    return what in called or (not called and path in given)


def _nearest(path: Path, fitting: list[Any], given: Sequence[Path]) -> list[Any]:
    """Of several given files that fit, the first one behind the array; arrays are followed by what belongs to them."""
    behind = [one for one in fitting if given.index(one.path) > given.index(path)] or fitting
    return behind[:1]
