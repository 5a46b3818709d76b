"""Leases: exclusive claims on a path between processes and machines, also on network file systems.

A lease is a file that names its owner, and a thread of the owner touches it regularly (``filelock.SoftFileLease``). The
lease of a killed process ends at once on the same machine, and after :data:`STALE_SECONDS` for other machines.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Self

from skelbench.core.errors import SkelbenchError

BEAT_SECONDS = 10.0
STALE_SECONDS = 120.0
"""Seconds without a heartbeat after which an owner on another machine counts as dead."""
_RETRY_SECONDS = 0.2
"""Shortest time to try: one try breaks the lease of a dead process, the next one takes it."""


class Busy(SkelbenchError):
    """Another process holds the lease."""


class Lease:
    """``with Lease(path):`` excludes every other process and object for ``path``. The same object may enter again.

    Raises :class:`Busy` after ``timeout`` seconds. An owner without a heartbeat is watched for :data:`STALE_SECONDS`
    before its lease is taken over, even if ``timeout`` is shorter.
    """

    def __init__(self, path: Path, timeout: float = 0.0) -> None:
        from filelock import SoftFileLease  # 30 ms, which commands without a lease save

        self.path, self.timeout = path, timeout
        self._lock = SoftFileLease(
            path, lease_duration=STALE_SECONDS, heartbeat_interval=BEAT_SECONDS, thread_local=False
        )

    def acquire(self) -> None:
        from filelock import Timeout

        self.path.parent.mkdir(parents=True, exist_ok=True)
        patience = max(self.timeout, _RETRY_SECONDS, STALE_SECONDS + BEAT_SECONDS if self._silent() else 0.0)
        end = time.monotonic() + patience
        while True:
            try:
                self._lock.acquire(timeout=min(max(end - time.monotonic(), 0.0), BEAT_SECONDS))
                return
            except Timeout as error:
                if time.monotonic() >= end:
                    message = f"another process holds {self.path}; wait for it to end"
                    raise Busy(f"{message}, or remove that file if no process is left") from error
                self._remove_empty()

    def release(self) -> None:
        with suppress(OSError):  # the lease may be gone with its folder
            self._lock.release()

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def check(self) -> None:
        """Raise SkelbenchError if another process has taken the lease over, even if it ended since."""
        owner = self._lock.owner
        lost = owner.token != self._lock.token if owner else not self.path.exists() and self.path.parent.exists()
        if lost:
            raise SkelbenchError(
                f"another process has taken over {self.path.parent}, because this process did not run for more than "
                f"{STALE_SECONDS:.0f} seconds; nothing more is written there, issue the same command again later"
            )

    def held(self) -> bool:
        """Whether a process holds the lease now."""
        if not self.path.exists() or self._silent():
            return False
        try:
            self._lock.acquire(timeout=0)
        except OSError:  # held, or in a folder that only others may write
            return True
        self.release()
        return False

    def _silent(self) -> bool:
        """Whether there is a lease whose owner has sent no heartbeat for long."""
        self._remove_empty()
        try:
            return time.time() - self.path.stat().st_mtime > STALE_SECONDS
        except OSError:
            return False

    def _remove_empty(self) -> None:
        """Remove the file of a process that was killed before it wrote its name, or of an earlier skelbench."""
        with suppress(OSError):
            status = self.path.stat()
            if not status.st_size and time.time() - status.st_mtime > BEAT_SECONDS:
                self.path.unlink()
