"""Time of evaluations: each protocol on finished runs, in seconds, with the fraction outside the encoder.

    python -m benchmarks.evaluation RUN [RUN ...] [--protocols linear,knn] [--dataset OTHER] [--set KEY=VALUE] [--keep]

Inside the encoder are its forward passes and all backward passes (including a classifier trained with it). Outside are
reading clips, making views, pooling, probes, optimizers and statistics. Seconds are wall time; a GPU is synchronized
before and after every pass. Features are extracted again for every protocol. Records are written to a temporary
folder; with --keep they become records of the run.
"""

from __future__ import annotations

import argparse
import csv
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from skelbench.api.evaluations import evaluate_runs
from skelbench.evaluation.cost.latency import wait_for
from skelbench.models.encoder import Encoder
from skelbench.pipeline.request import EvaluationRequest
from skelbench.pipeline.session import open_session
from skelbench.records.store import ResultStore


class Clock:
    """Seconds in forward passes of encoders and in backward passes."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.seconds, self.inside = device, 0.0, False

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if self.inside:  # an encoder made of encoders counts once
                return function(*args, **options)
            wait_for(self.device)
            began, self.inside = time.perf_counter(), True
            try:
                return function(*args, **options)
            finally:
                wait_for(self.device)
                self.seconds, self.inside = self.seconds + time.perf_counter() - began, False

        return call


@contextmanager
def clocked(device: torch.device) -> Iterator[Clock]:
    """A clock of all encoders until the block ends."""
    clock, call, backward = Clock(device), Encoder.__call__, torch.Tensor.backward
    Encoder.__call__ = clock.timed(call)  # type: ignore[method-assign]
    torch.Tensor.backward = clock.timed(backward)  # type: ignore[method-assign]
    try:
        yield clock
    finally:
        Encoder.__call__, torch.Tensor.backward = call, backward  # type: ignore[method-assign]


def main() -> int:
    """Print, and write, a row per run and protocol."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("--protocols", default="linear,knn")
    parser.add_argument("--dataset", help="another one, for protocols that need it")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="settings of the protocols")
    parser.add_argument("--keep", action="store_true", help="the records are written into the runs")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--device")
    parser.add_argument("--csv", type=Path)
    typed = parser.parse_args()
    session = open_session(typed.results, None, typed.device)
    rows = []
    with tempfile.TemporaryDirectory(prefix="skelbench-evaluation-") as folder:
        for pattern in typed.runs:
            run, checkpoint = session.results.find(pattern)
            copy = Path(folder) / run.name
            shutil.copytree(run.path, copy, ignore=shutil.ignore_patterns("eval*", ".probe.lock"))
            own = replace(session, results=ResultStore(Path(folder)), features={})
            (found, _) = own.results.find(run.spec.id)
            for protocol in typed.protocols.split(","):
                own.features.clear()
                began = time.perf_counter()
                with clocked(torch.device(session.device)) as clock:
                    asked = EvaluationRequest(sets=typed.set, dataset=typed.dataset)
                    (record,) = evaluate_runs(own, [(found, checkpoint)], [protocol], asked)
                whole = time.perf_counter() - began
                if typed.keep:
                    for end in ("npz", "json"):  # a record is there when its predictions are
                        shutil.copy2(copy / f"eval-{record['id']}.{end}", run.path)
                metrics = record["metrics"]
                outside = 1 - clock.seconds / whole
                rows.append((run.title, protocol, metrics["accuracy"], metrics.get("accuracy_sd", ""), whole, outside))
                print(f"{run.title:24} {protocol:24} {metrics['accuracy']:6.1%} {whole:8.1f} s {outside:6.1%} outside")
    if typed.csv:
        with typed.csv.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("method", "protocol", "accuracy", "accuracy_sd", "seconds", "share_outside_encoder"))
            writer.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
