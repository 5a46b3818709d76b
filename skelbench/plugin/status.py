"""State of plugins, and the descriptors that they announced."""

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


@dataclass(eq=False)
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
    """sha256 of a single file, part of the identity of runs: its code has no version."""
    requested: bool = False
    """Whether it was named on the command line: its failure is an error."""
    path: str = ""
    """File with its code; "" for an object, or a file that cannot be read."""
    errors: list[BaseException] = field(default_factory=list)
    """Exceptions raised by its import and its hooks."""

    @property
    def traceback(self) -> str:
        """Tracebacks of :attr:`errors`."""
        return "".join("".join(traceback.format_exception(error)) for error in self.errors)

    def might_have(self, name: str) -> bool:
        """Return whether it failed, and is called ``name`` or names it in its problem."""
        plugin, _, last = name.rpartition(":")
        return self.state not in USABLE and (self.name in (name, plugin) or repr(last) in self.error)

    def fail(self, state: State, message: str, error: BaseException | None = None) -> None:
        """Record a problem; the first problem decides the state."""
        self.state = state if self.state == "ok" else self.state
        self.error = "; ".join(filter(None, (self.error, message)))
        self.errors += [error] if error else []


@dataclass
class Entry:
    """One announced descriptor."""

    kind: str
    name: str
    descriptor: Descriptor
    plugin: PluginStatus
    clash: str = ""
    """Why it is usable as ``plugin:name`` only; "" = it does not clash."""
    settings: tuple[str, ...] = ()
    """Names of its settings."""

    @property
    def names(self) -> tuple[str, ...]:
        """All names: alone, with its plugin, and with its distribution."""
        owners = self.plugin.name, self.plugin.dist or self.plugin.name
        return self.name, *(f"{owner}:{self.name}" for owner in owners)

    @property
    def shown(self) -> str:
        """Unambiguous name: with its plugin if it clashes."""
        return self.names[1] if self.clash else self.name


def one_line(error: BaseException) -> str:
    """Return ``Type: message`` on one line, with the plugin's file and line; for a SkelbenchError the message."""
    text = " ".join(str(error).split())
    if isinstance(error, SkelbenchError):
        return text
    return told(error) or (f"{type(error).__name__}: {text}" if text else type(error).__name__)
