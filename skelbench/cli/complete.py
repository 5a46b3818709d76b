"""Completion of names with TAB, without torch: typer calls a completer with the command line parsed so far."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import typer

from skelbench.plugin.descriptors import MethodSpec
from skelbench.plugin.host import get_host

Completer = Callable[[typer.Context, str], list[str]]


def _completer(values: Callable[[typer.Context], Iterable[str]]) -> Completer:
    """Complete the last name of a comma-separated list; a plugin or file that raises completes nothing."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        before, comma, _ = incomplete.rpartition(",")
        try:
            return [before + comma + value for value in values(ctx)]
        except (Exception, SystemExit):
            return []

    return complete


def names(kind: str) -> Completer:
    """Complete names of one kind of component."""
    return _completer(lambda ctx: get_host().names(kind))


def one_of(*choices: str) -> Completer:
    """Complete one of a few words."""
    return _completer(lambda ctx: choices)


@_completer
def _variants(ctx: typer.Context) -> Iterator[str]:
    for name in get_host().names("methods"):
        yield from (f"{name}:{variant}" for variant in get_host().method(name)[0].variants)


def methods(ctx: typer.Context, incomplete: str) -> list[str]:
    """METHOD, or METHOD:VARIANT once the colon is typed."""
    return (_variants if ":" in incomplete else names("methods"))(ctx, incomplete)


datasets = _completer(
    lambda ctx: [*get_host().names("datasets"), *(path.parent.name for path in _data_root(ctx).glob("[!.]*/meta.json"))]
)
runs = _completer(lambda ctx: [path.parent.name for path in _run_files(ctx)])
tags = _completer(lambda ctx: [tag for path in _run_files(ctx) for tag in json.loads(path.read_text()).get("tags", ())])
plugins = _completer(
    lambda ctx: [plugin.name for plugin in get_host().plugins] + [entry.name for entry in get_host().entries]
)
figure_settings = _completer(lambda ctx: _keys("figures", ctx.params.get("figure") or ""))


@_completer
def splits(ctx: typer.Context) -> Iterable[str]:
    """Splits of the data set on the command line."""
    name = _parsed(ctx, "dataset") or _parsed(ctx, "name") or "synthetic"
    if name in get_host().names("datasets"):
        return get_host().get("datasets", name).splits
    return json.loads((_data_root(ctx) / name / "meta.json").read_text())["splits"]


@_completer
def presets(ctx: typer.Context) -> Iterable[str]:
    """Presets of skelbench and of the method on the command line."""
    from skelbench.pipeline.presets import BLURB

    method = _method(ctx)
    return [*BLURB, *(method.presets if method else ())]


@_completer
def settings(ctx: typer.Context) -> Iterator[str]:
    """KEY= of ``--set`` of a run, and KEY=NAME of a component."""
    from skelbench.core.spec import DataSpec, GridSpec, RunSpec, TrainSpec
    from skelbench.pipeline.request import CHOICES

    method = _method(ctx)
    given = dict(pair.partition("=")[::2] for pair in ctx.params.get("sets") or ctx.params.get("set_") or [])
    for section, kind in CHOICES.items():
        yield from (f"{section}={name}" for name in get_host().names(kind))
        usual = (method and method.recipe.get(section)) or RunSpec.model_fields[section].default
        yield from _keys(kind, ctx.params.get(section) or given.get(section) or usual, f"{section}.")
    yield from _keys("methods", method.name, "method.") if method else ()
    for section, spec in (("train", TrainSpec), ("grid", GridSpec), ("data", DataSpec)):
        yield from (f"{section}.{name}=" for name in spec.model_fields.keys() - DataSpec.FOUND)


@_completer
def protocol_settings(ctx: typer.Context) -> Iterator[str]:
    """KEY= of ``--set`` of an evaluation."""
    for protocol in (ctx.params.get("protocol") or "").split(","):
        yield from _keys("protocols", protocol)


@_completer
def kinds_to_write(ctx: typer.Context) -> Iterable[str]:
    """Kinds of components that ``skelbench plugins new`` has templates for."""
    from skelbench.testing.scaffold.plan import USE

    return USE


def _parsed(ctx: typer.Context, name: str) -> str | None:
    """Value of a parameter; the first argument is not parsed yet while the value of an option is typed."""
    value = ctx.params.get(name)
    if isinstance(value, list | tuple):
        return value[-1] if value else None
    arguments = [each.name for each in ctx.command.params if each.param_type_name == "argument"]
    return value or (ctx.args[0] if ctx.args and arguments[:1] == [name] else None)


def _method(ctx: typer.Context) -> MethodSpec | None:
    name = _parsed(ctx, "method") or _parsed(ctx, "view")
    return get_host().method(name)[0] if name else None


def _keys(kind: str, name: str, section: str = "") -> Iterator[str]:
    host = get_host()
    return (f"{section}{key}=" for key in host.get(kind, name.strip()).setting_names)


def _run_files(ctx: typer.Context) -> list[Path]:
    from skelbench.records.store import default_root

    return sorted(Path(ctx.params.get("results") or default_root()).glob("[!.]*/run.json"))


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
