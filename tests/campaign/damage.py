"""Every file of a results directory, a clip store and a study damaged in turn, and every command that may read it.

``python -m tests.campaign.damage [--only WORD]``: a command must say in one sentence, or in a line beside what is
whole, that a file is damaged, or do as it does with a whole one, because it does not read it or it holds the same. It
must not hang, take memory without end, end in a traceback, or show another figure. Exit code 1 if one does.
"""

import argparse
import io
import json
import os
import random
import re
import shutil
import signal
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from small import silent_session, tiny, tiny_run, write_small_store

from skelbench.cli.main import main as skelbench
from skelbench.core.console import LEFT_OUT
from skelbench.core.errors import Interrupted
from skelbench.plugin.host import get_host
from skelbench.records.errors import warn_once

from .isolated import run_all

SECONDS, MEMORY = 12.0, 2 << 30
"""Most that all commands on one damaged file may take; beside what the imports take."""

COST = {
    "grid": "4 x 25", "bodies_timed": 2, "encoder": {"macs": 675104, "by_part": {"embed": 675104}, "class_token": True},
    "parameters": {"trainable": 9488, "total": 18976, "encoder": 4144}, "step": {"flops_per_clip": 46674304.0},
    "latency": {f"batch {n}": {"batch": n, "median_ms": 1.5, "clips_per_s": 665.2} for n in (1, 64)},
    "peak_memory": {"bytes": 9927712, "how": "live tensors"},
}  # fmt: skip
"""What a command reads of cost.json: measuring takes seconds and never gives the same twice."""


# ------------------------------------------------------------------------------------------------ what is damaged
class Place(NamedTuple):
    """Clip stores, runs and a study below one folder."""

    root: Path
    done: str
    """Name of a finished run."""
    twin: str
    other: str
    """Another finished one, of the same untrained twin."""
    half: str
    """One that was interrupted."""


def build(root: Path) -> Place:
    """Small runs with everything that a run can hold."""
    from skelbench.pipeline.controls import control
    from skelbench.pipeline.evaluate import eval_spec, evaluate
    from skelbench.pipeline.pretrain import pretrain

    write_small_store(root / "data")
    write_small_store(root / "data", "flat", flat=True)
    session, names = silent_session(root / "data", get_host(), root / "results"), []
    for settings in ({}, {"train.lr": 1e-3}, {"seed": 1}):
        made = tiny_run(root / "data", session.host, epochs=EPOCHS, batch_size=BATCH, sets={}, **settings)
        kept = root / "kept"
        if "seed" in settings:
            with suppress(Interrupted):
                pretrain(replace(session, progress=_stopping), made)
            shutil.copytree(session.results.by_id(made.spec.id).path, kept)
        pairs = [pretrain(session, made), pretrain(session, control(made, session.host))]
        for run in pairs:
            evaluate(session, run, eval_spec(session.host, run, "knn", like=made), like=made)
            run.cost_path.write_text(json.dumps(COST, indent=1))
        if kept.exists():
            shutil.copy(pairs[0].cost_path, kept)
            shutil.rmtree(pairs[0].path)
            kept.rename(pairs[0].path)
        names.append([run.name for run in pairs])
    settings = "\n".join(f"{key} = {value}" for key, value in _settings().items())
    (root / "study.toml").write_text(
        f'summary = "one run"\ndataset = "small"\nseeds = [0]\nprobe = ["knn"]\n[set]\n{settings}\n'
    )
    for path in root.rglob("*.lock"):
        path.unlink()
    return Place(root, names[0][0], names[0][1], names[1][0], names[2][0])


EPOCHS, BATCH = 4, 6


def _settings() -> dict[str, Any]:
    """What :func:`tiny_run` asks for, as settings of a study."""
    run = {"method": '"slim"', "preset": '"paper"', "frames": 32, "patch": 8, "epochs": EPOCHS, "batch_size": BATCH}
    return run | {f'"{key}"': value for key, value in tiny("slim").items()}


@contextmanager
def _stopping(**_: Any) -> Iterator[Callable]:
    """Progress that asks the training to stop after some steps, as Ctrl-C does."""
    calls = iter(range(10_000))

    def report(*_: Any, **__: Any) -> None:
        if next(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    yield report


def files(place: Place) -> list[Path]:
    """What is damaged, relative to the folder."""
    runs = [f"results/{name}/*" for name in (place.done, place.twin, place.half)]
    patterns = ["data/*/*", *runs, "results/skelbench.json", "study.toml"]
    return sorted(p.relative_to(place.root) for pattern in patterns for p in place.root.glob(pattern) if p.is_file())


# ------------------------------------------------------------------------------------------------ commands
class Command(NamedTuple):
    """A command, the files it reads, and whether it may write."""

    words: list[str]
    reads: tuple[str, ...]
    writes: bool = False


def commands(place: Place) -> dict[str, Command]:
    """Every command that reads what lies on disk."""
    done, twin, half = (f"results/{name}" for name in (place.done, place.twin, place.half))
    any_run, data = ("results/skelbench.json", "results/*/run.json"), ("data/small/index.npz", "data/small/meta.json")
    records = ("results/*/eval-*",)
    make = ["--clip-length", "32", "--patch", "8", "--preset", "paper", "--dataset", "small", "--probe", "knn"]
    make += ["--epochs", str(EPOCHS), "--batch-size", str(BATCH)]
    make += [word for key, value in tiny("slim").items() for word in ("--set", f"{key}={value}")]
    device, once = ["--device", "cpu"], (f"{done}/eval-*.json", *any_run)
    # What a run is found by is read of all of them.
    return {
        "runs list": Command(["runs", "list"], (*any_run, "results/*/eval-*.json")),
        "runs show": Command(["runs", "show", place.done], (*any_run, f"{done}/cost.json", f"{done}/eval-*.json")),
        "runs show other": Command(["runs", "show", place.other], any_run),
        "compare": Command(["compare", "--all", "--format", "json"], (*any_run, *records, "results/*/cost.json")),
        "plot": Command(
            ["plot", "curves", "--all", "-o", "{root}/out.svg"],
            ("results/skelbench.json", f"{done}/run.json", f"{done}/metrics.jsonl"),
            True,
        ),
        "data info": Command(["data", "info", "small"], data),
        "data info flat": Command(["data", "info", "flat"], ("data/flat/index.npz", "data/flat/meta.json")),
        "data verify": Command(["data", "verify", "small"], (*data, "data/small/frames.npy")),
        "data verify flat": Command(["data", "verify", "flat"], ("data/flat/*",)),
        "diagnose per-class": Command(
            ["diagnose", "per-class", place.done, place.other, "--protocol", "knn"],
            (*any_run, f"{done}/eval-*", *data),
            True,
        ),
        "eval": Command(["eval", place.done, "--protocol", "knn", *device], (*once,), True),
        "eval again": Command(
            ["eval", place.done, "--protocol", "knn", "--seed", "5", *device],
            (*any_run, *data, f"{done}/encoder.safetensors"),
            True,
        ),
        "eval snapshot": Command(
            ["eval", f"{place.done}@2", "--protocol", "knn", *device],
            (*any_run, *data, f"{done}/encoder@2.safetensors"),
            True,
        ),
        "study": Command(
            ["study", "{root}/study.toml", "--dry-run", *device], ("study.toml", f"{done}/run.json", *data), True
        ),
        "run done": Command(
            ["run", "slim", *make, *device],
            (*data, f"{done}/run.json", f"{twin}/run.json", f"{done}/eval-*", f"{twin}/eval-*", f"{done}/cost.json"),
            True,
        ),
        "run on": Command(
            ["run", "slim", *make, "--seed", "1", *device],
            (f"{half}/*.json*", f"{half}/last.pt", "results/skelbench.json"),
            True,
        ),
    }


class Seen(NamedTuple):
    """What a command did: exit code, what it printed."""

    code: int
    out: str
    err: str


def call(command: Command, root: Path) -> Seen:
    words = [word.format(root=root) for word in command.words]
    words += ["--data-root", str(root / "data")] if words[0] not in ("runs", "compare", "plot") else []
    words += ["--results", str(root / "results")] if words[0] != "data" else []
    warn_once.cache_clear()  # every command is a process of its own to who types it
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = skelbench(words)
    return Seen(code, out.getvalue(), err.getvalue())


_VARIES = re.compile(r"[\d.,]+(e-?\d+)? (ms|s|min|clips/s|steps/s|MiB)\b|\d{4}-\d\d-\d\d \d\d:\d\d|~?\d+:\d\d(:\d\d)?")


def _figures(seen: Seen) -> list[str]:
    """What must be the same whenever a command is issued: the lines of its output without times."""
    return [" ".join(_VARIES.sub("*", line).split()) for line in seen.out.splitlines()]


# ------------------------------------------------------------------------------------------------ damage
def damages(path: Path, place: Place, flips: int) -> dict[str, Callable[[Path], Any]]:
    """By name, what is done to a file."""
    data = (place.root / path).read_bytes()
    rng = random.Random(str(path).replace(place.done, "done").replace(place.half, "half").replace(place.twin, "twin"))
    every: dict[str, Callable[[Path], Any]] = {}
    cuts = {1, 7, len(data) // 4, len(data) // 2, len(data) - 20, len(data) - 1} - {len(data)}
    every |= {f"cut at {n}": lambda p, n=n: p.write_bytes(data[:n]) for n in sorted(cuts) if 0 < n < len(data)}
    for at in sorted({rng.randrange(len(data)) for _ in range(flips)} | {0, len(data) - 2}):
        bit = rng.randrange(8)
        every[f"bit {bit} of byte {at}"] = lambda p, at=at, bit=bit: p.write_bytes(
            data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
        )
    for _ in range(3):
        at = rng.randrange(max(1, len(data) - 512))
        every[f"512 zeros at {at}"] = lambda p, at=at: p.write_bytes(
            data[:at] + bytes(min(512, len(data) - at)) + data[at + 512 :]
        )
    every |= {
        "emptied": lambda p: p.write_bytes(b""),
        "zeros": lambda p: p.write_bytes(bytes(len(data))),
        "text": lambda p: p.write_bytes(b"404: not found\n"),
        "doubled": lambda p: p.write_bytes(data + data),
        "gone": Path.unlink,
        "folder": lambda p: (p.unlink(), p.mkdir()),
        "link to /dev/zero": lambda p: (p.unlink(), p.symlink_to("/dev/zero")),
        "link to /dev/full": lambda p: (p.unlink(), p.symlink_to("/dev/full")),
        "link to /dev/null": lambda p: (p.unlink(), p.symlink_to("/dev/null")),
        "link to nothing": lambda p: (p.unlink(), p.symlink_to("nowhere")),
        "link to itself": lambda p: (p.unlink(), p.symlink_to(p.name)),
        "pipe": lambda p: (p.unlink(), os.mkfifo(p)),
    }
    if path.suffix == ".toml":  # what a user names may be a pipe
        every = {name: do for name, do in every.items() if name != "pipe" and "/dev/" not in name}
    if path.name == "metrics.jsonl" and path.parent.name == place.half:
        del every["gone"]  # what the sentence about a damaged one advises
    if path.suffix in (".json", ".jsonl"):
        every |= {f"it says {what[:20]}": lambda p, what=what: p.write_text(what) for what in JSON}
    if path.suffix == ".json":
        every |= {name: lambda p, text=text: p.write_text(text) for name, text in _edits(json.loads(data), rng)}
    if path.parent.name == place.done:
        twins = [
            f
            for f in (place.root / "results" / place.other).glob(path.name.split("-")[0] + "*")
            if f.suffix == path.suffix
        ]
        every |= {"another run's": lambda p: shutil.copy(twins[0], p)} if twins else {}
    if path.parent.name == place.half and path.name == "last.pt":
        every["another run's"] = lambda p: shutil.copy(place.root / "results" / place.done / "last.pt", p)
    return every


JSON = (
    "null",
    "[]",
    "{}",
    "3",
    '"text"',
    "NaN",
    "[" * 100_000,
    '{"a":' * 100_000,
    "1" * 100_000,
    '{"\ud83d": 1}'.encode("utf-8", "surrogatepass").decode("latin-1"),
)
STRANGE = (None, "", "text", -1, 10**30, 1e308, float("nan"), True, [], {}, [[]], {"a": 1})


def _edits(value: Any, rng: random.Random) -> Iterator[tuple[str, str]]:
    """Whole JSON with something else in a place, as another version or a hand might leave it."""

    def places(node: Any, path: tuple = ()) -> Iterator[tuple]:
        for key, inner in (
            node.items() if isinstance(node, dict) else enumerate(node[:2]) if isinstance(node, list) else ()
        ):
            yield (*path, key)
            yield from places(inner, (*path, key))

    for path in places(value):
        if len(path) > 4 or rng.random() > (1, 0.7, 0.4, 0.15, 0.05)[len(path)]:
            continue
        for what in rng.sample(("gone", *STRANGE), 2):
            changed = json.loads(json.dumps(value))
            node = changed
            for key in path[:-1]:
                node = node[key]
            if what == "gone":
                del node[path[-1]]
            else:
                node[path[-1]] = what
            yield (
                f"{'.'.join(map(str, path))} {'gone' if what == 'gone' else f'= {json.dumps(what)[:12]}'}",
                json.dumps(changed),
            )
    if "format" in value:
        for step in (-1, 1):
            yield f"format {step:+}", json.dumps(value | {"format": value["format"] + step})


def content(path: Path) -> Any:
    """What a file holds, as far as it can be told: the same for bytes that mean the same."""
    try:
        if not path.is_file():
            return None
        if path.suffix == ".npz":
            with np.load(path) as file:
                return {name: file[name].tolist() for name in file}
        if path.suffix == ".json":
            return json.loads(path.read_text())
        if path.suffix == ".jsonl":
            return [json.loads(line) for line in path.read_text().splitlines()]
        if path.suffix == ".safetensors":
            from safetensors.numpy import load_file

            return {name: (str(x.dtype), x.tolist()) for name, x in load_file(path).items()}
        if path.suffix == ".pt":
            with zipfile.ZipFile(path) as file:  # whatever it holds is held by its members
                return {name.split("/", 1)[1]: file.read(name) for name in file.namelist()}
        return path.read_bytes()
    except (Exception, RecursionError):
        return None


# ------------------------------------------------------------------------------------------------ judging
OTHERS = 0.1
"""Of the commands that do not read a file at all, tried after it is damaged."""
TEXT = (".json", ".jsonl", ".toml")
"""Carry no checksum: a figure in one that became another figure cannot be told."""
UNREAD = {"compare", "runs list", "plot"}
"""These go on with the runs that are whole."""


def judge(name: str, command: Command, path: Path, seen: Seen, whole: Seen, place: Place, same: bool) -> str:
    """Empty, ``said``, ``not told`` or what is wrong with what ``command`` did about damaged ``path``."""
    both = seen.out + seen.err
    errors = [line for line in seen.err.splitlines() if line.startswith("error: ")]
    if "Traceback" in both or "internal error" in both:
        return f"WRONG internal error: {errors[-1] if errors else both[-200:]}"
    if seen.code not in (0, 2, LEFT_OUT):
        return f"WRONG exit code {seen.code}: {both[-200:]}"
    about = [path.name, path.parent.name, path.parent.name.rsplit("-", 1)[-1], path.stem, "results directory"]
    if seen.code == 2:
        if len(errors) != 1 or len(errors[0]) > 1200 or not all(c.isprintable() for c in errors[0]):
            return f"WRONG sentence: {seen.err[-1500:]!r}"
        if name in UNREAD and path.parent.name in place[1:]:
            return f"WRONG one damaged run stops it: {errors[0]}"
        if same and not any(fnmatch(str(path), pattern) for pattern in command.reads):
            return f"WRONG stopped by a file it does not need: {errors[0]}"
        return "said" if any(word in errors[0] for word in about) else f"WRONG does not name it: {errors[0]}"
    alike = seen.code == whole.code and _figures(seen) == _figures(whole)
    reads = any(fnmatch(str(path), pattern) for pattern in command.reads)
    if same or (alike and not reads):
        return "" if alike else f"WRONG shows something else: {_difference(seen, whole)}"
    new = [line for line in both.splitlines() if line not in (whole.out + whole.err).splitlines()]
    said = any(word in line for line in new for word in about) and re.search(
        "damaged|missing|left out|wrong|cannot|not |no ", " ".join(new)
    )
    if said or seen.code == LEFT_OUT != whole.code or any("checksums" in line for line in new):
        return "said"
    if path.suffix in TEXT:
        return "not told" if not alike else ""
    return "WRONG not noticed" if alike else f"WRONG not noticed, and shows something else: {_difference(seen, whole)}"


def _difference(seen: Seen, whole: Seen) -> str:
    mine, theirs = _figures(seen), _figures(whole)
    first = next(
        (pair for pair in zip(mine, theirs) if pair[0] != pair[1]), (f"{len(mine)} lines", f"{len(theirs)} lines")
    )
    return f"{first[0][:150]!r} for {first[1][:150]!r}, {seen.err[-200:]!r}"


# ------------------------------------------------------------------------------------------------ the campaign
def campaign(
    folder: Path, flips: int = 16, only: str = "", share: float = 1.0, say: Callable[[str], Any] = lambda line: None
) -> tuple[dict[tuple[str, str], Counter], list[str]]:
    """Outcomes by kind of file and command, and one line for each that is wrong."""
    place = build(folder / "whole")
    every, root = commands(place), folder / "place"

    def restore() -> None:
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(place.root, root)

    whole: dict[str, Seen] = {}
    for name, command in every.items():
        restore()
        whole[name] = call(command, root)
        assert whole[name].code in (0, LEFT_OUT), (name, whole[name])
    restore()
    cases = [
        (path, name, do)
        for path in files(place)
        for name, do in damages(path, place, flips).items()
        if only in f"{path} {name}"
    ]
    chosen = random.Random(0)
    cases = [case for case in cases if chosen.random() < share]
    say(f"{len(cases)} damaged files x {len(every)} commands")

    def work(number: int) -> list[tuple[str, str]]:
        path, _, damage = cases[number]
        verdicts = []
        fresh = False
        for name, command in every.items():
            reads = any(fnmatch(str(path), pattern) for pattern in command.reads)
            if not reads and random.Random(f"{number} {name}").random() > OTHERS:
                continue
            if not fresh:
                restore()
                damage(root / path)
                same = content(root / path) is not None and content(root / path) == content(place.root / path)
            seen = call(command, root)
            fresh = not command.writes
            verdicts.append((name, judge(name, command, path, seen, whole[name], place, same)))
        return verdicts

    tally: dict[tuple[str, str], Counter] = {}
    wrong: list[str] = []
    begin = time.monotonic()
    for outcome in run_all(range(len(cases)), work, SECONDS, MEMORY):
        path, damage, _ = cases[outcome.case]
        kind = re.sub(r"-[0-9a-f]{12}|@[\d.]+", "", path.name)
        for name, verdict in [("all", f"WRONG {outcome.fall}")] if outcome.fall else outcome.value:
            counted = tally.setdefault((kind, name), Counter())
            counted[verdict.split()[0] if verdict.startswith("WRONG") else verdict or "as before"] += 1
            if verdict.startswith("WRONG"):
                wrong.append(f"{path}, {damage}: {name}: {verdict.removeprefix('WRONG ')}")
                say(wrong[-1])
        if (outcome.case + 1) % max(1, len(cases) // 20) == 0:
            say(f"{outcome.case + 1} of {len(cases)} after {time.monotonic() - begin:.0f} s, {len(wrong)} wrong")
    return tally, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="damage whose file and kind hold this")
    parser.add_argument("--flips", type=int, default=16, help="bits flipped of each file (default: 16)")
    parser.add_argument("--share", type=float, default=1.0, help="of the cases, at random")
    args = parser.parse_args()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        tally, wrong = campaign(Path(folder), args.flips, args.only, args.share, lambda line: print(line, flush=True))
    columns = ("as before", "said", "not told", "WRONG")
    print(f"\n{'file':24}{'command':22}" + "".join(f"{name:>12}" for name in columns))
    for (kind, name), counted in sorted(tally.items()):
        print(f"{kind:24}{name:22}" + "".join(f"{counted[column]:>12}" for column in columns))
    total = sum((counted for counted in tally.values()), Counter())
    print(f"{'all':46}" + "".join(f"{total[column]:>12}" for column in columns))
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
