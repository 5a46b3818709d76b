"""``skelbench data info``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skelbench.cli.options import DataRoot
from skelbench.core.console import err, make_table, out, print_facts, styled
from skelbench.core.text import counted, plain

if TYPE_CHECKING:
    from skelbench.data.store.clip_store import ClipStore

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the dataset.")]
Split = Annotated[str | None, typer.Option(help="Split.", show_default="the dataset's")]


def info(dataset: Name, data_root: DataRoot = None) -> None:
    """Show the clips, classes, lengths, splits, origin, license and fingerprint of a dataset."""
    print_store(open_store(dataset, data_root), dataset)


def open_store(name: str, data_root: Path | None) -> ClipStore:
    """The dataset ``name``, built in or stored in ``data_root`` (None = the user's)."""
    from skelbench.data.store.roots import data_root as default_data_root
    from skelbench.pipeline.resolve import open_dataset
    from skelbench.plugin.host import get_host

    return open_dataset(name, get_host(), data_root or default_data_root())


def print_store(store: ClipStore, name: str) -> None:
    """Print what is known about an opened dataset."""
    import numpy as np

    meta = store.meta
    lengths, bodies, labels = store.lengths, store.bodies, store.labels
    quartiles = np.percentile(lengths, [0, 25, 50, 75, 100]).round().astype(int)
    per_class = np.bincount(labels, minlength=store.num_classes)
    print_facts(
        [
            ("clips", len(store)),
            ("classes", f"{store.num_classes} with {per_class.min()} to {counted(per_class.max(), 'clip')}"),
            ("subjects", len(np.unique(store.index["subject"]))),
            ("bodies", ", ".join(f"{n} in {counted(np.sum(bodies == n), 'clip')}" for n in np.unique(bodies))),
            ("frames", "{} shortest, {} {} {} quartiles, {} longest".format(*quartiles)),
            ("duration", f"{lengths.sum() / meta.fps / 3600:.2f} h at {meta.fps:g} frames/s"),
            ("skeleton", f"{meta.topology}, {store.topology.num_joints} joints, {meta.units}, {meta.up_axis} up"),
            ("poses", "2-D (z = 0)" if meta.dimensions == 2 else "3-D"),
            ("confidence", "of every joint" if store.confidence_FJ is not None else ""),
            ("lineage", meta.lineage),
            ("license", meta.license),
            ("fingerprint", meta.fingerprint),
            ("written by", meta.written_by),
            ("folder", store.path),
        ],
        title=f"dataset {name}",
    )
    splits = []
    for split in map(store.split, meta.splits):
        default = "default" if split.name == meta.default_split else ""
        splits.append((split.name, len(split.train), len(split.test), default))
    classes = [(label, text, int(per_class[label])) for label, text in enumerate(store.classes)]
    out.print()
    out.print(make_table(("split", "train clips", "test clips", ""), splits))
    out.print()
    out.print(make_table(("label", "class", "clips"), classes))
    print_remarks(store)


def print_skipped(entries: Sequence[tuple[str, str]]) -> None:
    """Print names and reasons of everything that was skipped unexpectedly."""
    for name, reason in entries:
        err.print(styled(("skipped:", "yellow"), f" {plain(name)}: {plain(reason)}"))
    if entries:
        err.print(f"{len(entries):,} skipped unexpectedly", style="yellow")


def print_remarks(store: ClipStore) -> None:
    """Print warnings about clips that are very short, or on both sides of a split."""
    from skelbench.core.spec import GridSpec
    from skelbench.data.verify import on_both_sides

    patch = GridSpec().patch
    if short := int((store.lengths < patch).sum()):
        text = (
            f" {short:,} of fewer than {patch} frames, a patch of the default grid; runs "
            f"resample them as all are, --set min_frames={patch} leaves them out of training"
        )
        out.print(styled(("short clips:", "yellow"), text))
    for overlap in on_both_sides(store):
        text = f" {overlap.test:,} of {overlap.of:,} test clips are training clips, too ({plain(overlap.example)})"
        out.print(styled((f"on both sides of split {plain(overlap.split)}:", "yellow"), text))
