import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from skelbench.core.errors import SkelbenchError
from skelbench.data.raw.parallel import AHEAD, in_order

ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}


def square(i):
    time.sleep(0.001 * (i % 3))
    return i * i, os.getpid()


def die(i):
    if i == 40:
        os._exit(9)
    return i


def fail(i):
    if i == 40:
        raise ZeroDivisionError("forty")
    return i


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_results_come_in_order(workers):
    results = list(in_order(square, list(range(200)), workers))
    assert [value for value, _ in results] == [i * i for i in range(200)]
    processes = {process for _, process in results}
    assert processes == {os.getpid()} if workers == 1 else os.getpid() not in processes


def test_few_items_need_no_processes():
    assert {process for _, process in in_order(square, list(range(8)), 4)} == {os.getpid()}


class Counted:
    """A sequence that knows how far it was read, by whichever process."""

    def __init__(self, size):
        self.size, self._read = size, multiprocessing.Value("i")

    @property
    def read(self):
        return self._read.value

    def __len__(self):
        return self.size

    def __getitem__(self, part):
        with self._read:
            self._read.value = max(self.read, min(part.stop, self.size))
        return range(self.size)[part]


def test_a_bounded_number_of_items_is_under_way():
    items = Counted(10_000)
    results = in_order(square, items, 2)
    next(results)
    time.sleep(0.2)  # they could read on now
    assert 8 < items.read <= (2 * AHEAD + 1) * 8
    results.close()


def test_an_exception_reaches_the_caller_and_so_does_a_death():
    with pytest.raises(ZeroDivisionError, match="forty"):
        list(in_order(fail, list(range(200)), 2))
    with pytest.raises(SkelbenchError, match="worker process ended unexpectedly.*on 40 to 47,.*fewer --workers"):
        list(in_order(die, list(range(200)), 2))


def die_once(item):
    i, mark = item
    if i == 40 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return i


def test_what_a_killed_process_worked_on_is_done_again(tmp_path):
    items = [(i, tmp_path / "died") for i in range(200)]
    assert list(in_order(die_once, items, 2)) == list(range(200)) and (tmp_path / "died").exists()


class Unpicklable(Exception):
    def __reduce__(self):
        raise TypeError("not to be sent")


def fail_oddly(i):
    if i == 40:
        raise Unpicklable("forty")
    return (lambda: i) if i == 100 else i


def test_what_cannot_be_sent_is_an_exception_as_well():
    with pytest.raises(Exception, match="Unpicklable.*forty"):
        list(in_order(fail_oddly, list(range(80)), 2))
    with pytest.raises(Exception, match="lambda"):
        list(in_order(fail_oddly, list(range(80, 200)), 2))


def test_workers_do_not_outlive_a_killed_parent():
    code = """
        import sys, time
        from skelbench.data.raw.parallel import in_order
        from test_parallel import square
        for _, process in in_order(square, list(range(10_000)), 2):
            print(process, flush=True)
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    processes = {int(parent.stdout.readline()) for _ in range(24)}
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 20
    while any(os.path.exists(f"/proc/{process}") for process in processes) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(processes) == 2 and not any(os.path.exists(f"/proc/{process}") for process in processes)


def test_a_second_interrupt_waits_for_the_processes_to_end():
    """The first one comes from the work, the second while the processes are being ended."""
    code = """
        import os, signal, sys, threading, time
        from contextlib import closing
        from multiprocessing.process import BaseProcess
        from skelbench.data.raw.parallel import in_order
        from test_parallel import square
        kill, ended = BaseProcess.kill, []
        def interrupted(self):
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
            kill(self)
            ended.append(True)
        BaseProcess.kill = interrupted
        try:
            with closing(in_order(square, list(range(10_000)), 2)) as results:
                for _, process in results:
                    print(process, flush=True)
                    if _ == 100:
                        raise KeyboardInterrupt
        except KeyboardInterrupt:
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
            sys.exit(7 if len(ended) == 2 else "the shutdown was broken off")
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, env=ENVIRONMENT)
    assert ended.returncode == 7 and not ended.stderr
    assert not any(os.path.exists(f"/proc/{process}") for process in ended.stdout.split())
