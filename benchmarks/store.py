"""Seconds of commands over a results directory of many runs.

``python -m benchmarks.store --runs 10000`` makes the runs in a temporary folder, of nine methods, three token grids and
five seeds, most of them with a changed setting as in a sweep; each has two evaluations of 40 clips. Every command is a
process of its own; its CPU time is printed in parentheses.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from itertools import count, islice, product
from pathlib import Path

import numpy as np

from tests.fabricated import Fabricated

METHODS = ("slim", "skeletonmae", "mamp", "dino", "feature-mse", "skeletonclr", "aimclr", "cmd", "untrained")
COMMANDS = (("runs", "list"), ("compare",), ("compare", "--all"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--store", type=Path, help="a results directory that is there already")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="store-") as folder:
        store = args.store or Path(folder) / "results"
        if not args.store:
            make(store, args.runs)
        print(f"{sum(1 for _ in store.iterdir()):,} runs; seconds (CPU seconds), load {os.getloadavg()[0]:.1f}")
        for command in COMMANDS:
            passed, worked = seconds(command, store)
            print(f"  {' '.join(command):<14} {passed:7.2f} ({worked:7.2f})", flush=True)


def make(root: Path, runs: int) -> None:
    """The runs; those of the presets first, then one changed setting after the other."""
    made, rng = Fabricated(root), np.random.default_rng(0)
    wanted = ((turn, *cell) for turn in count() for cell in product(METHODS, (8, 15, 30), range(5)))
    trained = (cell for cell in wanted if not cell[0] or cell[1] != "untrained")
    for turn, method, tokens, seed in islice(trained, runs):
        lr = round(1e-4 * (1 + turn), 6)
        changed = {"train.lr": lr} if turn else None
        right, knn = rng.uniform(0.3, 0.9, 2).tolist()
        made.run(method, right, seed=seed, tokens=tokens, knn=knn, modified=changed, lr=lr)


def seconds(command: tuple[str, ...], store: Path) -> tuple[float, float]:
    """That pass, and of the processor."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "skelbench", *command, "--results", str(store)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    passed, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return passed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
