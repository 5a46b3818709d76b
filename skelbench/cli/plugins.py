"""``skelbench plugins list|info``."""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.text import Text

from skelbench.cli import plugins_check, plugins_new
from skelbench.core.console import make_table, out, print_facts
from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.text import plain
from skelbench.plugin.descriptors import KINDS, ComponentSpec, EncoderSpec
from skelbench.plugin.host import Host, get_host
from skelbench.plugin.status import SINGULAR, Entry, PluginStatus
from skelbench.testing.scaffold.plan import USE

RUN_IT = {
    **USE,
    "study": "skelbench study {name}{found}",
    "suite": "skelbench suite run METHOD --suite {name}{found}",
    "engine": "skelbench study token-budget --on {name}{found}",
    "source": "skelbench data fetch {name}{found}",
}
"""Kind -> a command that uses an entry; ``found`` is the option by which the command finds its file."""

app = typer.Typer(
    no_args_is_help=True,
    help="List, explain, create and check plugins: methods, encoders, protocols, datasets, tables, ...",
)
app.command("new")(plugins_new.new)
app.command("check")(plugins_check.check)


@app.command("list")
def list_plugins(
    kind: Annotated[str | None, typer.Argument(help="Kind to list: methods, encoders, protocols, ...")] = None,
) -> None:
    """List what can be used: all kinds with the number of entries, or the entries of one KIND."""
    kind = {name: plural for plural, name in SINGULAR.items()}.get(kind or "", kind)
    if kind is not None and kind not in KINDS:
        raise SkelbenchError(did_you_mean(kind, list(SINGULAR.values()), "kind"))
    host = get_host()
    if kind is None:
        counts = [(name, len(host.names(name)), ", ".join(host.names(name))) for name in KINDS if host.names(name)]
        _print_list(("kind", "number", "names"), counts)
        out.print("One kind: skelbench plugins list methods. One entry: skelbench plugins info NAME.")
    else:
        _print_list(*_entries(host, kind))
    problems = [(plugin.name, plugin.state, plugin.error) for plugin in host.plugins if plugin.state != "ok"]
    if problems:
        out.print(make_table(("plugin", "status", "problem"), problems))


def _entries(host: Host, kind: str) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Return the columns and rows of the entries of one kind."""
    rows: list[tuple[Any, ...]] = []
    for entry in sorted((entry for entry in host.entries if entry.kind == kind), key=lambda entry: entry.name):
        about, year = entry.descriptor, re.search(r"\b20\d\d\b", getattr(entry.descriptor, "citation", ""))
        own = "" if entry.plugin.dist == "skelbench" else entry.plugin.name
        facts = (getattr(about, "spelling", ""), year[0] if year else "")
        rows.append((about.name, *facts, own, about.summary))
    headers = ("name", "paper", "year", "plugin", "summary")
    filled = [i for i in range(len(headers)) if i in (0, 4) or any(row[i] for row in rows)]
    return tuple(headers[i] for i in filled), [tuple(row[i] for i in filled) for row in rows]


def _print_list(headers: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    """Print one line per row; on a terminal the last column is cut at its width."""
    table = make_table(headers)
    for column in table.columns[:-1]:
        column.no_wrap = True
    for *cells, last in rows:
        table.add_row(*map(str, cells), Text(plain(last), no_wrap=True, overflow="ellipsis"))
    out.print(table)


@app.command()
def info(
    name: Annotated[str, typer.Argument(help="Name of a method, encoder, protocol, ..., or of a plugin.")],
) -> None:
    """Explain NAME: how to use it, paper, settings, presets, variants; for a failed plugin, the traceback."""
    host = get_host()
    entries = [entry for entry in host.entries if name == entry.name]
    plugins = [plugin for plugin in host.plugins if plugin.name == name]
    if not entries and not plugins:
        names = [entry.name for entry in host.entries] + [p.name for p in host.plugins]
        problem = next((plugin.error for plugin in host.plugins if plugin.might_have(name)), "")
        raise SkelbenchError(problem or did_you_mean(name, list(set(names)), "name", "See `skelbench plugins list`."))
    for entry in entries:
        _show_entry(host, entry)
    for plugin in plugins:
        _show_plugin(host, plugin)


def _show_entry(host: Host, entry: Entry) -> None:
    from skelbench.core.spec import listed  # pydantic

    about = entry.descriptor
    plugin = entry.plugin
    first_stage = getattr(about, "stage", None)
    found = " --init-from RUN" * bool(first_stage and not first_stage.alone)
    found += f" --plugin {plugin.source}" * bool(plugin.source_hash)
    usage = RUN_IT.get(SINGULAR[entry.kind], "").format(name=about.name, found=found)
    print_facts(
        [
            ("summary", about.summary),
            ("in figures", getattr(about, "spelling", "")),
            ("citation", getattr(about, "citation", "")),
            ("our assumptions", getattr(about, "readings", "")),
            ("license", getattr(about, "license", "")),
            ("splits", ", ".join(getattr(about, "splits", ()))),
            ("default split", getattr(about, "default_split", "")),
            ("version", about.version),
            ("requires", ", ".join(getattr(about, "requires", ()))),
            ("abilities", ", ".join(sorted(host.load(about).abilities)) if isinstance(about, EncoderSpec) else ""),
            ("needs", ", ".join(getattr(about, "packages", ()))),
            ("reads", ", ".join(getattr(about, "files", ()))),
            ("starts from", ", ".join(getattr(first_stage, "after", ()))),
            ("authors' probe", getattr(getattr(about, "probe", None), "protocol", "")),
            ("class", host.shown(about.target)),
            ("plugin", f"{plugin.name} ({plugin.dist} {plugin.version})" if plugin.dist else plugin.name),
            ("source", plugin.source),
            ("hash of code", plugin.source_hash),
        ],
        title=f"{SINGULAR[entry.kind]} {about.name}",
    )
    if usage:  # on one line, to be copied
        out.print(f"use it  {usage}", soft_wrap=True)

    name = about.name
    groups = {
        "optimizer, in every setting (a preset may scale it)": getattr(about, "recipe", {}),
        "published setting (run --native)": getattr(about, "native", {}),
        "without a first-stage run (--init-from)": getattr(first_stage, "alone", {}),
        "evaluated with": getattr(about, "defaults", {}),
    }
    variants = {variant: listed(changes) for variant, changes in getattr(about, "variants", {}).items()}
    groups[f"variants (run {name}:VARIANT)"] = variants
    groups |= {f"preset {preset}": values for preset, values in getattr(about, "presets", {}).items()}
    groups[f"search space (tune {name}); x: times the value of the preset"] = getattr(about, "space", {})
    for title, values in groups.items():
        if values:
            out.print()
            out.print(make_table(("key", "value"), [(key, str(value)) for key, value in values.items()], title))
    if isinstance(about, ComponentSpec):
        _show_settings(host.config(about), "settings")
    elif getattr(about, "config", "") or entry.kind == "protocols":
        _show_settings(host.config(about), "settings (--set KEY=VALUE)")
    elif entry.kind == "targets" and (config := getattr(host.load(about), "Config", None)):
        _show_settings(config, "settings (--set 'target_settings={KEY=VALUE}')")
    out.print()


def _show_settings(config: type, title: str) -> None:
    from skelbench.core.settings import settings  # pydantic

    fields = settings(config)
    columns = ("name", "type", "default", *(["unit"] if any(field.unit for field in fields) else []), "doc")
    rows = [tuple(getattr(field, column) for column in columns) for field in fields]
    if rows:
        headers = {"name": "setting", "doc": "meaning"}
        out.print()
        out.print(make_table([headers.get(column, column) for column in columns], rows, title))


def _show_plugin(host: Host, plugin: PluginStatus) -> None:
    offered = [f"{SINGULAR[e.kind]} {e.name}" for e in host.entries if e.plugin is plugin]
    print_facts(
        [
            ("distribution", f"{plugin.dist} {plugin.version}".strip()),
            ("source", plugin.source),
            ("hash of code", plugin.source_hash),
            ("status", plugin.state),
            ("problem", plugin.error),
            ("offers", ", ".join(offered)),
        ],
        title=f"plugin {plugin.name}",
    )
    if plugin.exception:
        out.print()
        out.print("".join(traceback.format_exception(plugin.exception)))
