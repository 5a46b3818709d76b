"""Plugins of this process, and plugin files loaded from a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from skelbench.core.errors import SkelbenchError
from skelbench.core.hashing import hash_of_python
from skelbench.plugin.descriptors import KINDS
from skelbench.plugin.files import named_file
from skelbench.plugin.host import Host, forget_hosts, get_host, request_files, request_more, requested_files
from skelbench.plugin.status import SINGULAR

if TYPE_CHECKING:
    import pandas


def use_plugins(files: Sequence[Path | str] = ()) -> Host:
    """The plugin host with single-file plugins ``files``, which stay loaded from now on; those that were edited since
    they were read, these or earlier ones, are read again.

    Raises:
        SkelbenchError: a file is missing or cannot be used; later calls do not load it again.
    """
    if isinstance(files, str | Path):
        raise SkelbenchError(f"plugins={str(files)!r} is one name where a list is expected; write [{str(files)!r}]")
    named = [str(named_file(str(file), f"plugin {file}").absolute()) for file in files]
    if any(item.requested and item.source_hash != _hash(item.source) for item in get_host().plugins):
        forget_hosts()
    host = request_more(named)
    try:
        host.check_requested()
    except SkelbenchError:
        failed = {item.source for item in host.plugins if item.requested and item.state != "ok"}
        request_files(file for file in requested_files() if file not in failed)
        forget_hosts()  # they are read again when they are named again
        raise
    return host


def _hash(file: str) -> str | None:
    try:
        return hash_of_python(Path(file).read_bytes())
    except OSError:
        return None


def plugins(files: Sequence[Path | str] = ()) -> pandas.DataFrame:
    """Everything that can be named: a frame with ``kind`` ("method", "encoder", ...), ``name``, ``summary``,
    ``plugin`` and ``status``, one row each; a plugin that could not be used has a row of its own that says why.

    ``files``: single-file plugins to load, as in :func:`skelbench.run`. ``skelbench plugins info NAME`` says more.
    """
    import pandas

    host, order = use_plugins(files), list(KINDS)
    rows = [
        (SINGULAR[entry.kind], entry.name, entry.descriptor.summary, entry.plugin.name, "ok")
        for entry in sorted(host.entries, key=lambda entry: (order.index(entry.kind), entry.name))
    ]
    rows += [("plugin", item.name, item.error, item.name, item.state) for item in host.plugins if item.state != "ok"]
    return pandas.DataFrame(rows, columns=["kind", "name", "summary", "plugin", "status"])
