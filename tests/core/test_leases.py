"""Leases: never two owners, and no dead owner for long."""

import os
import signal
import time

import pytest

from skelbench.core.errors import SkelbenchError
from skelbench.core.leases import STALE_SECONDS, Busy, Lease
from skelbench.testing.processes import forked


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cell" / ".lock"


def stranger(path, age=0.0):
    """The lease of a process on another machine that sent its last heartbeat ``age`` seconds ago."""
    path.parent.mkdir(exist_ok=True)
    fields = f"pid=7\nhost=elsewhere\nmode=lease\ntoken=0a1b\nduration={STALE_SECONDS!r}\n"
    path.write_text(f"filelock/2\n{fields}")
    os.utime(path, (time.time() - age,) * 2)
    return path


def enter(path, die=False):
    """Hold the lease for a moment, or die meanwhile; FileExistsError if another process is inside."""
    inside = path.with_name("inside")
    with Lease(path, timeout=300):
        os.close(os.open(inside, os.O_CREAT | os.O_EXCL))
        time.sleep(0.01)
        inside.unlink()
        if die:
            os.kill(os.getpid(), signal.SIGKILL)


def race(path):
    for _ in range(3):
        enter(path)
        ((code, _),) = forked(lambda: enter(path, die=True))
        assert code == -signal.SIGKILL


def test_only_one_process_holds_the_lease_even_after_kills(path):
    path.parent.mkdir()
    assert [code for code, _ in forked(*[lambda: race(path)] * 3)] == [0] * 3
    with Lease(path):
        pass
    assert not list(path.parent.iterdir())


def test_a_second_owner_is_rejected_and_the_same_object_may_reenter(path):
    lease = Lease(path)
    with lease, lease:
        assert Lease(path).held()
        with pytest.raises(Busy, match="wait for it to end"):
            Lease(path).acquire()
    assert not Lease(path).held() and not path.exists()


def test_a_remote_owner_with_a_heartbeat_keeps_the_lease(path):
    assert Lease(stranger(path)).held()
    with pytest.raises(Busy):
        Lease(path).acquire()
    assert not Lease(stranger(path, age=2 * STALE_SECONDS)).held()


def test_a_silent_remote_owner_loses_the_lease(path, monkeypatch):
    """An owner without a heartbeat while it is watched, even by a process that does not wait."""
    monkeypatch.setattr("skelbench.core.leases.STALE_SECONDS", 1.0)
    monkeypatch.setattr("skelbench.core.leases.BEAT_SECONDS", 0.3)
    stranger(path, age=60.0)
    path.write_text(path.read_text().replace(f"duration={STALE_SECONDS!r}", "duration=1.0"))
    os.utime(path, (time.time() - 60,) * 2)
    with Lease(path) as lease:
        lease.check()


def test_a_lost_lease_is_an_error(path):
    with Lease(path) as lease:
        lease.check()
        stranger(path)
        with pytest.raises(SkelbenchError, match="nothing more is written there"):
            lease.check()
        path.unlink()
        with pytest.raises(SkelbenchError, match="nothing more is written there"):
            lease.check()
