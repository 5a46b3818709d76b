"""Effect of the number of threads on idle and on busy cores: steps of a training and of a linear probe.

    python -m benchmarks.threads [--methods slim,mamp] [--preset quick] [--busy 0,1]

One process; every round tries each number of threads, so that other load affects all in the same way. ``--busy``:
number of other processes that keep one core busy each. Steps a second are the median of rounds, printed next to three
choices of :func:`skelbench.core.threads.fastest_threads`. For a probe (256 clips a step) the number of multiplications
of a product is printed: below ``skelbench.core.threads.TINY`` one thread computes it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.watch import trainer_of
from skelbench.core.threads import TINY, fastest_threads, usable_cores

ROUNDS = 7
WIDTHS = {96: 24, 512: 60, 1024: 60, 4096: 120}
"""Features and classes of the probes."""


@contextmanager
def others(count: int) -> Iterator[None]:
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def probe(width: int, classes: int) -> Callable[[], Any]:
    """Make twenty steps like the linear probe's: a product, a softmax, a product, AdamW."""
    x_bD, weight = torch.randn(256, width), torch.zeros(classes, width)
    optimizer = torch.optim.AdamW([weight], fused=True)

    def steps() -> None:
        for _ in range(20):
            weight.grad = (x_bD @ weight.T).softmax(1).T @ x_bD
            optimizer.step()

    return steps


def rates(work: Callable[[], Any], numbers: list[int], per_call: int) -> dict[int, float]:
    """Steps a second by number of threads."""
    seconds: dict[int, list[float]] = {number: [] for number in numbers}
    for _ in range(1 + ROUNDS):
        for number in numbers:
            torch.set_num_threads(number)
            began = time.perf_counter()
            work()
            seconds[number].append(time.perf_counter() - began)
    return {number: per_call / median(found[1:]) for number, found in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", default="slim,mamp")
    parser.add_argument("--preset", default="quick")
    parser.add_argument("--busy", default="0,1")
    args = parser.parse_args()
    numbers = sorted({1, *(usable_cores() >> shift for shift in range(8) if usable_cores() >> shift)})
    with tempfile.TemporaryDirectory() as folder:
        trials = {
            name: trainer_of(name, args.preset, None, "cpu", Path(folder)).trial() for name in args.methods.split(",")
        }
    print(f"{'busy':>5} {'work':32}" + "".join(f"{f'{n} thread' + 's' * (n > 1):>12}" for n in numbers) + "  chosen")
    for busy in map(int, args.busy.split(",")):
        with others(busy):
            for name, work in trials.items():
                found = rates(work, numbers, 1)
                chosen = []
                for _ in range(3):
                    torch.set_num_threads(numbers[-1])
                    chosen.append(fastest_threads(work))
                print(row(busy, f"{name}, preset {args.preset}", found), *chosen)
            for width, classes in WIDTHS.items():
                products = 256 * width * classes
                found = rates(probe(width, classes), numbers, 20)
                print(
                    row(busy, f"probe {width} x {classes} ({products / 1e6:.1f}M)", found), *([1] * (products < TINY))
                )


def row(busy: int, what: str, found: dict[int, float]) -> str:
    return f"{busy:5} {what:32}" + "".join(f"{rate:12.1f}" for rate in found.values()) + " "


if __name__ == "__main__":
    main()
