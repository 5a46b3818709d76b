"""``skelbench data export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from skelbench.cli.data_info import Name, Split, open_store
from skelbench.cli.options import DataRoot
from skelbench.core.console import late_progress, out, print_facts
from skelbench.core.text import counted

_SECOND = "Second body of clips with one body: zero (as for NTU 60), or repeat the first body (as for NTU 120)."
Output = Annotated[Path, typer.Option("--output", "-o", help="File to write.")]
SecondBody = Annotated[Literal["zero", "repeat"], typer.Option(help=_SECOND)]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]


def export_data(
    dataset: Name, output: Output, split: Split = None, second_body: SecondBody = "zero",
    force: Force = False, data_root: DataRoot = None,
) -> None:  # fmt: skip
    """Write a dataset for other code: FILE.npz for MAMP and CTR-GCN, FILE.pkl for pyskl and mmaction2."""
    from skelbench.data.importers.exporters import export_mamp_npz, export_pyskl

    store = open_store(dataset, data_root)
    if output.suffix == ".pkl":
        path = export_pyskl(store, output, overwrite=force)
        out.print(f"{path}: {counted(len(store), 'clip')}, splits {', '.join(store.meta.splits)}")
        return
    with late_progress(f"export {dataset}", "clips") as progress:
        path = export_mamp_npz(store, output, split=split, second_body=second_body, overwrite=force, progress=progress)
    chosen = store.split(split)
    frames = int(store.lengths.max())
    print_facts(
        [
            ("x_train", f"float32 [{len(chosen.train)}, {frames}, 150]"),
            ("x_test", f"float32 [{len(chosen.test)}, {frames}, 150]"),
            ("y", f"one-hot float64, {counted(store.num_classes, 'class')}"),
            ("split", chosen.name),
            ("second body", second_body),
            ("size", f"{path.stat().st_size / 1e6:,.1f} MB"),
        ],
        title=str(path),
    )
    out.print(f"in MAMP's configs: data_path: {path}")
