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
    settings_from: ClassVar[str] = ""
    """The field that names the class of the settings; "" = it has no settings."""
    __pydantic_config__: ClassVar = {"revalidate_instances": "always"}

    name: str
    """Slug shown and typed on the command line: lower case letters, digits, ``-``, ``_``, ``@``, ``.``."""
    target: str
    summary: str = ""
    version: int = 1
    """Raise it whenever results change; it is part of the identity of every run."""
    api: int = API_VERSION
    expected_failures: Mapping[str, str] = field(default_factory=dict)
    """Checks of ``skelbench plugins check`` that it may fail, each with the reason."""


@dataclass(frozen=True, kw_only=True)
class NativeProbe:
    """How a method's authors measured the linear accuracy that they print: what ``skelbench calibrate`` does with a
    public checkpoint of theirs.

    >>> NativeProbe(protocol="linear@mamp", settings={"pku2": {"lr": 0.01}}).on("pku2", "cross-subject")
    {'lr': 0.01}
    """

    __pydantic_config__: ClassVar = {"revalidate_instances": "always"}
    protocol: str
    best_on_test: bool = False
    """Whether their code prints the best epoch on test; that of ours is then held against it."""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings of the protocol: of every data set (""), of one (``"pku2"``), of a split of one by its full name
    (``"ntu60/cross-view"``); the narrower ones win."""
    data: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """How their clips of a data set differ from those of others, as an import of theirs sees them there:
    ``{"ntu120": {"second_body": "repeat"}}``."""

    def on(self, dataset: str, split: str) -> dict[str, Any]:
        """Its settings on one split."""
        places = "", dataset, f"{dataset}/{split}"
        return {key: value for place in places for key, value in self.settings.get(place, {}).items()}


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A method that goes on from the weights of another: what a run of it may start from (``--init-from``).

    >>> Stage(after=("aimclr",), alone={"method.first": 0.5}).after
    ('aimclr',)
    """

    __pydantic_config__: ClassVar = {"revalidate_instances": "always"}
    after: tuple[str, ...]
    """Methods of which a finished run is its first stage; a run of any other is refused."""
    alone: Mapping[str, Any] = field(default_factory=dict)
    """Settings of a run that starts from none, as dotted keys: it makes its first stage itself, in the shared setting
    only, since the published one has two schedules. Empty: no run goes without its first stage."""


@dataclass(frozen=True, kw_only=True)
class MethodSpec(Descriptor):
    """A pre-training method: ``target`` names a :class:`skelbench.methods.contract.Method`.

    >>> MethodSpec(
    ...     name="mine",
    ...     target=":Mine",
    ...     config=":MineConfig",
    ...     summary="what it does, in one line",
    ...     recipe={"train.lr": 1e-3, "schedule.warmup": 0.1},
    ...     requires=("tokens",),
    ...     variants={"cold": {"method.temperature": 0.1}},
    ... ).version
    1
    """

    places = ("target", "config", "imports")
    settings_from = "config"
    config: str = ""
    """``"package.module:Config"``: pydantic model of the method's own settings; "" = none."""
    spelling: str = ""
    """How papers write its name, for figures: ``"SimCLR"``; "" = as ``name``."""
    citation: str = ""
    recipe: Mapping[str, Any] = field(default_factory=dict)
    """The method's own optimiser as dotted keys, ``{"train.lr": 0.1, "optimizer": "sgd", "optimizer.momentum": 0.9}``:
    used in every setting unless the preset scales it."""
    requires: tuple[str, ...] = ()
    """Abilities of the encoder that the method cannot do without (:mod:`skelbench.models.encoder`): ``"drop-tokens"``,
    ``"drop-lines"``, ``"replace-tokens"``, ``"tokens"``, ``"cells"``, ``"short-views"``."""
    native: Mapping[str, Any] = field(default_factory=dict)
    """The rest of the published setting: encoder form, token grid, bodies, epochs, resampling. Used with ``--native``
    only; without it the method runs in the shared setting, as every other one. Empty: the shared setting is its own."""
    readings: str = ""
    """What of ``recipe`` and ``native`` the source does not say and is our reading; shown by ``plugins info``."""
    imports: str = ""
    """``"package.module:function"`` that reads a public checkpoint (``skelbench import-checkpoint``); "" = none."""
    probe: NativeProbe | None = None
    """How its authors measured linear accuracy (``skelbench calibrate``); None = not known here."""
    stage: Stage | None = None
    """Whose second stage it is; None = it begins with new weights, or with those of any run."""
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Further presets of this method alone, each a mapping of dotted keys (SLiM's ``release``); under the name
    of one of the harness's what is otherwise for this method in it."""
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Ablations by name, ``slim:glcl-only`` on the command line: dotted keys that go after the preset. A text
    ``"x0.5"`` is that many times what the preset says, also for ``clips_seen``, the length of the schedule."""
    space: Mapping[str, Knob] = field(default_factory=dict)
    """What ``skelbench tune`` may change, at most four settings: ``{"train.lr": Log("x0.125", "x8")}`` draws from an
    eighth to eight times the preset's learning rate. Empty: the method is not tuned."""
    files: tuple[str, ...] = ()
    """Files that it reads, beside its own: ``("text_embeddings.npy",)``. Their content is part of a run's identity."""
    trains: bool = True
    """False for controls that are evaluated as initialised."""
    weights: bool = True
    """False for a control without a network: seed, precision and patch decide nothing then, and are not in its
    identity."""


@dataclass(frozen=True, kw_only=True)
class EncoderSpec(Descriptor):
    """An encoder family: ``target`` names a :class:`skelbench.models.encoder.Encoder`, ``config`` its settings."""

    places = ("target", "config")
    settings_from = "config"
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
    """An evaluation protocol: ``target`` names a :class:`skelbench.evaluation.protocol.Protocol`, settings and code."""

    settings_from = "target"
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """How it wants runs to be evaluated, as fields of the evaluation spec: ``{"readout": "joints", "share": 0.95}``.
    They go before what suits the run; what the user says goes before them."""
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Its own settings for runs of the harness's presets, where full ones would take longer than the training:
    ``{"quick": {"epochs": 10}}``."""
    elsewhere: bool = False
    """Whether it measures on other data than the run's: an evaluation on the run's own is refused."""


@dataclass(frozen=True, kw_only=True)
class TargetSpec(Descriptor):
    """What hidden tokens are made to predict: ``target`` names a :class:`skelbench.methods.target.MaskedTarget`.

    Chosen by ``--set target=NAME`` in every method whose settings have a ``target`` (SLiM).
    """


@dataclass(frozen=True, kw_only=True)
class TableSpec(Descriptor):
    """A table of ``skelbench compare``: ``target`` names ``build(inputs) -> Table``, both of ``skelbench.report``."""

    needs_runs: bool = True
    counts: bool = False
    """It counts models of every method first, which takes a while: a page of all tables leaves it out."""


@dataclass(frozen=True, kw_only=True)
class FigureSpec(Descriptor):
    """A figure of ``skelbench plot``: ``target`` names ``draw(inputs) -> matplotlib Figure``, ``config`` the pydantic
    model of its settings (``--set KEY=VALUE``), which it finds in ``inputs.settings``.
    """

    places = ("target", "config")
    settings_from = "config"
    config: str = ""
    snapshots: bool = False
    """Whether it can be of snapshots (``--run RUN@50``); else they are refused."""
    needs_runs: bool = True
    """Whether it is of runs, which filters leave out; else of a method alone."""


@dataclass(frozen=True, kw_only=True)
class StudySpec(Descriptor):
    """A grid of runs: ``target`` names a :class:`skelbench.pipeline.studies.study.Study`."""


@dataclass(frozen=True, kw_only=True)
class SuiteSpec(Descriptor):
    """A suite: settings that all rows of its table share. It has no ``target``, because nothing is imported."""

    places = ()
    target: str = ""
    file: str
    """Path of the JSON file (:class:`skelbench.reporting.suites.suite.Suite`) that the plugin ships:
    ``str(Path(__file__).with_name("mine-v1.json"))``."""


@dataclass(frozen=True, kw_only=True)
class RowsSpec(Descriptor):
    """Rows for a table that compares any methods (``linear``, ``token-budget``, ``target-control``): ``target`` names a
    sequence of :class:`skelbench.reporting.study_rows.Row`, in the order in which they are shown.
    """

    table: str


@dataclass(frozen=True, kw_only=True)
class PublishedSpec(Descriptor):
    """Figures printed in a paper, shown beside ours wherever methods and token grids agree. There is nothing to import,
    and so no ``target``.
    """

    places = ()
    target: str = ""
    file: str
    """Path of a CSV file that the plugin ships (columns: :mod:`skelbench.reporting.published`):
    ``str(Path(__file__).with_name("figures.csv"))``."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Name of a table or figure that shows them -> what its reader must know before comparing."""


@dataclass(frozen=True, kw_only=True)
class ComponentSpec(Descriptor):
    """A crop, augmentation, mask, degradation, optimiser or schedule: ``target`` names its class, settings and code in
    one.

    A class at the top level of a plugin file that derives from its family's base class and has a ``kind`` is announced
    by that alone.
    """

    settings_from = "target"


@dataclass(frozen=True, kw_only=True)
class TopologySpec(Descriptor):
    """A skeleton: ``target`` names a :class:`skelbench.views.skeleton.topology.Topology` of the same name."""


@dataclass(frozen=True, kw_only=True)
class ObserverSpec(Descriptor):
    """Where else a run is logged: ``target`` names a :class:`skelbench.pipeline.observe.Observer`, chosen
    by ``--observe``.

    It changes no number and no identity.
    """

    packages: tuple[str, ...] = ()
    """Modules that must be installed: ``("tensorboard",)``. One that is missing is told before the run begins."""
    install: str = ""
    """What to give to ``pip install`` then: ``"skelbench[tensorboard]"``; "" = the packages themselves."""


@dataclass(frozen=True, kw_only=True)
class EngineSpec(Descriptor):
    """Where the trials of a study are run: ``target`` names a :class:`skelbench.pipeline.studies.engine.Engine`, chosen
    by ``skelbench study NAME --on``.

    It changes no number and no identity.
    """


KINDS: dict[str, type[Descriptor]] = {
    "methods": MethodSpec,
    "encoders": EncoderSpec,
    "datasets": DatasetSpec,
    "protocols": ProtocolSpec,
    "targets": TargetSpec,
    "tables": TableSpec,
    "figures": FigureSpec,
    "studies": StudySpec,
    "suites": SuiteSpec,
    "rows": RowsSpec,
    "published": PublishedSpec,
    "crops": ComponentSpec,
    "augmentations": ComponentSpec,
    "masks": ComponentSpec,
    "degradations": ComponentSpec,
    "optimizers": ComponentSpec,
    "schedules": ComponentSpec,
    "topologies": TopologySpec,
    "observers": ObserverSpec,
    "engines": EngineSpec,
}
"""Hook ``skelbench_<kind>`` -> the descriptor type it returns a list of."""
