"""SIGKILL to worker processes at random moments: ``python -m tests.campaign.workers --count 300 --seed 1``.

Every trial works through the same items while one to three of its processes are killed. It ends with all results, or
with one sentence where one part was hit twice, within seconds; nothing else may happen.
"""

import argparse
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from skelbench.core.errors import SkelbenchError
from skelbench.data.raw.parallel import in_order

ITEMS = range(60)
PATIENCE_S = 10.0


class Hung(Exception):
    """No end within :data:`PATIENCE_S`."""


def make(i):
    """Takes up to a millisecond, of which much is sending: a worker is to be hit there as well."""
    draw = random.Random(i)
    time.sleep(draw.random() / 1000)
    return i, bytes(draw.randrange(300_000))


def children():
    """Processes of this one that live."""
    found = (Path("/proc/self/task") / str(os.getpid()) / "children").read_text().split()
    return [
        int(child) for child in found if Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    ]


def trial(draw):
    """How one ended, after how many kills."""
    moments = sorted(draw.random() * 0.08 for _ in range(draw.randint(1, 3)))
    moments = [after - before for before, after in zip([0.0, *moments], moments)]
    kills = 0

    def kill(*_):
        nonlocal kills
        if not moments:
            raise Hung
        if processes := children():
            os.kill(draw.choice(processes), signal.SIGKILL)
            moments.pop()
            kills += 1
        signal.setitimer(signal.ITIMER_REAL, 0.001 if not processes else moments[-1] if moments else PATIENCE_S)

    before = signal.signal(signal.SIGALRM, kill)
    signal.setitimer(signal.ITIMER_REAL, moments[-1])
    try:
        right = list(in_order(make, ITEMS, 3, chunk=4)) == EXPECTED
        return "whole" if right else "wrong results", kills
    except SkelbenchError as error:
        return "one sentence" if "ended unexpectedly" in str(error) else str(error), kills
    except Hung:
        return "hung", kills
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


EXPECTED = [make(i) for i in ITEMS]


def campaign(count, seed):
    """How trials ended, until ``count`` processes were killed, and how many were."""
    draw, ends, killed = random.Random(seed), Counter(), 0
    while killed < count:
        end, kills = trial(draw)
        ends[end] += 1
        killed += kills
        ends["left a process"] += bool(children())
    return +ends, killed


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    ended, killed = campaign(options.count, options.seed)
    print(f"{killed} processes killed in {sum(ended.values())} trials:", dict(ended))
    sys.exit(not ended.keys() <= {"whole", "one sentence"})
