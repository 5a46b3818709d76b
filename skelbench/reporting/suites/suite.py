"""A frozen suite as plain data: everything that a row has in common with the others, and the hash of it (torch-free).

What makes one row differ from another, the method and its settings, is not in it.
"""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from skelbench.core.component import Grown, Spec
from skelbench.core.errors import SkelbenchError
from skelbench.core.files import parsed, read_text, shallow
from skelbench.core.hashing import digest
from skelbench.core.spec import GridSpec
from skelbench.plugin.descriptors import SuiteSpec
from skelbench.plugin.host import Host

FORMAT = 1


class FrozenProtocol(Grown):
    """A protocol as every row is measured by it."""

    ADDED = frozenset({"presets"})

    version: int
    config: dict[str, Any]
    """All of its settings."""
    defaults: dict[str, Any] = {}
    """How it wants clips to be looked at, before what suits the run."""
    presets: dict[str, dict[str, Any]] = {}
    """What of ``config`` is otherwise for runs of a preset."""


class FrozenPreset(Spec):
    """What a preset decides of every method alike."""

    encoder_config: dict[str, Any]
    batch_size: int | None = None
    """None: each method's own."""
    clips_seen: int | None = None
    """Length of the training in clips; None: ``epochs`` passes."""
    epochs: float | None = None
    values: dict[str, Any] = {}
    """All that the preset says, for methods that have such a setting."""
    protocols: tuple[str, ...] = ()
    """Those that a row of this preset has unless more are asked for; empty = all of the suite's."""


class FrozenSplit(Spec):
    """Who trains and who tests. What is empty was not there when the suite was frozen, and is recorded on first use."""

    rule: dict[str, Any] | None = None
    train: int = 0
    """Clips."""
    test: int = 0
    sha256: str = ""
    """Of the clips' names (else ids), a clip on each line: training clips, an empty line, test clips."""
    labels: dict[str, tuple[str, ...]] = {}
    """Share of the labels, ``0.01`` -> sha256 of each list of clips that keep them."""


class FrozenData(Spec):
    """A data set."""

    classes: int
    fingerprint: str = ""
    """Empty: the data are not the same files everywhere, and what is here is recorded on first use."""
    splits: dict[str, FrozenSplit]


class LabelRule(Spec):
    """How lists of labelled clips are drawn."""

    shares: tuple[float, ...]
    draws: int
    stratified: bool = True
    example_sha256: str
    """Of the lists of a made-up data set: the rule itself, whatever data are here."""


class Suite(Spec):
    """What is frozen. The same fields, by the same names, make up its file."""

    name: str
    summary: str = ""
    format: int = FORMAT
    results_format: int
    """Of the results directory."""
    seeds: tuple[int, ...] = Field(min_length=1)
    grids: dict[str, GridSpec] = Field(min_length=1)
    """Temporal tokens -> token grid; the first is made unless another is asked for."""
    encoder: str
    presets: dict[str, FrozenPreset] = Field(min_length=1)
    training: dict[str, Any]
    """Settings of training that all rows share, whatever the preset."""
    protocols: dict[str, FrozenProtocol] = Field(min_length=1)
    evaluation: dict[str, Any]
    """How clips are looked at, as fields of an evaluation's spec."""
    components: dict[str, str]
    """``augmentations rotate`` -> version of everything exchangeable that skelbench ships."""
    label_lists: LabelRule
    datasets: dict[str, FrozenData] = Field(min_length=1)
    cost: dict[str, str]
    """What is counted -> the convention it is counted by."""

    @cached_property
    def hash(self) -> str:
        """16 hex digits of everything that is frozen; the summary is not."""
        return digest(self.model_dump(mode="json", exclude={"summary"}), 16)

    @property
    def title(self) -> str:
        """``skeleton-v1 (0123456789abcdef)``: what tables print."""
        return f"{self.name} ({self.hash})"


def read_suite(path: Path) -> Suite:
    """The suite of a JSON file.

    Raises:
        SkelbenchError: it is not there, or holds none, naming the first field that is wrong.
    """
    try:
        document = shallow(parsed(json.loads, read_text(path)))
        suite = Suite.model_validate(document)
    except FileNotFoundError as error:
        raise SkelbenchError(
            f"suite file {path} does not exist; `skelbench suite` lists the suites there are"
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "it"
        raise SkelbenchError(f"suite file {path} holds no suite: {place}: {first['msg'].lower()}") from error
    except (OSError, ValueError) as error:
        raise SkelbenchError(f"suite file {path} cannot be read: {error}") from error
    if suite.format != FORMAT:
        raise SkelbenchError(
            f"suite file {path} has format {suite.format}, this skelbench reads {FORMAT}; use the skelbench that it "
            "was made for"
        )
    return suite


def find_suite(host: Host, name: str) -> Suite:
    """The suite that a plugin announces by that name."""
    descriptor = host.get("suites", name)
    assert isinstance(descriptor, SuiteSpec)
    suite = read_suite(Path(descriptor.file))
    if suite.name != descriptor.name:
        raise SkelbenchError(
            f"suite {name!r} of plugin {host.origin(descriptor).name!r}: its file {descriptor.file} holds suite "
            f"{suite.name!r}; give both one name"
        )
    return suite
