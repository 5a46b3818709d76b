"""Signals that ask to stop."""

import os
import signal
import time

import pytest

from skelbench.core.signals import stop_requested, warnings_heeded


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_sets_the_event_and_handlers_are_restored(number):
    before = signal.default_int_handler
    outer = signal.signal(number, before)  # nohup and background shells ignore some signals
    try:
        with stop_requested() as stop:
            assert not stop.is_set()
            os.kill(os.getpid(), number)
            assert stop.is_set() and signal.getsignal(number) == before
        assert signal.getsignal(number) == before
    finally:
        signal.signal(number, outer)


def test_a_second_interrupt_does_not_wait():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background process ignores it
    with pytest.raises(KeyboardInterrupt), stop_requested() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        stop.wait()
        os.kill(os.getpid(), signal.SIGINT)
        while True:  # until the second signal is handled
            time.sleep(0.01)
    signal.signal(signal.SIGINT, before)


def test_in_a_distributed_run_a_later_signal_changes_nothing(monkeypatch):
    """torchrun repeats the signals of the terminal."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.setenv("WORLD_SIZE", "2")
    try:
        with stop_requested() as stop:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            assert stop.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_warning_may_come_twice():
    before = signal.getsignal(signal.SIGUSR2)
    with warnings_heeded() as warned, stop_requested() as stop:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGUSR2)
        assert stop.is_set() and warned.is_set()
    with pytest.raises(KeyboardInterrupt), warnings_heeded() as warned:
        try:
            os.kill(os.getpid(), signal.SIGUSR2)
        finally:
            os.kill(os.getpid(), signal.SIGUSR2)  # while the state is saved
    assert warned.is_set() and signal.getsignal(signal.SIGUSR2) == before
