"""Running a stranger's code without being disturbed: what it prints, what it changes, how long it takes.

Code that ends the process on purpose (a signal to itself, a crash in C) is beyond this; ``os._exit`` is not.
"""

from __future__ import annotations

import io
import os
import random
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from types import FrameType
from typing import Any, NamedTuple, NoReturn

from skelbench.core.errors import SkelbenchError

LIMIT_VARIABLE = "SKELBENCH_PLUGIN_SECONDS"
LIMIT_S = 30.0
"""Seconds that reading one plugin may take, unless :data:`LIMIT_VARIABLE` says otherwise: torch from a slow disk fits
in, waiting for ever does not. A file whose hooks need little of it is read in milliseconds."""
SLOW_S = 1.0
"""Longer than this is remarked on: every command waits for it."""


class TooSlow(BaseException):
    """The limit is over. No ``Exception``, so that what is read cannot mistake it for one of its own."""


class Setting(NamedTuple):
    """Something of the whole process that code may change."""

    name: str
    get: Callable[[], Any]
    put: Callable[[Any], Any]


@contextmanager
def undisturbed(remarks: list[str], limit: float) -> Iterator[None]:
    """Put back what the block changes of the process, keep what it prints off the terminal, and end it after a limit.

    Args:
        remarks: gets what an author should know of it.
        limit: seconds; 0 = any. In threads other than the main one there is none: signals do not reach them.

    Raises:
        TooSlow: the limit is over.
    """
    before, process, said = _as_it_is(), os.getpid(), io.StringIO()
    started = time.perf_counter()
    stdin, leave = sys.stdin, os._exit
    sys.stdin, os._exit = io.StringIO(), _refused_exit  # type: ignore[assignment]
    try:
        with redirect_stdout(said), redirect_stderr(said), _limited(limit):
            yield
    finally:
        if os.getpid() != process:  # it forked: the child has no part in what follows
            leave(0)
        sys.stdin, os._exit = stdin, leave
        changed = _put_back(before)
        seconds = time.perf_counter() - started
        if SLOW_S < seconds and not 0 < limit <= seconds:
            remarks.append(f"takes {seconds:.1f} s to be read, for which every command waits; let its hooks need less")
        if text := " ".join(said.getvalue().split()):
            remarks.append(f"prints while it is read: {text[:60]}{'...' if len(text) > 60 else ''}")
        if changed:
            remarks.append(f"changes {', '.join(changed)} while it is read, which is put back")


@contextmanager
def put_back() -> Iterator[None]:
    """Put back what the block changes of the process: an import on use, whose output and time are the command's."""
    before = _as_it_is()
    try:
        yield
    finally:
        _put_back(before)


def _refused_exit(code: int) -> NoReturn:
    raise SystemExit(f"os._exit({code})")


def _as_it_is() -> list[tuple[Setting, Any]]:
    """Every setting and its value."""
    return [(setting, setting.get()) for setting in _settings()]


def _put_back(before: list[tuple[Setting, Any]]) -> list[str]:
    """What was changed, and of which an author should know."""
    changed = []
    for setting, value in before:
        if setting.get() != value:
            setting.put(value)
            changed.append(setting.name)
    if (torch := _whole("torch")) and TORCH not in [setting.name for setting, _ in before]:
        torch.set_default_dtype(torch.float32)  # imported in the block: as it is then
        torch.set_default_device(None)
        torch.set_grad_enabled(True)
    return [name for name in changed if name != FILTERS]


FILTERS = "the warnings filters"
"""Not remarked on: importing numpy or torch changes them, too."""
TORCH = "torch's default dtype"


def _settings() -> list[Setting]:
    found = [
        Setting("os.environ", lambda: dict(os.environ), _put_environment),
        Setting(FILTERS, lambda: list(warnings.filters), _put_filters),
        Setting("random's state", random.getstate, random.setstate),
    ]
    if _folder():  # not deleted meanwhile
        found.append(Setting("the working directory", _folder, os.chdir))
    if numpy := _whole("numpy"):
        found.append(Setting("numpy's random state", lambda: _numpy_state(numpy), numpy.random.set_state))
    if torch := _whole("torch"):
        found += _of_torch(torch)
    return found


def _of_torch(torch: Any) -> list[Setting]:
    def put_device(device: Any) -> None:
        torch.set_default_device(None if device.type == "cpu" else device)

    def random_state() -> bytes:
        return torch.random.get_rng_state().numpy().tobytes()

    def put_random_state(state: bytes) -> None:
        torch.random.set_rng_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))

    def precision() -> str | None:
        """None where it was set device by device (``torch.backends.cuda.matmul.fp32_precision``): no word says it."""
        try:
            return str(torch.get_float32_matmul_precision())
        except RuntimeError:
            return None

    def put_precision(before: str | None) -> None:
        if before is not None:
            torch.set_float32_matmul_precision(before)

    return [
        Setting(TORCH, torch.get_default_dtype, torch.set_default_dtype),
        Setting("torch's default device", torch.get_default_device, put_device),
        Setting("torch's threads", torch.get_num_threads, torch.set_num_threads),
        Setting("torch's grad mode", torch.is_grad_enabled, torch.set_grad_enabled),
        Setting("torch's random state", random_state, put_random_state),
        Setting("torch's precision of products", precision, put_precision),
        Setting("torch's deterministic mode", torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
    ]


def _whole(name: str) -> Any:
    """The module, if it was imported and is not just being so."""
    module = sys.modules.get(name)
    return None if module is None or getattr(module.__spec__, "_initializing", False) else module


def _put_environment(before: dict[str, str]) -> None:
    for name in os.environ.keys() - before.keys():
        del os.environ[name]
    os.environ.update(before)


def _put_filters(before: list[Any]) -> None:
    warnings.resetwarnings()  # which also has the registries of modules looked at anew
    warnings.filters[:] = before  # type: ignore[index]


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


def _numpy_state(numpy: Any) -> tuple[Any, ...]:
    name, keys, *rest = numpy.random.get_state()
    return name, keys.tolist(), *rest


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise :class:`TooSlow` in the block after ``seconds``; an alarm that was set before goes on after it."""
    if not (seconds and hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()):
        yield
        return

    def late(_number: int, _frame: FrameType | None) -> None:
        torch = sys.modules.get("torch")
        if torch is not None and _whole("torch") is None:
            return  # broken off, it could not be imported again in this process; the next alarm looks again
        raise TooSlow(f"not read within {seconds:g} s; let its hooks need less, or set {LIMIT_VARIABLE} (0 = no limit)")

    started = time.monotonic()
    handler = signal.signal(signal.SIGALRM, late)
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(1e-3, left - (time.monotonic() - started)), interval)


def limit_s() -> float:
    """Seconds that reading one plugin may take; 0 = any. SkelbenchError if :data:`LIMIT_VARIABLE` is no number."""
    text = os.environ.get(LIMIT_VARIABLE, "")
    try:
        seconds = float(text or LIMIT_S)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise SkelbenchError(f"{LIMIT_VARIABLE}={text} is no number of seconds; write 60, or 0 for no limit")
    return seconds
