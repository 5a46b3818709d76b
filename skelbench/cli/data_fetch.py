"""``skelbench data fetch``."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from skelbench.cli.data_info import print_store
from skelbench.cli.options import DataRoot, new_dataset_name
from skelbench.core.console import late_progress, make_table, out, print_facts, progress

if TYPE_CHECKING:
    from skelbench.plugin.descriptors import SourceSpec

_FROM = "File or folder that you downloaded yourself; nothing is downloaded then."


def fetch_data(
    source: Annotated[str | None, typer.Argument(metavar="NAME", help="Dataset.", show_default="list all")] = None,
    origin: Annotated[Path | None, typer.Option("--from", metavar="PATH", help=_FROM)] = None,
    name: Annotated[str | None, typer.Option(help="Name in the data folder.", show_default="NAME")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a dataset of that name.")] = False,
    data_root: DataRoot = None,
) -> None:
    """Download an open dataset and store it; without NAME, list the open datasets."""
    from skelbench.data.fetch import fetch
    from skelbench.data.store import roots
    from skelbench.data.store.clip_store import ClipStore
    from skelbench.plugin.host import get_host

    host = get_host()
    if source is None:
        sources = cast("list[SourceSpec]", host.all("sources"))
        rows = [(spec.name, f"{spec.megabytes:,} MB", spec.license, _about(spec)) for spec in sources]
        out.print(make_table(("name", "download", "license", "about"), rows))
        out.print("next: skelbench data fetch NAME")
        return
    about = cast("SourceSpec", host.get("sources", source))
    facts = [("license", about.license), ("cite", about.citation), ("about", _about(about))]
    print_facts([*facts, ("download", None if origin else f"{about.megabytes:,} MB")], title=f"dataset {source}")
    name = new_dataset_name(name or source)
    path = (data_root or roots.data_root()) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    download = nullcontext(lambda *_, **__: None) if origin else progress(None, f"download {name}", "MB")
    with late_progress(f"import {name}", "clips") as report, download as loaded:
        fetch(about, host.load(about), path, origin, overwrite=force, loaded=loaded, progress=report)
    print_store(ClipStore.open(path), name)
    out.print(f"next: skelbench run slim --tokens 8 --dataset {name}", soft_wrap=True)


def _about(source: SourceSpec) -> str:
    return source.summary + (f" ({source.tried})" if source.tried else "")
