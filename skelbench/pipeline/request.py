"""What the user typed, as dotted settings: ``method.*``, ``encoder.*``, ``optimizer.*``, ``train.*``, ``grid.*`` ...

Later sources win: the file, ``--set``, the options of their own (``--tokens``, ``--epochs``, ...), which may not
contradict ``--set``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.files import parsed, shallow
from skelbench.pipeline.budget import Budget
from skelbench.plugin.files import named_files
from skelbench.plugin.space import factor
from skelbench.views.skeleton.grid import BUDGETS

if TYPE_CHECKING:
    from skelbench.plugin.host import Host
    from skelbench.records.run_dir import RunDir

CHOICES = {"encoder": "encoders", "optimizer": "optimizers", "schedule": "schedules"}
"""Sections that are a component of one's choice -> what the plugin host calls its kind."""
SECTIONS = ("method", *CHOICES, "train", "grid", "data")
TOP = ("seed", "preset", "native", "budget", *CHOICES, "tokens", "dataset", "split", "plugins")
"""Keys of a run.toml outside the sections."""


@dataclass
class Request:
    """What the user asked for; None = not said."""

    method: str
    """METHOD or METHOD:VARIANT."""
    dataset: str | None = None
    split: str | None = None
    tokens: int | None = None
    clip_length: int | None = None
    patch: int | None = None
    preset: str | None = None
    native: bool | None = None
    """The method's own published setting instead of the shared one."""
    encoder: str | None = None
    epochs: float | None = None
    budget: Budget | None = None
    """What training may spend, instead of ``epochs``."""
    batch_size: int | None = None
    seed: int | None = None
    precision: str | None = None
    init_from: RunDir | None = None
    """A finished run to start from."""
    imported: str | None = None
    """sha256 of the checkpoint file that the weights come from; nothing is trained."""
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Presets of this request alone: what a checkpoint file says of its settings."""
    sets: Mapping[str, Any] = field(default_factory=dict)
    """Dotted or bare keys from ``--set``."""
    config: Path | None = None

    @property
    def options(self) -> dict[str, Any]:
        """Settings that have an option of their own.

        Raises:
            SkelbenchError: ``--tokens`` says another grid than ``--clip-length`` or ``--patch``.
        """
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
        given = {key: value for key, value in options.items() if value is not None}
        grid = token_grid(self.tokens) if self.tokens is not None else {}
        for key, name in (("grid.frames", "--clip-length"), ("grid.patch", "--patch")):
            if key in given and key in grid and given[key] != grid[key]:
                raise SkelbenchError(
                    f"--tokens {self.tokens} is T = {grid['grid.frames']}, P_T = {grid['grid.patch']}, and {name} says "
                    f"{given[key]}; leave one out"
                )
        return grid | given


def token_grid(tokens: Any) -> dict[str, int]:
    """grid.* settings of one of the paper's token budgets."""
    if not isinstance(tokens, int) or tokens not in BUDGETS:
        raise SkelbenchError(
            f"tokens {tokens!r} is not one of {', '.join(map(str, BUDGETS))}; for any other grid give a clip length T "
            "and a patch P_T, tokens = T / P_T: the settings grid.frames and grid.patch (`skelbench run`: "
            "--clip-length and --patch)"
        )
    return dict(zip(("grid.frames", "grid.patch"), BUDGETS[tokens]))


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
    """A TOML value, or Python's True, False, None, or the text itself."""
    named = {"True": True, "False": False, "None": None, "null": None}
    if text in named:
        return named[text]
    try:
        return shallow(parsed(tomllib.loads, f"v = {text}")["v"])
    except ValueError:
        return text


def read_config(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """A run.toml as (keys outside the sections, dotted settings)."""
    try:
        document = shallow(parsed(tomllib.loads, path.read_text()))
    except FileNotFoundError as error:
        raise SkelbenchError(f"config file {path} does not exist; check the path given to --config") from error
    except (OSError, ValueError) as error:
        raise SkelbenchError(f"config file {path} cannot be read as TOML: {error}") from error
    top: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    for key, value in document.items():
        if isinstance(value, dict) and key in SECTIONS:
            if key in CHOICES and "kind" in value:
                top[key] = value.pop("kind")
            settings |= {f"{key}.{name}": inner for name, inner in value.items()}
        elif isinstance(value, dict) or key not in TOP:
            known, what = (SECTIONS, "section") if isinstance(value, dict) else (TOP, "key")
            raise SkelbenchError(f"{path}: {did_you_mean(key, known, what)}")
        else:
            top[key] = value
    top["plugins"] = named_files(top.get("plugins", []), path)
    settings |= token_grid(top["tokens"]) if "tokens" in top else {}
    settings |= {f"data.{name}": top[key] for key, name in (("dataset", "name"), ("split", "split")) if key in top}
    return top, settings


def times(value: Any, before: Any) -> Any:
    """A setting of a variant where ``before`` stands without it: ``"x0.5"`` makes half of a number, and of a whole
    number a whole one, at least 1; anything else is itself."""
    by = factor(value)
    if by is None or isinstance(before, bool) or not isinstance(before, int | float):
        return value
    product = before * by
    return max(1, round(product)) if isinstance(before, int) else product


def full_key(key: str, fields: Mapping[str, set[str]]) -> str:
    """``lr`` -> ``train.lr``; unknown or ambiguous keys are refused with the nearest right one."""
    section, dot, name = key.partition(".")
    if key in ("clips_seen", "train.clips_seen"):
        raise SkelbenchError(
            f"{key} is no setting: how many clips training sees is a budget; write --budget clips=40k, or in a file "
            'budget = "clips=40k"'
        )
    every = [f"{part}.{inner}" for part, names in fields.items() for inner in names]
    if dot:
        if section in fields and name in fields[section]:
            return key
        names = ", ".join(sorted(fields.get(section, ()))) or f"none, this {section} has no settings"
        own = f"settings of {section}: {names}" if section in fields else ""
        raise SkelbenchError(did_you_mean(key, every, "setting", own or f"sections: {', '.join(fields)}"))
    if key in TOP and key != "plugins":
        raise SkelbenchError(f"{key!r} is no setting but an option: write --{key}")
    owners = [part for part, names in fields.items() if key in names]
    if len(owners) == 1:
        return f"{owners[0]}.{key}"
    if owners:
        choices = " or ".join(f"{part}.{key}" for part in owners)
        raise SkelbenchError(f"setting {key!r} is in more than one section; write {choices}")
    raise SkelbenchError(
        did_you_mean(key, every, "setting", "see `skelbench plugins info` for the settings of a method")
    )


def check_measures_here(host: Host, protocols: Iterable[str]) -> None:
    """SkelbenchError if there is no such protocol, or one of them measures on other data than the run's, which a run
    that is being made has none of."""
    for name in protocols:
        if getattr(host.get("protocols", name), "elsewhere", False):
            raise SkelbenchError(
                f"protocol {name} measures on other data than the run's; when the run is there: "
                f"skelbench eval RUN --protocol {name} --dataset NAME"
            )
