"""Requests of the user as dotted settings: ``method.*``, ``encoder.*``, ``optimizer.*``, ``train.*``, ``grid.*`` ...

Later sources win: the file, ``--set``, the options of their own (``--tokens``, ``--epochs``, ...), which may not
contradict ``--set``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge
from pydantic import BeforeValidator, ConfigDict, Field, StrictBool, ValidationError
from pydantic.fields import FieldInfo

from skelbench.core.component import Spec
from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.spec import GridSpec, TrainSpec
from skelbench.core.spelling import KEYS
from skelbench.data.store import roots
from skelbench.pipeline.budget import Budget
from skelbench.pipeline.presets import PRESETS
from skelbench.plugin.files import named_files
from skelbench.plugin.space import factor
from skelbench.views.skeleton.grid import BUDGETS

if TYPE_CHECKING:
    from skelbench.plugin.host import Host

CHOICES = {"encoder": "encoders", "optimizer": "optimizers", "schedule": "schedules"}
"""Sections whose component the user chooses -> kind of the component in the plugin host."""
SECTIONS = ("method", *CHOICES, "train", "grid", "data")
TOP = ("seed", "preset", "native", "budget", *CHOICES, "tokens", "dataset", "split", "plugins")
"""Keys of a run.toml outside the sections."""


@dataclass(frozen=True)
class Option:
    """A field of :class:`Arguments` that a user may give, and how the command line shows it."""

    default: str = ""
    """Default as the help text shows it; "" = the field's own."""
    flag: str = ""
    """Name of the option; "" = the name of the field."""
    metavar: str = ""
    panel: str = ""
    """Group of options in the help text; "" = the usual one."""
    command: bool = True
    """False = a keyword of Python alone."""


class Arguments(Spec):
    """Base of arguments that a command and a Python call share: each field is an option and a keyword, and its
    docstring is the help text of both. None = not given.

    Raises:
        SkelbenchError: a keyword is unknown, or a value is not valid; names the nearest right keyword.
    """

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True, use_attribute_docstrings=True)

    @classmethod
    def options(cls) -> dict[str, tuple[FieldInfo, Option]]:
        """The fields that a user may give, by name."""
        fields = cls.model_fields.items()
        return {name: (field, how) for name, field in fields for how in field.metadata if isinstance(how, Option)}

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            first = error.errors()[0]
            name = str(first["loc"][0])
            if first["type"] == "extra_forbidden":
                keywords = [field.alias or name for name, field in type(self).model_fields.items()]
                raise SkelbenchError(did_you_mean(name, keywords, "argument")) from error
            reason = first["msg"].removeprefix("Value error, ")
            raise SkelbenchError(f"{name}={first['input']!r} is not valid: {reason[0].lower()}{reason[1:]}") from error


def comma_separated(text: str) -> list[str]:
    """The names in ``"linear, knn"``."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _several(value: Any) -> Any:
    """The values in ``"linear,knn"``, or in a list of such texts; ``"none"`` stands for no values."""
    if not isinstance(value, str | Iterable):
        raise ValueError("give a list")
    values: list[Any] = []
    for item in [value] if isinstance(value, str) else value:
        values += comma_separated(item) if isinstance(item, str) else [item]
    if not values and value not in ([], ()):
        raise ValueError("give a name, or none")
    if "none" in values and len(values) > 1:
        raise ValueError("'none' excludes all other names; leave it or the others out")
    return () if values == ["none"] else tuple(values)


def _settings(value: Any) -> Any:
    """The settings in ``["lr=1e-3"]``, as the command line gives them."""
    if isinstance(value, list | tuple) and all(isinstance(pair, str) for pair in value):
        return parse_sets(value)
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ValueError('write names and values: settings={"train.lr": 0.001}')
    return value


def _files(value: Any) -> Any:
    if isinstance(value, str | Path):
        raise ValueError(f"write a list: [{str(value)!r}]")
    return value


def _path(value: Any) -> Any:
    return Path(value).expanduser() if isinstance(value, str | Path) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_several)]
Place = Annotated[Path, BeforeValidator(_path)]
Spending = Annotated[Budget, BeforeValidator(lambda value: Budget.parse(value) if isinstance(value, str) else value)]
Pairs = Annotated[Mapping[str, Any], BeforeValidator(_settings), Option(flag="--set", metavar="KEY=VALUE")]


class Request(Arguments):
    """One run that the user asked for."""

    method: Annotated[str, Option()]
    """Name of a method, or METHOD:VARIANT (see `skelbench plugins list methods`)."""
    dataset: Annotated[str | None, Option("synthetic")] = None
    """Dataset (see `skelbench data list`)."""
    split: Annotated[str | None, Option("the dataset's default")] = None
    """Split, such as xsub or xview (see `skelbench data info NAME`)."""
    tokens: Annotated[int | None, Option("the method's")] = None
    """Temporal tokens: 8, 15 or 30."""
    clip_length: Annotated[int | None, Option()] = None
    """Frames of a clip, for another number of tokens; with --patch."""
    patch: Annotated[int | None, Option()] = None
    """Frames of a temporal token; with --clip-length."""
    preset: Annotated[str | None, Option("paper with a GPU, else quick")] = None
    """Size of model and training: paper, ablation, small or quick (SLiM also: release)."""
    encoder: Annotated[str | None, Option("vit")] = None
    """Encoder (see `skelbench plugins list encoders`)."""
    native: Annotated[StrictBool | None, Option()] = None
    """Use the published setting: encoder, token grid, bodies and epochs of the method's paper."""
    epochs: Annotated[float | None, Option(), Ge(0)] = None
    """Training length in epochs."""
    budget: Annotated[Spending | None, Option(metavar="KIND=N")] = None
    """Training length instead of --epochs: clips=40k, steps=500, flops=2e15 (of training) or minutes=30."""
    batch_size: Annotated[int | None, Option(), Ge(1)] = None
    """Clips of a training step."""
    seed: Annotated[int | None, Option("0"), Ge(0)] = None
    """Random seed of initial weights, data order and augmentations."""
    precision: Annotated[str | None, Option("bf16 with a GPU, else fp32")] = None
    """Precision of training: fp32 or bf16."""
    sets: Pairs = Field(default={}, alias="settings")
    """Change a setting, for example train.lr=1e-3 (see `skelbench plugins info METHOD`). Repeatable."""
    config: Annotated[Place | None, Option()] = None
    """TOML file with settings; options and keywords win."""
    init_from: Annotated[Any, Option()] = None
    """Start training from the weights of a finished run."""
    imported: str | None = None
    """sha256 of the checkpoint file that the weights come from; nothing is trained."""
    presets: Mapping[str, Mapping[str, Any]] = {}
    """Presets for this request only, from the settings in a checkpoint file."""

    def __init__(self, method: str, dataset: str | None = None, **fields: Any) -> None:
        super().__init__(method=method, dataset=dataset, **fields)

    @property
    def direct(self) -> dict[str, Any]:
        """Return the settings that have options of their own.

        Raises:
            SkelbenchError: ``--tokens`` and ``--clip-length`` or ``--patch`` are given.
        """
        if self.tokens is not None and (self.clip_length is not None or self.patch is not None):
            raise SkelbenchError("--tokens decides clip length and patch; leave out --clip-length and --patch")
        options = {
            "encoder": self.encoder,
            "data.name": self.dataset,
            "data.split": self.split,
            "train.epochs": self.epochs,
            "train.batch_size": self.batch_size,
            "train.precision": self.precision,
            "grid.frames": self.clip_length,
            "grid.patch": self.patch,
        }
        options_given = {key: value for key, value in options.items() if value is not None}
        return options_given if self.tokens is None else token_grid(self.tokens) | options_given


class Work(Arguments):
    """Places and device of a command or a call."""

    device: Annotated[str | None, BeforeValidator(lambda device: device and str(device)),
                      Option("cuda if present, else cpu")] = None  # fmt: skip
    """Device: cpu, cuda or cuda:N (SKELBENCH_DEVICE)."""
    plugins: Annotated[tuple[Path | str, ...], BeforeValidator(_files), Option(command=False)] = ()
    """Files with methods, encoders, ... of your own, which stay loaded; read again when they were edited."""
    results: Annotated[Place | None, Option("results")] = None
    """Folder of runs (SKELBENCH_RESULTS)."""
    data: Annotated[Place | None, Option("in your home directory", flag="--data-root")] = None
    """Folder of datasets (SKELBENCH_DATA)."""
    progress: Annotated[bool, Option(command=False)] = True
    """Show a progress bar."""
    force: Annotated[bool, Option()] = False
    """Repeat the work even if its result exists."""


class RunRequest(Work, Request):
    """Arguments of `skelbench run` and :func:`skelbench.run`."""

    probes: Annotated[Names, Option("linear,knn", flag="--probe", metavar="NAMES")] = ("linear", "knn")
    """Protocols of the evaluation, comma separated; none = train only."""
    observe: Annotated[Names | None, Option(metavar="NAME")] = None
    """Also write the training log for tensorboard, mlflow or csv, or knn: accuracy while training. Repeatable
    (SKELBENCH_OBSERVE)."""


class EvaluationRequest(Work):
    """Arguments of `skelbench eval` and :func:`skelbench.evaluate`."""

    dataset: Annotated[str | None, Option("the run's")] = None
    """Another dataset for the probe."""
    split: Annotated[str | None, Option("the run's")] = None
    """Another split for the probe."""
    seed: Annotated[int | None, Option("the run's"), Ge(0)] = None
    """Seed of the probe."""
    stream: Annotated[Names | None, Option("as trained", metavar="NAMES")] = None
    """Input of the encoder: joint, bone or motion. Several, comma separated, are fused."""
    fusion: Annotated[str | None, Option()] = None
    """Outputs of several streams to fuse: features, scores or logits."""
    weights: Annotated[
        Annotated[tuple[Any, ...], BeforeValidator(_several)] | None, Option("equal", metavar="NUMBERS")
    ] = None
    """Weights of the streams when scores or logits are fused, for example 0.6,0.6,0.4."""
    readout: Annotated[str | None, Option("the protocol's")] = None
    """Features of the probe: pooled, mean, joints, a level of the encoder, or another encoder of the method."""
    bodies_pool: Annotated[str | None, Option("the run's")] = None
    """Pooling over the bodies of a clip: valid-mean, valid-sum, all-mean or concat."""
    min_confidence: Annotated[float | None, Option("0, which masks none")] = None
    """Mask tokens with a lower mean confidence, for encoders that can drop tokens."""
    sets: Pairs = Field(default={}, alias="settings")
    """Change a setting of the protocol, for example epochs=50. Repeatable."""


def token_grid(tokens: Any) -> dict[str, int]:
    """grid.* settings of one of the paper's token budgets."""
    if not isinstance(tokens, int) or tokens not in BUDGETS:
        raise SkelbenchError(
            f"tokens is 8, 15 or 30, not {tokens!r}. For another grid give clip length and patch instead (settings "
            "grid.frames and grid.patch): --clip-length 72 --patch 8 makes 9 tokens"
        )
    return dict(zip(("grid.frames", "grid.patch"), BUDGETS[tokens]))


def parse_sets(pairs: Sequence[str]) -> dict[str, Any]:
    """``["lr=1e-3", "encoder.cls=false"]`` -> dict; values are TOML, anything else is text."""
    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.strip():
            raise SkelbenchError(f"--set {pair!r} is not of the form key=value, for example --set train.lr=1e-3")
        values[key.strip()] = parse_value(text.strip())
    return values


def check_set_once(sets: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Raise SkelbenchError for a key of ``--set`` that is also an option with a value."""
    if twice := sorted(key for key in sets if options.get(key) is not None):
        raise SkelbenchError(f"--{twice[0]} and --set {twice[0]} are the same setting; leave one out")


def parse_value(text: str) -> Any:
    """A TOML value, or Python's True, False, None, or the text itself."""
    if text in (named := {"True": True, "False": False, "None": None, "null": None}):
        return named[text]
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except ValueError:
        return text


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """Read a TOML file; ``what`` names the kind of file in errors."""
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError as error:
        raise SkelbenchError(f"{what} {path} does not exist; check the path") from error
    except (OSError, ValueError) as error:
        raise SkelbenchError(f"{what} {path} cannot be read as TOML: {error}") from error


def read_config(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """A run.toml as (keys outside the sections, dotted settings)."""
    top: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    for key, value in read_toml(path, "config file").items():
        if isinstance(value, dict) and key in SECTIONS:
            if key in CHOICES and "kind" in value:
                top[key] = value.pop("kind")
            settings |= {f"{key}.{name}": inner for name, inner in value.items()}
        elif isinstance(value, dict) or key not in TOP:
            options_known, noun = (SECTIONS, "section") if isinstance(value, dict) else (TOP, "key")
            raise SkelbenchError(f"{path}: {did_you_mean(key, options_known, noun)}")
        else:
            top[key] = value
    top["plugins"] = named_files(top.get("plugins", []), path)
    settings |= token_grid(top["tokens"]) if "tokens" in top else {}
    settings |= {f"data.{name}": top[key] for key, name in (("dataset", "name"), ("split", "split")) if key in top}
    return top, settings


def times(value: Any, before: Any) -> Any:
    """Apply the setting of a variant to the value ``before``: ``"x0.5"`` halves a number; whole numbers stay whole and
    at least 1. Any other value replaces ``before``."""
    by = factor(value)
    if by is None or isinstance(before, bool) or not isinstance(before, int | float):
        return value
    product = before * by
    return max(1, round(product)) if isinstance(before, int) else product


def full_key(key: str, fields: Mapping[str, set[str]]) -> str:
    """``lr`` -> ``train.lr``; an unknown or ambiguous key raises SkelbenchError with the nearest right one."""
    section, _, name = key.partition(".")
    if name in fields.get(section, ()):
        return key
    if key in TOP and key != "plugins":
        raise SkelbenchError(f"{key!r} is an option, not a setting: write --{key}")
    owners = [f"{part}.{key}" for part, names in fields.items() if key in names]
    if len(owners) > 1:
        raise SkelbenchError(f"setting {key!r} is in more than one section; write {' or '.join(owners)}")
    if not owners and (american := ".".join(KEYS.get(part, part) for part in key.split("."))) != key:
        return full_key(american, fields)
    if not owners:
        every = [f"{part}.{inner}" for part, names in fields.items() for inner in names]
        names = ", ".join(sorted(fields.get(section, ())))
        otherwise = f"settings of {section}: {names}" if names else f"sections: {', '.join(fields)}"
        raise SkelbenchError(did_you_mean(key, every, "setting", otherwise))
    return owners[0]


def check_request(request: Request, host: Host, data_root: Path) -> None:
    """Check all that needs no PyTorch: method, variant, preset, grid, dataset, and settings of train, grid and data.

    Raises:
        SkelbenchError: a name is unknown, with the nearest right one, or options contradict each other.
    """
    top, from_file = read_config(request.config) if request.config else ({}, {})
    method, _ = host.method(request.method)
    preset, presets = request.preset or top.get("preset"), [*PRESETS, *method.presets, *request.presets]
    if preset and preset not in presets:
        raise SkelbenchError(did_you_mean(str(preset), presets, f"preset of {method.name}"))
    data = {**from_file, **request.sets, **request.direct}.get("data.name")
    if isinstance(data, str) and data not in (*roots.named_stores(data_root), *host.names("datasets")):
        roots.open_dataset(data, data_root, dict.fromkeys(host.names("datasets")))  # raises
    fields = {name: set(spec.model_fields) for name, spec in (("train", TrainSpec), ("grid", GridSpec))}
    for key in (*from_file, *request.sets):
        if key.partition(".")[0] in fields:
            full_key(key, fields)


def known_protocols(host: Host, names: Iterable[str], elsewhere: bool = False) -> list[str]:
    """Return the protocols of these names.

    Raises:
        SkelbenchError: there is no such protocol, or, unless ``elsewhere``, it evaluates on other data than the run's,
            which a new run does not have.
    """
    protocols = list(names)
    for name in protocols:
        if getattr(host.get("protocols", name), "elsewhere", False) and not elsewhere:
            raise SkelbenchError(
                f"protocol {name} measures on other data than the run's; when the run is there: "
                f"skelbench eval RUN --protocol {name} --dataset NAME"
            )
    return protocols
