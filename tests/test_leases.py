"""Leases: never two owners, whoever races, dies, stands still or has another clock."""

import json
import os
import random
import signal
import threading
import time

import pytest

from skelbench.core import leases
from skelbench.core.errors import SkelbenchError
from skelbench.core.leases import STALE_SECONDS, Busy, Lease
from skelbench.testing.processes import forked


@pytest.fixture
def path(tmp_path):
    return tmp_path / "cell" / ".lock"


def stranger(path, age=0.0, **fields):
    """What a process of another machine left, that renewed it ``age`` seconds ago."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"token": "0a1b", "host": "elsewhere", "boot": "b", "space": "s", "pid": 7} | fields))
    then = time.time() - age
    os.utime(path, (then, then))
    return path


def files(path):
    return sorted(each.name for each in path.parent.iterdir())


def race(path, seed, rounds=12):
    """Enter and leave as one of a crowd; raise where somebody else is inside, or die inside."""
    dice = random.Random(seed)
    inside = path.with_name("inside")
    for _ in range(rounds):
        try:
            with Lease(path, timeout=20):
                file = os.open(inside, os.O_CREAT | os.O_EXCL)  # FileExistsError: two owners
                os.close(file)
                time.sleep(dice.random() / 500)
                inside.unlink()
                if seed % 4 == 0 and dice.random() < 0.3:
                    os._exit(9)  # killed while it holds it
        except Busy:
            raise AssertionError("nobody let go") from None
        time.sleep(dice.random() / 1000)


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_a_crowd_of_which_some_are_killed_never_holds_it_together(path, links, monkeypatch):
    if not links:

        def refused(*_):
            raise OSError(leases.errno.EPERM, "no links here")

        monkeypatch.setattr(os, "link", refused)
    path.parent.mkdir()
    ends = forked(*(lambda seed=seed: race(path, seed) for seed in range(8)))
    assert all(code == (9 if seed % 4 == 0 else 0) or not code for seed, (code, _) in enumerate(ends)), ends
    assert any(code == 9 for code, _ in ends)
    with Lease(path):
        assert files(path) == [".lock"]
    assert files(path) == []


def test_of_many_that_see_one_dead_owner_one_follows_it(path):
    """The dead one is of another machine: its time alone speaks of it."""
    crowd, seen = 10, path.parent.parent

    def count(what):
        (seen / f"{what}-{os.getpid()}").touch()
        deadline = time.monotonic() + 60
        while len(list(seen.glob(f"{what}-*"))) < crowd and time.monotonic() < deadline:
            time.sleep(0.001)

    def one():
        lease = Lease(path)
        count("ready")
        try:
            lease.acquire()
        except Busy:
            count("tried")
            os._exit(5)
        count("tried")
        assert leases._owner(path).token == lease._token
        lease.release()

    for age in (STALE_SECONDS + 1, 3600):
        stranger(path, age)
        codes = sorted(code for code, _ in forked(*[one] * crowd))
        assert codes == [0, *[5] * (crowd - 1)] and files(path) == []
        for left in seen.glob("*-*"):
            left.unlink()


def test_who_dies_while_it_follows_a_dead_owner_is_followed(path, monkeypatch):
    stranger(path, 3600)

    def killed():
        os.replace = lambda *_: os._exit(9)
        Lease(path).acquire()

    assert forked(killed)[0][0] == 9
    assert ".lock.0a1b.next" in files(path)
    with Lease(path) as lease:
        assert leases._owner(path).token == lease._token and files(path) == [".lock"]


def test_who_was_too_slow_leaves_the_new_owner_alone(path, monkeypatch):
    """Between a look at a dead owner and the claim to follow it, another follows it and works."""
    stranger(path, 3600)
    over, other, slow = leases._over, Lease(path), Lease(path)

    def late(*words):
        monkeypatch.setattr(leases, "_over", over)
        other.acquire()
        return True

    monkeypatch.setattr(leases, "_over", late)
    with pytest.raises(Busy):
        slow.acquire()
    assert leases._owner(path).token == other._token and files(path) == [".lock"]
    other.release()


def test_one_that_lives_elsewhere_keeps_it_whatever_the_clocks_say(path, monkeypatch):
    stranger(path, STALE_SECONDS - 10)
    for ahead in (-86400, 86400):
        there = time.time() + ahead
        monkeypatch.setattr(time, "time", lambda there=there: there)
        with pytest.raises(Busy, match="another process holds"):
            Lease(path).acquire()
        assert Lease(path).held() and files(path) == [".lock"]
        monkeypatch.undo()
    stranger(path, STALE_SECONDS + 10)
    assert not Lease(path).held()
    stranger(path, -3600)  # the file server's clock was put back
    assert Lease(path).held()


def test_a_killed_owner_on_this_machine_is_followed_at_once(path):
    path.parent.mkdir()

    def killed():
        Lease(path).acquire()
        os.kill(os.getpid(), signal.SIGKILL)

    assert forked(killed)[0][0] == -signal.SIGKILL
    assert path.exists() and not Lease(path).held()
    with Lease(path) as lease:
        assert lease.held()


@pytest.mark.parametrize("fields", [{"pid": 2**22 + 1}, {"started": "1"}])
def test_of_this_machine_another_process_is_dead(path, fields):
    host, boot, space = leases._here()
    here = {"host": host, "boot": boot, "space": space, "pid": os.getpid(), "started": leases._started(os.getpid())}
    stranger(path, **here)
    assert Lease(path).held()
    stranger(path, **here | fields)
    assert not Lease(path).held()
    for elsewhere in ({"space": "a container"}, {"boot": "another machine of this name"}):
        stranger(path, **here | fields | elsewhere)
        assert Lease(path).held()  # its processes are not to be seen from here


def test_it_excludes_objects_and_threads_and_may_be_entered_again(path):
    lease = Lease(path)
    with lease:
        with lease, pytest.raises(Busy):
            Lease(path).acquire()
        waiting = Lease(path, timeout=10)
        thread = threading.Thread(target=waiting.acquire)
        thread.start()
    thread.join(10)
    assert waiting.held()
    waiting.release()
    assert files(path) == []


def test_the_owner_renews_it_and_a_forked_process_cannot_end_it(path, monkeypatch):
    monkeypatch.setattr(leases, "BEAT_SECONDS", 0.02)
    with Lease(path) as lease:
        os.utime(path, (1, 1))
        deadline = time.monotonic() + 10
        while path.stat().st_mtime < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert time.time() - path.stat().st_mtime < 5
        assert forked(lease.release)[0][0] == 0 and lease.held()


def test_who_lost_it_is_told_before_it_writes_and_leaves_it_to_the_other(path):
    """Also where the other has ended by then, and no heartbeat came in between."""
    with Lease(path) as lease:
        lease.check()
        for follow in (path.unlink, lambda: stranger(path)):
            follow()
            with pytest.raises(SkelbenchError, match="has taken over .*cell, as this one stood still"):
                lease.check()
    assert leases._owner(path).token == "0a1b"


def test_who_stood_still_while_it_followed_is_followed_itself(path, monkeypatch):
    """Another took the right to follow the dead owner from it, used it and works."""
    stranger(path, 3600)
    replace, other = os.replace, Lease(path)

    def late(heir, _):
        monkeypatch.setattr(os, "replace", replace)
        os.utime(heir, (1, 1))
        monkeypatch.setattr(leases, "_here", lambda: ("another machine", "", ""))
        other.acquire()
        monkeypatch.undo()
        replace(heir, path)

    monkeypatch.setattr(os, "replace", late)
    with pytest.raises(Busy):
        Lease(path).acquire()
    assert leases._owner(path).token == other._token and files(path) == [".lock"]
    other.release()


def test_what_is_not_a_lease_is_judged_by_its_time_alone(path):
    """An empty file, as an earlier skelbench left; damage; a pipe, which must not be waited for."""
    path.parent.mkdir()
    for make in (
        path.touch,
        lambda: path.write_text('{"token"'),
        lambda: path.write_text("[]"),
        lambda: os.mkfifo(path),
    ):
        make()
        assert Lease(path).held()
        with pytest.raises(Busy):
            Lease(path).acquire()
        os.utime(path, (1, 1))
        with Lease(path):
            assert files(path) == [".lock"]


def test_a_link_in_its_place_is_named(path):
    path.parent.mkdir()
    path.symlink_to(path.parent)
    with pytest.raises(OSError) as raised:
        Lease(path).acquire()
    assert (
        raised.value.errno == leases.errno.ELOOP and raised.value.filename == str(path) or raised.value.filename == path
    )
    assert files(path) == [".lock"]
