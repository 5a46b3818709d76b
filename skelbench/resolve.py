"""From what the user typed to a complete run spec.

Settings are dotted keys in five sections: ``method.*``, ``encoder.*``, ``train.*``, ``grid.*``, ``data.*``. Later
sources win: defaults, the method's native settings, the preset, the TOML file, the command line.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skelbench.config import DataSpec, GridSpec, RunSpec, TrainSpec, validated
from skelbench.errors import SkelbenchError, did_you_mean
from skelbench.plugin.descriptors import EncoderSpec, MethodSpec
from skelbench.plugin.host import Host
from skelbench.presets import PRESETS
from skelbench.skeleton.grid import BUDGETS, Grid
from skelbench.skeleton.spec import Spec

if TYPE_CHECKING:
    from skelbench.data.store import ClipStore

SECTIONS = ("method", "encoder", "train", "grid", "data")
TOP = ("seed", "preset", "method", "encoder", "init_from", "tokens", "dataset", "split")


@dataclass
class Request:
    """What the user asked for; None = not said."""

    method: str
    dataset: str | None = None
    split: str | None = None
    tokens: int | None = None
    clip_length: int | None = None
    patch: int | None = None
    preset: str | None = None
    epochs: float | None = None
    batch_size: int | None = None
    seed: int | None = None
    precision: str | None = None
    init_from: str | None = None
    sets: Mapping[str, Any] = field(default_factory=dict)
    """Dotted or bare keys from ``--set``."""
    config: Path | None = None


@dataclass(frozen=True)
class Resolved:
    """A complete spec with the descriptors and data it came from."""

    spec: RunSpec
    preset: str
    modified: Mapping[str, Any]
    """Dotted keys that differ from the bare preset: a run with any is not the exact preset."""
    method: MethodSpec
    encoder: EncoderSpec
    store: ClipStore
    notes: tuple[str, ...] = ()


def parse_sets(pairs: list[str]) -> dict[str, Any]:
    """``["lr=1e-3", "encoder.cls=false"]`` -> dict; values are TOML, anything else is text."""
    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.strip():
            raise SkelbenchError(f"--set {pair!r} is not of the form key=value, for example --set train.lr=1e-3")
        values[key.strip()] = parse_value(text.strip())
    return values


def parse_value(text: str) -> Any:
    """A TOML value, or Python-style True/False/None, or the text itself."""
    named = {"True": True, "False": False, "None": None, "none": None, "null": None}
    if text in named:
        return named[text]
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text


def read_config(path: Path) -> dict[str, Any]:
    """A run.toml as dotted keys: top-level ``method``, ``dataset``, ``preset``, ``seed`` ... and the section tables."""
    try:
        document = tomllib.loads(path.read_text())
    except FileNotFoundError as error:
        raise SkelbenchError(f"config file {path} does not exist; check the path given to --config") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SkelbenchError(f"config file {path} cannot be read as TOML: {error}") from error
    values: dict[str, Any] = {}
    for key, value in document.items():
        if isinstance(value, dict) and key in SECTIONS:
            values.update({f"{key}.{name}": inner for name, inner in value.items()})
        elif isinstance(value, dict):
            raise SkelbenchError(f"{path}: {did_you_mean(key, SECTIONS, 'section')}")
        else:
            values[key] = value
    return values


def resolve(request: Request, host: Host, data_root: Path, device_kind: str) -> Resolved:
    """Complete ``request``; opens the data set (its fingerprint is part of the spec) and loads the method's config.

    Raises :class:`SkelbenchError` naming the nearest right name for a misspelt method, encoder, data set, split, key
    or value.
    """
    file = read_config(request.config) if request.config else {}
    for key in [key for key in file if "." not in key and key not in TOP]:
        raise SkelbenchError(f"{request.config}: {did_you_mean(key, TOP, 'key')}")
    method = host.get("methods", request.method)
    sections, preset, modified_keys, notes = _sections(request, file, method, host, device_kind)

    encoder = host.get("encoders", sections["encoder_name"])
    encoder_config = validated(config_class(host, encoder), sections["encoder"], "encoder")
    method_config = validated(config_class(host, method), sections["method"], "method")
    grid = validated(GridSpec, sections["grid"], "grid")
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
    data = validated(DataSpec, {"name": "synthetic", **sections["data"]}, "data")
    store = open_dataset(data.name, host, data_root)
    split = store.split(data.split or None)
    data = DataSpec(name=data.name, split=split.name, fingerprint=store.fingerprint)

    _check_lengths(store, np.concatenate([split.train, split.test]), grid.patch)

    train = validated(TrainSpec, sections["train"], "train")
    clips = len(split.train)
    if train.batch_size > clips:
        if "train.batch_size" in modified_keys:
            raise SkelbenchError(
                f"batch size {train.batch_size} is larger than the {clips} training clips of "
                f"{data.name}/{data.split}; use --batch-size {clips} or less"
            )
        notes.append(f"batch size {train.batch_size} lowered to the {clips} training clips there are")
        train = train.model_copy(update={"batch_size": clips})
    if sections["clips_seen"] is not None:
        train = train.model_copy(update={"epochs": sections["clips_seen"] / clips, "iters_per_epoch": None})
    if not method.trains:
        train = TrainSpec(epochs=0, batch_size=1, precision=train.precision, bodies=train.bodies)

    topology = store.topology
    full = Grid(grid.frames, grid.patch, topology.num_joints)
    views = host.load(method).views(method_config, full) if method.trains else {}
    for view in views.values():
        if view.mask is not None:
            full.at(view.frames)
    spec = RunSpec(
        method=method.name,
        method_version=method.version,
        method_source=host.origin(method).source_hash,
        method_config=method_config.model_dump(mode="json"),
        encoder=encoder.name,
        encoder_version=encoder.version,
        encoder_config=encoder_config.model_dump(mode="json"),
        grid=grid,
        views=views,
        data=data,
        train=train,
        seed=sections["seed"],
        init_from=sections["init_from"],
    )
    return Resolved(spec, preset, modified_keys, method, encoder, store, tuple(notes))


def control(resolved: Resolved, host: Host) -> Resolved:
    """The untrained twin: same encoder, grid, data and seed, no training."""
    spec, method = resolved.spec, host.get("methods", "untrained")
    twin = RunSpec(
        method=method.name,
        method_version=method.version,
        method_source=host.origin(method).source_hash,
        method_config=config_class(host, method)().model_dump(mode="json"),
        encoder=spec.encoder,
        encoder_version=spec.encoder_version,
        encoder_config=spec.encoder_config,
        grid=spec.grid,
        data=spec.data,
        train=TrainSpec(epochs=0, batch_size=1, precision=spec.train.precision, bodies=spec.train.bodies),
        seed=spec.seed,
    )
    return Resolved(twin, resolved.preset, resolved.modified, method, resolved.encoder, resolved.store)


def open_dataset(name: str, host: Host, data_root: Path) -> ClipStore:
    """A data set announced by a plugin (made on first use) or an imported one."""
    from skelbench.data import roots

    def opener(known: str) -> Callable[[Path], ClipStore]:
        return lambda root: host.load(host.get("datasets", known))(root)

    openers = {known: opener(known) for known in host.names("datasets")}
    return roots.open_dataset(name, data_root, openers)


def _check_lengths(store: ClipStore, ids: np.ndarray, patch: int) -> None:
    """A clip with fewer frames than one patch has no motion that a token could hold."""
    short = ids[store.lengths[ids] < patch]
    if len(short):
        raise SkelbenchError(
            f"clip {short[0]} of data set {store.meta.name} has {store.lengths[short[0]]} frames, fewer than one patch "
            f"of {patch} ({len(short)} such clips); leave such clips out of the data set or choose a smaller --patch"
        )


def config_class(host: Host, descriptor: MethodSpec | EncoderSpec) -> type[Spec]:
    """The pydantic class of a method's or encoder's settings; an empty one when it has none."""
    return host.load(descriptor, "config") if descriptor.config else Spec


def _sections(request: Request, file: dict[str, Any], method: MethodSpec, host: Host, device_kind: str):
    """Merge all sources into one dict per section; also preset name, user-changed keys, notes."""
    presets = {**PRESETS, **method.presets}
    preset = request.preset or file.get("preset") or ("paper" if device_kind == "cuda" else "quick")
    if preset not in presets:
        raise SkelbenchError(did_you_mean(str(preset), list(presets), f"preset of {method.name}"))

    encoder_name = request.sets.get("encoder") or file.get("encoder") or method.native.get("encoder") or "vit"
    fields = {
        "train": set(TrainSpec.model_fields),
        "grid": set(GridSpec.model_fields),
        "data": set(DataSpec.model_fields) - {"fingerprint"},
        "method": set(config_class(host, method).model_fields),
        "encoder": set(config_class(host, host.get("encoders", encoder_name)).model_fields),
    }
    scaled = {
        key: value
        for key, value in presets[preset].items()
        if key == "clips_seen" or preset in method.presets or key.split(".", 1)[1] in fields[key.split(".", 1)[0]]
    }
    user = {key: value for key, value in file.items() if key not in TOP}
    user |= {key: value for key, value in request.sets.items() if key not in ("encoder", "seed")}
    user = {_full_key(key, fields): value for key, value in user.items()}
    user |= {
        key: value
        for key, value in {
            "train.epochs": request.epochs,
            "train.batch_size": request.batch_size,
            "train.precision": request.precision,
        }.items()
        if value is not None
    }
    defaults = {"train.precision": "bf16" if device_kind == "cuda" else "fp32", "grid.frames": 64, "grid.patch": 8}
    merged = defaults | dict(method.native) | scaled | user | _grid(request, file)
    merged |= {
        key: value
        for key, value in {
            "data.name": request.dataset or file.get("dataset"),
            "data.split": request.split or file.get("split"),
        }.items()
        if value is not None
    }
    clips_seen = None if "train.epochs" in user else merged.get("clips_seen")
    sections: dict[str, Any] = {name: {} for name in SECTIONS}
    for key, value in merged.items():
        section, dot, name = key.partition(".")
        if dot:
            sections[section][name] = value
    seed = request.seed if request.seed is not None else request.sets.get("seed", file.get("seed", 0))
    sections.update(
        encoder_name=encoder_name,
        clips_seen=clips_seen,
        seed=seed,
        init_from=request.init_from or file.get("init_from"),
    )
    baseline = defaults | dict(method.native) | scaled
    modified = {key: value for key, value in user.items() if key not in baseline or baseline[key] != value}
    return sections, preset, modified, []


def _grid(request: Request, file: dict[str, Any]) -> dict[str, int]:
    """grid.* keys from --tokens or --clip-length / --patch."""
    tokens = request.tokens if request.tokens is not None else file.get("tokens")
    grid: dict[str, int] = {}
    if tokens is not None:
        if tokens not in BUDGETS:
            raise SkelbenchError(
                f"--tokens {tokens} is not one of {', '.join(map(str, BUDGETS))}; for any other grid give "
                "--clip-length T and --patch P_T (tokens = T / P_T)"
            )
        grid = dict(zip(("grid.frames", "grid.patch"), BUDGETS[tokens]))
    if request.clip_length is not None:
        grid["grid.frames"] = request.clip_length
    if request.patch is not None:
        grid["grid.patch"] = request.patch
    return grid


def _full_key(key: str, fields: Mapping[str, set[str]]) -> str:
    """``lr`` -> ``train.lr``; unknown or ambiguous keys are refused with the nearest right one."""
    section, dot, name = key.partition(".")
    every = [f"{part}.{inner}" for part, names in fields.items() for inner in names]
    if dot:
        if section in fields and name in fields[section]:
            return key
        raise SkelbenchError(did_you_mean(key, every, "setting"))
    owners = [part for part, names in fields.items() if key in names]
    if len(owners) == 1:
        return f"{owners[0]}.{key}"
    if owners:
        choices = " or ".join(f"{part}.{key}" for part in owners)
        raise SkelbenchError(f"setting {key!r} is in more than one section; write {choices}")
    import difflib

    near = difflib.get_close_matches(key, [full.split(".", 1)[1] for full in every], n=1, cutoff=0.5)
    nearest = next((full for full in every if near and full.endswith("." + near[0])), None)
    hint = f"did you mean {nearest!r}?" if nearest else "see `skelbench plugins info` for the settings of a method"
    raise SkelbenchError(f"unknown setting {key!r}; {hint}")
