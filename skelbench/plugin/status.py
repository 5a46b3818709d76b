"""What is known of each plugin and of each descriptor it announced."""

from __future__ import annotations

import os
import traceback as tracebacks
from dataclasses import dataclass
from typing import Literal

from skelbench.errors import SkelbenchError
from skelbench.plugin.descriptors import KINDS, Descriptor

_IRREGULAR = {"studies": "study", "topologies": "topology", "rows": "rows", "published": "published table"}
SINGULAR = {kind: _IRREGULAR.get(kind, kind.removesuffix("s")) for kind in KINDS}
State = Literal["ok", "import-error", "invalid", "api-mismatch", "conflict"]


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

    def fail(self, state: State, sentence: str, error: BaseException | None = None) -> None:
        """Record a problem; the first one names the state."""
        self.state = state if self.state == "ok" else self.state
        self.error = f"{self.error}; {sentence}" if self.error else sentence
        if error is not None:
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


def names_of(name: str, plugin: PluginStatus) -> tuple[str, ...]:
    """``name``, and ``name`` with its plugin or distribution."""
    return name, f"{plugin.name}:{name}", f"{plugin.dist or plugin.name}:{name}"


def strict() -> bool:
    """Whether problems of plugins are raised (``SKELBENCH_STRICT``) instead of recorded."""
    return os.environ.get("SKELBENCH_STRICT", "0") not in ("", "0")


def one_line(error: BaseException) -> str:
    """``Type: message`` on one line; the message alone for errors that are written for users."""
    text = " ".join(str(error).split())
    if isinstance(error, SkelbenchError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
