"""``skelbench data labels``: the lists of clips that keep their labels in semi-supervised protocols."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from skelbench.cli import complete
from skelbench.cli.data_info import open_store
from skelbench.cli.options import DataRoot
from skelbench.core.errors import SkelbenchError


def show_labels(
    name: Annotated[str, typer.Argument(help="Data set.", autocompletion=complete.datasets)],
    split: Annotated[
        str | None, typer.Option(help="Split.", show_default="the data set's", autocompletion=complete.splits)
    ] = None,
    share: Annotated[float, typer.Option(help="Percent of the training clips: 0.1 to 100.", min=0.1, max=100)] = 1.0,
    lists: Annotated[int, typer.Option(help="How many lists; protocols use the first five.", min=1, max=100)] = 5,
    unstratified: Annotated[
        bool, typer.Option("--unstratified", help="That share of all clips, not of every class, as some codes draw it.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for the lists, a clip on each line, and a .json of them."),
    ] = None,
    data_root: DataRoot = None,
) -> None:
    """The clips of data set NAME whose labels semi@1, semi@10 and their kin use: the same lists everywhere.

    A list follows from the data set's fingerprint, the split and its number; its hash is in every record that used it.
    """
    import numpy as np

    from skelbench.core.console import make_table, out
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
    told = [
        {"list": each.draw, "file": file, "clips": len(each.ids), "sha256": each.sha256} for file, each in files.items()
    ]
    facts = {"dataset": name, "split": part.name, "fingerprint": store.fingerprint, "share": share / 100}
    facts |= {"stratified": not unstratified, "lists": told}
    about = file_name(f"{name}-{part.name}-{share:g}percent-{kind}.json")
    texts = {file: each.text for file, each in files.items()} | {about: json.dumps(facts, indent=1) + "\n"}
    for file, text in texts.items():
        if (output / file).exists() and (output / file).read_bytes() != text.encode():
            known = _lists(output / file, facts) if file == about else None
            if known is None or any(mine != theirs for mine, theirs in zip(told, known)):
                raise SkelbenchError(f"{output / file} is there already, with other lists; choose another folder")
            facts["lists"] = max(told, known, key=len)
            texts[file] = json.dumps(facts, indent=1) + "\n"
    for file, text in texts.items():
        _write(output / file, text)
    out.print(f"{len(files)} lists, and {about} which says what they are, lie in {output}")


def _lists(path: Path, facts: dict[str, Any]) -> list[Any] | None:
    """The lists that a record in ``path`` tells of; None where it is of anything else than ``facts``."""
    try:
        known = json.loads(path.read_bytes())
        return list(known["lists"]) if known | {"lists": 0} == facts | {"lists": 0} else None
    except (ValueError, TypeError, KeyError):
        return None


def _write(path: Path, text: str) -> None:
    from skelbench.core.files import write_whole

    write_whole(path, lambda file: file.write(text.encode()))
