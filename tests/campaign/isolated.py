"""Cases in a child process with limits on time and memory, so that a crash or a hang is an outcome like any other."""

import mmap
import os
import pickle
import resource
import select
import signal
import struct
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Late(BaseException):
    """Raised in a case that takes too long; no ``except Exception`` takes it for a refusal."""


PATIENCE = 4
"""Times as long as on the processor a case may take by the clock: the machine has other work."""


class Outcome(NamedTuple):
    """What became of a case: what it returned, or why it fell."""

    case: int
    value: Any
    fall: str = ""


def run_all(
    cases: Sequence[int],
    work: Callable[[int], Any],
    seconds: float = 10.0,
    memory: int = 2 << 30,
    quiet: Callable[[Any], bool] = lambda value: False,
) -> Iterator[Outcome]:
    """``work(case)`` for each of ``cases``, in order; a case that raises, hangs, or ends its process has fallen.

    A child works through them until one ends it, then the next child goes on. ``seconds``: on the processor;
    ``memory``: bytes of address space beside what is there at the beginning. Values that are ``quiet`` are not sent one
    by one: they come as ``Outcome(-n, value)``, n of them.
    """
    done = 0
    while done < len(cases):
        for outcome in _child(cases, done, work, seconds, memory, quiet):
            if isinstance(outcome, int):
                done = outcome
            else:
                yield outcome


def _child(cases, start, work, seconds, memory, quiet):
    place = mmap.mmap(-1, 8)
    place[:] = struct.pack("q", start)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            _work(cases, start, work, seconds, memory, quiet, place, writing)
        finally:
            os._exit(0)
    os.close(writing)
    held, last, seen = b"", start, time.monotonic()
    with os.fdopen(reading, "rb", buffering=0) as stream:
        while True:
            if select.select([stream], [], [], 1.0)[0]:
                piece = stream.read(1 << 16)
                if not piece:
                    break
                held += piece
                while len(held) >= 8 and len(held) >= 8 + (size := struct.unpack("q", held[:8])[0]):
                    yield pickle.loads(held[8 : 8 + size])
                    held = held[8 + size :]
            (at,) = struct.unpack("q", place[:])
            if at != last:
                last, seen = at, time.monotonic()
            elif time.monotonic() - seen > 2 * PATIENCE * seconds:  # not even its alarm reached it
                os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    (at,) = struct.unpack("q", place[:])
    if at < len(cases):
        name = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"exit {status}"
        hung = " (it hung)" if name == "SIGKILL" else ""
        yield Outcome(cases[at], None, f"its process ended by {name}{hung}")
        at += 1
    yield at


def _work(cases, start, work, seconds, memory, quiet, place, writing) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + memory
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def late(*_):
        raise Late(f"longer than {seconds:g} s on the processor, or {PATIENCE} times as long by the clock")

    def send(thing) -> None:
        data = pickle.dumps(thing)
        data = struct.pack("q", len(data)) + data
        while data:
            data = data[os.write(writing, data) :]

    def flush() -> None:
        for value, count in counted.items():
            send(Outcome(-count, value))
        counted.clear()

    signal.signal(signal.SIGPROF, late)
    signal.signal(signal.SIGALRM, late)
    counted: dict[Any, int] = {}
    for at in range(start, len(cases)):
        place[:] = struct.pack("q", at)
        try:
            signal.setitimer(signal.ITIMER_PROF, seconds)
            signal.setitimer(signal.ITIMER_REAL, PATIENCE * seconds)
            try:
                value = work(cases[at])
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
                signal.setitimer(signal.ITIMER_REAL, 0)
        except BaseException as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            text = " ".join(str(error).split())[:300]
            send(
                Outcome(cases[at], None, f"{type(error).__name__}: {text} ({Path(where.filename).name}:{where.lineno})")
            )
        else:
            if quiet(value):
                counted[value] = counted.get(value, 0) + 1
            else:
                send(Outcome(cases[at], value))
        if at % 500 == 0:
            flush()
    flush()
    place[:] = struct.pack("q", len(cases))
