"""The commands that campaigns break: each on a place of its own, made once and copied."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from . import warm
from .places import end_in_order

TINY = ("epochs=6", "batch_size=4", "encoder.dim=16", "encoder.depth=1", "encoder.heads=2")
DECODER = ("method.decoder_dim=16", "method.decoder_depth=1", "method.decoder_heads=2")
STUDY = """
dataset = "small"
preset = "quick"
seeds = [0]
probe = ["knn"]
[grid]
method = ["skeletonmae", "amr"]
[set]
tokens = 8
"""


@dataclass(frozen=True)
class Command:
    """What is typed, relative to a folder with ``data``, ``raw``, ``results`` and ``out``."""

    words: tuple[str, ...]
    trained: bool = False
    """It starts from a place with finished runs."""
    outputs: tuple[str, ...] = ("results",)
    """Folders that have to hold in the end what they hold after an unbroken command."""

    def typed(self, folder: Path) -> list[str]:
        return [f"{folder}/{word[1:]}" if word.startswith("@") else word for word in self.words]


def _sets(*settings: str) -> tuple[str, ...]:
    return tuple(word for setting in settings for word in ("--set", setting))


_PLACES = ("--results", "@results", "--data-root", "@data")
_CPU = ("--device", "cpu")


def quick(method: str) -> tuple[str, ...]:
    """A run that is over soon."""
    return "run", method, *"--dataset small --tokens 8 --preset quick".split()


COMMANDS: Mapping[str, Command] = {
    "run": Command((*quick("skeletonmae"), "--probe", "linear@slim", *_CPU, *_sets(*TINY, *DECODER), *_PLACES)),
    "study --jobs 2": Command(("study", "@grid.toml", "--jobs", "2", *_CPU, *_PLACES)),
    "eval": Command(("eval", "skeletonmae", "--protocol", "linear@slim,knn", "--seed", "3", *_CPU, *_PLACES), True),
    "diagnose": Command(("diagnose", "order", "skeletonmae", *_CPU, *_PLACES), True),
    "data prepare": Command(
        ("data", "prepare", "ntu60", "--raw", "@raw", "--name", "made", "--workers", "2", "--data-root", "@data"),
        outputs=("data",),
    ),
    "data import": Command(
        ("data", "import", "@clips.npz", "--name", "theirs", "--data-root", "@data"), outputs=("data",)
    ),
    "data export": Command(("data", "export", "small", "-o", "@out/x.npz", "--data-root", "@data"), outputs=("out",)),
    "plot": Command(("plot", "curves", "--all", "-o", "@out/x.png", "--results", "@results"), True, ("out", "results")),
    "compare": Command(("compare", "--all", "-o", "@out/x.csv", "--results", "@results"), True, ("out", "results")),
}
WITHOUT_TORCH = {"data import", "data prepare"}
"""These never load it; a campaign of them alone starts in a second."""
EVENTS = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")
"""Audit events, besides opening for writing, by which files change."""


def chosen(only: str) -> dict[str, Command]:
    """The commands of a comma-separated list; "" = all."""
    names = [name.strip() for name in only.split(",") if name.strip()] or list(COMMANDS)
    if unknown := set(names) - set(COMMANDS):
        raise SystemExit(f"no such command: {', '.join(unknown)}; there are {', '.join(COMMANDS)}")
    return {name: COMMANDS[name] for name in names}


def make_places(folder: Path, trained: bool = True) -> None:
    """``bare`` and, with a finished run, ``trained`` below ``folder``."""
    import numpy as np

    from tests.made.files import mamp_arrays
    from tests.made.ntu import make_recordings
    from tests.small import write_small_store

    bare = folder / "bare"
    for name in ("data", "results", "out"):
        (bare / name).mkdir(parents=True)
    write_small_store(bare / "data")
    make_recordings(bare / "raw", 40)
    np.savez(bare / "clips.npz", **mamp_arrays())
    (bare / "grid.toml").write_text(STUDY + "".join(f"{key}\n" for key in (*TINY, *DECODER)))
    if not trained:
        return
    shutil.copytree(bare, folder / "trained")
    code, said = warm.run(COMMANDS["run"].typed(folder / "trained"), folder / "log", first=shorten)
    if code:
        raise RuntimeError(f"the command that makes the runs to start from ended with {code}: {said}")


def shorten() -> None:
    """For a command's child: a pass is timed once and not 20 times, and the state saved as often as can be."""
    if "skelbench.training.loop" not in sys.modules:  # the commands train nothing
        return
    import skelbench.evaluation.cost.report as report
    import skelbench.training.loop as loop

    report.latency = partial(report.latency, warmup=0, repeats=1)
    loop.CHECKPOINT_SECONDS = 0.0


def at_writes(act: Callable[[int], Any], folder: Path) -> None:
    """In this process, call ``act(n)`` before the n-th change of a file below ``folder``, locks and logs left out."""
    count, inside = 0, f"{folder}/"

    def seen(event: str, values: tuple[Any, ...]) -> None:
        nonlocal count
        if event == "open":
            changes = isinstance(values[2], int) and bool(values[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        else:
            changes = event in EVENTS
        if not changes or not isinstance(values[0], str | os.PathLike):
            return
        path = os.fspath(values[0])
        if path.startswith(inside) and not path.endswith(("/log", ".log")) and ".lock" not in path:
            count += 1
            act(count)

    sys.addaudithook(seen)


def place(folder: Path, command: Command, name: str) -> Path:
    """A fresh copy of where ``command`` starts."""
    made = folder / name
    shutil.rmtree(made, ignore_errors=True)
    shutil.copytree(folder / ("trained" if command.trained else "bare"), made)
    return made


def carry_out(
    parser: argparse.ArgumentParser, carried: Callable[[Path, dict[str, Command], argparse.Namespace], Any]
) -> int:
    """Read what is typed, do what ``carried(folder, commands, typed)`` does, show the campaign that it returns."""
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help=f"commands, comma separated, of: {', '.join(COMMANDS)}")
    parser.add_argument("--minutes", type=float, default=240, help="at most")
    typed = parser.parse_args()
    end_in_order()
    commands = chosen(typed.only)
    warm.warm_up(commands.keys() <= WITHOUT_TORCH)
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder:
        campaign = carried(Path(folder), commands, typed)
    campaign.show()
    return 1 if campaign.fallen else 0
