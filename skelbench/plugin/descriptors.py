"""What plugins return from their hooks: torch-free descriptions of things that are loaded only when used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from skelbench.plugin.space import Knob

API_VERSION = 1
"""Version of the hooks and of the contracts behind them; a descriptor with a newer ``api`` is refused."""


@dataclass(frozen=True, kw_only=True)
class Descriptor:
    """Common part. ``target`` is ``"package.module:Name"``, imported only when the thing is used; ``":Name"`` is a name
    of the file that announces it."""

    places: ClassVar[tuple[str, ...]] = ("target",)
    """Fields that name code as ``target`` does; all but ``target`` may be empty."""

    name: str
    """Slug shown and typed on the command line: lower case letters, digits, ``-``, ``_``, ``@``, ``.``."""
    target: str
    summary: str = ""
    version: int = 1
    """Raise it whenever results change; it is part of the identity of every run."""
    api: int = API_VERSION


@dataclass(frozen=True, kw_only=True)
class MethodSpec(Descriptor):
    """A pre-training method: ``target`` names a :class:`skelbench.methods.contract.Method`."""

    places = ("target", "config", "imports")
    config: str = ""
    """``"package.module:Config"``: pydantic model of the method's own settings; "" = none."""
    citation: str = ""
    recipe: Mapping[str, Any] = field(default_factory=dict)
    """The method's own optimiser as dotted keys, ``{"train.lr": 0.1, "optimizer": "sgd", "optimizer.momentum": 0.9}``:
    used in every setting unless the preset scales it."""
    requires: tuple[str, ...] = ()
    """Abilities of the encoder that the method cannot do without (:mod:`skelbench.nn.encoder`): ``"drop-tokens"``,
    ``"drop-lines"``, ``"replace-tokens"``, ``"tokens"``, ``"cells"``, ``"short-views"``."""
    native: Mapping[str, Any] = field(default_factory=dict)
    """The rest of the published setting: encoder form, token grid, bodies, epochs, resampling. Used with ``--native``
    only; without it the method runs in the shared setting, as every other one. Empty: the shared setting is its own."""
    readings: str = ""
    """What of ``recipe`` and ``native`` the source does not say and is our reading; shown by ``plugins info``."""
    imports: str = ""
    """``"package.module:function"`` that reads a public checkpoint (``skelbench import-checkpoint``); "" = none."""
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Further presets of this method alone, each a mapping of dotted keys (SLiM's ``release``)."""
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Ablations by name, ``slim:glcl-only`` on the command line: dotted keys that go after the preset. A text
    ``"x0.5"`` is that many times what the preset says, also for ``clips_seen``, the length of the schedule."""
    space: Mapping[str, Knob] = field(default_factory=dict)
    """What ``skelbench tune`` may change, at most four settings: ``{"train.lr": Log("x0.125", "x8")}`` draws from an
    eighth to eight times the preset's learning rate. Empty: the method is not tuned."""
    trains: bool = True
    """False for controls that are evaluated as initialised."""
    weights: bool = True
    """False for a control without a network: seed, precision and patch decide nothing then, and are not in its
    identity."""


@dataclass(frozen=True, kw_only=True)
class EncoderSpec(Descriptor):
    """An encoder family: ``target`` names a :class:`skelbench.nn.encoder.Encoder`, ``config`` its settings."""

    places = ("target", "config")
    config: str = ""
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Its own sizes for presets of the harness: ``{"small": {"dim": 64}}``."""


@dataclass(frozen=True, kw_only=True)
class DatasetSpec(Descriptor):
    """A data set that can be made or opened by name: ``target`` names ``open(root: Path) -> ClipStore``."""

    splits: tuple[str, ...] = ()
    default_split: str = ""
    licence: str = ""


@dataclass(frozen=True, kw_only=True)
class ProtocolSpec(Descriptor):
    """An evaluation protocol: ``target`` names a :class:`skelbench.evaluate.protocol.Protocol`, settings and code."""

    defaults: Mapping[str, Any] = field(default_factory=dict)
    """How it wants runs to be evaluated, as fields of the evaluation spec: ``{"readout": "joints", "share": 0.95}``.
    They go before what suits the run; what the user says goes before them."""


@dataclass(frozen=True, kw_only=True)
class TargetSpec(Descriptor):
    """What hidden tokens are made to predict: ``target`` names a :class:`skelbench.methods.target.MaskedTarget`.

    Chosen by ``--set target=NAME`` in every method whose settings have a ``target`` (SLiM).
    """


@dataclass(frozen=True, kw_only=True)
class TableSpec(Descriptor):
    """A table of ``skelbench compare``: ``target`` names ``build(inputs) -> Table``, both of ``skelbench.report``."""

    needs_runs: bool = True


@dataclass(frozen=True, kw_only=True)
class FigureSpec(Descriptor):
    """A figure of ``skelbench plot``: ``target`` names ``draw(inputs) -> matplotlib Figure``."""


@dataclass(frozen=True, kw_only=True)
class StudySpec(Descriptor):
    """A grid of runs: ``target`` names a :class:`skelbench.studies.study.Study`."""


@dataclass(frozen=True, kw_only=True)
class RowsSpec(Descriptor):
    """Rows for a table that compares any methods (``linear``, ``token-budget``, ``target-control``): ``target`` names a
    sequence of :class:`skelbench.report.study_rows.Row`, in the order in which they are shown."""

    table: str


@dataclass(frozen=True, kw_only=True)
class PublishedSpec(Descriptor):
    """Figures printed in a paper, shown beside ours wherever methods and token grids agree. There is nothing to import,
    and so no ``target``."""

    places = ()
    target: str = ""
    file: str
    """Path of a CSV file that the plugin ships (columns: :mod:`skelbench.report.published`):
    ``str(Path(__file__).with_name("figures.csv"))``."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Name of a table or figure that shows them -> what its reader must know before comparing."""


@dataclass(frozen=True, kw_only=True)
class ComponentSpec(Descriptor):
    """A crop, augmentation, mask, optimiser or schedule: ``target`` names its class, settings and code in one.

    A class at the top level of a plugin file that derives from its family's base class and has a ``kind`` is announced
    by that alone.
    """


@dataclass(frozen=True, kw_only=True)
class TopologySpec(Descriptor):
    """A skeleton: ``target`` names a :class:`skelbench.skeleton.topology.Topology` of the same name."""


KINDS: dict[str, type[Descriptor]] = {
    "methods": MethodSpec,
    "encoders": EncoderSpec,
    "datasets": DatasetSpec,
    "protocols": ProtocolSpec,
    "targets": TargetSpec,
    "tables": TableSpec,
    "figures": FigureSpec,
    "studies": StudySpec,
    "rows": RowsSpec,
    "published": PublishedSpec,
    "crops": ComponentSpec,
    "augmentations": ComponentSpec,
    "masks": ComponentSpec,
    "optimizers": ComponentSpec,
    "schedules": ComponentSpec,
    "topologies": TopologySpec,
}
"""Hook ``skelbench_<kind>`` -> the descriptor type it returns a list of."""
