"""Complete run specs from requests.

Later sources win: defaults, the method's optimizer, its native setting (with ``--native``), the preset, the variant
(``slim:glcl-only``), the TOML file, ``--set``, other options.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import DataSpec, GridSpec, RunSpec, TrainSpec, titled, validated
from skelbench.data.store import roots
from skelbench.data.store.clip_store import ClipStore
from skelbench.data.store.splits import EACH_SUBJECT, Split
from skelbench.methods.contract import Method
from skelbench.models.optim.optimizers import Optimizer
from skelbench.models.precision import has_bf16
from skelbench.pipeline.budget import Budget, Length
from skelbench.pipeline.buildable import check_buildable
from skelbench.pipeline.length import Timer, length_of, of_steps
from skelbench.pipeline.presets import EXCEPTIONS, PRESETS, SHIPPED, own_of
from skelbench.pipeline.request import CHOICES, Request, check_request, full_key, read_config
from skelbench.pipeline.settings import (
    NO_PATCH,
    Layer,
    Parts,
    Settings,
    check_layers,
    config,
    joined,
    names,
    still,
    variant_layers,
)
from skelbench.pipeline.warm_start import check_fits, is_first_stage, without_parent
from skelbench.plugin.descriptors import EncoderSpec, MethodSpec
from skelbench.plugin.host import Host
from skelbench.plugin.plugin_errors import plugin_code, wrong
from skelbench.records.run_dir import RunDir
from skelbench.records.store import ResultStore
from skelbench.training.build import degradations
from skelbench.views.skeleton.grid import Grid
from skelbench.views.spec import ViewSpec


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
    """Settings that differ from the bare preset, including the settings of the variant."""
    setting: str = "shared"
    """"shared": the encoder, grid and bodies of every method; "native": the method's own."""
    notes: tuple[str, ...] = ()
    usual: Mapping[str, Any] = field(default_factory=dict)
    """Values that the bare preset and variant have for the modified settings."""
    length: Length | None = None
    """Length that follows from a budget; None = there is no budget."""

    @property
    def title(self) -> str:
        """Method and variant: ``slim``, ``slim:glcl-only``."""
        return titled(self.spec.method, self.variant)

    @property
    def budget(self) -> dict[str, Any]:
        """Fields of run.json on the budget."""
        return {"budget": self.length.record()} if self.length else {}

    def open_run(self, results: ResultStore, facts: Mapping[str, Any]) -> RunDir:
        """The directory of the run, made if there is none; ``facts``: further fields of run.json."""
        return results.open(self.spec, self.preset, self.modified, facts, self.setting, self.variant)


def resolve(request: Request, host: Host, data_root: Path, device: str, timer: Timer | None = None) -> Resolved:
    """Complete ``request``; opens the dataset (its fingerprint is part of the spec) and loads the method's config.

    Raises :class:`SkelbenchError` with the nearest right name for a misspelled name, and for impossible settings.
    ``timer`` times steps for a budget in minutes. ``device`` decides the default preset and precision.
    """
    cuda = device.startswith("cuda")
    check_request(request, host, data_root)
    top, from_file = read_config(request.config) if request.config else ({}, {})
    method, variant = host.method(request.method)
    preset = request.preset or top.get("preset") or ("paper" if cuda else "quick")
    native = top.get("native", False) if request.native is None else request.native
    if not isinstance(native, bool):
        raise SkelbenchError(f"{request.config}: native={native!r} is not valid; write native = true or native = false")
    changed = method.variants.get(variant, {})
    choices = {name: layer[name] for layer in (changed, top, request.sets) for name in CHOICES if name in layer}
    choices |= {"encoder": request.encoder} if request.encoder else {}
    for part, name in choices.items():
        if not isinstance(name, str):
            raise SkelbenchError(f"{part}={name!r} is no name; see `skelbench plugins list {part}s`")

    stage_settings = {} if request.init_from or request.imported else without_parent(method, native)
    own = method.presets.get(preset, {})
    base: list[Layer] = [
        {"train.precision": "bf16" if cuda and has_bf16(device) else "fp32", "data.name": "synthetic"},
        {"grid.frames": 64, "grid.patch": 8, **method.recipe, **(method.native if native else {}), **stage_settings},
        request.presets.get(preset, {**PRESETS.get(preset, {}), **own}),
    ]
    chosen = names([*base, choices])
    parts = Parts.of(host, method, chosen)
    if preset in PRESETS and preset not in request.presets:  # it has the sizes of the encoder chosen
        scaled = _scaled(PRESETS[preset], parts, preset)
        if "train.epochs" in own:  # a length of the method's own instead
            scaled.pop("clips_seen", None)
        base[2] = {"encoder": chosen["encoder"], **scaled, **own}
    user = choices | _user_settings(request, from_file, parts)

    with _announced(host, method):
        check_layers(parts, base, chosen)
    values = joined([*base, user])
    grid: GridSpec = parts.section(values, "grid")
    data: DataSpec = parts.section(values, "data")
    if grid.frames % grid.patch:
        raise SkelbenchError(
            f"clip length {grid.frames} is not a multiple of the patch {grid.patch}; choose --clip-length and --patch "
            "so that it is"
        )
    if not method.weights:
        grid = grid.model_copy(update=NO_PATCH)
    store = open_dataset(data.name, host, data_root)
    all_clips, split = store.split(data.split or None), store.split(data.split or None, data.min_frames)
    if split.name == EACH_SUBJECT:
        raise SkelbenchError(f"split {EACH_SUBJECT} is for evaluations: skelbench eval RUN --split {EACH_SUBJECT}")
    notes = list(_notes(method, native, store, all_clips, split))
    if len(split.train) == len(all_clips.train):  # the same run, whether asked for or not
        data = data.model_copy(update={"min_frames": 0})
    data = data_of(data, store, data.name, split.name)

    settle = partial(_settle, host, parts, split, request, preset)
    plain = bare = settle([*base, choices])
    layers = list(base)
    if variant:
        with _announced(host, method, variant):
            layers = list(variant_layers(parts, variant, base, plain))
            bare = settle([*layers, choices])
    complete = settle([*layers, user], user, notes)
    seed = request.sets.get("seed", top.get("seed", 0)) if request.seed is None else request.seed
    if seed and not method.weights:
        seed = 0
        notes.append(f"{method.name} draws nothing at random: every seed is this run")
    spec, length = _spec(parts, complete, grid, data, store, host, request, seed), None
    if budget := request.budget or (Budget.parse(top["budget"]) if "budget" in top else None):
        if not method.trains:
            notes.append(f"{method.name} does not train: budget {budget} changes nothing")
        elif "train.epochs" in user:
            epochs = user["train.epochs"]
            raise SkelbenchError(f"budget {budget} and train.epochs={epochs} both say how long to train; leave one out")
        else:
            length = length_of(budget, spec, host, store, timer)
            complete = replace(complete, train=of_steps(spec, len(split.train), length.steps))
            spec = spec.model_copy(update={"train": complete.train})
    modified = complete.unlike(bare)
    usual = {key: value for key, value in bare.plain().items() if key in modified}
    if length and modified.pop("train.epochs", None):  # by what was asked, which is the same for all methods
        modified[f"budget {length.budget.kind}"] = length.budget.number
    setting = "native" if native and method.native else "shared"
    if request.init_from:
        check_fits(method, spec, request.init_from)
        first = is_first_stage(method, spec, variant, preset, setting, request.init_from)
        modified |= {} if first else {"init_from": spec.init_from}
    announced = names([*base, changed])
    modified |= {name: own for name, own in choices.items() if name != "encoder" and own != announced[name]}
    usual |= {name: announced[name] for name in CHOICES if name in modified}
    notes += check_buildable(spec, method, store, host)
    from_preset = complete.unlike(plain)
    return Resolved(
        spec, preset, modified, method, parts.encoder, store, variant, from_preset, setting, tuple(notes), usual, length
    )


def _settle(
    host: Host,
    parts: Parts,
    split: Split,
    request: Request,
    preset: str,
    layers: list[Layer],
    typed: Layer | None = None,
    notes: list[str] | None = None,
) -> Settings:
    """Typed settings from layers, with a batch that fits the training clips.

    ``typed``: the layer of the user. Notes for the user are added to ``notes``.
    """
    values, typed = joined(layers), typed or {}
    sections = {name: parts.section(values, name) for name in ("method", "train", *CHOICES)}
    encoder_settings: dict[str, Any] = {}
    for setting, kind in host.subclass(parts.method, Method).exchangeable.items():
        if name := getattr(sections["method"], setting):
            descriptor = host.get(kind, name)
            if isinstance(descriptor, EncoderSpec):
                key = f"{setting}_settings"
                own = {**own_of(descriptor, preset), **getattr(sections["method"], key)}
                encoder_settings[key] = config(validated(host.config(descriptor), own, f"method.{key}"))
    sections["method"] = sections["method"].model_copy(update=encoder_settings)

    train: TrainSpec = sections["train"]
    clips = len(split.train)
    if train.batch_size > clips:
        if "train.batch_size" in typed:
            raise SkelbenchError(
                f"batch size {train.batch_size} is larger than the {clips} training clips of split {split.name}; use "
                f"--batch-size {clips} or less"
            )
        if notes is not None:
            notes.append(f"batch size {train.batch_size} lowered to the {clips} training clips there are")
        train = train.model_copy(update={"batch_size": clips})
    if "clips_seen" in values and "train.epochs" not in typed:
        iterations = train.iters_per_epoch if "train.iters_per_epoch" in typed else None
        epoch = iterations * train.batch_size if iterations else clips
        train = train.model_copy(update={"epochs": values["clips_seen"] / epoch, "iters_per_epoch": iterations})
    if not parts.method.trains:
        train = still(train.precision if parts.method.weights else "fp32")
    elif request.imported:  # what decides how the weights are evaluated; no step is made here
        inherited = {name: getattr(train, name) for name in ("bodies", "center", "align", "precision")}
        train = TrainSpec(epochs=0, batch_size=1, **inherited)
    else:
        steps = tuple(step.model_dump(mode="json") for step in degradations(train))
        train = train.model_copy(update={"degrade": steps})
    return Settings(**{**sections, "train": train})


def _scaled(preset: Layer, parts: Parts, name: str) -> dict[str, Any]:
    """A preset of the harness for these parts; unknown settings, and those that a plugin itself declares, are skipped.

    The learning rate is for adaptive optimizers; SGD keeps the method's.
    """
    optimizer = parts.classes["optimizer"]
    for trait in _traits(parts):
        preset = {**preset, **EXCEPTIONS[trait].get(name, {})}
    fields = {f"{part}.{name}" for part, of_part in parts.fields.items() for name in of_part}
    values = {key: value for key, value in preset.items() if key == "clips_seen" or key in fields}
    foreign = {key for key in values if _foreign(parts.classes["method"], key)}
    if not (issubclass(optimizer, Optimizer) and optimizer.adaptive):
        foreign.add("train.lr")
    own = {key: value for key, value in values.items() if key not in foreign}
    return own | {f"encoder.{key}": value for key, value in own_of(parts.encoder, name).items()}


def _traits(parts: Parts) -> Iterator[str]:
    """Keys of ``EXCEPTIONS`` that apply to a method, by its settings."""
    config = parts.classes["method"]
    fields = {name: info for name, info in config.model_fields.items() if not _foreign(config, f"method.{name}")}
    if "queue" in fields:
        yield "queue"
    if {"mask_ratio", "momentum"} <= fields.keys() and "prototypes" not in fields:
        yield "features"
    if "centering" in fields and fields["centering"].default == "sinkhorn":
        yield "sinkhorn"


def _foreign(config: type, key: str) -> bool:
    """Whether the method's setting ``key`` is declared by a plugin that does not ship with the harness."""
    part, _, name = key.partition(".")
    own = [base for base in config.__mro__ if name in inspect.get_annotations(base)]
    return part == "method" and bool(own) and own[0].__module__.partition(".")[0] not in SHIPPED


def _user_settings(request: Request, from_file: Layer, parts: Parts) -> dict[str, Any]:
    """Dotted settings of the file, ``--set`` and the options; the last two may not contradict each other."""
    fields, options = parts.fields, request.direct
    sets = {full_key(key, fields): value for key, value in request.sets.items() if key not in (*CHOICES, "seed")}
    named = {"seed": request.seed, **options}
    for key, value in {**sets, "seed": request.sets.get("seed")}.items():
        if None not in (value, named.get(key)) and value != named[key]:
            raise SkelbenchError(
                f"{key}={value} is contradicted by an option, which says {key}={named[key]}; give only one of the two"
            )
    options = {key: value for key, value in options.items() if key not in CHOICES}
    return {full_key(key, fields): value for key, value in from_file.items()} | sets | options


def _notes(method: MethodSpec, native: bool, store: ClipStore, all_clips: Split, split: Split) -> Iterator[str]:
    if native and not method.native:
        yield f"{method.name} has no setting of its own: native is the shared setting"
    if store.meta.dimensions == 2:
        yield "the poses are 2-D: bodies turn in the image plane only, within the tilt limit of each rotation"
    if left_out := len(all_clips.train) - len(split.train):
        yield f"data.min_frames excludes {left_out:,} of {len(all_clips.train):,} training clips, and no test clip"


def _spec(
    parts: Parts,
    settings: Settings,
    grid: GridSpec,
    data: DataSpec,
    store: ClipStore,
    host: Host,
    request: Request,
    seed: int,
) -> RunSpec:
    """The run spec of complete settings."""
    method, full = parts.method, Grid(grid.frames, grid.patch, store.topology.num_joints)
    components = {f"topologies {store.topology.name}": host.identity(host.get("topologies", store.topology.name))}
    for name in method.files:
        path = Path(host.origin(method).path).parent / name
        try:
            components[f"file {name}"] = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            raise SkelbenchError(f"method {method.name} reads {path}, which cannot be read: {error.strerror}") from None
    for setting, kind in host.subclass(method, Method).exchangeable.items():
        if name := getattr(settings.method, setting):
            components[f"{kind} {name}"] = host.identity(host.get(kind, name))
    views = _views(host.subclass(method, Method), settings.method, full) if method.trains else {}
    plain_views = {name: view.model_dump(mode="json") for name, view in views.items()}
    for view in views.values():
        for part in filter(None, (view.crop, view.mask, *view.augment)):
            components[f"{part.family} {part.kind}"] = host.identity(host.get(part.family, part.kind))
    for step in settings.train.degrade:
        components[f"degradations {step['kind']}"] = host.identity(host.get("degradations", step["kind"]))
    training: dict[str, Any] = {}
    for name in ("optimizer", "schedule") if method.trains and not request.imported else ():
        descriptor = parts.chosen[name]
        components[f"{CHOICES[name]} {descriptor.name}"] = host.identity(descriptor)
        training |= {name: descriptor.name, f"{name}_config": config(getattr(settings, name))}
    values = {
        "method": method.name,
        "method_version": method.version,
        "method_source": host.origin(method).source_hash,
        "method_config": config(settings.method),
        "encoder": parts.encoder.name,
        "encoder_version": parts.encoder.version,
        "encoder_source": host.origin(parts.encoder).source_hash,
        "encoder_config": config(settings.encoder),
        **training,
        "components": dict(sorted(components.items())),
        "grid": grid,
        "views": plain_views,
        "data": data,
        "train": settings.train,
        "seed": seed,
        "init_from": request.init_from.spec.id if request.init_from else None,
        "imported": request.imported,
    }
    return validated(RunSpec, values, "run")


def _views(cls: type[Method], config: Any, grid: Grid) -> dict[str, ViewSpec]:
    """The views that a method of these settings declares."""
    with plugin_code(cls.views, "(config, grid)"):
        views: Any = cls.views(config, grid)
    if not isinstance(views, Mapping) or not views or not all(isinstance(view, ViewSpec) for view in views.values()):
        example = '{"pair": ViewSpec(...)}'
        raise wrong(cls.views, f"returned {views!r:.60}; return a dict of names to views: {example}")
    return dict(views)


def data_of(data: DataSpec, store: ClipStore, name: str, split: str) -> DataSpec:
    """The choices of ``data`` for the opened dataset ``name`` and its ``split``."""
    facts = {"name": name, "dimensions": store.meta.dimensions, "fingerprint": store.fingerprint}
    return data.model_copy(update={"split": split, **facts})


MOST_OPEN = 8
"""Maximal number of datasets that stay open for later use."""
_opened: dict[tuple[Host, str, Path], tuple[ClipStore, Any]] = {}
"""Open datasets with the state of their files."""


def open_dataset(name: str, host: Host, data_root: Path) -> ClipStore:
    """A dataset announced by a plugin (made on first use) or an imported one; opened again only if a file changed."""
    store, files = _opened.get((host, name, data_root), (None, None))
    if store is None or _files(store.path) != files:
        store = _open_dataset(name, host, data_root)
        if len(_opened) >= MOST_OPEN:
            _opened.pop(next(iter(_opened)))
        _opened[host, name, data_root] = store, _files(store.path)
    return store


def _files(folder: Path) -> list[tuple[str, int, int, int]]:
    """Name, inode, size and time of each file of a dataset; none if the folder is gone."""
    stats = [(path.name, path.stat()) for path in sorted(folder.glob("*"))]
    return [(name, stat.st_ino, stat.st_size, stat.st_mtime_ns) for name, stat in stats]


def _open_dataset(name: str, host: Host, data_root: Path) -> ClipStore:
    def opener(key: str, root: Path) -> ClipStore:
        descriptor = host.get("datasets", key)
        opens = host.load(descriptor)
        with plugin_code(opens, "(root)"):
            store = opens(root)
        return host.checked(descriptor, store, ClipStore, "skelbench.data.store.clip_store.ClipStore")

    return roots.open_dataset(name, data_root, {key: partial(opener, key) for key in host.names("datasets")})


@contextmanager
def _announced(host: Host, method: MethodSpec, variant: str = "") -> Iterator[None]:
    """Name the plugin in an error about its variant or recipe."""
    try:
        yield
    except SkelbenchError as error:
        plugin = host.origin(method)
        raise SkelbenchError(
            f"{f'variant {variant!r} of ' if variant else ''}method {method.name} cannot be used as plugin "
            f"{plugin.name!r} ({plugin.source}) announces it: {error}"
        ) from error
