import errno
import fcntl
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from skelbench.core.locks import Busy, FileLock


def increment(lock, counter, begin):
    begin.wait()
    for _ in range(15):
        with FileLock(lock):
            counter.write_text(str(int(counter.read_text()) + 1))


def test_a_crowd_never_holds_it_together_though_every_release_removes_the_file(tmp_path):
    counter, lock, context = tmp_path / "counter", tmp_path / ".lock", multiprocessing.get_context("fork")
    counter.write_text("0")
    begin = context.Barrier(8)
    crowd = [context.Process(target=increment, args=(lock, counter, begin)) for _ in range(8)]
    for process in crowd:
        process.start()
    for process in crowd:
        process.join(60)
    assert [process.exitcode for process in crowd] == [0] * 8
    assert counter.read_text() == "120" and not lock.exists()


@pytest.fixture
def lock(tmp_path):
    return FileLock(tmp_path / "new" / ".lock", timeout=0.05)


def test_it_excludes_and_may_be_entered_again(lock):
    with lock:
        with lock, pytest.raises(Busy):
            FileLock(lock.path, timeout=0).acquire()
        with pytest.raises(Busy, match="another process holds"):
            FileLock(lock.path, timeout=0.05).acquire()
    assert not lock.path.exists()
    with lock:
        assert lock.path.exists()


def test_a_file_that_was_removed_and_made_again_while_one_waited_is_what_counts(lock, monkeypatch):
    """As on a network file system that keeps an open file's inode linked under another name."""
    flock, other = fcntl.flock, FileLock(lock.path)

    def slow(file, how):
        flock(file, how)
        monkeypatch.undo()
        lock.path.rename(lock.path.with_name("kept"))
        other.acquire()

    monkeypatch.setattr("fcntl.flock", slow)
    with pytest.raises(Busy):
        lock.acquire()
    other.release()
    lock.acquire()
    lock.release()


def test_one_who_waits_gets_it(lock):
    waiting = FileLock(lock.path)
    with lock:
        thread = threading.Thread(target=waiting.acquire)
        thread.start()
        time.sleep(0.05)
    thread.join(10)
    assert lock.path.exists()
    waiting.release()
    assert not lock.path.exists()


def test_the_end_of_a_process_ends_it_though_a_child_lives(lock):
    """A forked child does not keep it, as workers that outlive a killed parent for a moment would."""
    code = """if True:
        import os, sys, time
        from pathlib import Path
        from skelbench.core.locks import FileLock
        FileLock(Path(sys.argv[1])).acquire()
        child = os.fork()
        if child:
            print(child, flush=True)
        time.sleep(60)
    """
    process = subprocess.Popen([sys.executable, "-c", code, lock.path], stdout=subprocess.PIPE, text=True)
    child = int(process.stdout.readline())
    try:
        with pytest.raises(Busy):
            lock.acquire()
        process.kill()
        process.wait()
        with lock:
            os.kill(child, 0)
    finally:
        os.kill(child, signal.SIGKILL)
        process.stdout.close()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_locks_has_leases(lock, monkeypatch, number):
    def refused(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", refused)
    for _ in range(2):
        with lock:
            with pytest.raises(Busy):
                FileLock(lock.path, timeout=0).acquire()
            assert [path.name for path in lock.path.parent.iterdir()] == [".lease.lock"]
        assert not list(lock.path.parent.iterdir())
