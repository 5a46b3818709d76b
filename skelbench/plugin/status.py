"""How loading a plugin went, and which descriptors it announced."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from typing import Literal

from skelbench.core.errors import SkelbenchError
from skelbench.plugin.descriptors import KINDS, Descriptor
from skelbench.plugin.plugin_errors import told

State = Literal["ok", "import-error", "invalid", "api-mismatch", "conflict"]
_IRREGULAR = {"studies": "study", "topologies": "topology", "rows": "rows", "published": "published table"}
SINGULAR = {kind: _IRREGULAR.get(kind, kind.removesuffix("s")) for kind in KINDS}
USABLE = ("ok", "conflict")
"""States of plugins that can be used, at least in part."""


@dataclass
class PluginStatus:
    """State of one plugin."""

    name: str
    dist: str = ""
    version: str = ""
    source: str = ""
    """``builtin``, ``entry point MODULE``, a file of a package (``my_package/slim.py``) or the path of a file."""
    state: State = "ok"
    error: str = ""
    """One line."""
    source_hash: str | None = None
    """sha256 of a single file: its code has no version, so the hash is part of the identity of runs."""
    requested: bool = False
    """Named on the command line: its failure is an error, not a note."""
    path: str = ""
    """The file with its code; "" for an object, or a file that cannot be read."""
    errors: list[BaseException] = field(default_factory=list)
    """Exceptions raised by its import and its hooks."""

    @property
    def traceback(self) -> str:
        """Tracebacks of its errors; "" if nothing was raised."""
        return "".join("".join(traceback.format_exception(error)) for error in self.errors)

    def might_have(self, name: str) -> bool:
        """Whether it failed, and is called ``name`` or names it in its problem."""
        plugin, _, last = name.rpartition(":")
        return self.state not in USABLE and (self.name in (name, plugin) or repr(last) in self.error)

    def fail(self, state: State, sentence: str, error: BaseException | None = None) -> None:
        """Record a problem; the first one decides the state."""
        self.state = state if self.state == "ok" else self.state
        self.error = f"{self.error}; {sentence}" if self.error else sentence
        if error is not None:
            self.errors.append(error)


@dataclass
class Entry:
    """One announced descriptor. ``clash``: why it is usable as ``plugin:name`` only."""

    kind: str
    name: str
    descriptor: Descriptor
    plugin: PluginStatus
    clash: str = ""
    settings: tuple[str, ...] = ()
    """Names of its settings."""

    @property
    def names(self) -> tuple[str, ...]:
        """Every name this answers to: alone, with its plugin, and with its distribution."""
        owners = self.plugin.name, self.plugin.dist or self.plugin.name
        return self.name, *(f"{owner}:{self.name}" for owner in owners)

    @property
    def shown(self) -> str:
        """The name that is unambiguous: with its plugin where it clashes."""
        return self.names[1] if self.clash else self.name


def one_line(error: BaseException) -> str:
    """``Type: message`` on one line, after the place in a plugin that it came through, if any; the message alone for
    errors that are written for users."""
    text = " ".join(str(error).split())
    if isinstance(error, SkelbenchError):
        return text
    if sentence := told(error):
        return sentence
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
