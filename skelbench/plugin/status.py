"""What is known of each plugin and of each descriptor it announced."""

from __future__ import annotations

import traceback as tracebacks
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from skelbench.core.errors import SkelbenchError
from skelbench.core.user_config import said
from skelbench.plugin.deprecated import Renamed
from skelbench.plugin.descriptors import KINDS, Descriptor
from skelbench.plugin.plugin_errors import told

_IRREGULAR = {"studies": "study", "topologies": "topology", "rows": "rows", "published": "published table"}
SINGULAR = {kind: _IRREGULAR.get(kind, kind.removesuffix("s")) for kind in KINDS}
State = Literal["ok", "import-error", "invalid", "api-mismatch", "conflict"]
USABLE = ("ok", "conflict")
"""States of plugins that are used, a part of them at least."""


@dataclass
class PluginStatus:
    """How loading one plugin went. ``error`` is one line; ``traceback`` is empty unless something was raised."""

    name: str
    dist: str = ""
    version: str = ""
    source: str = ""
    """``builtin``, ``entry point MODULE``, a file of a package (``my_package/slim.py``) or the path of a file."""
    state: State = "ok"
    error: str = ""
    seconds: float = 0.0
    traceback: str = ""
    source_hash: str | None = None
    """sha256 of a single file: its code has no version, so the hash enters the identity of runs."""
    requested: bool = False
    """Named on the command line: its failure is an error, not a note."""
    remarks: list[str] = field(default_factory=list)
    """What it does while it is read and should not: takes long, prints, changes the process."""
    path: str = ""
    """The file that it was read from; "" where it is an object, or nothing that can be read."""
    renamed: list[Renamed] = field(default_factory=list)
    """Old names by which it calls something."""
    errors: list[BaseException] = field(default_factory=list)
    """What was raised while it was read."""

    @property
    def old_names(self) -> str:
        """Which of its names are old, and what they are today."""
        return "; ".join(dict.fromkeys(map(str, self.renamed)))

    def fail(self, state: State, sentence: str, error: BaseException | None = None) -> None:
        """Record a problem; the first one names the state."""
        self.state = state if self.state == "ok" else self.state
        self.error = f"{self.error}; {sentence}" if self.error else sentence
        if error is not None:
            self.errors.append(error)
            self.traceback += "".join(tracebacks.format_exception(error))
        if strict():
            raise error or SkelbenchError(f"plugin {self.name!r}: {sentence}")


@dataclass
class Entry:
    """One announced descriptor. ``clash``: why it is usable as ``plugin:name`` only."""

    kind: str
    name: str
    descriptor: Descriptor
    plugin: PluginStatus
    clash: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Every name this answers to."""
        return names_of(self.name, self.plugin)


@dataclass(frozen=True)
class Refusal:
    """Something announced that cannot be used, by each of its ``names``, and why."""

    kind: str
    names: tuple[str, ...]
    sentence: str
    plugin: PluginStatus


def unavailable(kind: str, name: str, plugin: PluginStatus) -> str:
    """Why something of a plugin that failed cannot be had."""
    return (
        f"{SINGULAR[kind]} {name!r} is not available: plugin {plugin.name!r} ({plugin.source}) "
        f"failed ({plugin.state}): {plugin.error}"
    )


def names_of(name: str, plugin: PluginStatus) -> tuple[str, ...]:
    """``name``, and ``name`` with its plugin or distribution."""
    return name, f"{plugin.name}:{name}", f"{plugin.dist or plugin.name}:{name}"


_lenient = False


def strict() -> bool:
    """Whether problems of plugins are raised (``SKELBENCH_STRICT``) instead of recorded."""
    return not _lenient and bool(said("strict"))


@contextmanager
def lenient() -> Iterator[None]:
    """Problems of plugins are recorded, whatever the environment says: they are what is asked for."""
    global _lenient
    before, _lenient = _lenient, True
    try:
        yield
    finally:
        _lenient = before


def one_line(error: BaseException) -> str:
    """``Type: message`` on one line, after the place in a plugin that it came through, if any; the message alone for
    errors that are written for users."""
    text = " ".join(str(error).split())
    if isinstance(error, SkelbenchError):
        return text
    if sentence := told(error):
        return sentence
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
