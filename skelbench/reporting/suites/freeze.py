"""What this installation and the data here have of everything that a suite freezes, as it is frozen."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from skelbench.core.component import Spec
from skelbench.core.errors import SkelbenchError
from skelbench.core.files import parsed, read_text, shallow
from skelbench.core.hashing import canonical_json
from skelbench.core.spec import EvalSpec, GridSpec, TrainSpec, validated
from skelbench.data.store.splits import full_name
from skelbench.pipeline.presets import EXCEPTIONS, PRESETS
from skelbench.pipeline.request import token_grid
from skelbench.plugin.host import Host
from skelbench.records.store import FORMAT
from skelbench.reporting.suites.suite import FrozenData, FrozenPreset, FrozenProtocol, FrozenSplit, LabelRule, Suite

if TYPE_CHECKING:
    from skelbench.data.store.clip_store import ClipStore

KNOWN = ("ntu60", "ntu120", "pku1", "pku2")
"""Data sets whose rules are frozen as their authors wrote them: the same whether they are here or not."""
EXCHANGEABLE = (
    "encoders", "topologies", "crops", "augmentations", "masks", "degradations", "optimizers", "schedules", "targets",
)  # fmt: skip
"""Kinds of what a run may be made of besides its method."""
TRAINING = ("bodies", "centre", "align", "degrade")
EVALUATION = (
    "streams", "fusion", "weights", "partners", "checkpoint", "readout", "bodies_pool", "bodies", "centre", "align",
    "share", "resize", "min_confidence",
)  # fmt: skip


class Plan(Spec):
    """What a new suite is to freeze, as `skelbench suite freeze` reads it from a TOML file."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")
    summary: str = ""
    seeds: tuple[int, ...] = Field((0, 1, 2), min_length=1)
    tokens: tuple[int, ...] = Field((8,), min_length=1)
    encoder: str = "vit"
    presets: tuple[str, ...] = Field(("quick", "small", "paper"), min_length=1)
    protocols: tuple[str, ...] = Field(("linear", "knn"), min_length=1)
    preset_protocols: dict[str, tuple[str, ...]] = Field(
        {}, description="preset -> fewer protocols of it, where time is short"
    )
    label_shares: tuple[float, ...] = (0.01, 0.1)
    label_lists: int = Field(5, ge=1)
    datasets: dict[str, tuple[str, ...]] = Field(min_length=1, description="data set -> splits")


def freeze(plan: Plan, host: Host, stores: Mapping[str, ClipStore], fixed: Iterable[str]) -> Suite:
    """The suite of ``plan``. ``stores``: its data sets but for the :data:`KNOWN`; ``fixed``: those that are the same
    files for everybody, whose contents are frozen as well."""
    labels = label_rule(plan.label_shares, plan.label_lists)
    if unknown := sorted(set(plan.presets) - set(PRESETS)):
        raise SkelbenchError(f"preset {unknown[0]!r} is none of the harness's own ({', '.join(PRESETS)}); leave it out")
    for name in plan.protocols:
        if host.origin(host.get("protocols", name)).source_hash:
            raise SkelbenchError(
                f"protocol {name} is that of a single file, which others have in other versions; make it a package"
            )
    encoder = {f"encoders {plan.encoder}": host.identity(host.get("encoders", plan.encoder))}
    datasets = {}
    for name, splits in plan.datasets.items():
        splits = tuple(map(full_name, splits))
        if name in KNOWN:
            datasets[name] = rules_of(name, splits)
            continue
        here = data_of(stores[name], splits, labels)
        datasets[name] = here if name in set(fixed) else by_rule(here)
    return Suite(
        name=plan.name,
        summary=plan.summary,
        results_format=FORMAT,
        seeds=plan.seeds,
        grids={str(tokens): _grid(tokens) for tokens in plan.tokens},
        encoder=plan.encoder,
        presets={
            name: preset_of(host, plan.encoder, name, plan.preset_protocols.get(name, ())) for name in plan.presets
        },
        training=training_of(),
        protocols={name: protocol_of(host, name) for name in plan.protocols},
        evaluation=evaluation_of(),
        components=components_of(host) | encoder,
        label_lists=labels,
        datasets=datasets,
        cost=conventions(),
    )


def read_plan(path: Path) -> Plan:
    """The plan of a TOML file; SkelbenchError if it holds none."""
    try:
        document = shallow(parsed(tomllib.loads, read_text(path)))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise SkelbenchError(f"plan {path} cannot be read as TOML: {why}") from error
    return validated(Plan, document, str(path))


def _grid(tokens: int) -> GridSpec:
    found = token_grid(tokens)
    return GridSpec(frames=found["grid.frames"], patch=found["grid.patch"])


def protocol_of(host: Host, name: str) -> FrozenProtocol:
    """A protocol as it is here, with all its settings."""
    from skelbench.pipeline.evaluate import protocol_class

    descriptor = host.get("protocols", name)
    config = protocol_class(host, name)().model_dump(mode="json")
    return FrozenProtocol(
        version=descriptor.version, config=config, defaults=descriptor.defaults, presets=descriptor.presets
    )


def preset_of(host: Host, encoder: str, name: str, protocols: tuple[str, ...] = ()) -> FrozenPreset:
    """What a preset of the harness is here; ``protocols`` is the suite's own word."""
    descriptor = host.get("encoders", encoder)
    sizes = getattr(descriptor, "presets", {}).get(name, {})
    values = dict(PRESETS[name])
    for trait, otherwise in EXCEPTIONS.items():
        values |= {f"{key} ({trait})": value for key, value in otherwise.get(name, {}).items()}
    clips = values.get("clips_seen")
    return FrozenPreset(
        encoder_config=host.config(descriptor)(**sizes).model_dump(mode="json"),
        batch_size=values.get("train.batch_size"),
        clips_seen=clips,
        epochs=None if clips else values.get("train.epochs", TrainSpec().epochs),
        values=json.loads(canonical_json(values)),  # as the file has them: tuples are lists there
        protocols=protocols,
    )


def components_of(host: Host) -> dict[str, str]:
    """Versions of everything exchangeable that is announced here by more than a single file."""
    return {
        f"{kind} {host.name(descriptor)}": host.identity(descriptor)
        for kind in EXCHANGEABLE
        for descriptor in host.all(kind)
        if not host.origin(descriptor).source_hash
    }


def training_of() -> dict[str, Any]:
    """Settings of training where nothing else is said, of those that no preset and no method of the suite's changes."""
    return {name: _plain(TrainSpec.model_fields[name].default) for name in TRAINING}


def evaluation_of() -> dict[str, Any]:
    """How clips are looked at where nothing else is said."""
    fields = EvalSpec.model_fields
    return {name: _plain(fields[name].default) for name in EVALUATION}


def conventions() -> dict[str, str]:
    """How costs are counted here."""
    from skelbench.evaluation.cost import count, step

    return {"encoder": count.CONVENTION, "training step": step.CONVENTION}


# ------------------------------------------------------------------------------------------------ data
def data_of(store: ClipStore, splits: Sequence[str], labels: LabelRule) -> FrozenData:
    """A data set that is here, with every list of clips."""
    found = {name: split_of(store, name, labels) for name in splits}
    return FrozenData(classes=store.num_classes, fingerprint=store.fingerprint, splits=found)


def split_of(store: ClipStore, name: str, labels: LabelRule) -> FrozenSplit:
    """Who trains and who tests of a data set that is here, and whose labels are kept."""
    from skelbench.evaluation.label_subsets import label_subset

    split = store.split(name)
    rule = store.meta.splits[split.name].model_dump(mode="json")
    lists = {
        f"{share:g}": tuple(
            label_subset(store, split.name, split.train, share, draw, labels.stratified).sha256
            for draw in range(labels.draws)
        )
        for share in labels.shares
    }
    both = "\n".join([*_names(store, split.train), "", *_names(store, split.test)])
    return FrozenSplit(rule=rule, train=len(split.train), test=len(split.test), sha256=_sha256(both), labels=lists)


def by_rule(known: FrozenData) -> FrozenData:
    """A data set whose files are not the same everywhere: only the rules of its splits are frozen."""
    splits = {name: FrozenSplit(rule=split.rule) for name, split in known.splits.items()}
    return FrozenData(classes=known.classes, splits=splits)


def rules_of(name: str, splits: Sequence[str]) -> FrozenData:
    """What is known of one of :data:`KNOWN`: NTU RGB+D's rules, and that PKU-MMD has split files of its own."""
    from skelbench.data.raw.ntu import names as ntu
    from skelbench.data.raw.pku import names as pku

    classes = {"ntu60": 60, "ntu120": len(ntu.ACTIONS), "pku1": len(pku.ACTIONS), "pku2": len(pku.ACTIONS)}
    rules = ntu.SPLITS.get(name, {})
    found = {one: FrozenSplit(rule=rules[one].model_dump(mode="json") if one in rules else None) for one in splits}
    return FrozenData(classes=classes[name], splits=found)


def label_rule(shares: Sequence[float], draws: int) -> LabelRule:
    """The rule of label lists, with what it gives for a made-up data set of 600 clips and 12 classes."""
    from skelbench.evaluation.label_subsets import label_subset

    example: Any = SimpleNamespace(fingerprint="example", labels=np.arange(600) % 12, names=None)
    ids = np.arange(0, 600, 2)
    lists = [label_subset(example, "example", ids, share, draw) for share in shares for draw in range(draws)]
    told = "\n".join(each.sha256 for each in lists)
    return LabelRule(shares=tuple(shares), draws=draws, example_sha256=_sha256(told))


def _names(store: ClipStore, ids: np.ndarray) -> list[str]:
    return list(map(str, store.names[ids] if store.names is not None else ids))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    """As JSON has it."""
    return list(value) if isinstance(value, tuple) else value


def fixed_datasets(host: Host) -> list[str]:
    """Data sets that plugins make, the same for everybody."""
    return host.names("datasets")


def fingerprints(root: Path) -> dict[str, Path]:
    """Fingerprint -> folder of the data sets that lie in the data root, read from their ``meta.json`` alone."""
    from skelbench.core.files import read_json
    from skelbench.data.store.roots import list_stores

    found = {}
    for path in list_stores(root).values():
        try:
            meta = read_json(path / "meta.json")
        except (OSError, ValueError):
            continue  # whoever opens it will say what is wrong
        if isinstance(meta, dict):
            found[str(meta.get("fingerprint"))] = path
    return found
