"""``skelbench data import``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from skelbench.cli.data_info import print_store
from skelbench.cli.options import DataRoot, new_dataset_name
from skelbench.core.console import LEFT_OUT, err, late_progress, out, print_facts, styled
from skelbench.core.errors import SkelbenchError
from skelbench.core.text import counted, plain


def import_data(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Clips as others prepared them: npz of CTR-GCN or MAMP, pyskl pickle (2-D or 3-D), npy and label file "
            "of ST-GCN, 2s-AGCN, CMD, AimCLR or CrosSCLR, HDF5 of SGN, folder of NW-UCLA's JSON files, ragged npz. The "
            "format is recognized by the content. A single train_data.npy is completed with train_label.pkl (or .npy), "
            "train_num_frame.npy and val_data.npy of its folder; or name all files, each array followed by its labels, "
            "the training part first.",
        ),
    ],
    name: Annotated[
        str | None, typer.Option("--name", help="What to call the data set.", show_default="from the file's name")
    ] = None,
    topology: Annotated[
        str | None,
        typer.Option("--topology", help="Skeleton, where several have as many joints.", show_default="by joint count"),
    ] = None,
    up: Annotated[
        Literal["auto", "y", "-y", "z", "-z", "x", "-x"],
        typer.Option("--up", help="Axis that points up in the file; auto: judged by the bodies. Stored with Y up."),
    ] = "auto",
    units: Annotated[
        Literal["m", "cm", "mm"] | None,
        typer.Option(
            "--units",
            help="Unit of 3-D coordinates in the file. Stored in metres.",
            show_default="as the file says, else m",
        ),
    ] = None,
    scale_2d: Annotated[
        Literal["image", "body"] | None,
        typer.Option(
            "--scale-2d",
            help="2-D poses. image: the image's height becomes --image-height. body: every clip's largest body becomes "
            "--body-height.",
            show_default="image",
        ),
    ] = None,
    image_height: Annotated[
        float | None,
        typer.Option(
            "--image-height", min=0.01, help="2-D poses: nominal metres of the image's height.", show_default="3"
        ),
    ] = None,
    body_height: Annotated[
        float | None,
        typer.Option(
            "--body-height",
            min=0.01,
            help="2-D poses, --scale-2d body: nominal metres of a body's longer side.",
            show_default="1.7",
        ),
    ] = None,
    max_bodies: Annotated[
        int,
        typer.Option(
            "--max-bodies", min=1, help="Bodies kept of a clip: those seen longest, 2-D: with most confidence in sum."
        ),
    ] = 2,
    fps: Annotated[
        float, typer.Option("--fps", min=0.01, help="Frames per second, where the file does not say.")
    ] = 30.0,
    label_fields: Annotated[
        str | None,
        typer.Option(
            "--label-fields",
            metavar="A,B",
            help="Ragged npz: fields whose combinations are the classes, for instance label,correct.",
            show_default="label",
        ),
    ] = None,
    train: Annotated[
        Path | None,
        typer.Option(
            "--train",
            metavar="FILE",
            help="Of two files with clips the one that trains, where their names do not say it, or say otherwise.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a data set of that name.")] = False,
    data_root: DataRoot = None,
) -> None:
    """Store the clips in FILE... as data set NAME, for `skelbench run METHOD --dataset NAME`.

    Pickles are read without running anything in them. Clips that cannot be used are left out and listed; exit code 3
    if any of them was not to be expected.
    """
    from skelbench.cli.summary import named_data
    from skelbench.data.importers import ImportOptions, import_files, name_for
    from skelbench.data.store import roots
    from skelbench.data.store.clip_store import ClipStore

    name = new_dataset_name(name_for(files[0]) if name is None else name)
    fields = tuple(
        field.strip() for field in ("label" if label_fields is None else label_fields).split(",") if field.strip()
    )
    if not fields:
        raise SkelbenchError("--label-fields names no field; write for instance --label-fields label,correct")
    options = ImportOptions(topology, up, units, scale_2d, image_height, body_height, max_bodies, fps, fields, train)
    root = data_root or roots.data_root()
    with late_progress(f"import {name}", "clips") as progress:
        imported = import_files(files, name, root, options, overwrite=force, progress=progress)
    for one in imported.unexpected:
        err.print(styled(("left out:", "yellow"), f" {plain(one.name)}: {plain(one.reason)}"))
    details = {key.replace("_", " "): value for key, value in imported.recording.details.items() if value}
    expected = len(imported.skipped) - len(imported.unexpected)
    print_facts(
        [("recognised as", imported.recording.kind), *details.items(), ("empty clips left out", expected or None)],
        title=f"import of {', '.join(file.name for file in files)}",
    )
    store = ClipStore.open(imported.path)
    print_store(store, name)
    split = store.split()
    train_from, test_from = imported.recording.sources.get(split.name, (f"split {split.name}",) * 2)
    out.print()
    print_facts(
        [
            ("train", f"{counted(len(split.train), 'clip')} ({train_from})"),
            ("test", f"{counted(len(split.test), 'clip')} ({test_from})"),
        ]
    )
    out.print(f"next: skelbench run slim --tokens 8 --dataset {name}{named_data(imported.path.parent)}", soft_wrap=True)
    if imported.unexpected:
        left_out = counted(len(imported.unexpected), "clip")
        err.print(f"{left_out} left out that should not have been, see above", style="yellow")
        raise typer.Exit(LEFT_OUT)
