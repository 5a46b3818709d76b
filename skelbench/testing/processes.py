"""Functions called in forked processes, which may form a group."""

from __future__ import annotations

import os
import signal
import socket
import traceback
from collections.abc import Callable
from functools import partial

SECONDS = 600
"""Time after which a process is killed."""


def forked(*functions: Callable[[], object]) -> list[tuple[int, str]]:
    """Call each function in a forked process, at once: (exit code, or minus the signal's number; traceback).

    A fork has imported everything: a new Python takes seconds to import torch.
    """
    children = []
    for function in functions:
        reading, writing = os.pipe()
        if not (child := os.fork()):
            code = 1
            try:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(SECONDS)
                function()
                code = 0
            except BaseException:
                os.write(writing, traceback.format_exc().encode())
            finally:
                os._exit(code)
        os.close(writing)
        children.append((child, reading))
    ends = []
    for child, reading in children:
        with os.fdopen(reading) as file:
            message = file.read()
        ends.append((os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), message))
    return ends


def grouped(function: Callable[[], object], processes: int = 2) -> list[tuple[int, str]]:
    """Call ``function`` in each of ``processes`` that form a group; see :func:`forked`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        group = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}

    def call(rank: str) -> None:
        os.environ.update(group, RANK=rank, LOCAL_RANK=rank)
        function()

    return forked(*(partial(call, str(rank)) for rank in range(processes)))
