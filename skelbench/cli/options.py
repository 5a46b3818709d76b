"""Options that several commands share."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer
from annotated_types import Ge

from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.request import Arguments, RunRequest, Work
from skelbench.pipeline.studies.engine import ResourceRequest


def option(model: type[Arguments], field: str, **changes: Any) -> Any:
    """The option for a field of a request model: it has the help text, default and limits of the field."""
    info, how = model.options()[field]
    least = [limit.ge for limit in info.metadata if isinstance(limit, Ge)]
    display = {"show_default": how.default} if how.default else {}
    limits = {"min": least[0]} if least else {}
    text = " ".join((info.description or "").split())
    settings: dict[str, Any] = {"help": text, **display, **limits} | changes
    if info.is_required():
        return typer.Argument(**settings)
    settings |= {"rich_help_panel": how.panel} if how.panel else {}
    return typer.Option(how.flag or f"--{field.replace('_', '-')}", metavar=how.metavar or None, **settings)


def _typed(kind: Any) -> Any:
    """Type of the option for a field of type ``kind``: several values and settings are repeatable, others are text."""
    if get_origin(kind) in (Union, UnionType):
        kind = next(part for part in get_args(kind) if part is not NoneType)
    if kind is bool:
        return bool
    return (kind if kind in (int, float, Path) else list[str] if get_origin(kind) in (tuple, Mapping) else str) | None


def request_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """``command`` with an option for every field of each :class:`Arguments` among its parameters.

    A parameter with the name of a field replaces the option of the field.
    """
    hints, own = get_type_hints(command, include_extras=True), inspect.signature(command).parameters
    models = {name: hint for name, hint in hints.items() if inspect.isclass(hint) and issubclass(hint, Arguments)}
    parameters = []
    for parameter in own.values():
        if parameter.name not in models:
            parameters.append(parameter.replace(annotation=hints[parameter.name], kind=parameter.KEYWORD_ONLY))
            continue
        model = models[parameter.name]
        kinds, fields = get_type_hints(model), sorted(model.options(), key=Work.model_fields.__contains__)
        for name in fields:
            if name not in own and model.options()[name][1].command:
                kind, required = _typed(kinds[name]), model.model_fields[name].is_required()
                default = parameter.empty if required else False if kind is bool else None
                kind = Annotated[str if required else kind, option(model, name)]
                parameters.append(inspect.Parameter(name, parameter.KEYWORD_ONLY, default=default, annotation=kind))

    @wraps(command)
    def issue(**typed: Any) -> Any:
        values = {name: value for name, value in typed.items() if value is not False and value not in (None, [], ())}
        requests = {
            name: model(**{field: values[field] for field in model.model_fields if field in values})
            for name, model in models.items()
        }
        return command(**requests, **{name: value for name, value in typed.items() if name in own})

    issue.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    issue.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return issue


def is_there(place: Path | None) -> Path | None:
    """Return ``place``, the value of ``--results``; SkelbenchError if a folder is named that does not exist."""
    if place is not None and not os.path.lexists(place):
        raise SkelbenchError(f"--results {place}: there is no such folder; name the one that runs were written to")
    return place


Results = Annotated[Path | None, option(RunRequest, "results")]
ReadResults = Annotated[Path | None, option(RunRequest, "results", callback=is_there)]
"""``--results`` for commands that only read runs."""
DataRoot = Annotated[Path | None, option(RunRequest, "data")]
Device = Annotated[str | None, option(RunRequest, "device")]
Observe = Annotated[list[str] | None, option(RunRequest, "observe")]
Budget = Annotated[str | None, option(RunRequest, "budget")]
Force = Annotated[bool, option(RunRequest, "force")]
Jobs = Annotated[int | None, option(ResourceRequest, "jobs")]


RUN = "Name, id or number of a run, or an unambiguous part."
CHECKPOINT = f"{RUN[:-1]}; RUN@50: its checkpoint at epoch 50."
All = Annotated[bool, typer.Option("--all", help="Also show runs with settings changed from their preset.")]
Sort = Annotated[str | None, typer.Option(metavar="COLUMN", help="Sort the rows by a column; -COLUMN: highest first.")]
_COLUMNS = "Columns to show, comma separated; +map,+top5_accuracy adds these to the usual ones."
Columns = Annotated[str | None, typer.Option(metavar="NAMES", help=_COLUMNS)]
_FORMATS = {
    "help": "Format: terminal, md, csv, json, latex or html.",
    "show_default": "by the name of -o, else terminal",
}
Format = Annotated[str | None, typer.Option("--format", **_FORMATS)]
_BEST = "Add the highest test accuracy over the checkpoints of the probe. It is chosen on test data."
BestOnTest = Annotated[bool, typer.Option("--best-on-test", help=_BEST)]
ToFile = Annotated[Path | None, typer.Option("-o", "--output", help="Write to this file.")]


def numbers_of(option: str, text: str, example: str) -> list[int]:
    """The whole numbers of a comma-separated list, each once."""
    try:
        return list(dict.fromkeys(int(word) for word in text.split(",")))
    except ValueError as error:
        raise SkelbenchError(f"{option} {text!r} is not a list of whole numbers; write {option} {example}") from error


def kind_of_picture(output: Path) -> str:
    """``png``, ``svg`` or ``pdf``, by the name of ``output``; raise if no file can be written there."""
    suffix = output.suffix.lower().removeprefix(".")
    if suffix not in ("png", "svg", "pdf"):
        raise SkelbenchError(f"-o {output}: end the name in .png, .svg or .pdf, which says what kind it is")
    check_place(output)
    return suffix


def check_place(output: Path, option: str = "-o") -> None:
    """Raise SkelbenchError, before anything is computed, if no file can be written at this path."""
    # os.path, as pathlib raises on names that are too long.
    if not os.path.isdir(output.parent):
        raise SkelbenchError(f"{option} {output}: there is no folder {output.parent}; make it or choose another place")
    if os.path.isdir(output):
        raise SkelbenchError(f"{option} {output} is a folder; name a file in it")


def new_dataset_name(name: str) -> str:
    """Return ``name`` for a new dataset; names of built-in datasets are taken."""
    from skelbench.data.synthetic.dataset import NAME
    from skelbench.plugin.host import get_host

    if name in (*get_host().names("datasets"), NAME):
        raise SkelbenchError(f"{name!r} is the name of a built-in dataset; choose another --name")
    return name
