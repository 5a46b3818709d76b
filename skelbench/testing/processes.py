"""Functions called in processes of their own, which may form a group."""

from __future__ import annotations

import os
import signal
import socket
import traceback
from collections.abc import Callable
from functools import partial

SECONDS = 120
"""After which a process is killed."""


def forked(*functions: Callable[[], object]) -> list[tuple[int, str]]:
    """Call each in a process of its own, at once: exit codes, minus the signal's number of one that was killed, and the
    traceback of one that raised.

    Forked from this one, which has imported everything: a new Python takes seconds to import torch.
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
            said = file.read()
        ends.append((os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said))
    return ends


def grouped(function: Callable[[], object], processes: int = 2) -> list[tuple[int, str]]:
    """Call it in each of ``processes`` that are told to form a group; see :func:`forked`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        group = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}

    def one(rank: str) -> None:
        os.environ.update(group, RANK=rank, LOCAL_RANK=rank)
        function()

    return forked(*(partial(one, str(rank)) for rank in range(processes)))
