"""Speed of reading clips from a memory map, and of making views from them.

    python -m benchmarks.loading [--clips 10000] [--original PATH]

First batch: a fresh process opens a store of ``--clips`` clips and makes a batch of 128 views; time of imports and time
after them. Once with the store's pages dropped from the page cache, once with the pages in it (other caches of the file
system are not controlled). Views: crop, resize to 120 frames, rotation, as in MAMP's feeder, one thread, batches of 128
clips drawn at random. "bodies present" makes views of present bodies, as in training; "all slots" also of empty second
bodies, which the original's arrays contain. ``--original`` is a checkout of MAMP: its feeder runs on the first 1,000 of
the same clips, in turn with ours, for the ratio (median and range over rounds).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import torch

from skelbench.core.spec import Bodies
from skelbench.data.store.clip_store import ClipStore
from skelbench.data.store.source import ClipSource
from skelbench.data.store.splits import RandomRule
from skelbench.data.store.writer import StoreWriter
from skelbench.views.augmentations import Rotate
from skelbench.views.builder import ViewBuilder
from skelbench.views.crops import Free
from skelbench.views.keyed import Keyed
from skelbench.views.skeleton.topology import NTU25
from skelbench.views.spec import ViewSpec

BATCH, FRAMES, LONGEST = 128, 120, 300
TURN = float(np.rad2deg(0.3))
VIEW = ViewSpec(
    frames=FRAMES,
    crop=Free(lo=0.5, hi=1.0, whole_frames=True, min_frames=64),
    augment=(Rotate(p=1.0, vertical_deg=TURN, tilt_deg=TURN),),
    resize="half-pixel",
)
ORIGINAL_CLIPS = 1000


def make_store(path: Path, clips: int) -> None:
    """Make a store of clips of 40 to 130 frames (85 on average, as in NTU-60), every fourth with a second body."""
    rng = np.random.default_rng(0)
    noise_MTJC = 0.3 * rng.standard_normal((2, 1000, 25, 3)).astype(np.float32)
    with StoreWriter(
        path, topology=NTU25, classes=("a", "b"), splits={"random": RandomRule(test=0.5)}, default_split="random",
        lineage="made for a benchmark",
    ) as writer:  # fmt: skip
        for clip in range(clips):
            length, start = int(rng.integers(40, 131)), int(rng.integers(0, 800))
            writer.add(noise_MTJC[: 1 + (clip % 4 == 0), start : start + length], clip % 2)


def first_batch(path: Path) -> float:
    """Seconds from the end of imports to a batch of views."""
    begin = time.perf_counter()
    store = ClipStore.open(path)
    ids = np.random.default_rng(1).integers(0, len(store), BATCH)
    ViewBuilder({"clip": VIEW}, store.topology, patch=4)(ClipSource(store).gather(ids), Keyed(0, 0))
    return time.perf_counter() - begin


def drop_pages(path: Path) -> None:
    """Take a file's pages out of the page cache."""
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def ours(path: Path, bodies: Bodies, clips: int) -> Callable[[int], float]:
    """Return a function that makes a number of batches and returns clips per second."""
    store = ClipStore.open(path)
    source, builder = ClipSource(store), ViewBuilder({"clip": VIEW}, store.topology, patch=4, bodies=bodies)
    return timed(clips, lambda step, ids: builder(source.gather(ids), Keyed(0, step)))


def timed(clips: int, make: Callable[[int, np.ndarray], object]) -> Callable[[int], float]:
    """Return a function that makes a number of batches of random clips and returns clips per second."""
    rng = np.random.default_rng(2)

    def run(batches: int) -> float:
        drawn = [rng.integers(0, clips, BATCH) for _ in range(batches)]
        begin = time.perf_counter()
        for step, ids in enumerate(drawn):
            make(step, ids)
        return batches * BATCH / (time.perf_counter() - begin)

    return run


def original(checkout: Path, path: Path, work: Path) -> Callable[[int], float]:
    """Return this function for MAMP's feeder, on the padded array that its scripts make from the same clips."""
    store = ClipStore.open(path)
    x = np.zeros((ORIGINAL_CLIPS, LONGEST, 2, 25, 3), dtype=np.float32)
    for clip in range(ORIGINAL_CLIPS):
        for body, x_TJC in enumerate(store.clip(clip)):
            x[clip, : len(x_TJC), body] = x_TJC
    y = np.eye(2)[store.labels[:ORIGINAL_CLIPS]]
    np.savez(work / "padded.npz", x_train=x.reshape(ORIGINAL_CLIPS, LONGEST, 150), y_train=y)
    sys.path.insert(0, str(checkout))
    from feeder.feeder_ntu import Feeder

    # int(array of one number), which its crop needs, is an error in NumPy 2.4: it gets the number.
    vars(np.random)["rand"] = lambda *_: np.random.random()
    feeder = Feeder(str(work / "padded.npz"), p_interval=[0.5, 1], window_size=FRAMES, random_rot=True, use_mmap=False)
    return timed(ORIGINAL_CLIPS, lambda _, ids: np.stack([np.asarray(feeder[i][0]) for i in ids.tolist()]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=10_000)
    parser.add_argument("--original", type=Path, help="a checkout of MAMP")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--first-batch", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.first_batch:
        print(first_batch(arguments.first_batch))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made"
        make_store(path, arguments.clips)
        size = sum(file.stat().st_size for file in path.iterdir())
        print(f"{arguments.clips:,} clips, {size / 2**20:,.0f} MiB; torch {torch.__version__}, one thread")
        for cached in (False, True):
            for file in () if cached else path.iterdir():
                drop_pages(file)
            begin = time.perf_counter()
            command = [sys.executable, "-m", "benchmarks.loading", "--first-batch", str(path)]
            seconds = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            whole = time.perf_counter() - begin
            where = "in the page cache" if cached else "dropped from the page cache"
            print(f"first batch, store {where}: {seconds:.3f} s (limit 1); start, imports: {whole - seconds:.1f} s")

        runs = {"bodies present": ours(path, "valid", arguments.clips)}
        runs["all slots"] = ours(path, "all-slots", arguments.clips)
        batches = dict.fromkeys(runs, 40)
        if arguments.original:
            runs["original feeder"] = original(arguments.original, path, Path(folder))
            batches["original feeder"] = 3
        speeds: dict[str, list[float]] = {name: [] for name in runs}
        for run in runs.values():
            run(2)
        for _ in range(arguments.rounds):
            for name, run in runs.items():
                speeds[name].append(run(batches[name]))
        for name, each in speeds.items():
            line = f"views, {name}: {median(each):,.0f} clips/s ({min(each):,.0f} to {max(each):,.0f})"
            if arguments.original and name != "original feeder":
                ratios = [a / b for a, b in zip(each, speeds["original feeder"])]
                line += f", {median(ratios):.1f} times the original ({min(ratios):.1f} to {max(ratios):.1f})"
            print(line + ("" if name == "original feeder" else "; limit 20,000"))


if __name__ == "__main__":
    main()
