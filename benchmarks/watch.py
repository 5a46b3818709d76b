"""Cost of diagnostics: diagnostic steps compared with other steps.

    python -m benchmarks.watch [--methods slim,mamp] [--presets quick,small] [--rounds 40] [--batch N] [--device cpu]

One process; every round makes one step of each kind on the same clips, in swapped order from round to round. The cost
is the median difference over rounds, in seconds, and as a fraction of the steps between two diagnostic steps. Seconds
are CPU time of this process (set OMP_NUM_THREADS=1); on a GPU wall time, with synchronization. ``--batch`` shrinks the
step, but diagnostics only below 1,024 rows, because larger batches are sampled: the fraction is then too high.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from skelbench.data.store.roots import data_root
from skelbench.evaluation.cost.latency import wait_for
from skelbench.pipeline.request import Request
from skelbench.pipeline.resolve import resolve
from skelbench.plugin.host import get_host
from skelbench.records.run_dir import RunDir
from skelbench.training.build import build_method
from skelbench.training.loop import Trainer

LIMIT = 0.01


def trainer_of(method: str, preset: str, batch: int | None, device: str, folder: Path) -> Trainer:
    """A trainer of the preset's run on the synthetic data; ``batch`` replaces the clips of a step, not their number."""
    host = get_host()
    run = resolve(Request(method=method, preset=preset, batch_size=batch), host, data_root(), device)
    module = build_method(run.spec, host, run.store.topology, device)
    module.train()
    return Trainer(run.spec, module, run.store, RunDir(folder), device)


def seconds(training: Trainer, step: int, look: bool) -> float:
    """Return the seconds of one step, with or without diagnostics."""
    views = training.views(step)
    # Number of steps made: diagnostics are due after the first one, but not after the one that follows an interval.
    done = 1 if look else training.diagnostics.interval + 1
    clock = time.process_time if training.device.type == "cpu" else time.perf_counter
    wait_for(training.device)
    began = clock()
    with training.diagnostics.record_step(done):
        training.train_step(step, views)
    wait_for(training.device)
    return clock() - began


def compare(method: str, preset: str, args: argparse.Namespace) -> bool:
    """Print one line; return whether the fraction keeps the limit."""
    with tempfile.TemporaryDirectory() as folder:
        training = trainer_of(method, preset, args.batch, args.device, Path(folder))
        # The interval of the preset's own batch: steps with as many clips as between its diagnostics.
        whole = training if args.batch is None else trainer_of(method, preset, None, args.device, Path(folder))
        for look in (True, False):
            seconds(training, 0, look)
        plain: list[float] = []
        looked: list[float] = []
        for step in range(1, args.rounds + 1):
            for look in (True, False) if step % 2 else (False, True):
                (looked if look else plain).append(seconds(training, step, look))
    more, step_s, interval = median(b - a for a, b in zip(plain, looked)), median(plain), whole.diagnostics.interval
    share = more / (interval * step_s)
    print(
        f"{method:12s} {preset:6s} batch {training.spec.train.batch_size:3d}  step {1e3 * step_s:9.1f} ms  "
        f"look {1e3 * more:+8.2f} ms ({more / step_s:+.2%} of a step)  every {interval} steps of {whole.total}: "
        f"{share:+.3%} of the training (limit {LIMIT:.0%})  {'ok' if share <= LIMIT else 'MISSED'}",
        flush=True,
    )
    return share <= LIMIT


def main() -> int:
    """Measure every method at every preset."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default="slim,mamp")
    parser.add_argument("--presets", default="quick,small")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--batch", type=int, help="clips per step instead of the preset's, for large presets")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    cases = [(method, preset) for preset in args.presets.split(",") for method in args.methods.split(",")]
    return 0 if all([compare(method, preset, args) for method, preset in cases]) else 1


if __name__ == "__main__":
    sys.exit(main())
