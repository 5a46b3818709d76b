import os
import signal
import time

from .isolated import run_all

CASES = {
    0: lambda: "fine",
    1: lambda: 1 / 0,
    2: lambda: os.kill(os.getpid(), signal.SIGUSR1),
    3: lambda: time.sleep(100),
    4: lambda: [0] * (1 << 30),
    5: lambda: endless(),
    6: lambda: "fine",
}


def endless():
    while True:
        try:
            while True:
                pass
        except Exception:
            continue


def test_errors_crashes_hangs_and_greed_fall_and_the_rest_goes_on():
    found = {outcome.case: outcome for outcome in run_all(range(7), lambda case: CASES[case](), 0.1, 1 << 30)}
    assert {case for case, outcome in found.items() if not outcome.fall} == {0, 6}
    assert found[0].value == found[6].value == "fine"
    falls = (
        "ZeroDivisionError: division by zero (test_isolated.py:",
        "its process ended by SIGUSR1",
        "Late",
        "MemoryError",
        "Late",
    )
    for case, fall in enumerate(falls, 1):
        assert found[case].fall.startswith(fall), found[case]


def test_quiet_values_are_counted():
    found = list(run_all(range(1001), lambda case: case % 2 == 0, 5, 1 << 30, quiet=lambda even: even))
    assert sum(-outcome.case for outcome in found if outcome.value) == 501
    assert [outcome.case for outcome in found if outcome.value is False] == list(range(1, 1001, 2))
