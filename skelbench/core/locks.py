"""Locks between processes, by files that are there only while somebody holds them.

The package filelock leaves its files: it knows a removed one by its link count, which network file systems keep up.
Comparing inodes holds there, too.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path

from skelbench.core.leases import Busy as Busy
from skelbench.core.leases import Claim, Lease

_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
_held: set[int] = set()
"""Descriptors; a forked process lets go of them, or it would keep the locks of a parent that is killed."""


class FileLock(Claim):
    """``with FileLock(path):`` excludes other processes, threads and objects for ``path``; the end of the process ends
    it, however that comes. The same object may be entered again. Raises :class:`Busy` after ``timeout`` seconds.

    For what takes an instant, or is on this machine. What is worked on for long, and may be from other machines, is
    claimed by a :class:`~skelbench.core.leases.Lease`; so is everything on a file system that has no locks.
    """

    poll_s = 0.02

    def __init__(self, path: Path, timeout: float = float("inf")) -> None:
        super().__init__(path, timeout)
        self._file = -1
        self._lease: Lease | None = None

    def _let_go(self) -> None:
        if self._lease:
            self._lease.release()
            self._lease = None
        elif self._file in _held:
            with suppress(OSError):  # it may be gone with its folder
                self.path.unlink()  # while nobody else can hold it; who has it open by now sees that it has no name
            self._close()

    def _take(self) -> bool:
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        _held.add(self._file)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Of a file that its holder has removed meanwhile the lock is worth nothing: others lock the next one.
            if os.path.samestat(os.fstat(self._file), os.stat(self.path)):
                return True
        except (BlockingIOError, FileNotFoundError):
            pass
        except OSError as error:
            self._close()
            if error.errno in _NO_LOCKS:
                self.path.unlink(missing_ok=True)  # unlocked it means nothing
                return self._take_lease()
            raise
        self._close()
        return False

    def _take_lease(self) -> bool:
        lease = Lease(self.path.with_name(f"{self.path.name.removesuffix('.lock')}.lease.lock"))
        try:
            lease.acquire()
        except Busy:
            return False
        self._lease = lease
        return True

    def _close(self) -> None:
        _held.discard(self._file)
        os.close(self._file)


def _let_go() -> None:
    for file in _held:
        os.close(file)
    _held.clear()


os.register_at_fork(after_in_child=_let_go)
