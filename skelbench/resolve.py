"""From what the user typed to a complete run spec.

Later sources win: defaults, what the method needs, its optimiser, its native setting (with ``--native``), the preset,
the variant (``slim:glcl-only``), the TOML file, ``--set``, other options.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skelbench.config import DataSpec, GridSpec, RunSpec, TrainSpec, twin_fields, validated
from skelbench.errors import SkelbenchError, did_you_mean
from skelbench.nn.config import TargetSettings
from skelbench.plugin.descriptors import EncoderSpec, MethodSpec
from skelbench.plugin.host import Host
from skelbench.presets import PRESETS
from skelbench.settings import SECTIONS, Request, full_key, read_config, times, titled
from skelbench.skeleton.grid import Grid
from skelbench.skeleton.spec import Spec

if TYPE_CHECKING:
    from skelbench.data.store.clip_store import ClipStore


@dataclass(frozen=True)
class Resolved:
    """A complete spec with the descriptors and data it came from."""

    spec: RunSpec
    preset: str
    modified: Mapping[str, Any]
    """Settings that differ from the bare preset and variant (grid, data and seed apart): with any it is not exact."""
    method: MethodSpec
    encoder: EncoderSpec
    store: ClipStore
    variant: str = ""
    """Name of the method's variant, "" = the method as it is."""
    from_preset: Mapping[str, Any] = field(default_factory=dict)
    """Settings that differ from the bare preset, those that the variant changes among them."""
    setting: str = "shared"
    """"shared": the encoder, grid and bodies that every method is compared in; "native": the method's own."""
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """``slim``, ``slim:glcl-only``: the method and its variant as they are typed."""
        return titled(self.spec.method, self.variant)


def resolve(request: Request, host: Host, data_root: Path, device_kind: str) -> Resolved:
    """Complete ``request``; opens the data set (its fingerprint is part of the spec) and loads the method's config.

    Raises :class:`SkelbenchError` naming the nearest right name for a misspelt method, variant, encoder, target, data
    set, split, key or value, and for settings that no run can have. Nothing is written.
    """
    top, from_file = read_config(request.config) if request.config else ({}, {})
    method, variant = host.method(request.method)
    presets = {**PRESETS, **method.presets, **request.presets}
    preset = request.preset or top.get("preset") or ("paper" if device_kind == "cuda" else "quick")
    if not isinstance(preset, str) or preset not in presets:
        raise SkelbenchError(did_you_mean(str(preset), list(presets), f"preset of {method.name}"))
    native = request.native if request.native is not None else top.get("native", False)
    if not isinstance(native, bool):
        where = f"{request.config}: " if request.config else ""
        raise SkelbenchError(f"{where}native={native!r} is not valid; write native = true or native = false")
    own = {**method.needs, **method.recipe, **(method.native if native else {})}
    encoder_name = request.sets.get("encoder") or top.get("encoder") or own.get("encoder", "vit")
    encoder = host.get("encoders", encoder_name)

    classes = {"method": config_class(host, method), "encoder": config_class(host, encoder), "train": TrainSpec}
    fields = {part: set(cls.model_fields) for part, cls in (classes | {"grid": GridSpec, "data": DataSpec}).items()}
    fields["data"] -= DataSpec.FOUND
    sets = {key: value for key, value in request.sets.items() if key not in ("encoder", "seed")}
    sets = {full_key(key, fields): value for key, value in sets.items()}
    _check_said_once(sets, request)
    user = {full_key(key, fields): value for key, value in from_file.items()} | sets | request.options
    base = {"train.precision": "bf16" if device_kind == "cuda" else "fp32", "data.name": "synthetic"}
    base |= {"grid.frames": 64, "grid.patch": 8} | own
    base |= {
        key: value
        for key, value in presets[preset].items()
        if key == "clips_seen" or preset in method.presets or key.split(".", 1)[1] in fields[key.split(".", 1)[0]]
    }

    for key, value in method.needs.items():
        if user.get(key, value) != value:
            raise SkelbenchError(f"method {method.name} needs {key}={value}; leave {key} out")
    grid = _grid(base | user)
    data = validated(DataSpec, section(base | user, "data"), "data")
    store = open_dataset(data.name, host, data_root)
    split = store.split(data.split or None)
    _check_lengths(store, np.concatenate([split.train, split.test]), grid.patch)
    clips, notes = len(split.train), []
    if native and not method.native:
        notes.append(f"{method.name} has no setting of its own: native is the shared setting")
    if store.meta.dimensions == 2:
        notes.append("the poses are 2-D: bodies turn in the image plane only, within the tilt limit of each rotation")

    def settings(values: Mapping[str, Any], chosen: Mapping[str, Any], said: list[str]) -> dict[str, Spec]:
        """Encoder, method and training settings; ``chosen``: the part of ``values`` that the user said.

        What the user should know of them is added to ``said``.
        """
        train = validated(TrainSpec, section(values, "train"), "train")
        if train.batch_size > clips:
            if "train.batch_size" in chosen:
                raise SkelbenchError(
                    f"batch size {train.batch_size} is larger than the {clips} training clips of "
                    f"{data.name}/{split.name}; use --batch-size {clips} or less"
                )
            said.append(f"batch size {train.batch_size} lowered to the {clips} training clips there are")
            train = train.model_copy(update={"batch_size": clips})
        if "clips_seen" in values and "train.epochs" not in chosen:
            iterations = train.iters_per_epoch if "train.iters_per_epoch" in chosen else None
            epoch = iterations * train.batch_size if iterations else clips
            train = train.model_copy(update={"epochs": values["clips_seen"] / epoch, "iters_per_epoch": iterations})
        if method.trains and not request.imported and not train.epochs:
            raise SkelbenchError(
                "train.epochs=0 trains nothing; give more, or `skelbench run untrained` for the encoder as initialised"
            )
        if not method.trains:
            train = TrainSpec(epochs=0, batch_size=1, precision=train.precision)
        if request.imported:  # what decides how the weights are evaluated; no step is made here
            kept = {name: getattr(train, name) for name in ("bodies", "centre", "precision")}
            train = TrainSpec(epochs=0, batch_size=1, **kept)
        return {part: validated(classes[part], section(values, part), part) for part in ("method", "encoder")} | {
            "train": train
        }

    plain = bare = settings(base, {}, [])
    if variant:
        with _announced(host, method, variant):
            base = _varied(base, plain, method, variant, encoder)
            bare = settings(base, {}, [])
    complete = settings(base | user, user, notes)
    full = Grid(grid.frames, grid.patch, store.topology.num_joints)
    target = None
    if isinstance(complete["method"], TargetSettings):
        target = host.get("targets", complete["method"].target)
        # "builtin:prototypes" and "prototypes" are one run.
        complete["method"] = complete["method"].model_copy(update={"target": host.name(target)})
    values = {
        "method": host.name(method),
        "method_version": method.version,
        "method_source": host.origin(method).source_hash,
        "method_config": complete["method"].model_dump(mode="json"),
        "target_version": target.version if target else None,
        "target_source": host.origin(target).source_hash if target else None,
        "encoder": host.name(encoder),
        "encoder_version": encoder.version,
        "encoder_source": host.origin(encoder).source_hash,
        "encoder_config": complete["encoder"].model_dump(mode="json"),
        "grid": grid,
        "views": host.load(method).views(complete["method"], full) if method.trains else {},
        "data": data.found(store, data.name, split.name),
        "train": complete["train"],
        "seed": request.seed if request.seed is not None else request.sets.get("seed", top.get("seed", 0)),
        "init_from": request.init_from,
        "imported": request.imported,
    }
    spec = validated(RunSpec, values, "run")
    modified = _unlike(complete, bare) | ({"init_from": spec.init_from} if spec.init_from else {})
    facts = {
        "variant": variant,
        "from_preset": _unlike(complete, plain),
        "setting": "native" if native and method.native else "shared",
        "notes": tuple(notes),
    }
    resolved = Resolved(spec, preset, modified, method, encoder, store, **facts)
    _check_buildable(resolved, host)
    return resolved


def control(resolved: Resolved, host: Host) -> Resolved:
    """The untrained twin: same encoder, grid, data, precision and seed, no training."""
    spec, method = resolved.spec, host.get("methods", "untrained")
    twin = RunSpec(
        method=method.name,
        method_version=method.version,
        method_source=host.origin(method).source_hash,
        method_config=config_class(host, method)().model_dump(mode="json"),
        train=TrainSpec(epochs=0, batch_size=1, precision=spec.train.precision),
        **twin_fields(spec),
    )
    # A twin has no variant: where a variant changes the encoder, its twin is that of a changed preset.
    changed = {
        key: value
        for key, value in resolved.from_preset.items()
        if key.startswith("encoder.") or key == "train.precision"
    }
    facts = {"setting": resolved.setting}
    return Resolved(twin, resolved.preset, changed, method, resolved.encoder, resolved.store, **facts)


def open_dataset(name: str, host: Host, data_root: Path) -> ClipStore:
    """A data set announced by a plugin (made on first use) or an imported one."""
    from skelbench.data.store import roots

    def opener(known: str) -> Callable[[Path], ClipStore]:
        return lambda root: host.load(host.get("datasets", known))(root)

    openers = {known: opener(known) for known in host.names("datasets")}
    return roots.open_dataset(name, data_root, openers)


def config_class(host: Host, descriptor: MethodSpec | EncoderSpec) -> type[Spec]:
    """The pydantic class of a method's or encoder's settings; an empty one when it has none."""
    return host.load(descriptor, "config") if descriptor.config else Spec


def section(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The settings of one section of dotted ``values``, by their bare names."""
    assert name in SECTIONS
    return {key.split(".", 1)[1]: value for key, value in values.items() if key.startswith(name + ".")}


@contextmanager
def _announced(host: Host, method: MethodSpec, variant: str) -> Iterator[None]:
    """A variant that cannot be is the mistake of the plugin that announces it."""
    try:
        yield
    except SkelbenchError as error:
        plugin = host.origin(method)
        raise SkelbenchError(
            f"variant {variant!r} of method {method.name} cannot be used as plugin {plugin.name!r} ({plugin.source}) "
            f"announces it: {error}"
        ) from error


def _varied(
    values: Mapping[str, Any], plain: Mapping[str, Spec], method: MethodSpec, variant: str, encoder: EncoderSpec
) -> dict[str, Any]:
    """``values`` with the changes of a variant of ``method``; ``plain``: the settings that they make without it."""
    changes = dict(method.variants[variant])
    for key, value in changes.items():
        part, _, name = key.partition(".")
        if key != "clips_seen" and part not in plain:
            raise SkelbenchError(f"it sets {key!r}; a variant sets method.*, encoder.*, train.* or clips_seen")
        if key != "clips_seen" and name not in type(plain[part]).model_fields:
            whose = {"method": f"method {method.name}", "encoder": f"encoder {encoder.name}"}.get(part, part)
            raise SkelbenchError(did_you_mean(name, list(type(plain[part]).model_fields), f"setting of {whose}"))
        if method.needs.get(key, value) != value:
            raise SkelbenchError(f"it sets {key}={value}, but {method.name} needs {key}={method.needs[key]}")
    if isinstance(changes.get("clips_seen"), str) and "clips_seen" not in values:
        changes["train.epochs"] = changes.pop("clips_seen")
    values = {key: value for key, value in values.items() if key != "clips_seen" or "train.epochs" not in changes}
    for key, value in changes.items():
        part, _, name = key.partition(".")
        values[key] = times(value, values.get(key) if key == "clips_seen" else getattr(plain[part], name))
    clips = values.get("clips_seen", 1)
    if not isinstance(clips, int | float) or clips <= 0:
        raise SkelbenchError(f"clips_seen={clips!r} is neither a number of clips nor a factor such as 'x0.5'")
    train = plain["train"]
    if train.iters_per_epoch and "train.iters_per_epoch" not in changes:  # as many clips, whatever the batch
        batch = validated(TrainSpec, section(values, "train"), "train").batch_size
        values["train.iters_per_epoch"] = max(1, round(train.iters_per_epoch * train.batch_size / batch))
    return values


def _unlike(settings: Mapping[str, Spec], others: Mapping[str, Spec]) -> dict[str, Any]:
    """Dotted settings whose value is not that of ``others``."""
    theirs = {part: other.model_dump(mode="json") for part, other in others.items()}
    return {
        f"{part}.{name}": value
        for part, mine in settings.items()
        for name, value in mine.model_dump(mode="json").items()
        if theirs[part][name] != value
    }


def _check_said_once(sets: Mapping[str, Any], request: Request) -> None:
    """A setting and the option that stands for it (``--tokens``, ``--epochs``, ``--seed``, ...) must agree."""
    options = request.options | {"seed": request.seed}
    for key, value in {**sets, "seed": request.sets.get("seed")}.items():
        other = options.get(key)
        if None not in (value, other) and value != other:
            raise SkelbenchError(
                f"{key}={value} is contradicted by an option, which says {key}={other}; give only one of the two"
            )


def _grid(values: Mapping[str, Any]) -> GridSpec:
    grid = validated(GridSpec, section(values, "grid"), "grid")
    if grid.frames < grid.patch:
        raise SkelbenchError(
            f"a clip length of {grid.frames} frames is shorter than one patch of {grid.patch}; "
            "choose --clip-length and --patch so that at least one patch fits"
        )
    if grid.frames % grid.patch:
        raise SkelbenchError(
            f"clip length {grid.frames} is not a multiple of the patch {grid.patch}; "
            "choose --clip-length and --patch so that it is"
        )
    return grid


def _check_lengths(store: ClipStore, ids: np.ndarray, patch: int) -> None:
    """A clip with fewer frames than one patch has no motion that a token could hold."""
    short = ids[store.lengths[ids] < patch]
    if len(short):
        raise SkelbenchError(
            f"clip {short[0]} of data set {store.meta.name} has {store.lengths[short[0]]} frames, fewer than one patch "
            f"of {patch} ({len(short)} such clips); leave such clips out of the data set or choose a smaller --patch"
        )


def _check_buildable(resolved: Resolved, host: Host) -> None:
    """Views and modules that cannot be made fail here, before a run directory exists."""
    from pydantic import ValidationError

    from skelbench.pretrain.build import build_method
    from skelbench.skeleton.views import ViewBuilder

    spec, topology = resolved.spec, resolved.store.topology
    if spec.views:
        ViewBuilder(spec.views, topology, spec.grid.patch, bodies=spec.train.bodies)
    try:
        build_method(spec, host, topology, "meta")
    except ValidationError as error:
        reason = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise SkelbenchError(f"method {spec.method} cannot be built with these settings: {reason}") from error
