"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skelbench.cli import complete
from skelbench.core.errors import SkelbenchError

if TYPE_CHECKING:
    from skelbench.reporting.filters import Filters


def _is_there(place: Path | None) -> Path | None:
    """A place that was typed holds what is to be read; any other may be made by the first run."""
    if place is not None and not os.path.lexists(place):
        raise SkelbenchError(f"--results {place}: there is no such folder; name the one that runs were written to")
    return place


_RESULTS: dict[str, Any] = {"help": "Results directory (SKELBENCH_RESULTS).", "show_default": "results"}
Results = Annotated[Path | None, typer.Option("--results", **_RESULTS)]
ReadResults = Annotated[Path | None, typer.Option("--results", callback=_is_there, **_RESULTS)]
"""Of commands that need runs that are there."""
DataRoot = Annotated[
    Path | None,
    typer.Option("--data-root", help="Where data sets are kept (SKELBENCH_DATA).", show_default="per user"),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        min=1, help="Runs at a time, each in its process.", show_default="1 with a GPU, else the cores, at most 4"
    ),
]
Device = Annotated[
    str | None,
    typer.Option(help="cpu, cuda or cuda:N (SKELBENCH_DEVICE).", show_default="cuda when there is one, else cpu"),
]
Observe = Annotated[
    list[str] | None,
    typer.Option(
        "--observe",
        metavar="NAME",
        help="Also log below the run's directory: tensorboard, mlflow, csv, or a plugin's; repeatable "
        "(SKELBENCH_OBSERVE).",
        autocompletion=complete.listed(complete.names("observers")),
    ),
]
Budget = Annotated[
    str | None,
    typer.Option(
        metavar="KIND=N",
        help="What pre-training may spend, instead of epochs: clips=40k, steps=500, flops=2e15 (of whole training "
        "steps) or minutes=30 (by timed steps).",
        autocompletion=complete.one_of("clips=", "steps=", "flops=", "minutes="),
    ),
]


def _filter(name: str, what: str, completer: complete.Completer) -> Any:
    """An option that may be repeated and takes several names at once."""
    return typer.Option(
        f"--{name}",
        metavar="NAME",
        help=f"Only {what}; several: comma separated, or repeat it.",
        autocompletion=complete.listed(completer),
    )


OfDataset = Annotated[list[str] | None, _filter("dataset", "this data set", complete.datasets)]
OfMethod = Annotated[list[str] | None, _filter("method", "this method (METHOD or METHOD:VARIANT)", complete.methods)]
OfProtocol = Annotated[
    list[str] | None, _filter("protocol", "what this protocol measured", complete.names("protocols"))
]
OfPreset = Annotated[list[str] | None, _filter("preset", "runs of this preset", complete.presets)]
OfTag = Annotated[list[str] | None, _filter("tag", "runs with this tag (`skelbench runs tag`)", complete.tags)]
Force = Annotated[bool, typer.Option("--force", help="Do the work again even when its result exists.")]


def names_of(text: str) -> list[str]:
    """The names of a comma-separated list."""
    return [name.strip() for name in text.split(",") if name.strip()]


def filters_of(**typed: list[str] | None) -> Filters:
    """What the options of these kinds say, each of which may hold several names."""
    from skelbench.reporting.filters import Filters

    return Filters(**{kind: tuple(names_of(",".join(words or ()))) for kind, words in typed.items()})


def numbers_of(option: str, text: str, example: str) -> list[int]:
    """The whole numbers of a comma-separated list, each once."""
    try:
        return list(dict.fromkeys(int(word) for word in text.split(",")))
    except ValueError as error:
        raise SkelbenchError(f"{option} {text!r} is not a list of whole numbers; write {option} {example}") from error


def check_said_once(sets: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """SkelbenchError for what is said by ``--set`` and by an option that is given, one that is not None."""
    if twice := sorted(key for key in sets if options.get(key) is not None):
        raise SkelbenchError(f"--{twice[0]} and --set {twice[0]} say the same thing; leave one out")


PICTURES = ("png", "svg", "pdf")


def kind_of_picture(output: Path, format_: str | None = None) -> str:
    """``png``, ``svg`` or ``pdf``, by ``format_`` or the name of ``output``; refuses a place where none can be."""
    from skelbench.core.errors import did_you_mean

    if format_ is not None and format_ not in PICTURES:
        raise SkelbenchError(did_you_mean(format_, PICTURES, "format"))
    suffix = output.suffix.lower().removeprefix(".")
    if format_ is None and suffix not in PICTURES:
        raise SkelbenchError(f"-o {output}: end the name in .png, .svg or .pdf, which says what kind it is")
    if format_ is not None and suffix in PICTURES and suffix != format_:
        raise SkelbenchError(f"-o {output} and --format {format_} contradict each other; leave one of them out")
    check_place(output)
    return format_ or suffix


def check_place(output: Path) -> None:
    """SkelbenchError before anything is computed if no file can be written there."""
    # os.path, as pathlib raises on names that are too long.
    if not os.path.isdir(output.parent):
        raise SkelbenchError(f"-o {output}: there is no folder {output.parent}; make it or choose another place")
    if os.path.isdir(output):
        raise SkelbenchError(f"-o {output} is a folder; name a file in it")


def new_dataset_name(name: str) -> str:
    """``name`` for a data set that is about to be made; those that are built in are taken."""
    from skelbench.data.synthetic.dataset import NAME
    from skelbench.plugin.host import get_host

    if name in (*get_host().names("datasets"), NAME):
        raise SkelbenchError(f"{name!r} is the name of a built-in data set; choose another --name")
    return name
