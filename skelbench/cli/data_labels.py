"""``skelbench data labels``: the lists of clips that keep their labels in semi-supervised protocols."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import IO, Annotated

import typer

from skelbench.cli.data_info import Name, Split, open_store
from skelbench.cli.options import DataRoot

Share = Annotated[float, typer.Option(help="Percentage of the training clips with a label.", min=0.1, max=100)]
_DRAWN = "Draw from all clips, not from each class."
Unstratified = Annotated[bool, typer.Option("--unstratified", help=_DRAWN)]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Folder to write the lists to.")]


def show_labels(
    dataset: Name, split: Split = None, share: Share = 1.0, unstratified: Unstratified = False, output: Output = None,
    data_root: DataRoot = None,
) -> None:  # fmt: skip
    """Show the five lists of labeled clips that semi@1, semi@10 and similar protocols use."""
    from skelbench.core.console import make_table, out
    from skelbench.core.files import write_whole
    from skelbench.core.spec import file_name
    from skelbench.evaluation.label_subsets import DRAWS, label_subset

    store = open_store(dataset, data_root)
    part = store.split(split)
    kind = "unstratified" if unstratified else "stratified"
    lists = [label_subset(store, part.name, part.train, share / 100, draw, not unstratified) for draw in range(DRAWS)]
    title = f"{dataset} / {part.name}: {share:g} % of {len(part.train):,} training clips, {kind}"
    rows = [(subset.draw, len(subset.ids), subset.sha256) for subset in lists]
    out.print(make_table(("list", "clips", "sha256"), rows, title=title))
    if output is not None:
        for subset in lists:
            file = output / file_name(f"{dataset}-{part.name}-{share:g}percent-{kind}-{subset.draw}.txt")
            write_whole(file, partial(_write, subset.text))
        out.print(f"{len(lists)} lists are in {output}")


def _write(text: str, file: IO[bytes]) -> None:
    file.write(text.encode())
