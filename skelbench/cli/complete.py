"""What TAB completes: names from announcements, runs and data sets from the names of their folders, settings from the
text of their classes. Nothing here imports torch, or reads more of a run than its tags.

Every function takes the parsed command line and the beginning of a word, and returns words with what they mean; what
does not begin so is left out by typer.
"""

from __future__ import annotations

import io
import json
import logging
import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from functools import wraps
from pathlib import Path

import typer

from skelbench.plugin.descriptors import MethodSpec
from skelbench.plugin.host import Host, get_host
from skelbench.plugin.status import SINGULAR

Words = Iterator[tuple[str, str]]
Completer = Callable[[typer.Context, str], list[tuple[str, str]]]


def _completer(words: Callable[[typer.Context, str], Words]) -> Completer:
    """Nobody reads a traceback between two keystrokes: where names cannot be had there are none."""

    @wraps(words)
    def complete(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
        try:
            return list(words(ctx, incomplete))
        except (Exception, SystemExit):
            return []

    return complete


def _announced(kind: str) -> Words:
    host = get_host()
    for entry in host.entries:
        if entry.kind == kind:
            yield host.name(entry.descriptor), entry.descriptor.summary


def names(kind: str) -> Completer:
    """Completes names of one kind of announcement."""
    return _completer(lambda ctx, incomplete: _announced(kind))


def listed(completer: Completer) -> Completer:
    """Completes the last name of a comma-separated list."""

    def complete(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
        before, comma, last = incomplete.rpartition(",")
        return [(before + comma + word, about) for word, about in completer(ctx, last)]

    return complete


def one_of(*words: str) -> Completer:
    """Completes one of a few words."""
    return lambda ctx, incomplete: [(word, "") for word in words]


@_completer
def methods(ctx: typer.Context, incomplete: str) -> Words:
    """METHOD, and behind its colon the VARIANT."""
    yield from _announced("methods")
    if ":" in incomplete:
        method = incomplete.rpartition(":")[0]
        about, _ = get_host().method(method)
        for variant in about.variants:
            yield f"{method}:{variant}", f"variant of {about.name}"


@_completer
def datasets(ctx: typer.Context, incomplete: str) -> Words:
    """Data sets that plugins announce, and those that lie in the data root."""
    yield from _announced("datasets")
    announced = {about.name for about in get_host().all("datasets")}
    for path in sorted(_data_root(ctx).glob("[!.]*/meta.json")):
        if path.parent.name not in announced:
            yield path.parent.name, "stored"


@_completer
def splits(ctx: typer.Context, incomplete: str) -> Words:
    """Splits of the data set that is named; of the default one if none is."""
    name = _said(ctx, "dataset") or _said(ctx, "name") or "synthetic"
    host = get_host()
    if name in host.names("datasets"):
        found = host.get("datasets", name).splits
    else:
        found = tuple(json.loads((_data_root(ctx) / name / "meta.json").read_text())["splits"])
    for split in found:
        yield split, f"split of {name}"


@_completer
def presets(ctx: typer.Context, incomplete: str) -> Words:
    """Presets of the harness, and those of the method alone."""
    from skelbench.pipeline.presets import BLURB

    yield from BLURB.items()
    if (method := _method(ctx)) is not None:
        for preset in method.presets:
            yield preset, f"preset of {method.name}"


@_completer
def runs(ctx: typer.Context, incomplete: str) -> Words:
    """Runs of the results directory, by the names of their folders."""
    from skelbench.records.store import default_root

    for path in sorted(Path(ctx.params.get("results") or default_root()).glob("[!.]*/run.json")):
        yield path.parent.name, "run"


@_completer
def tags(ctx: typer.Context, incomplete: str) -> Words:
    """Tags of the runs of the results directory."""
    from skelbench.records.store import default_root

    found: set[str] = set()
    for path in Path(ctx.params.get("results") or default_root()).glob("[!.]*/run.json"):
        with suppress(OSError, ValueError, AttributeError):  # one that is damaged hides those of no other
            found.update(json.loads(path.read_text()).get("tags", ()))
    for tag in sorted(found):
        yield tag, "tag"


@_completer
def settings(ctx: typer.Context, incomplete: str) -> Words:
    """KEY= of ``--set`` of a run, and for what has names behind it KEY=NAME."""
    from skelbench.core.spec import DataSpec, GridSpec, RunSpec, TrainSpec
    from skelbench.pipeline.request import CHOICES

    host, said = get_host(), dict(pair.partition("=")[::2] for pair in ctx.params.get("set_") or [])
    method = _method(ctx)
    for section, kind in CHOICES.items():
        for name, about in _announced(kind):
            yield f"{section}={name}", about
        usual = method.recipe.get(section) if method else None
        chosen = ctx.params.get(section) or said.get(section) or usual or RunSpec.model_fields[section].default
        yield from _keys(host, kind, chosen, section)
    if method is not None:
        yield from _keys(host, "methods", method.name, "method")
    for section, spec in (("train", TrainSpec), ("grid", GridSpec), ("data", DataSpec)):
        for name in spec.model_fields.keys() - DataSpec.FOUND:
            yield f"{section}.{name}=", section


@_completer
def figure_settings(ctx: typer.Context, incomplete: str) -> Words:
    """KEY= of ``--set`` of a figure."""
    figure = ctx.params.get("figure") or ""
    for name in get_host().setting_names(get_host().get("figures", figure)):
        yield f"{name}=", f"setting of {figure}"


@_completer
def protocol_settings(ctx: typer.Context, incomplete: str) -> Words:
    """KEY= of ``--set`` of an evaluation."""
    for protocol in (ctx.params.get("protocol") or "").split(","):
        for name in get_host().setting_names(get_host().get("protocols", protocol.strip())):
            yield f"{name}=", f"setting of {protocol}"


@_completer
def plugins(ctx: typer.Context, incomplete: str) -> Words:
    """Plugins, and whatever they announce."""
    host = get_host()
    about = {plugin.name: f"plugin, {plugin.state}" for plugin in host.plugins}
    about |= {entry.name: entry.descriptor.summary or SINGULAR[entry.kind] for entry in host.entries}
    yield from about.items()


def _said(ctx: typer.Context, name: str) -> str | None:
    """What was typed for a parameter. Before an option whose value is being typed, the first argument is unread yet."""
    arguments = [each.name for each in ctx.command.params if each.param_type_name == "argument"]
    typed = ctx.params.get(name)
    if isinstance(typed, list | tuple):  # a filter, which may be repeated
        return typed[-1] if typed else None
    return typed or (ctx.args[0] if ctx.args and arguments[:1] == [name] else None)


def _method(ctx: typer.Context) -> MethodSpec | None:
    """The method that is named."""
    name = _said(ctx, "method") or _said(ctx, "view")
    return get_host().method(name)[0] if name else None


@_completer
def kinds_to_write(ctx: typer.Context, incomplete: str) -> Words:
    """Kinds that there are templates of."""
    from skelbench.testing.scaffold.plan import USE

    for kind in USE:
        yield kind, f"a new {kind}"


def _keys(host: Host, kind: str, name: str, section: str) -> Words:
    for key in host.setting_names(host.get(kind, name)):
        yield f"{section}.{key}=", f"setting of {SINGULAR[kind]} {name}"


def _data_root(ctx: typer.Context) -> Path:
    from skelbench.data.store import roots

    return Path(ctx.params.get("data_root") or roots.data_root())


# ------------------------------------------------------------------------------------------------ what the shell sends
ASKED = "_SKELBENCH_COMPLETE"
"""The variable by which a shell asks."""
BREAKS = ":="
"""Bash takes these for words of their own."""


@contextmanager
def completing(take_globals: Callable[[list[str]], list[str]]) -> Iterator[None]:
    """While a shell asks for words: what it sends and gets, as commands know it. Else nothing is done.

    Options that may stand anywhere are taken out (``take_globals(words)`` returns the others), as no command has them.
    Bash breaks words at ``:`` and ``=``: they are put together again, and of what is found it gets the part that is
    missing. Notes of plugins that failed would stand in the middle of what is typed.
    """
    if not os.environ.get(ASKED):
        yield
        return
    there, answer = _tidy(take_globals), io.StringIO()
    disabled = logging.root.manager.disable
    logging.disable()
    try:
        with redirect_stdout(answer):
            yield
    finally:
        logging.disable(disabled)
        for line in answer.getvalue().splitlines():
            print(line.removeprefix(there))


def _tidy(take_globals: Callable[[list[str]], list[str]]) -> str:
    """Rewrite the words that the shell sent; returns the part of the last that it takes for words before it."""
    bash = "COMP_WORDS" in os.environ
    sent = os.environ.get("COMP_WORDS" if bash else "_TYPER_COMPLETE_ARGS", "")
    try:
        words = shlex.split(sent)
    except ValueError:  # an open quote
        words = []
    if not words:
        return ""
    if bash:
        cursor = int(os.environ["COMP_CWORD"])
        program, *before, last = _joined([*words[:cursor], *(words[cursor : cursor + 1] or [""])])
    else:
        program, *before, last = words if not sent.endswith(" ") else [*words, ""]
    kept = [program, *take_globals(before)]
    os.environ["COMP_WORDS" if bash else "_TYPER_COMPLETE_ARGS"] = (
        f"{shlex.join(kept)} {shlex.quote(last) * bool(last)}"
    )
    os.environ["COMP_CWORD"] = str(len(kept))
    return last[: 1 + max(last.rfind(mark) for mark in BREAKS)] if bash else ""


def _joined(words: list[str]) -> list[str]:
    """``["slim", ":", "gl"]`` -> ``["slim:gl"]``; the last stays a word of its own where nothing is typed of it."""
    joined: list[str] = []
    for i, word in enumerate(words):
        broken = word[:1] in BREAKS and word or (joined and joined[-1][-1:] in BREAKS and joined[-1])
        if joined and i and broken:
            joined[-1] += word
        else:
            joined.append(word)
    return joined
