"""Raw files to clips: files per second and memory, ours and the original's, in one run.

``python -m benchmarks.raw_pipeline --original CHECKOUT`` with a checkout of CTR-GCN or MAMP (with MAMP's also PKU-MMD);
without, ours alone. Every turn runs each of them once, so that all meet the same machine; the best of the turns counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.originals import run_ntu, run_pku, same_as_ntu, same_as_pku
from skelbench.core.threads import usable_cores
from skelbench.data.store.clip_store import ClipStore
from tests.made.ntu import link_recordings, make_recordings
from tests.made.pku import make_pku

WORKERS = (1, 2)
EXTENDED = {"setups": 32, "actions": 120, "performers": 106}
LINKS = 5
"""Times as many files, as hard links, to see whether memory grows with their number."""

# A separate process, to measure its memory; the time is from the call to the finished store.
_OURS = """
import json, resource, sys, time
from pathlib import Path
from skelbench.data.raw.ntu.prepare import prepare_ntu
from skelbench.data.raw.pku.prepare import prepare_pku
which, raw, root, workers = sys.argv[1:]
prepare = prepare_ntu if which.startswith("ntu") else prepare_pku
begin = time.perf_counter()
report = prepare(which, [Path(raw)], which, Path(root), workers=int(workers), overwrite=True)
seconds = time.perf_counter() - begin
assert not report.unexpected, report.unexpected
own = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024
worker = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
print(json.dumps({"seconds": seconds, "peak_mb": max(own, worker), "clips": report.clips}))
"""


def run_ours(which: str, raw: Path, root: Path, workers: int) -> dict[str, float]:
    """Seconds, clips, and the peak memory of the largest process."""
    command = [sys.executable, "-c", _OURS, which, str(raw), str(root), str(workers)]
    ended = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    return json.loads(ended.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--original", type=Path, help="checkout of CTR-GCN or MAMP")
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--which", choices=("ntu60", "ntu120"), default="ntu60", help="whose original scripts")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="raw-pipeline-") as folder:
        ntu(Path(folder), args.files, args.turns, args.original, args.which)
        pku_too = args.original and (args.original / "data" / "pku_v2").is_dir()
        pku(Path(folder), args.turns, args.original if pku_too else None)


def ntu(place: Path, files: int, turns: int, original: Path | None, which: str) -> None:
    """NTU RGB+D."""
    raw, root = place / "ntu", place / "data"
    written = make_recordings(raw, files, **(EXTENDED if which == "ntu120" else {}))
    load = f"{os.getloadavg()[0]:.1f} on {usable_cores()} cores"  # without idle ones the second process gains little
    print(f"{files:,} made recordings, {written / files / 1e3:.0f} KB each; best of {turns} turns; load {load}")
    best, peak, theirs = dict.fromkeys(WORKERS, float("inf")), dict.fromkeys(WORKERS, 0.0), float("inf")
    for _ in range(turns):
        for workers in WORKERS:
            result = run_ours(which, raw, root, workers)
            assert result["clips"] == files
            best[workers] = min(best[workers], result["seconds"])
            peak[workers] = max(peak[workers], result["peak_mb"])
        if original:
            steps = run_ntu(original, raw, place / "work", which)
            theirs = min(theirs, sum(step.seconds for step in steps.values()))
            their_peak = max(step.peak_mb for step in steps.values())
    for workers in WORKERS:
        line(f"prepare {which}, {workers} process(es)", files / best[workers], "files/s", peak[workers],
             theirs / best[workers] if original else None)  # fmt: skip
    print(f"  2 processes over 1: {best[1] / best[2]:.2f} times")
    if original:
        line("original scripts, all three", files / theirs, "files/s", their_peak, 1)
        same = same_as_ntu(ClipStore.open(root / which), place / "work" / "ntu", repeat=which == "ntu120")
        print(f"  equal bit for bit: {same:,} clips in the original's npz files")
    link_recordings(raw, place / "links", LINKS)
    for workers in WORKERS:
        result = run_ours("ntu60", place / "links", root, workers)
        line(f"{LINKS * files:,} files, {workers} process(es)", LINKS * files / result["seconds"], "files/s",
             result["peak_mb"])  # fmt: skip


def pku(place: Path, turns: int, original: Path | None) -> None:
    """PKU-MMD, phase II."""
    raw, root = place / "pku", place / "data"
    written = make_pku(raw, 2, 3)
    print(f"18 made videos, {written / 18 / 1e6:.2f} MB and 7 actions each")
    best, theirs = dict.fromkeys(WORKERS, float("inf")), float("inf")
    for _ in range(turns):
        for workers in WORKERS:
            result = run_ours("pku2", raw, root, workers)
            best[workers] = min(best[workers], result["seconds"])
        if original:
            theirs = min(theirs, run_pku(original, raw, place / "work").seconds)
    for workers in WORKERS:
        line(f"prepare pku2, {workers} process(es)", 18 / best[workers], "videos/s", None,
             theirs / best[workers] if original else None)  # fmt: skip
    if original:
        line("original script", 18 / theirs, "videos/s", None, 1)
        same = same_as_pku(ClipStore.open(root / "pku2"), place / "work")
        print(f"  equal bit for bit: {same:,} clips in the original's npz files")


def line(what: str, rate: float, unit: str, peak_mb: float | None = None, ratio: float | None = None) -> None:
    memory = f"{peak_mb:6.0f} MB at most in a process" if peak_mb else ""
    print(f"  {what:<36} {rate:8,.1f} {unit:<8} {f'{ratio:5.1f} x' if ratio else '':<8} {memory}".rstrip(), flush=True)


if __name__ == "__main__":
    main()
