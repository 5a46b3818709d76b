"""Commands in forked children of a process that has imported everything.

Python and torch take seconds to start; a child of this process is at the command's first line at once, so that
hundreds of kills take minutes. What a child runs is ``skelbench.cli.main.main`` with the words that would be typed, in
a session of its own, with default signal handlers, writing to a log. A study's trials, which are processes of their own
as well, are forked from it likewise instead of started anew. What this leaves out is the start of Python itself, in
which no file of ours is open; :mod:`.long` runs processes as a user starts them.
"""

from __future__ import annotations

import ctypes
import importlib
import io
import os
import pkgutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

CHILD_SUBREAPER = 36


def warm_up(without_torch: bool = False) -> None:
    """Import every module (``without_torch``: for :data:`.commands.WITHOUT_TORCH`), make what a first command makes,
    and become the parent of what a killed command leaves behind."""
    import skelbench_plugins

    import skelbench.data.importers
    import skelbench.data.raw
    from skelbench.cli.main import main

    data = skelbench.data.importers, skelbench.data.raw
    for package in data if without_torch else (skelbench, skelbench_plugins):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    if not without_torch:
        for name in ("pandas", "fvcore.nn", "matplotlib.backends.backend_agg", "numpy.testing"):
            importlib.import_module(name)
    with tempfile.TemporaryDirectory() as nothing, redirect_stdout(io.StringIO()):
        main(["data", "list", "--data-root", nothing])
    ctypes.CDLL(None).prctl(CHILD_SUBREAPER, 1, 0, 0, 0)


def start(
    words: Sequence[str],
    log: Path,
    environment: Mapping[str, str] | None = None,
    first: Callable[[], Any] | None = None,
) -> int:
    """Fork a child that runs the command; ``first`` is called in it before. Returns its process id."""
    sys.stdout.flush()
    sys.stderr.flush()
    if child := os.fork():
        return child
    code = 70
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for descriptor, flags in ((0, os.O_RDONLY), (1, os.O_WRONLY | os.O_CREAT | os.O_APPEND), (2, None)):
            file = 1 if flags is None else os.open(log if descriptor else os.devnull, flags, 0o666)
            os.dup2(file, descriptor)
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__  # whatever the parent has put in their place
        os.closerange(3, 512)  # what a new process would not have: its parent's locks among others
        os.environ.update(environment or {})
        from skelbench.cli.main import main

        if runner := sys.modules.get("skelbench.pipeline.studies.runner"):
            runner.subprocess = ForkedProcesses(first)  # type: ignore[attr-defined]
        if first:
            first()
        code = main(list(words))
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)  # never back into the frames of the parent


def wait(child: int, seconds: float) -> int | None:
    """Exit code of a child, minus the signal's number if it was killed; None after ``seconds``."""
    until = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            return None
        time.sleep(0.01)


def run(words: Sequence[str], log: Path, seconds: float = 300, **options: Any) -> tuple[int | None, str]:
    """The command to its end: exit code (None: killed after ``seconds``) and what it wrote."""
    before = log.stat().st_size if log.exists() else 0
    child = start(words, log, **options)
    if (code := wait(child, seconds)) is None:
        kill_all(child)
    return code, log.read_bytes()[before:].decode(errors="replace") if log.exists() else ""


def children() -> list[int]:
    """Children of this process that live, among them those that killed commands left."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            state, parent = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[:2]
            if int(parent) == os.getpid() and state != "Z":
                found.append(int(name))
    return found


def left_behind(seconds: float) -> list[int]:
    """Children that still live after ``seconds``; those that have ended are buried."""
    until = time.monotonic() + seconds
    while True:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not (alive := children()) or time.monotonic() > until:
            return alive
        time.sleep(0.05)


def kill_all(*more: int) -> None:
    for child in {*more, *children()}:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    left_behind(5)


class ForkedProcesses:
    """``subprocess`` as a study uses it: ``Popen([python, "-m", "skelbench", *words], stdout=file, ...)``."""

    DEVNULL, STDOUT = -3, -2

    def __init__(self, first: Callable[[], Any] | None) -> None:
        self.first = first

    def Popen(self, command: Sequence[str], *, stdout: Any, env: Mapping[str, str], **_: Any) -> Forked:  # noqa: N802
        return Forked(start(command[command.index("-m") + 2 :], Path(stdout.name), env, self.first))


class Forked:
    def __init__(self, pid: int) -> None:
        self.pid, self.returncode = pid, None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = wait(self.pid, 0)
        return self.returncode

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)
