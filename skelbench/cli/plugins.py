"""``skelbench plugins list|info|check``."""

from __future__ import annotations

import traceback
from typing import Annotated

import typer

from skelbench.cli import plugins_check, plugins_new
from skelbench.core.console import make_table, out, print_facts
from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.plugin.descriptors import KINDS, ComponentSpec, EncoderSpec, TopologySpec
from skelbench.plugin.host import Host, get_host
from skelbench.plugin.status import SINGULAR, Entry, PluginStatus

PARTS = (ComponentSpec, TopologySpec)
"""Kinds that are listed by name only."""

app = typer.Typer(
    no_args_is_help=True,
    help="Methods, encoders, data sets, protocols, targets, tables, augmentations, ..., and where from.",
)
app.command("new")(plugins_new.new)
app.command("check")(plugins_check.check)


@app.command("list")
def list_plugins(
    kind: Annotated[
        str | None, typer.Argument(help="Only methods, encoders, datasets, ...", show_default="all")
    ] = None,
) -> None:
    """List everything that plugins announce, and plugins that cannot be used."""
    kind = {name: plural for plural, name in SINGULAR.items()}.get(kind or "", kind)
    if kind is not None and kind not in KINDS:
        raise SkelbenchError(did_you_mean(kind, list(SINGULAR.values()), "kind"))
    host = get_host()
    rows = []
    for entry in sorted(host.entries, key=lambda entry: (list(KINDS).index(entry.kind), entry.name)):
        about = entry.descriptor
        if entry.kind == kind or (kind is None and KINDS[entry.kind] not in PARTS):
            variants = len(getattr(about, "variants", {}))
            summary = about.summary + (f"; {variants} variant{'s' * (variants > 1)}" if variants else "")
            rows.append((SINGULAR[entry.kind], about.name, summary, entry.plugin.name, "ok"))
    for plugin in host.plugins:
        if plugin.state != "ok":
            rows.append(("plugin", plugin.name, plugin.error, plugin.name, plugin.state))
    headers = ("kind", "name", "summary", "plugin", "status")
    varied = [i for i in range(5) if kind is None or i in (1, 2) or len({row[i] for row in rows}) > 1]
    out.print(make_table([headers[i] for i in varied], [[row[i] for i in varied] for row in rows]))
    parts = [(part, ", ".join(names)) for part in KINDS if KINDS[part] in PARTS and (names := host.names(part))]
    if parts and kind is None:
        out.print(make_table(("parts", "names (skelbench plugins info NAME)"), parts))


@app.command()
def info(
    name: Annotated[str, typer.Argument(help="Name of a method, encoder, ..., or of a plugin.")],
) -> None:
    """Print citation, settings, presets and variants of NAME; of a failed plugin the traceback."""
    host = get_host()
    entries = [entry for entry in host.entries if name == entry.name]
    plugins = [plugin for plugin in host.plugins if plugin.name == name]
    if not entries and not plugins:
        names = [entry.name for entry in host.entries] + [p.name for p in host.plugins]
        problem = next((plugin.error for plugin in host.plugins if plugin.might_have(name)), "")
        raise SkelbenchError(problem or did_you_mean(name, list(set(names)), "name"))
    for entry in entries:
        _show_entry(host, entry)
    for plugin in plugins:
        _show_plugin(host, plugin)


def _show_entry(host: Host, entry: Entry) -> None:
    from skelbench.core.spec import listed  # pydantic

    about = entry.descriptor
    plugin = entry.plugin
    print_facts(
        [
            ("summary", about.summary),
            ("in figures", getattr(about, "spelling", "")),
            ("citation", getattr(about, "citation", "")),
            ("our assumptions", getattr(about, "readings", "")),
            ("licence", getattr(about, "licence", "")),
            ("splits", ", ".join(getattr(about, "splits", ()))),
            ("default split", getattr(about, "default_split", "")),
            ("version", about.version),
            ("requires", ", ".join(getattr(about, "requires", ()))),
            ("abilities", ", ".join(sorted(host.load(about).abilities)) if isinstance(about, EncoderSpec) else ""),
            ("needs", ", ".join(getattr(about, "packages", ()))),
            ("reads", ", ".join(getattr(about, "files", ()))),
            ("starts from", ", ".join(getattr(getattr(about, "stage", None), "after", ()))),
            ("authors' probe", getattr(getattr(about, "probe", None), "protocol", "")),
            ("class", host.shown(about.target)),
            ("plugin", f"{plugin.name} ({plugin.dist} {plugin.version})" if plugin.dist else plugin.name),
            ("source", plugin.source),
            ("hash of code", plugin.source_hash),
        ],
        title=f"{SINGULAR[entry.kind]} {about.name}",
    )

    name = about.name
    groups = {
        "optimizer, in every setting (a preset may scale it)": getattr(about, "recipe", {}),
        "native setting (run --native)": getattr(about, "native", {}),
        "without a run to start from (--init-from)": getattr(getattr(about, "stage", None), "alone", {}),
        "evaluated with": getattr(about, "defaults", {}),
        f"search space (skelbench tune {name}); x: times the value of the preset": getattr(about, "space", {}),
    }
    groups |= {f"preset {preset}": values for preset, values in getattr(about, "presets", {}).items()}
    variants = {variant: listed(changes) for variant, changes in getattr(about, "variants", {}).items()}
    groups[f"variants (skelbench run {name}:VARIANT)"] = variants
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
    from skelbench.plugin.settings import settings  # pydantic

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
