"""Commands in forked children of a process that has imported everything already."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any


def start(
    words: Sequence[str],
    log: Path,
    environment: Mapping[str, str] | None = None,
    first: Callable[[], Any] | None = None,
) -> int:
    """Fork a child that calls ``first`` and runs a command with output to ``log``; returns its process id."""
    sys.stdout.flush()
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
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        os.closerange(3, 512)  # a new process would not have the files of its parent
        os.environ.update(environment or {})
        from skelbench.cli.main import main

        if runner := sys.modules.get("skelbench.pipeline.studies.runner"):
            runner.subprocess = ForkedProcesses(first)  # type: ignore[attr-defined]
        if first:
            first()
        code = main(list(words))
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            sys.stdout.flush()
        os._exit(code)  # never return into the frames of the parent


def wait(child: int, seconds: float = float("inf")) -> int | None:
    """Exit code of a child, the negative signal number if it was killed; None after ``seconds``."""
    end = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            return None
        time.sleep(0.01)


class ForkedProcesses:
    """``subprocess`` as a study uses it: ``Popen([python, "-m", "skelbench", *words], stdout=file, ...)``."""

    DEVNULL, STDOUT = -3, -2

    def __init__(self, first: Callable[[], Any] | None) -> None:
        self.first = first

    def Popen(self, command: Sequence[str], *, stdout: Any, env: Mapping[str, str], **_: Any) -> Forked:  # noqa: N802
        return Forked(start(command[command.index("-m") + 2 :], Path(stdout.name), env, self.first))


class Forked:
    """A forked process with the methods of ``subprocess.Popen`` that a study calls."""

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
