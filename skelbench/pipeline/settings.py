"""The settings of a run as typed objects, from layers of dotted settings; later layers win."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from skelbench.core.component import Spec
from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.spec import DataSpec, GridSpec, RunSpec, TrainSpec, section, validated
from skelbench.pipeline.request import CHOICES, times
from skelbench.plugin.component import Component
from skelbench.plugin.descriptors import Descriptor, EncoderSpec, MethodSpec
from skelbench.plugin.host import Host

Layer = Mapping[str, Any]
"""Dotted settings (``encoder.depth``), ``clips_seen``, and names of components under section names: ``encoder``."""


@dataclass(frozen=True)
class Parts:
    """Parts of a run: the method, and a component for each section of :data:`CHOICES`."""

    method: MethodSpec
    chosen: Mapping[str, Descriptor]
    classes: Mapping[str, type[Spec]]
    """Settings class of every section of a run: method, parts of ``chosen``, train, grid, data."""

    @classmethod
    def of(cls, host: Host, method: MethodSpec, names: Mapping[str, Any]) -> Parts:
        """The components called ``names``, by section."""
        chosen = {section: host.get(kind, names[section]) for section, kind in CHOICES.items()}
        classes = {"method": host.config(method), **{name: host.config(part) for name, part in chosen.items()}}
        return cls(method, chosen, classes | {"train": TrainSpec, "grid": GridSpec, "data": DataSpec})

    @property
    def encoder(self) -> EncoderSpec:
        """The encoder's descriptor."""
        encoder = self.chosen["encoder"]
        assert isinstance(encoder, EncoderSpec)
        return encoder

    @property
    def fields(self) -> dict[str, set[str]]:
        """Names of settings that a user may give, by section."""
        fields = {section: set(model.model_fields) for section, model in self.classes.items()}
        return fields | {"data": fields["data"] - DataSpec.FOUND}

    def section(self, values: Layer, name: str) -> Any:
        """The typed settings of one section; raise SkelbenchError for the first invalid one."""
        return validated(self.classes[name], section(values, name), name)


@dataclass(frozen=True)
class Settings:
    """Complete settings of all parts of training, by section."""

    method: Spec
    encoder: Spec
    optimizer: Spec
    schedule: Spec
    train: TrainSpec

    def plain(self) -> dict[str, Any]:
        """Dotted settings."""
        return {f"{part}.{name}": value for part, spec in vars(self).items() for name, value in config(spec).items()}

    def unlike(self, other: Settings) -> dict[str, Any]:
        """Dotted settings whose value differs from the value in ``other``."""
        baseline = other.plain()
        return {key: value for key, value in self.plain().items() if key not in baseline or baseline[key] != value}


def config(spec: Spec) -> dict[str, Any]:
    """Settings as plain data, without the kind of a component."""
    dumped = spec.model_dump(mode="json")
    return {name: value for name, value in dumped.items() if not (isinstance(spec, Component) and name == "kind")}


def names(layers: Iterable[Layer]) -> dict[str, Any]:
    """Component of each section of :data:`CHOICES`, by the last layer that names it."""
    chosen: dict[str, Any] = {name: RunSpec.model_fields[name].default for name in CHOICES}
    for layer in layers:
        chosen |= {name: layer[name] for name in CHOICES if name in layer}
    return chosen


def joined(layers: Iterable[Layer]) -> dict[str, Any]:
    """Merge all layers. Settings for another component than the chosen one are dropped."""
    layers = list(layers)
    final = names(layers)
    values: dict[str, Any] = {}
    for place, layer in enumerate(layers):
        named = names(layers[: place + 1])
        values |= {key: value for key, value in layer.items() if named.get(head := _head(key)) == final.get(head)}
    return {key: value for key, value in values.items() if key not in CHOICES}


def check_layers(parts: Parts, layers: list[Layer], chosen: Mapping[str, Any]) -> None:
    """Raise SkelbenchError for unknown or invalid settings in ``layers``, except settings of unchosen components."""
    values, named = joined(layers), names(layers)
    for key in values:
        if key != "clips_seen" and _head(key) not in parts.classes:
            every = [f"{part}.{name}" for part, model in parts.classes.items() for name in model.model_fields]
            raise SkelbenchError(did_you_mean(key, every, "setting", f"sections: {', '.join(parts.classes)}"))
    for part in dict.fromkeys(map(_head, values)):
        if part in parts.classes and named.get(part) == chosen.get(part):
            parts.section(values, part)


def _head(key: str) -> str:
    return key.partition(".")[0]


def variant_layers(parts: Parts, variant: str, layers: list[Layer], plain: Settings) -> Iterator[Layer]:
    """``layers`` and the changes of a variant of the method to the settings ``plain``.

    Raises :class:`SkelbenchError` for unknown or invalid changes.
    """
    changes = dict(parts.method.variants[variant])
    values = joined(layers)
    for key in changes:
        if key not in ("clips_seen", *CHOICES) and _head(key) not in vars(plain):
            raise SkelbenchError(
                f"it sets {key!r}; a variant sets {', '.join(f'{part}.*' for part in vars(plain))}, clips_seen or "
                "which encoder, optimizer or schedule"
            )
    if isinstance(changes.get("clips_seen"), str) and "clips_seen" not in values:
        changes["train.epochs"] = changes.pop("clips_seen")
    before = plain.plain() | {"clips_seen": values.get("clips_seen")}
    changes = {key: times(value, before.get(key)) for key, value in changes.items()}
    train = plain.train
    if train.iters_per_epoch and "train.iters_per_epoch" not in changes:  # same clips for any batch
        batch = parts.section({**plain.plain(), **changes}, "train").batch_size
        changes["train.iters_per_epoch"] = max(1, round(train.iters_per_epoch * train.batch_size / batch))
    for layer in layers:
        yield {key: value for key, value in layer.items() if key != "clips_seen" or "train.epochs" not in changes}
    yield changes


NO_PATCH = {"patch": 1}
"""Patch of methods without tokens."""


def still(precision: Literal["fp32", "bf16"]) -> TrainSpec:
    """No training."""
    return TrainSpec(epochs=0, batch_size=1, precision=precision)
