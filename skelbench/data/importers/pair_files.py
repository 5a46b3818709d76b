"""Which of the files that were found belong together: arrays, their labels and lengths, and parts of a data set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers.annotations import pyskl
from skelbench.data.importers.labels import whole
from skelbench.data.importers.options import ImportOptions
from skelbench.data.importers.recording import Recording
from skelbench.data.importers.split_names import side_of
from skelbench.data.importers.stgcn_npy import TITLES, Slots


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


def pair(one: Path, other: Path) -> bool:
    """Whether two names, or names of folders, differ only in that one says training part and the other does not."""
    if one.parent != other.parent:  # folders of two parts
        return one.name == other.name
    (side, rest), (another, also) = side_of(one.name), side_of(other.name)
    return rest == also and "" not in (side, another) and (side == "train") != (another == "train")


def listed(files: Sequence[Path], lists: dict[Path, list[Any]], options: ImportOptions) -> Recording:
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
    both = {"split": split, "annotations": [entry for path in order for entry in lists[path]]}
    recording = pyskl(both, order[0], options)
    recording.sources = dict.fromkeys(recording.splits, (order[0].name, order[1].name))
    return recording


def assemble(given: Sequence[Path], found: dict[Path, Found], train: Path | None) -> list[Slots]:
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
            if path in given or pair(path, main):
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
