"""Leases: claims that hold between machines on a shared file system, also where it has no locks or only says so.

A lease is a file that names its owner and whose time of change the owner renews. What is made of one is what file
servers do in one step: a link to a name that must be free, and a rename. Times are the file server's alone: both the
owner's heartbeat and the moment at which another judges it are set by touching a file there, so that the clocks of the
machines do not matter.

Nobody removes a lease that has ended to take its place, or of two that saw the same dead owner the slower one would
remove the new lease of the faster. They claim the right to follow that one owner, ``NAME.<owner>.next``, by a lease of
its own; who has it looks whether that owner is still the last, and renames it into place.

A process that stands still for longer than :data:`STALE_SECONDS` (a suspended machine, a file server that is away) may
lose its lease: :meth:`Lease.check` looks, and says so before anything more is written.
"""

from __future__ import annotations

import errno
import json
import os
import tempfile
import threading
import time
import uuid
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar, Self

from skelbench.core.errors import SkelbenchError
from skelbench.core.files import naming, parsed

BEAT_SECONDS = 10.0
STALE_SECONDS = 120.0
"""An owner on another machine that missed so many seconds of heartbeats is taken for dead."""
_LONGEST = 4096
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}


class Busy(SkelbenchError):
    """Another process holds the lock."""


@dataclass(frozen=True)
class Owner:
    """Who wrote a lease; ``token`` is its own, never used again."""

    token: str
    host: str = ""
    boot: str = ""
    """Of its machine since when. Of another boot nothing is known: machines may have one name."""
    space: str = ""
    """In which processes have numbers: that of a container is another than its host's."""
    pid: int = 0
    started: str = ""
    """A number may be given again."""

    def alive(self) -> bool | None:
        """Whether its process lives; None if that cannot be seen from here."""
        if not self.pid or (self.host, self.boot, self.space) != _here():
            return None
        return _started(self.pid) == self.started


class Claim(ABC):
    """``with Claim(path):`` waits for ``path`` to be free and has it alone. The same object may be entered again."""

    poll_s: ClassVar[float]
    """Between two tries."""

    def __init__(self, path: Path, timeout: float) -> None:
        self.path, self.timeout = path, timeout
        self._depth = 0

    def acquire(self) -> None:
        if not self._depth:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            end = time.monotonic() + self.timeout
            while not self._take():
                if time.monotonic() >= end:
                    raise Busy(f"another process holds {self.path}; wait for it to end")
                time.sleep(self.poll_s)
        self._depth += 1

    def release(self) -> None:
        self._depth -= 1
        if not self._depth:
            self._let_go()

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @abstractmethod
    def _take(self) -> bool:
        """Whether it could be had just now."""

    @abstractmethod
    def _let_go(self) -> None:
        """Others may have it."""


class Lease(Claim):
    """``with Lease(path):`` excludes every other process and object for ``path``, on whatever machine.

    It ends with its process: at once for those on the same machine, for others after :data:`STALE_SECONDS`. The same
    object may be entered again. Raises :class:`Busy` after ``timeout`` seconds.
    """

    poll_s = 0.05

    def __init__(self, path: Path, timeout: float = 0.0) -> None:
        super().__init__(path, timeout)
        self._token, self._pid = "", 0
        self._released = threading.Event()

    def _let_go(self) -> None:
        if self._pid == os.getpid():  # a forked process is not the one that holds it
            self._released.set()
            with suppress(OSError):  # it may be gone with its folder
                if self._is_ours():
                    self.path.unlink()

    def check(self) -> None:
        """SkelbenchError if another process has taken it over meanwhile, and may have ended since."""
        if not self._is_ours() and self.path.parent.exists():  # else it was removed, not taken over
            raise SkelbenchError(
                f"another process has taken over {self.path.parent}, as this one stood still for more than "
                f"{STALE_SECONDS:.0f} seconds; nothing more is written there, issue the same command again later"
            )

    def held(self) -> bool:
        """Whether anybody holds it just now; takes nothing."""
        try:
            if (owner := _owner(self.path)) is None:
                return False
            if (alive := owner.alive()) is not None:
                return alive
            return _server_now(self.path.parent) - self.path.stat().st_mtime <= STALE_SECONDS
        except OSError:  # released meanwhile, or not ours to read
            return False

    def _take(self) -> bool:
        self._token = uuid.uuid4().hex[:12]
        own = self.path.with_name(f"{self.path.name}.{self._token}.new")
        host, boot, space = _here()
        mine = Owner(self._token, host, boot, space, os.getpid(), _started(os.getpid()))
        file = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
        try:
            with os.fdopen(file, "w") as text:
                json.dump(asdict(mine), text)
            taken = _claim(own, self.path)
        finally:
            own.unlink(missing_ok=True)
        if taken:
            self._sweep()
            self._released, self._pid = threading.Event(), os.getpid()
            threading.Thread(target=self._beat, args=(self._released,), daemon=True, name="lease").start()
        return taken

    def _sweep(self) -> None:
        """Remove what processes left that were killed while they took it."""
        for left in self.path.parent.glob(f"{self.path.name}.*.new"):
            with suppress(OSError):
                if (owner := _owner(left)) and owner.alive() is False:
                    left.unlink()

    def _is_ours(self) -> bool:
        owner = _owner(self.path)
        return owner is not None and owner.token == self._token

    def _beat(self, released: threading.Event) -> None:
        while not released.wait(BEAT_SECONDS):
            with suppress(OSError):  # the file server may be away
                if not self._is_ours():
                    return
                os.utime(self.path)


def _claim(own: Path, path: Path) -> bool:
    """Have ``path`` become the file ``own``, unless somebody who lives has it."""
    if _linked(own, path):
        return True
    owner = _owner(path)
    if owner is None or not _over(owner, path, own):
        return False
    heir = path.with_name(f"{path.name}.{owner.token}.next")
    if not _claim(own, heir):  # one that died there is followed in the same way
        return False
    if (now := _owner(path)) is None or now.token != owner.token:
        heir.unlink()
        return False
    try:
        os.replace(heir, path)
    except FileNotFoundError:  # this process stood still meanwhile, and was taken for dead
        return False
    return True


def _over(owner: Owner, path: Path, own: Path) -> bool:
    """Whether the lease of ``owner`` has ended; ``own``: a file to ask the file server for its time by."""
    if (alive := owner.alive()) is not None:
        return not alive
    os.utime(own)
    try:
        return own.stat().st_mtime - path.stat().st_mtime > STALE_SECONDS
    except FileNotFoundError:
        return False


def _linked(own: Path, path: Path) -> bool:
    """Link ``own`` to the name ``path``, if that is free; where there are no links, copy it."""
    try:
        os.link(own, path)
        return True
    except FileExistsError:  # or a file server did it, and its answer was lost
        return (there := _owner(path)) is not None and there == _owner(own)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    except FileExistsError:
        return False
    with os.fdopen(file, "wb") as copy:
        copy.write(own.read_bytes())
    return True


def _owner(path: Path) -> Owner | None:
    """Who wrote the lease; None if there is none. One that cannot be read, as it is being written, or was left by an
    earlier skelbench, is its file's."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # a pipe would be waited for
    except FileNotFoundError:
        return None
    try:
        with naming(path):
            return Owner(**parsed(json.loads, os.read(file, _LONGEST)))
    except (ValueError, TypeError):
        return Owner(f"i{os.fstat(file).st_ino}")
    finally:
        os.close(file)


def _server_now(folder: Path) -> float:
    """The time of the file server that holds ``folder``; of this machine where nothing may be written there."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".clock.") as probe:
            os.utime(probe.name)
            return os.stat(probe.name).st_mtime
    except OSError:
        return time.time()


@cache
def _boot() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def _here() -> tuple[str, str, str]:
    """(host, boot, space of process numbers) of this process."""
    space = ""
    with suppress(OSError):
        space = os.readlink("/proc/self/ns/pid")
    return os.uname().nodename, _boot(), space


def _started(pid: int) -> str:
    """When a process of this machine began, in the system's own count; "" for one that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]
    except OSError:
        pass
    if Path("/proc/self/stat").exists():
        return ""
    try:  # a system without /proc: that there is such a process is all that can be seen
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except OSError:
        pass
    return "there"
