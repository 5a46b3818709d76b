"""Descriptors that plugins return from their hooks, torch-free: their targets are loaded only when used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from skelbench.plugin.space import Knob

Settings = Mapping[str, Any]
"""Dotted key -> value."""


@dataclass(frozen=True, kw_only=True)
class Descriptor:
    """Fields of all descriptors. ``target`` is ``"package.module:Name"``, imported only when the thing is used;
    ``":Name"`` is a name of the file that announces it."""

    places: ClassVar[tuple[str, ...]] = ("target",)
    """Fields that name code as ``target`` does; all but ``target`` may be empty."""
    settings_from: ClassVar[str] = ""
    """Field that names the class of the settings; "" = it has no settings."""
    __pydantic_config__: ClassVar = {"revalidate_instances": "always"}

    name: str
    """Slug on the command line: lower case letters, digits, ``-``, ``_``, ``@``, ``.``."""
    target: str
    summary: str = ""
    version: int = 1
    """Part of the identity of every run; raise it whenever results change."""
    expected_failures: Mapping[str, str] = field(default_factory=dict)
    """Checks of ``skelbench plugins check`` that the plugin may fail, each with the reason."""
    setting_names: tuple[str, ...] = ()
    """Names of its settings, filled in when it is announced."""


@dataclass(frozen=True, kw_only=True)
class NativeProbe:
    """Protocol by which a method's authors measured their published linear accuracy, for ``skelbench calibrate``."""

    __pydantic_config__: ClassVar = {"revalidate_instances": "always"}
    protocol: str
    best_on_test: bool = False
    """Whether the authors' code prints the best epoch on test; ours is then compared with that accuracy."""
    settings: Mapping[str, Settings] = field(default_factory=dict)
    """Settings of the protocol by dataset: for all (""), for one (``"pku2"``), for one split (``"ntu60/cross-view"``);
    the more specific settings win."""
    data: Mapping[str, Settings] = field(default_factory=dict)
    """Differences of the authors' clips of a dataset: ``{"ntu120": {"second_body": "repeat"}}``."""

    def on(self, dataset: str, split: str) -> dict[str, Any]:
        """Return the settings on one split."""
        places = "", dataset, f"{dataset}/{split}"
        return {key: value for place in places for key, value in self.settings.get(place, {}).items()}


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Runs that a second-stage method may start from (``--init-from``)."""

    __pydantic_config__: ClassVar = {"revalidate_instances": "always"}
    after: tuple[str, ...]
    """Methods whose finished run can be the first stage: ``("aimclr",)``; other runs are rejected."""
    alone: Settings = field(default_factory=dict)
    """Settings of a run that contains its first stage, ``{"method.first": 0.5}``, in the shared setting only. Empty:
    every run needs a finished first stage."""


@dataclass(frozen=True, kw_only=True)
class MethodSpec(Descriptor):
    """A pre-training method: ``target`` names a :class:`skelbench.methods.contract.Method`."""

    places = ("target", "config", "imports")
    settings_from = "config"
    config: str = ""
    """``"package.module:Config"``: pydantic model of the method's own settings; "" = none."""
    spelling: str = ""
    """Name in papers, for figures: ``"SimCLR"``; "" = as ``name``."""
    citation: str = ""
    recipe: Settings = field(default_factory=dict)
    """The method's own optimizer, ``{"train.lr": 0.1, "optimizer": "sgd", "optimizer.momentum": 0.9}``: used in every
    setting unless the preset scales it."""
    requires: tuple[str, ...] = ()
    """Abilities of the encoder that the method needs (:mod:`skelbench.models.encoder`): ``"drop-tokens"``, ..."""
    native: Settings = field(default_factory=dict)
    """The rest of the published setting (encoder, token grid, bodies, epochs), used with ``--native`` only."""
    readings: str = ""
    """Our assumptions in ``recipe`` and ``native``, which the source does not specify."""
    imports: str = ""
    """``"package.module:function"`` that reads a public checkpoint (``skelbench import-checkpoint``); "" = none."""
    probe: NativeProbe | None = None
    """Authors' linear probe; None = not known here."""
    stage: Stage | None = None
    """First stage of a second-stage method; None = it begins with new weights, or with weights of any run."""
    presets: Mapping[str, Settings] = field(default_factory=dict)
    """Further presets of this method (SLiM's ``release``), or its changes of a preset of the harness."""
    variants: Mapping[str, Settings] = field(default_factory=dict)
    """Ablations by name, ``slim:glcl-only`` on the command line: settings that go after the preset. ``"x0.5"`` is
    that many times the preset's value, also for ``clips_seen``, the training length."""
    space: Mapping[str, Knob] = field(default_factory=dict)
    """Search space of ``skelbench tune``, at most four settings: ``{"train.lr": Log("x0.125", "x8")}`` draws from an
    eighth to eight times the preset's learning rate. Empty: the method is not tuned."""
    files: tuple[str, ...] = ()
    """Further files that it reads, ``("text_embeddings.npy",)``: their content is part of a run's identity."""
    trains: bool = True
    """False for controls that are evaluated as initialized."""
    weights: bool = True
    """False for a control without a network: seed, precision and patch are not in its identity."""


@dataclass(frozen=True, kw_only=True)
class EncoderSpec(Descriptor):
    """An encoder family: ``target`` names a :class:`skelbench.models.encoder.Encoder`, ``config`` its settings."""

    places = ("target", "config")
    settings_from = "config"
    config: str = ""
    presets: Mapping[str, Settings] = field(default_factory=dict)
    """Sizes for presets of the harness: ``{"small": {"dim": 64}}``."""


@dataclass(frozen=True, kw_only=True)
class DatasetSpec(Descriptor):
    """A dataset that can be made or opened by name: ``target`` names ``open(root: Path) -> ClipStore``."""

    splits: tuple[str, ...] = ()
    default_split: str = ""
    license: str = ""


@dataclass(frozen=True, kw_only=True)
class FormatSpec(Descriptor):
    """A file format of ``skelbench data import``: ``target`` names ``read(files, options)``, which returns a
    :class:`skelbench.data.importers.recording.Recording`, or None for files of another format."""

    suffixes: tuple[str, ...] = ()
    """In lower case. ``read`` is called if one of the files, or a file below a folder, has one of these suffixes."""


@dataclass(frozen=True, kw_only=True)
class SourceSpec(Descriptor):
    """A dataset of ``skelbench data fetch``: ``target`` reads the downloaded files, as a format's does."""

    files: Mapping[str, str] = field(default_factory=dict)
    """Address of each file -> checksum ``"sha256:..."`` or ``"md5:..."``, "" = none is published."""
    megabytes: int = 0
    license: str = ""
    citation: str = ""
    tried: str = "not yet run on the original files"
    """Remark on tests of the reader; "" = it was run on all original files."""


@dataclass(frozen=True, kw_only=True)
class ProtocolSpec(Descriptor):
    """An evaluation protocol: ``target`` names a :class:`skelbench.evaluation.protocol.Protocol`, settings and code."""

    settings_from = "target"
    defaults: Settings = field(default_factory=dict)
    """Fields of the evaluation spec, ``{"readout": "joints"}``; they override the values that fit the run, and the
    user's settings override them."""
    presets: Mapping[str, Settings] = field(default_factory=dict)
    """Settings for runs of the harness's presets: ``{"quick": {"epochs": 10}}``."""
    elsewhere: bool = False
    """Whether it only measures on other data than the run's."""


@dataclass(frozen=True, kw_only=True)
class TargetSpec(Descriptor):
    """A prediction target of masked tokens: ``target`` names a :class:`skelbench.methods.target.MaskedTarget`."""


@dataclass(frozen=True, kw_only=True)
class TableSpec(Descriptor):
    """A table of ``skelbench compare``: ``target`` names ``build(inputs) -> Table``, both of ``skelbench.report``."""

    needs_runs: bool = True
    probe: str = ""
    """Beginning of the names of the protocols that fill it: ``linear``; "" = any."""
    counts: bool = False
    """Whether it counts models of every method first, which is slow: a page of all tables skips it."""
    reference: bool = False
    """Whether it has a column ``setting``, which tells the runs of ``--reference`` from others."""


@dataclass(frozen=True, kw_only=True)
class FigureSpec(Descriptor):
    """A figure of ``skelbench plot``: ``target`` names ``draw(inputs) -> matplotlib Figure``, ``config`` the pydantic
    model of its settings (``--set KEY=VALUE``), which is in ``inputs.settings``."""

    places = ("target", "config")
    settings_from = "config"
    config: str = ""
    snapshots: bool = False
    """Whether it can show snapshots (``--run RUN@50``)."""
    needs_runs: bool = True
    """Whether it shows runs, which filters select; else a method."""


@dataclass(frozen=True, kw_only=True)
class StudySpec(Descriptor):
    """A grid of runs: ``target`` names a :class:`skelbench.pipeline.studies.study.Study`."""


@dataclass(frozen=True, kw_only=True)
class FileSpec(Descriptor):
    """A file that the plugin ships, with nothing to import and so no ``target``."""

    places = ()
    target: str = ""
    file: str
    """Path: ``str(Path(__file__).with_name("mine-v1.json"))``."""


@dataclass(frozen=True, kw_only=True)
class SuiteSpec(FileSpec):
    """A suite: a JSON file (:class:`skelbench.reporting.suites.suite.Suite`, docs/suites.md)."""


@dataclass(frozen=True, kw_only=True)
class PublishedSpec(FileSpec):
    """Numbers printed in a paper, a CSV file (columns: :mod:`skelbench.reporting.published`), shown next to measured
    ones wherever methods and token grids agree."""

    notes: Mapping[str, str] = field(default_factory=dict)
    """Name of a table or figure that shows them -> a note to read before comparing."""


@dataclass(frozen=True, kw_only=True)
class RowsSpec(Descriptor):
    """Rows for a table that compares any methods (``linear``, ``token-budget``, ``target-control``): ``target`` names a
    sequence of :class:`skelbench.reporting.study_rows.Row`, in the order in which they are shown."""

    table: str


@dataclass(frozen=True, kw_only=True)
class ComponentSpec(Descriptor):
    """A crop, augmentation, mask, degradation, optimizer or schedule: ``target`` names its class, settings and code.
    A class of a family at the top level of a plugin file that has a ``kind`` is announced without a descriptor."""

    settings_from = "target"


@dataclass(frozen=True, kw_only=True)
class TopologySpec(Descriptor):
    """A skeleton: ``target`` names a :class:`skelbench.views.skeleton.topology.Topology` of the same name."""


@dataclass(frozen=True, kw_only=True)
class ObserverSpec(Descriptor):
    """A further log of runs (``--observe``): ``target`` names a :class:`skelbench.pipeline.observe.Observer`."""

    packages: tuple[str, ...] = ()
    """Modules that must be installed, ``("tensorboard",)``; a run does not begin without them."""
    install: str = ""
    """Argument of ``pip install`` then: ``"skelbench[tensorboard]"``; "" = the packages themselves."""


@dataclass(frozen=True, kw_only=True)
class EngineSpec(Descriptor):
    """A way to run trials (``--on``): ``target`` names a :class:`skelbench.pipeline.studies.engine.Engine`."""


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
    **dict.fromkeys(("crops", "augmentations", "masks", "degradations", "optimizers", "schedules"), ComponentSpec),
    "topologies": TopologySpec,
    "observers": ObserverSpec,
    "engines": EngineSpec,
    "formats": FormatSpec,
    "sources": SourceSpec,
}
"""Hook ``skelbench_<kind>`` -> type of the descriptors in the list that it returns."""
