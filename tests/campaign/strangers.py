"""Hand every command files that strangers made to do harm: ``python -m tests.campaign.strangers``.

Every case gets a folder of its own with a data set, finished and interrupted runs and files to import, of which one is
replaced or changed by an attacker, and a folder outside that nobody may touch. Then a command is issued in a forked
process that an audit hook watches. It falls when code of the attacker's runs, a process is started, the network is
asked, anything outside is opened, written or removed, a pickle looks up a name, or the command ends in a traceback.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import io
import json
import os
import pickle
import re
import shutil
import sys
import sysconfig
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from safetensors.torch import load_file, save_file

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests"))

from made.files import NAMES, annotation, mamp_arrays, split_lists, write_h5, write_slots  # noqa: E402
from small import silent_session, tiny_run, write_small_store  # noqa: E402

from tests.campaign.words import WORDS  # noqa: E402
from tests.campaign.words import fallen as fallen_words  # noqa: E402

SECRET = "the-secret-of-the-outside"
EVIL = """from skelbench.plugin import hookimpl
open('PWNED', 'w')

@hookimpl
def skelbench_methods():
    open('PWNED', 'w')
    return []
"""
TRUSTED = (str(ROOT), sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib"), "<")
ACTIONS = re.compile(
    r"os\.(system|exec|posix_spawn|spawn|forkpty|kill)|subprocess|socket\.|pty\.|urllib|ftplib|smtplib|webbrowser"
)
CHANGES = re.compile(r"os\.(remove|rename|rmdir|mkdir|truncate|chmod|chown|symlink|link)$|shutil\.")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


# ------------------------------------------------------------------------------------------------ the watcher
def watch(folder: Path, report: Path) -> None:
    """From here on everything forbidden that this process does is a line of ``report``."""
    outside, work = str((folder / "outside").resolve()), str((folder / "work").resolve())
    log = os.open(report, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    busy = False

    def fault(text: str) -> None:
        os.write(log, (text.replace("\n", " ")[:300] + "\n").encode(errors="replace"))

    def hook(event: str, args: tuple) -> None:
        nonlocal busy
        if busy:
            return
        busy = True
        try:
            judge(event, args)
        finally:
            busy = False

    def judge(event: str, args: tuple) -> None:
        if ACTIONS.match(event) and args[0] != "fc-list":  # matplotlib looks for fonts
            fault(f"{event} {args!r}")
        elif event == "pickle.find_class":
            fault(f"{event} {args[-2:]!r}")
        elif event in ("exec", "compile"):
            name = args[0].co_filename if event == "exec" else args[1]
            if not str(name).startswith(TRUSTED) and name is not None:
                fault(f"{event} of {name}")
        elif event == "open" and isinstance(args[0], str | bytes | os.PathLike):
            name, flags = os.fsdecode(args[0]), args[2] if isinstance(args[2], int) else 0
            if os.path.abspath(name).startswith(outside):  # what a link of the user's leads to may be read
                fault(f"opened {name}")
            path = os.path.realpath(name)
            if flags & WRITES and not flags & os.O_NOFOLLOW and not path.startswith((work, "/dev/null")):
                fault(f"wrote {path}")
        elif CHANGES.match(event):
            for path in args[:2]:
                if isinstance(path, str | bytes | os.PathLike):
                    path = os.fsdecode(path)
                    real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
                    if not real.startswith(work):
                        fault(f"{event} {real}")

    sys.addaudithook(hook)


def digest(folder: Path) -> str:
    """Of every name and byte in ``folder``."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(str(path).encode() + path.read_bytes() for path in files)).hexdigest()


@dataclass(frozen=True)
class Stage:
    """Where a case takes place."""

    folder: Path
    run: Path
    """A finished run with an evaluation ..."""
    halted: Path
    """... and one that stopped in mid-training."""

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def outside(self) -> Path:
        return self.folder / "outside"


@dataclass(frozen=True)
class Case:
    """``attack(stage)`` changes files and returns the command's words; what it may return instead of 0, 2 and 3."""

    name: str
    attack: Callable[[Stage], list[str]]
    codes: tuple[int, ...] = (0, 2, 3)
    quick: bool = False
    """Part of the short version."""
    starts: bool = False
    """Whether the command may start processes."""


def build(folder: Path) -> Stage:
    """The stage as it is before an attack."""
    from skelbench.core.errors import SkelbenchError
    from skelbench.pipeline.evaluate import eval_spec, evaluate
    from skelbench.pipeline.pretrain import pretrain
    from skelbench.plugin.host import get_host
    from skelbench.training import loop

    work, outside = folder / "work", folder / "outside"
    for path in (work / "data", work / "home", work / "tmp", outside / "small"):
        path.mkdir(parents=True)
    (outside / "secret.txt").write_text(SECRET)
    (outside / "evil.py").write_text(EVIL)
    write_small_store(work / "data")
    shutil.copytree(work / "data" / "small", outside / "small", dirs_exist_ok=True)
    session = silent_session(work / "data", get_host(), work / "results")
    made = tiny_run(work / "data", session.host, "mamp", epochs=1)
    run = pretrain(session, made)
    evaluate(session, run, eval_spec(session.host, run, "knn"))
    twin = pretrain(session, tiny_run(work / "data", session.host, "untrained"))
    evaluate(session, twin, eval_spec(session.host, twin, "knn", like=run))
    np.savez(outside / "predictions.npz", **dict(np.load(next(run.path.glob("eval-*.npz")))))
    seconds, step = loop.CHECKPOINT_SECONDS, loop.Trainer.train_step

    def halt(trainer: Any, index: int, views: Any) -> Any:
        if index == 2:
            raise SkelbenchError("halted")
        return step(trainer, index, views)

    loop.CHECKPOINT_SECONDS, loop.Trainer.train_step = -1.0, halt  # type: ignore[method-assign]
    with contextlib.suppress(SkelbenchError):
        pretrain(session, tiny_run(work / "data", session.host, "mamp", epochs=2))
    loop.CHECKPOINT_SECONDS, loop.Trainer.train_step = seconds, step  # type: ignore[method-assign]
    halted = next(one for one in session.results.runs() if one.outcome == "failed")
    return Stage(folder, run.path, halted.path)


def again(stage: Stage, epochs: int = 2) -> list[str]:
    """The command of the halted run, or with 1 epoch of the finished one."""
    from small import tiny

    words = ["run", "mamp", "--dataset", "small", "--preset", "paper", "--clip-length", "32", "--patch", "8"]
    words += ["--epochs", str(epochs), "--batch-size", "4", "--seed", "0", "--probe", "none", "--device", "cpu"]
    return words + [word for key, value in tiny("mamp").items() for word in ("--set", f"{key}={value}")]


def play(case: Case, base: Stage, folder: Path) -> list[str]:
    """What fell in ``case``: sentences, none if nothing did."""
    shutil.copytree(base.folder, folder, symlinks=True)
    results = folder / "work" / "results"
    stage = Stage(folder, results / base.run.name, results / base.halted.name)
    argv = case.attack(stage)
    before, report, said = digest(stage.outside), folder / "report", folder / "said"
    pid = os.fork()
    if not pid:
        _child(stage, argv, report, said)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    words = said.read_text(errors="replace")
    found = list(dict.fromkeys(report.read_text().splitlines())) if report.exists() else []
    found = [line for line in found if not (case.starts and line.startswith("subprocess.Popen"))]
    if digest(stage.outside) != before:
        found.append("the outside was changed")
    if SECRET in words:
        found.append("the outside was printed")
    if list(stage.work.rglob("PWNED")):
        found.append("code of the attacker's ran")
    if code not in case.codes or "Traceback" in words:
        found.append(f"exit code {code}: {' '.join(words.split())[-200:]}")
    shutil.rmtree(folder)
    return found


def _child(stage: Stage, argv: list[str], report: Path, said: Path) -> None:
    code = 99
    try:
        work = str(stage.work)
        places = {"SKELBENCH_DATA": f"{work}/data", "SKELBENCH_RESULTS": f"{work}/results", "HOME": f"{work}/home"}
        os.environ |= places | {
            "TMPDIR": f"{work}/tmp",
            "XDG_CACHE_HOME": f"{work}/home",
            "MPLCONFIGDIR": f"{work}/home",
        }
        tempfile.tempdir = f"{work}/tmp"
        os.chdir(work)
        file = os.open(said, os.O_WRONLY | os.O_CREAT)
        os.dup2(file, 1)
        os.dup2(file, 2)
        sys.stdout, sys.stderr = io.TextIOWrapper(open(1, "wb", 0)), io.TextIOWrapper(open(2, "wb", 0))
        from skelbench.cli.main import main

        watch(stage.folder, report)
        code = main(argv)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent must hear of it
        print(f"Traceback {type(error).__name__}: {error}", file=sys.stderr)
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


# ------------------------------------------------------------------------------------------------ attackers' tools
class Call:
    """Pickles as a call of ``function``, by its name."""

    def __init__(self, module: str, name: str, *args: Any) -> None:
        self.module, self.name, self.args = module, name, args

    def __reduce__(self) -> Any:
        __import__(self.module)
        function: Any = sys.modules[self.module]
        for part in self.name.split("."):
            function = getattr(function, part)
        return function, self.args


def _raw(text: str) -> Callable[[str], bytes]:
    return lambda touch: text.replace("TOUCH", touch).encode()


def payloads() -> dict[str, Callable[[str], bytes]]:
    """Name -> pickle bytes that make a file ``PWNED`` when they run."""

    def of(protocol: int, module: str, name: str, args: Callable[[str], tuple]) -> Callable[[str], bytes]:
        return lambda touch: pickle.dumps(Call(module, name, *args(touch)), protocol)

    python = "open('PWNED','w')"
    return {
        "os.system": of(2, "os", "system", lambda touch: (touch,)),
        "posix.system, protocol 0": _raw("cposix\nsystem\n(S'TOUCH'\ntR."),
        "instance": _raw("(S'TOUCH'\nios\nsystem\n."),
        "object": _raw("(cos\nsystem\nS'TOUCH'\no."),
        "eval": of(4, "builtins", "eval", lambda _: (python,)),
        "exec": of(5, "builtins", "exec", lambda _: (python,)),
        "subprocess": of(4, "subprocess", "Popen", lambda _: (["touch", "PWNED"],)),
        "import": of(2, "importlib", "import_module", lambda _: ("evil",)),
        "getattr": _raw("c__builtin__\ngetattr\n(c__builtin__\n__import__\n(S'os'\ntRS'system'\ntR(S'TOUCH'\ntR."),
        "numpy.load": of(2, "numpy", "load", lambda _: ("evil.npy", None, True)),
        "inside an array": lambda touch: pickle.dumps(np.array([Call("os", "system", touch)], dtype=object), 4),
        "inside a list": lambda touch: pickle.dumps([1, {"label": Call("os", "system", touch)}], 4),
        "runpy": of(4, "runpy", "run_path", lambda _: ("evil.py",)),
        "torch's own": of(4, "torch.serialization", "load", lambda _: ("evil.pt", "cpu", None)),
        "memo": _raw("cos\nsystem\np0\n0g0\n(S'TOUCH'\ntR."),
    }


def object_array(data: bytes) -> bytes:
    """An npy file that says it holds one Python object, and the pickle ``data``."""
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": "|O", "fortran_order": False, "shape": (1,)})
    return out.getvalue() + data


def torch_file(data: bytes) -> bytes:
    """A file of ``torch.save`` whose pickle is ``data``."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for name, content in (("data.pkl", data), ("version", b"3"), ("byteorder", b"little")):
            file.writestr(f"archive/{name}", content)
    return out.getvalue()


def replace_member(path: Path, member: str, content: bytes) -> None:
    """``path``, an npz, with another ``member``."""
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(path, "w") as file:
        for name, data in {**members, member: content}.items():
            file.writestr(name, data)


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    """A JSON file, changed."""
    value = json.loads(path.read_text())
    path.write_text(json.dumps(change(value) or value))


def put(value: Any, *keys: str) -> Callable[[Any], None]:
    """Change that sets ``value[keys...]``."""

    def change(document: Any) -> None:
        for key in keys[:-1]:
            document = document[key]
        document[keys[-1]] = value

    return change


# ------------------------------------------------------------------------------------------------ the cases
def cases() -> Iterator[Case]:
    """All of them."""
    yield from _controls()
    for number, (name, make) in enumerate(payloads().items()):
        yield from _pickles(name, make, first=not number)
    yield from _names()
    yield from _links()
    yield from _documents()
    yield from _archives()
    yield from _packed_runs()
    yield from _current_folder()


def _packed_runs() -> Iterator[Case]:
    """Files of `skelbench runs export` that were made to do harm."""

    def handed_on(stage: Stage, change: Callable[[dict[str, bytes], str], None]) -> None:
        """A file of the finished run with ``change(members, folder)`` done to it, whose manifest agrees."""
        from skelbench.records.pack import pack
        from skelbench.records.run_dir import ReadRun

        path = stage.work / "x.zip"
        pack([ReadRun(stage.run)], path, {})
        with zipfile.ZipFile(path) as file:
            held = {name: file.read(name) for name in file.namelist()}
        change(held, f"runs/{stage.run.name}")
        manifest = json.loads(held.pop("manifest.json"))
        counts = {name: {"bytes": len(x), "sha256": hashlib.sha256(x).hexdigest()} for name, x in held.items()}
        with zipfile.ZipFile(path, "w") as file:
            for name, data in {"manifest.json": json.dumps(manifest | {"members": counts}).encode(), **held}.items():
                file.writestr(zipfile.ZipInfo(name), data)

    def predictions(held: dict[str, bytes], folder: str) -> None:
        name = next(name for name in held if name.endswith(".npz"))
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as file:
            for array in ("ids", "labels", "predicted"):
                file.writestr(f"{array}.npy", object_array(payloads()["os.system"]("touch PWNED")))
        held[name] = out.getvalue()

    def elsewhere(held: dict[str, bytes], folder: str) -> None:
        held["../../outside/evil.json"] = b"{}"

    def checkpoint(held: dict[str, bytes], folder: str) -> None:
        held[f"{folder}/last.pt"] = torch_file(payloads()["os.system"]("touch PWNED"))

    def words(held: dict[str, bytes], folder: str) -> None:
        info = json.loads(held[f"{folder}/run.json"])
        info |= {"preset": "\x1b[31m../../../etc", "variant": "../../outside/evil.py", "outcome": "done\r"}
        held[f"{folder}/run.json"] = json.dumps(info).encode()

    def attack(change: Callable[[dict[str, bytes], str], None], command: str) -> Callable[[Stage], list[str]]:
        def with_file(stage: Stage) -> list[str]:
            handed_on(stage, change)
            return ["runs", command, "x.zip", *(["--results", "new"] if command == "add" else [])]

        return with_file

    for change in (predictions, elsewhere, checkpoint, words):
        for command in ("verify", "add"):
            name = f"packed runs, {change.__name__}, {command}"
            quick = change is predictions and command == "add"
            yield Case(name, attack(change, command), codes=(1, 2), quick=quick)


def _id(path: Path) -> str:
    return path.name.rsplit("-", 1)[-1]


def _controls() -> Iterator[Case]:
    """Nothing attacks: what the watcher finds here, it finds wrongly."""

    def h5(stage: Stage) -> list[str]:
        write_h5(stage.work / "x.h5", mamp_arrays())
        return ["data", "import", "x.h5", "--name", "new"]

    commands: dict[str, Callable[[Stage], list[str]]] = {
        "eval": lambda stage: ["eval", _id(stage.run), "--protocol", "knn", "--force", "--device", "cpu"],
        "continue": again,
        "compare": lambda stage: ["compare", "--all", "--format", "latex"],
        "plot": lambda stage: ["plot", "curves", "--all", "-o", "curves.svg"],
        "import": h5,
        "show": lambda stage: ["data", "show", "small", "-o", "clip.html"],
    }
    for name, attack in commands.items():
        yield Case(f"control: {name}", attack, codes=(0, 3), quick=name == "eval")


def _pickles(payload: str, make: Callable[[str], bytes], first: bool) -> Iterator[Case]:
    touch = "touch PWNED"

    def at(
        path: str, wrap: Callable[[bytes], bytes], words: Callable[[Stage], list[str]]
    ) -> Callable[[Stage], list[str]]:
        def attack(stage: Stage) -> list[str]:
            file = stage.work / path.format(run=stage.run.name, halted=stage.halted.name)
            file.parent.mkdir(exist_ok=True)
            (stage.work / "evil.py").write_text(EVIL)
            file.write_bytes(wrap(make(touch)))
            return words(stage)

        return attack

    def plain(data: bytes) -> bytes:
        return data

    def evaluation(stage: Stage) -> list[str]:
        return ["eval", _id(stage.run), "--protocol", "knn", "--force", "--device", "cpu"]

    def imports(*files: str) -> Callable[[Stage], list[str]]:
        return lambda _: ["data", "import", *files, "--name", "new"]

    def checkpoint(_: Stage) -> list[str]:
        return ["import-checkpoint", "mamp", "x.pth", "--dataset", "small"]

    def predictions(member: str) -> Callable[[Stage], list[str]]:
        def attack(stage: Stage) -> list[str]:
            replace_member(next(stage.run.glob("eval-*.npz")), member, object_array(make(touch)))
            return ["compare", "--all"]

        return attack

    def npz(member: str) -> Callable[[Stage], list[str]]:
        def attack(stage: Stage) -> list[str]:
            np.savez(stage.work / "x.npz", **mamp_arrays())
            replace_member(stage.work / "x.npz", f"{member}.npy", object_array(make(touch)))
            return ["data", "import", "x.npz", "--name", "new"]

        return attack

    def label(stage: Stage) -> list[str]:
        write_slots(stage.work / "slots")
        (stage.work / "slots" / "train_label.pkl").write_bytes(make(touch))
        return ["data", "import", "slots/train_data.npy", "--name", "new"]

    def h5(stage: Stage) -> list[str]:
        write_h5(stage.work / "x.h5", mamp_arrays())
        with h5py.File(stage.work / "x.h5", "a") as file:
            file.attrs["meta"] = np.void(make(touch))
            file["x"].attrs["pickle"] = np.void(make(touch))
        return ["data", "import", "x.h5", "--name", "new"]

    def index(member: str) -> Callable[[Stage], list[str]]:
        def attack(stage: Stage) -> list[str]:
            replace_member(stage.work / "data" / "small" / "index.npz", f"{member}.npy", object_array(make(touch)))
            return ["data", "info", "small"]

        return attack

    def tampered(stage: Stage) -> list[str]:
        """As pyskl writes it, with a call where a number should be."""
        entries: list[Any] = [annotation(i) for i in range(len(NAMES))]
        entries[3]["label"] = Call("os", "system", touch)
        (stage.work / "x.pkl").write_bytes(pickle.dumps({"split": split_lists(), "annotations": entries}, 4))
        return ["data", "import", "x.pkl", "--name", "new"]

    def warm(_: Stage) -> list[str]:
        return [*again(_, 1), "--init-from", _id(_.run), "--set", "train.lr=0.5"]

    places = {
        "import pkl": at("x.pkl", plain, imports("x.pkl")),
        "import npy": at("x.npy", object_array, imports("x.npy")),
        "import npz x_train": npz("x_train"),
        "import npz y_test": npz("y_test"),
        "label file beside": label,
        "HDF5 attributes": h5,
        "store frames.npy": at("data/small/frames.npy", object_array, lambda _: ["data", "info", "small"]),
        "store index names": index("name"),
        "store index labels": index("label"),
        "last.pt": at("results/{halted}/last.pt", plain, again),
        "last.pt, zip": at("results/{halted}/last.pt", torch_file, again),
        "last.pt of a parent": at("results/{run}/last.pt", torch_file, warm),
        "encoder.safetensors": at("results/{run}/encoder.safetensors", plain, evaluation),
        "predictions": predictions("labels.npy"),
        "predictions, ids": predictions("ids.npy"),
        "import-checkpoint": at("x.pth", plain, checkpoint),
        "import-checkpoint, zip": at("x.pth", torch_file, checkpoint),
        "run.json": at("results/{run}/run.json", plain, evaluation),
        "config": at("x.toml", plain, lambda _: ["run", "mamp", "--config", "x.toml"]),
    }
    for place, attack in places.items():
        quick = first and place in ("label file beside", "last.pt, zip", "predictions", "import-checkpoint")
        yield Case(f"pickle ({payload}): {place}", attack, quick=quick)
    if first:
        yield Case("pickle inside an annotation", tampered, quick=True)


PATHS = (
    "../outside/small",
    "../../outside/small",
    "/etc",
    "..",
    ".",
    "small/../../outside",
    "~",
    "a\0b",
    "a/b",
    "x" * 300,
)


def _names() -> Iterator[Case]:
    """Names in run.json, records, stores and files that are paths, plugins or options."""

    def eval_(stage: Stage) -> list[str]:
        return ["eval", _id(stage.run), "--protocol", "knn", "--force", "--device", "cpu"]

    def spec(value: Any, *keys: str) -> Callable[[Stage], list[str]]:
        def attack(stage: Stage) -> list[str]:
            edit(stage.run / "run.json", put(value, "spec", *keys))
            return eval_(stage)

        return attack

    for path in (*PATHS, "{outside}/small"):
        shown = ascii(path)[1:30]

        def data(stage: Stage, path: str = path) -> list[str]:
            return spec(path.replace("{outside}", str(stage.outside)), "data", "name")(stage)

        def predictions(stage: Stage, path: str = path) -> list[str]:
            target = path.replace("{outside}/small", str(stage.outside / "predictions.npz"))
            target = "../../../outside/predictions.npz" if path == PATHS[0] else target
            edit(next(stage.run.glob("eval-*.json")), put(target, "predictions"))
            return ["compare", "--all"]

        yield Case(f"data set {shown} in run.json", data, quick=path == PATHS[0])
        yield Case(f"predictions {shown} in a record", predictions, quick=path == PATHS[0])
        yield Case(f"split {shown} in run.json", spec(path, "data", "split"))
        yield Case(f"parent {shown} in run.json", spec(path, "init_from"))

    evil = "{outside}/evil.py"
    for where, keys in {
        "method": ("method",),
        "encoder": ("encoder",),
        "optimizer": ("optimizer",),
        "source of the method": ("method_source",),
        "component": ("components",),
    }.items():
        for value in (evil, f"{evil}:x", "os:system", "../outside/evil.py", "evil", "--plugin=../outside/evil.py"):

            def plugin(stage: Stage, value: str = value, keys: tuple[str, ...] = keys) -> list[str]:
                shutil.copy(stage.outside / "evil.py", stage.work)
                shutil.copy(stage.outside / "evil.py", stage.run)
                value = value.replace("{outside}", str(stage.outside))
                return spec({f"masks {value}": "1"} if keys == ("components",) else value, *keys)(stage)

            yield Case(f"{where} {value} in run.json", plugin, quick=value == evil and where == "encoder")

    for name in ("a b", "x;touch PWNED", "$(touch PWNED)", "-rf", "--plugin=evil.py", "[bold]x", "x\ny", "é\u202e"):

        def folder(stage: Stage, name: str = name) -> list[str]:
            (stage.work / "evil.py").write_text(EVIL)
            stage.run.rename(stage.run.parent / f"{name}-{_id(stage.run)}")
            return ["compare", "--all"]

        yield Case(f"run folder called {name!r}", folder)

    def snapshot(stage: Stage) -> list[str]:
        shutil.copy(stage.run / "encoder.safetensors", stage.run / "encoder@x.safetensors")
        return ["runs", "show", _id(stage.run)]

    yield Case("a snapshot of no epoch", snapshot, quick=True)

    for snap in ("../../../outside/x", "/etc/passwd", "last/../x"):
        yield Case(f"snapshot {snap}", lambda stage, snap=snap: ["eval", f"{_id(stage.run)}@{snap}"])  # type: ignore[misc]

    def nested(stage: Stage) -> list[str]:
        (stage.run / "run.json").write_text("[" * 200_000)
        return ["runs", "list"]

    yield Case("run.json of brackets", nested)

    def metadata(stage: Stage) -> list[str]:
        path = stage.run / "encoder.safetensors"
        save_file(load_file(path), path, {"skelbench": "__import__('os').system('touch PWNED')", "format": "pkl"})
        return eval_(stage)

    yield Case("safetensors metadata", metadata)

    def option(stage: Stage) -> list[str]:
        """A split of a stranger's data set that is an option of the command that a study starts."""
        (stage.work / "evil.py").write_text(EVIL)
        split = "--plugin=evil.py"
        meta = stage.work / "data" / "small" / "meta.json"
        edit(meta, lambda m: m | {"splits": {split: m["splits"]["half"]}, "default_split": split})
        _sign(meta.parent)
        text = f'dataset = "small"\nsplit = "{split}"\nseeds = [0]\nprobe = "none"\n[[trials]]\nmethod = "untrained"\n'
        (stage.work / "x.toml").write_text(text)
        return ["study", "x.toml", "--device", "cpu"]

    yield Case("an option for a split of a study", option, starts=True)


def _sign(store: Path) -> None:
    """Make a changed ``meta.json`` belong to its index again, as an attacker would."""
    from skelbench.data.store.clip_store import Meta, fingerprint

    with np.load(store / "index.npz") as file:
        index = dict(file)
    edit(store / "meta.json", lambda meta: meta | {"fingerprint": fingerprint(Meta.model_validate(meta), index)})


def _links() -> Iterator[Case]:
    """Links in a copied run folder that lead to the user's own files."""

    def link(where: str, name: str, words: Callable[[Stage], list[str]]) -> Callable[[Stage], list[str]]:
        def attack(stage: Stage) -> list[str]:
            folder = {"run": stage.run, "halted": stage.halted, "results": stage.run.parent}[where]
            for path in folder.glob(name):
                path.unlink()
            (folder / name.replace("*", "x")).symlink_to(stage.outside / "secret.txt")
            return words(stage)

        return attack

    def force(stage: Stage) -> list[str]:
        return [*again(stage), "--force"]

    def evaluation(stage: Stage) -> list[str]:
        return ["eval", _id(stage.run), "--protocol", "linear", "--device", "cpu", "--set", "min_steps=5"]

    for name in ("metrics.jsonl", ".lock", "run.json", "cost.json"):
        for what, words in (("continued", again), ("done anew", force)):
            yield Case(
                f"link {name}, run {what}", link("halted", name, words), quick=words is again and name[1] in "em"
            )
    yield Case("link last.pt, run done anew", link("halted", "last.pt", force))
    yield Case("link .probe.lock, run evaluated", link("run", ".probe.lock", evaluation), quick=True)
    yield Case("link .lock of the results", link("results", ".lock", lambda stage: again(stage, 3)))
    yield Case("link skelbench.json", link("results", "skelbench.json", again))


def _documents() -> Iterator[Case]:
    """Configs, studies and tags in them."""
    evil = "../outside/evil.py"
    texts = {
        "method": f'method = "{evil}"\n',
        "plugin": f'plugin = "{evil}"\n',
        "data": 'dataset = "../../outside/small"\n',
        "encoder": f'encoder = "{evil}"\n',
        "mask": f'[method]\ntarget = "{evil}:x"\n',
        "yaml": "!!python/object/apply:os.system ['touch PWNED']\n",
        "nested": "x = " + "[" * 20_000 + "\n",
        "interpolation": 'dataset = "${oc.env:HOME}"\nsplit = "{{7*7}}"\n',
    }
    for name, text in texts.items():

        def config(stage: Stage, text: str = text) -> list[str]:
            (stage.work / "x.toml").write_text(text)
            return ["run", "mamp", "--config", "x.toml", "--device", "cpu"]

        def study(stage: Stage, text: str = text) -> list[str]:
            (stage.work / "x.toml").write_text(text)
            return ["study", "x.toml", "--device", "cpu"]

        yield Case(f"config: {name}", config, codes=(2,))
        yield Case(f"study: {name}", study, codes=(2,), quick=name == "method")
    for key, value in {"table": evil, "figure": evil, "probe": evil, "name": "../../outside/x"}.items():

        def keyed(stage: Stage, key: str = key, value: str = value) -> list[str]:
            (stage.work / "x.toml").write_text(f'{key} = "{value}"\n[[trials]]\nmethod = "untrained"\n')
            return ["study", "x.toml", "--device", "cpu"]

        yield Case(f"study: {key}", keyed, codes=(2,))


def _archives() -> Iterator[Case]:
    """Names in zips that lead out of a folder."""
    for name in ("../../outside/slip", "/tmp/../outside/slip", "..\\..\\slip", "a/../../../outside/slip"):

        def npz(stage: Stage, name: str = name) -> list[str]:
            np.savez(stage.work / "x.npz", **mamp_arrays())
            replace_member(stage.work / "x.npz", f"{name}.npy", b"slip")
            return ["data", "import", "x.npz", "--name", "new"]

        def raw(stage: Stage, name: str = name) -> list[str]:
            with zipfile.ZipFile(stage.work / "x.zip", "w") as file:
                file.writestr(f"{name}/S001C001P001R001A001.skeleton", "1\n0\n")
            return ["data", "prepare", "ntu60", "--raw", "x.zip", "--name", "new", "--workers", "1"]

        yield Case(f"npz member {name}", npz, quick=name.startswith(".."))
        yield Case(f"raw zip member {name}", raw)
    for name in ("../new", "/tmp/new", "a/b", ".."):
        yield Case(f"--name {name}", lambda _, name=name: ["data", "import", "x.npz", "--name", name], codes=(2,))  # type: ignore[misc]


def _current_folder() -> Iterator[Case]:
    """Python files in the folder that a command is issued in."""

    def litter(stage: Stage) -> None:
        for name in (
            "evil",
            "torch",
            "h5py",
            "timm",
            "sitecustomize",
            "skelbench_plugins",
            "matplotlibrc",
            "conftest",
            "plugins",
        ):
            (stage.work / f"{name}.py").write_text(EVIL)
        (stage.work / "plugins").mkdir()
        shutil.copy(stage.work / "evil.py", stage.work / "plugins" / "__init__.py")
        (stage.work / "x.dist-info").mkdir()
        (stage.work / "x.dist-info" / "entry_points.txt").write_text("[skelbench]\nevil = evil\n")
        (stage.work / "x.dist-info" / "METADATA").write_text("Name: x\nVersion: 1\n")
        (stage.work / "matplotlibrc").write_text("text.usetex: True\nbackend: module://evil\n")

    def words(*argv: str) -> Callable[[Stage], list[str]]:
        def attack(stage: Stage) -> list[str]:
            litter(stage)
            return [*argv]

        return attack

    for argv in (["plugins", "list"], ["data", "info", "small"], ["plot", "curves", "--all", "-o", "x.svg"]):
        yield Case(f"modules beside: {' '.join(argv[:2])}", words(*argv), quick=argv[0] == "plugins")

    def study(stage: Stage) -> list[str]:
        litter(stage)
        text = 'dataset = "small"\nseeds = [1]\nprobe = "none"\npreset = "quick"\n[[trials]]\nmethod = "untrained"\n'
        (stage.work / "x.toml").write_text(text)
        return ["study", "x.toml", "--device", "cpu"]

    yield Case("modules beside: study", study, codes=(0,), starts=True)


# ------------------------------------------------------------------------------------------------ the campaign
GROUPS = re.compile(r"(?:a |an )?(?:data set|run folder|raw zip|modules beside|npz member|[-\w.]+)")


def campaign(short: bool = False, say: Callable[[str], None] = lambda line: None) -> dict[str, tuple[int, list[str]]]:
    """Group -> number of cases and what fell in them."""
    tally: dict[str, tuple[int, list[str]]] = {}
    with tempfile.TemporaryDirectory() as place:
        base = build(Path(place) / "base")
        for number, case in enumerate(one for one in cases() if one.quick or not short):
            found = play(case, base, Path(place) / f"case{number}")
            group = GROUPS.match(case.name)[0]
            count, fallen = tally.get(group, (0, []))
            tally[group] = count + 1, fallen + [f"{case.name}: {one}" for one in found]
            for one in found:
                say(f"FELL {case.name}: {one}")
    for kind, word, difference in fallen_words(WORDS[::6] if short else WORDS):
        count, bad = tally.get(f"words in {kind}", (0, []))
        tally[f"words in {kind}"] = count + 1, bad + [difference] * bool(difference)
        if difference:
            say(f"FELL word {word!r} in {kind}: {difference}")
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="one of every kind")
    started, short = time.monotonic(), parser.parse_args().short
    tally = campaign(short, functools.partial(print, flush=True))
    print(f"{'group':<26}{'cases':>7}{'fell':>7}")
    for group, (count, fallen) in tally.items():
        print(f"{group:<26}{count:>7}{len(fallen):>7}")
    total, fell = sum(count for count, _ in tally.values()), sum(len(fallen) for _, fallen in tally.values())
    print(f"{'all':<26}{total:>7}{fell:>7}   in {time.monotonic() - started:.0f} s")
    sys.exit(1 if fell else 0)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
