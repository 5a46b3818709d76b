"""``skelbench data`` and its commands ``list`` and ``info``."""

from __future__ import annotations

import signal
from types import FrameType

import typer

from skelbench.cli import (
    data_convert,
    data_export,
    data_fetch,
    data_import,
    data_info,
    data_labels,
    data_prepare,
    data_show,
    data_verify,
)
from skelbench.cli.options import DataRoot
from skelbench.core.console import make_table, out
from skelbench.core.errors import SkelbenchError
from skelbench.core.signals import handle_signals

app = typer.Typer(no_args_is_help=True, help="Fetch, import, convert, verify and show datasets.")
app.add_typer(data_prepare.app, name="prepare")
app.command("fetch")(data_fetch.fetch_data)
app.command("map")(data_convert.map_joints)
app.command("convert")(data_convert.convert_data)
app.command("info")(data_info.info)
app.command("verify")(data_verify.verify_data)
app.command("show")(data_show.show_clip)
app.command("labels")(data_labels.show_labels)
app.command("import")(data_import.import_data)
app.command("export")(data_export.export_data)


@app.callback()
def options(context: typer.Context) -> None:
    """Let SIGTERM end every data command like Ctrl-C, so that no incomplete file is left."""
    context.with_resource(handle_signals(_end, [signal.SIGTERM]))


def _end(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)


@app.command("list")
def list_data(data_root: DataRoot = None) -> None:
    """List built-in and stored datasets."""
    from skelbench.data.store import roots
    from skelbench.data.store.clip_store import ClipStore
    from skelbench.plugin.host import get_host

    root = data_root or roots.data_root()
    host = get_host()
    rows: list[tuple[object, ...]] = []
    for name in host.names("datasets"):
        about = host.get("datasets", name)
        rows.append((name, "built in", "", "", about.default_split, about.summary))
    for name, path in roots.named_stores(root).items():
        try:
            meta = ClipStore.open(path).meta
        except SkelbenchError as error:
            rows.append((name, "unusable", "", "", "", str(error)))
        else:
            rows.append((name, "stored", meta.clips, len(meta.classes), meta.default_split, meta.lineage))
    out.print(make_table(("name", "state", "clips", "classes", "default split", "about"), rows))
    out.print(f"Datasets are kept in {root}. All splits of one: skelbench data info NAME", soft_wrap=True)
