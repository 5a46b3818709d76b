"""State of plugins, and the descriptors that they announced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from skelbench.core.errors import SkelbenchError
from skelbench.plugin.descriptors import KINDS, Descriptor
from skelbench.plugin.plugin_errors import said, told

State = Literal["ok", "import-error", "invalid", "conflict"]
_IRREGULAR = {"studies": "study", "topologies": "topology", "rows": "rows", "published": "published table"}
SINGULAR = {kind: _IRREGULAR.get(kind, kind.removesuffix("s")) for kind in KINDS}


@dataclass(eq=False)
class PluginStatus:
    """State of one plugin."""

    name: str
    dist: str = ""
    version: str = ""
    source: str = ""
    """``builtin``, ``entry point MODULE``, a module of a package, or the path of a file."""
    state: State = "ok"
    error: str = ""
    """One line."""
    path: str = ""
    """File with its code."""
    source_hash: str | None = None
    """Hash of the code of a single file, part of the identity of runs: the code has no version."""
    requested: bool = False
    """Whether it was named on the command line: its failure is an error."""
    exception: BaseException | None = None
    """First exception of its import and its hooks."""

    def might_have(self, name: str) -> bool:
        """Return whether it failed, and is called ``name`` or names it in its problem."""
        return self.state != "ok" and (self.name == name or repr(name) in self.error)

    def fail(self, state: State, problem: str | BaseException) -> None:
        """Record a problem; the first problem decides the state."""
        self.state = state if self.state == "ok" else self.state
        if isinstance(problem, BaseException):
            self.exception = self.exception or problem
            problem = one_line(problem)
        self.error = "; ".join(filter(None, (self.error, problem)))


@dataclass
class Entry:
    """One announced descriptor."""

    kind: str
    descriptor: Descriptor
    plugin: PluginStatus

    @property
    def name(self) -> str:
        """Name of the descriptor."""
        return self.descriptor.name


def one_line(error: BaseException) -> str:
    """Return ``Type: message`` on one line, with the plugin's file and line; for a SkelbenchError the message."""
    if isinstance(error, SkelbenchError):
        return " ".join(str(error).split())
    return told(error) or said(error)
