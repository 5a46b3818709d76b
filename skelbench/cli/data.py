"""``skelbench data`` and its commands ``list`` and ``info``."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from skelbench.cli import data_export, data_import, data_prepare, data_show, data_verify
from skelbench.cli.options import DataRoot
from skelbench.console import make_table, out, print_facts
from skelbench.errors import SkelbenchError

if TYPE_CHECKING:
    from skelbench.data.store.clip_store import ClipStore

app = typer.Typer(no_args_is_help=True, help="Data sets: what there is, what is in it, getting recordings in.")
app.add_typer(data_prepare.app, name="prepare")
app.command("verify")(data_verify.verify_data)
app.command("show")(data_show.show_clip)
app.command("import")(data_import.import_data)
app.command("export")(data_export.export_data)


@app.callback()
def options(context: typer.Context) -> None:
    """What all data commands have in common."""
    context.with_resource(_one_ending())


@contextmanager
def _one_ending() -> Iterator[None]:
    """Ctrl-C and SIGTERM end a command in order, with exit code 130 and 143, and only the first of them counts.

    A second one would break off the removal of what is half written. Signals that are ignored (nohup) stay so.
    """
    main = threading.current_thread() is threading.main_thread()
    wanted = [n for n in (signal.SIGINT, signal.SIGTERM) if main and signal.getsignal(n) is not signal.SIG_IGN]
    ended = False

    def end(number: int, _) -> None:
        nonlocal ended
        if ended:
            return
        ended = True
        if number == signal.SIGTERM:
            raise SystemExit(128 + number)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in wanted}
    try:
        yield
    finally:
        for number, handler in before.items():
            # About to end: a handler of Python's would be gone before the process is.
            signal.signal(number, signal.SIG_IGN if ended else handler)


@app.command("list")
def list_data(data_root: DataRoot = None) -> None:
    """Built-in data sets and imported ones; a damaged one is a line, not a failure."""
    from skelbench.data.store.clip_store import ClipStore, roots
    from skelbench.plugin.host import get_host

    root = data_root or roots.data_root()
    host = get_host()
    rows = []
    for name in host.names("datasets"):
        about = host.get("datasets", name)
        rows.append((name, "built in", "", "", ", ".join(about.splits), about.default_split, about.summary))
    for name, path in roots.list_stores(root).items():
        try:
            meta = ClipStore.open(path).meta
        except SkelbenchError as error:
            rows.append((name, "unusable", "", "", "", "", str(error)))
        else:
            where = (meta.clips, len(meta.classes), ", ".join(meta.splits), meta.default_split, meta.lineage)
            rows.append((name, "stored", *where))
    columns = ("name", "state", "clips", "classes", "splits", "default split", "about")
    out.print(make_table(columns, rows))
    out.print(f"data sets are kept in {root}")


@app.command()
def info(name: Annotated[str, typer.Argument(help="Data set.")], data_root: DataRoot = None) -> None:
    """Counts, classes, lengths, splits, lineage, licence and fingerprint of data set NAME."""
    from skelbench.data.store.clip_store import roots
    from skelbench.plugin.host import get_host
    from skelbench.run.resolve import open_dataset

    show(open_dataset(name, get_host(), data_root or roots.data_root()), name)


def show(store: ClipStore, name: str) -> None:
    """Print what is known about an opened data set."""
    import numpy as np

    meta = store.meta
    lengths, bodies, labels = store.lengths, store.bodies, store.labels
    quartiles = np.percentile(lengths, [0, 25, 50, 75, 100]).round().astype(int)
    per_class = np.bincount(labels, minlength=store.num_classes)
    print_facts(
        [
            ("clips", len(store)),
            ("classes", f"{store.num_classes} with {per_class.min()} to {per_class.max()} clips"),
            ("subjects", len(np.unique(store.index["subject"]))),
            ("bodies", ", ".join(f"{n} in {np.sum(bodies == n)} clips" for n in np.unique(bodies))),
            ("frames", "{} shortest, {} {} {} quartiles, {} longest".format(*quartiles)),
            ("duration", f"{lengths.sum() / meta.fps / 3600:.2f} h at {meta.fps:g} frames/s"),
            ("skeleton", f"{meta.topology}, {store.topology.num_joints} joints, {meta.units}, {meta.up_axis} up"),
            ("poses", "2-D (z = 0)" if meta.dimensions == 2 else "3-D"),
            ("confidence", "of every joint" if store.confidence_FJ is not None else ""),
            ("lineage", meta.lineage),
            ("licence", meta.licence),
            ("fingerprint", meta.fingerprint),
            ("written by", meta.written_by),
            ("folder", store.path),
        ],
        title=f"data set {name}",
    )
    splits = []
    for split in map(store.split, meta.splits):
        unseen = len(set(labels[split.test]) - set(labels[split.train]))
        note = f"{unseen} classes of the test part are not in the training part" if unseen else ""
        default = "default" if split.name == meta.default_split else ""
        splits.append((split.name, len(split.train), len(split.test), "; ".join(filter(None, (default, note)))))
    out.print()
    out.print(make_table(("split", "train clips", "test clips", ""), splits))
    out.print()
    classes = [(label, text, int(per_class[label])) for label, text in enumerate(store.classes)]
    out.print(make_table(("label", "class", "clips"), classes))
