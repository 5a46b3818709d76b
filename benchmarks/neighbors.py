"""Cost of nearest neighbors and rankings: seconds and memory of the protocols that compare all clips with all.

    python -m benchmarks.neighbors [--queries 2000] [--gallery 114000] [--width 256] [--device cpu]

Synthetic features of 120 classes; each protocol in a process of its own, on one thread. Memory is the peak of the
process above its size after reading the features (on a GPU: peak of torch's allocations, features included); the limit
is for a CPU. Seconds are CPU time, on a GPU wall time; they grow with the number of queries, memory does not.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import time
from typing import Any

import numpy as np
import torch

from skelbench.evaluation.protocol import Features
from skelbench.plugin.host import get_host

PROTOCOLS = ("knn", "knn@20", "retrieval")
CLASSES = 120
LIMIT = 2**30


def made(queries: int, gallery: int, width: int) -> Features:
    """Make features of overlapping Gaussian classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, gallery + queries)
    center_CD = rng.standard_normal((CLASSES, width), dtype=np.float32)
    x = rng.standard_normal((gallery + queries, width), dtype=np.float32)
    for row, label in enumerate(y):
        x[row] += 0.2 * center_CD[label]
    ids = np.arange(gallery + queries)
    return Features(x[:gallery], y[:gallery], x[gallery:], y[gallery:], ids[:gallery], ids[gallery:], CLASSES)


def resident() -> int:
    """Bytes of this process in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def measure(name: str, sizes: tuple[int, int, int], device: str) -> tuple[float, int, float]:
    """Seconds, bytes, accuracy."""
    torch.set_num_threads(1)
    features = made(*sizes)
    host = get_host()
    protocol: Any = host.load(host.get("protocols", name))()
    before, clock = resident(), time.process_time if device == "cpu" else time.perf_counter
    began = clock()
    accuracy = protocol.evaluate(features, 0, device).metrics["accuracy"]
    seconds = clock() - began
    if device != "cpu":
        return seconds, torch.cuda.max_memory_allocated(), accuracy
    return seconds, 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, accuracy


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--gallery", type=int, default=114_000)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--device", default="cpu")
    asked = parser.parse_args()
    sizes = asked.queries, asked.gallery, asked.width
    worst = 0
    for name in PROTOCOLS:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            seconds, memory, accuracy = pool.apply(measure, (name, sizes, asked.device))
        worst = max(worst, memory)
        pace = asked.queries / seconds
        print(f"{name:10} {seconds:7.1f} s  {pace:7.0f} queries/s  {memory / 2**20:6.0f} MiB  accuracy {accuracy:.3f}")
    return int(asked.device == "cpu" and worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
