"""Completion of names with TAB, without torch: a completer takes the parsed command line and the beginning of a word,
and returns names with what they mean. Typer keeps those with that beginning."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import typer

from skelbench.plugin.descriptors import MethodSpec
from skelbench.plugin.host import get_host
from skelbench.plugin.status import SINGULAR

Names = Iterator[tuple[str, str]]
Completer = Callable[[typer.Context, str], list[tuple[str, str]]]


def _completer(names: Callable[[typer.Context], Names]) -> Completer:
    """Completion of the last name of a comma-separated list; nobody reads an error between two keystrokes."""

    def complete(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
        before, comma, _ = incomplete.rpartition(",")
        try:
            return [(before + comma + name, about) for name, about in names(ctx)]
        except (Exception, SystemExit):
            return []

    return complete


def _announced(kind: str) -> Names:
    host = get_host()
    for entry in host.entries:
        if entry.kind == kind:
            yield host.name(entry.descriptor), entry.descriptor.summary


def names(kind: str) -> Completer:
    """Completes names of one kind of component."""
    return _completer(lambda ctx: _announced(kind))


def one_of(*choices: str) -> Completer:
    """Completes one of a few words."""
    return _completer(lambda ctx: ((choice, "") for choice in choices))


@_completer
def _methods(ctx: typer.Context) -> Names:
    for name, about in _announced("methods"):
        yield name, about
        for variant in get_host().method(name)[0].variants:
            yield f"{name}:{variant}", f"variant of {name}"


def methods(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """METHOD, and METHOD:VARIANT once the colon is typed."""
    return [(name, about) for name, about in _methods(ctx, incomplete) if ":" in incomplete or ":" not in name]


@_completer
def datasets(ctx: typer.Context) -> Names:
    """Data sets of plugins, and those in the data root."""
    yield from _announced("datasets")
    for path in sorted(_data_root(ctx).glob("[!.]*/meta.json")):
        yield path.parent.name, "stored"


@_completer
def splits(ctx: typer.Context) -> Names:
    """Splits of the data set that is named, else of the default one."""
    name = _typed(ctx, "dataset") or _typed(ctx, "name") or "synthetic"
    host, meta = get_host(), _data_root(ctx) / name / "meta.json"
    known = (
        host.get("datasets", name).splits if name in host.names("datasets") else json.loads(meta.read_text())["splits"]
    )
    for split in known:
        yield split, f"split of {name}"


@_completer
def presets(ctx: typer.Context) -> Names:
    """Presets of the harness, and those of the method."""
    from skelbench.pipeline.presets import BLURB

    yield from BLURB.items()
    if (method := _method(ctx)) is not None:
        yield from ((preset, f"preset of {method.name}") for preset in method.presets)


def _runs(ctx: typer.Context) -> Iterator[Path]:
    from skelbench.records.store import default_root

    yield from sorted(Path(ctx.params.get("results") or default_root()).glob("[!.]*/run.json"))


@_completer
def runs(ctx: typer.Context) -> Names:
    """Runs of the results directory."""
    return ((path.parent.name, "run") for path in _runs(ctx))


@_completer
def tags(ctx: typer.Context) -> Names:
    """Tags of the runs of the results directory."""
    return ((tag, "tag") for path in _runs(ctx) for tag in json.loads(path.read_text()).get("tags", ()))


@_completer
def settings(ctx: typer.Context) -> Names:
    """KEY= of ``--set`` of a run, and KEY=NAME of a component."""
    from skelbench.core.spec import DataSpec, GridSpec, RunSpec, TrainSpec
    from skelbench.pipeline.request import CHOICES

    method = _method(ctx)
    given = dict(pair.partition("=")[::2] for pair in ctx.params.get("sets") or ctx.params.get("set_") or [])
    for section, kind in CHOICES.items():
        yield from ((f"{section}={name}", about) for name, about in _announced(kind))
        usual = method.recipe.get(section) if method else None
        chosen = ctx.params.get(section) or given.get(section) or usual or RunSpec.model_fields[section].default
        yield from _keys(kind, chosen, f"{section}.")
    yield from _keys("methods", method.name, "method.") if method else ()
    for section, spec in (("train", TrainSpec), ("grid", GridSpec), ("data", DataSpec)):
        yield from ((f"{section}.{name}=", section) for name in spec.model_fields.keys() - DataSpec.FOUND)


@_completer
def figure_settings(ctx: typer.Context) -> Names:
    """KEY= of ``--set`` of a figure."""
    return _keys("figures", ctx.params.get("figure") or "")


@_completer
def protocol_settings(ctx: typer.Context) -> Names:
    """KEY= of ``--set`` of an evaluation."""
    for protocol in (ctx.params.get("protocol") or "").split(","):
        yield from _keys("protocols", protocol)


@_completer
def plugins(ctx: typer.Context) -> Names:
    """Plugins, and everything that they announce."""
    host = get_host()
    yield from ((plugin.name, f"plugin, {plugin.state}") for plugin in host.plugins)
    yield from ((entry.name, entry.descriptor.summary or SINGULAR[entry.kind]) for entry in host.entries)


@_completer
def kinds_to_write(ctx: typer.Context) -> Names:
    """Kinds of components that there are templates for."""
    from skelbench.testing.scaffold.plan import USE

    return ((kind, f"a new {kind}") for kind in USE)


def _typed(ctx: typer.Context, name: str) -> str | None:
    """The value of a parameter. While the value of an option is typed, the first argument is not parsed yet."""
    value = ctx.params.get(name)
    if isinstance(value, list | tuple):
        return value[-1] if value else None
    arguments = [each.name for each in ctx.command.params if each.param_type_name == "argument"]
    return value or (ctx.args[0] if ctx.args and arguments[:1] == [name] else None)


def _method(ctx: typer.Context) -> MethodSpec | None:
    name = _typed(ctx, "method") or _typed(ctx, "view")
    return get_host().method(name)[0] if name else None


def _keys(kind: str, name: str, section: str = "") -> Names:
    host = get_host()
    for key in host.setting_names(host.get(kind, name.strip())):
        yield f"{section}{key}=", f"setting of {SINGULAR[kind]} {name}"


def _data_root(ctx: typer.Context) -> Path:
    from skelbench.data.store import roots

    return Path(ctx.params.get("data_root") or ctx.params.get("data") or roots.data_root())


FIELDS = {
    "method": methods,
    "dataset": datasets,
    "split": splits,
    "tokens": one_of("8", "15", "30"),
    "preset": presets,
    "encoder": names("encoders"),
    "budget": one_of("clips=", "steps=", "flops=", "minutes="),
    "precision": one_of("fp32", "bf16"),
    "sets": settings,
    "init_from": runs,
    "probes": names("protocols"),
    "observe": names("observers"),
    "stream": one_of("joint", "bone", "motion"),
    "fusion": one_of("features", "scores", "logits"),
}
"""Completers of the fields of requests."""
