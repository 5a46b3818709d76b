"""``skelbench data labels``: the lists of clips that keep their labels in semi-supervised protocols."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import IO, Annotated

import typer

from skelbench.cli.data_info import Name, Split, open_store
from skelbench.cli.options import DataRoot
from skelbench.core.errors import SkelbenchError

Share = Annotated[float, typer.Option(help="Percent of the training clips: 0.1 to 100.", min=0.1, max=100)]
Lists = Annotated[int, typer.Option(help="How many lists; protocols use the first five.", min=1, max=100)]
_DRAWN = "That share of all clips, not of every class, as some codes draw it."
Unstratified = Annotated[bool, typer.Option("--unstratified", help=_DRAWN)]
_FOLDER = "Folder for the lists, a clip on each line, and a .json of them."
Output = Annotated[Path | None, typer.Option("--output", "-o", help=_FOLDER)]


def show_labels(
    name: Name, split: Split = None, share: Share = 1.0, lists: Lists = 5, unstratified: Unstratified = False,
    output: Output = None, data_root: DataRoot = None,
) -> None:  # fmt: skip
    """The clips of data set NAME whose labels semi@1, semi@10 and their kin use: the same lists everywhere.

    A list follows from the data set's fingerprint, the split and its number; its hash is in every record that used it.
    """
    import numpy as np

    from skelbench.core.console import make_table, out
    from skelbench.core.files import write_whole
    from skelbench.core.spec import file_name
    from skelbench.evaluation.label_subsets import label_subset

    store = open_store(name, data_root)
    part = store.split(split)
    kind = "unstratified" if unstratified else "stratified"
    found = [label_subset(store, part.name, part.train, share / 100, draw, not unstratified) for draw in range(lists)]
    trained = np.unique(store.labels[part.train])
    rows, files = [], {}
    for each in found:
        counts = np.bincount(store.labels[each.ids], minlength=store.num_classes)[trained]
        rows.append((each.draw, len(each.ids), f"{counts.min()} to {counts.max()}", each.sha256))
        files[file_name(f"{name}-{part.name}-{share:g}percent-{kind}-{each.draw}.txt")] = each
    title = f"{name} / {part.name}: {share:g} % of {len(part.train):,} training clips, {kind}"
    out.print(make_table(("list", "clips", "of a class", "sha256"), rows, title=title))
    if output is None:
        return
    about = file_name(f"{name}-{part.name}-{share:g}percent-{kind}.json")
    facts = {"dataset": name, "split": part.name, "fingerprint": store.fingerprint, "share": share / 100}
    facts |= {"stratified": not unstratified}
    facts["lists"] = [
        {"list": each.draw, "file": file, "clips": len(each.ids), "sha256": each.sha256} for file, each in files.items()
    ]
    for file, each in files.items():
        if (output / file).exists() and (output / file).read_bytes() != each.text.encode():
            raise SkelbenchError(f"{output / file} is there already, with other lists; choose another folder")
    texts = {file: each.text for file, each in files.items()} | {about: json.dumps(facts, indent=1) + "\n"}
    for file, text in texts.items():
        write_whole(output / file, partial(_write, text))
    out.print(f"{len(files)} lists, and {about} which describes them, are in {output}")


def _write(text: str, file: IO[bytes]) -> None:
    file.write(text.encode())
