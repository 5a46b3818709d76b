"""``skelbench data import``."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from skelbench.cli.data_info import print_skipped, print_store
from skelbench.cli.options import DataRoot, new_dataset_name
from skelbench.core.console import LEFT_OUT, late_progress, out, print_facts
from skelbench.core.errors import SkelbenchError
from skelbench.core.text import counted
from skelbench.pipeline.request import comma_separated

Axis = Literal["auto", "y", "-y", "z", "-z", "x", "-x"]
Unit = Literal["m", "cm", "mm"]
Scale = Literal["image", "body"]
FILES = (
    "Files in any of these formats: npz of CTR-GCN or MAMP, pyskl pickle, npy with labels of ST-GCN, 2s-AGCN, CMD, "
    "AimCLR or CrosSCLR, HDF5 of SGN, ragged npz, keypoints and motion capture (`skelbench plugins list formats`). The "
    "format is detected. For npy files name train_data.npy, or each array followed by its labels."
)
LABEL_FIELDS = "Ragged npz: fields that form the class, comma separated, for example label,correct."
BODIES = "Largest number of bodies of a clip. The bodies seen longest (2-D: with the highest confidence) are kept."
CUT = "Cut recordings of keypoints or motion capture into clips of this many seconds."
IMAGE = "Size of the images, 1920x1080, for keypoints that are fractions of it."
SCALE = "2-D poses: image = the image is 3 m high; body = the largest body of each clip is 1.7 m high."


def import_data(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help=FILES)],
    name: Annotated[str | None, typer.Option(help="Name of the dataset.", show_default="from the file's name")] = None,
    topology: Annotated[str | None, typer.Option(help="Skeleton.", show_default="by joint count")] = None,
    up: Annotated[Axis, typer.Option(help="Axis that points up in the file; auto = detected.")] = "auto",
    units: Annotated[Unit, typer.Option(help="Unit of 3-D coordinates.")] = "m",
    scale_2d: Annotated[Scale, typer.Option("--scale-2d", help=SCALE)] = "image",
    max_bodies: Annotated[int, typer.Option(min=1, help=BODIES)] = 2,
    fps: Annotated[float, typer.Option(min=0.01, help="Frames per second, if the file does not say.")] = 30.0,
    label_fields: Annotated[str, typer.Option(metavar="A,B", help=LABEL_FIELDS)] = "label",
    clip_seconds: Annotated[float, typer.Option(min=0, help=CUT, show_default="not cut")] = 0.0,
    image_size: Annotated[str | None, typer.Option(metavar="WxH", help=IMAGE)] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing dataset.")] = False,
    data_root: DataRoot = None,
) -> None:
    """Import prepared clips as a dataset, for `skelbench run METHOD --dataset NAME`.

    Pickles are read without running code in them. Damaged clips are skipped and listed, with exit code 3.
    """
    from skelbench.cli.summary import named_data
    from skelbench.data.importers import ImportOptions, import_files, name_for
    from skelbench.data.store import roots
    from skelbench.data.store.clip_store import ClipStore
    from skelbench.plugin.host import requested_files

    name = new_dataset_name(name_for(files[0]) if name is None else name)
    fields = tuple(comma_separated(label_fields))
    size = re.fullmatch("([1-9][0-9]*)x([1-9][0-9]*)", image_size or "")
    if image_size and not size:
        raise SkelbenchError(f"--image-size {image_size} is not WIDTHxHEIGHT; write for instance 1920x1080")
    image = (int(size[1]), int(size[2])) if size else None
    options = ImportOptions(topology, up, units, scale_2d, max_bodies, fps, fields, clip_seconds, image)
    root = data_root or roots.data_root()
    with late_progress(f"import {name}", "clips") as progress:
        imported = import_files(files, name, root, options, overwrite=force, progress=progress)
    unexpected = imported.unexpected
    print_skipped([(skip.name, skip.reason) for skip in unexpected])
    details = {key.replace("_", " "): value for key, value in imported.recording.details.items() if value}
    expected = len(imported.skipped) - len(unexpected)
    print_facts(
        [("recognized as", imported.recording.kind), *details.items(), ("empty clips skipped", expected or None)],
        title=f"import of {', '.join(file.name for file in files)}",
    )
    store = ClipStore.open(imported.path)
    print_store(store, name)
    split = store.split()
    places = imported.recording.sources.get(split.name, (f"split {split.name}",) * 2)
    parts = zip(("train", "test"), (split.train, split.test), places)
    out.print()
    print_facts([(part, f"{counted(len(ids), 'clip')} ({place})") for part, ids, place in parts])
    plugins = "".join(f" --plugin {shlex.quote(file)}" for file in requested_files())
    name += named_data(imported.path.parent) + plugins
    out.print(f"next: skelbench run slim --tokens 8 --dataset {name}", soft_wrap=True)
    if unexpected:
        raise typer.Exit(LEFT_OUT)
