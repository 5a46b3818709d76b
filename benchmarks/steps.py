"""Training steps of this checkout, compared with another one: seconds, losses, memory, fraction of the GEMM peak.

    python -m benchmarks.steps [--cases slim:quick,slim:small,mamp:native] [--against CHECKOUT] [--original MAMP]

A case is ``method:preset`` or ``method:preset:clips`` with another number of clips in a step; a preset ``native`` is
the method's own setting on all body slots at 8 clips, T = 120. Every checkout runs in a process of its own; in every
round each does one step of the same case, in swapped order from round to round, so that other load affects all in the
same way. Ratios are medians over rounds, of wall time and of CPU time. ``loss`` is the largest difference
between the losses of the rounds relative to their size (the clips and draws are the same). ``peak`` is the largest
resident size of the process. ``of GEMM peak`` is the counted FLOPs of forward and backward pass over the CPU time of
the step without views, as a share of what a product of two 2048 x 2048 float32 matrices reaches between the rounds on
the same threads. If the presets of the two checkouts differ, options like ``--set method.head_hidden=128`` give both
the same work.

``--original``: a checkout of maoyunyao/MAMP; its model (8 + 5 blocks), loss, backward pass and AdamW on as many bodies
as in ``mamp:native``, without loading data; our steps are then timed without views.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent.parent
WARM = 2


def peak_flops(size: int = 2048) -> float:
    """FLOP/s of a large float32 product, the best of a few, by CPU time of one thread."""
    import torch

    a = torch.ones(size, size)
    best = min(_clocked(lambda: a @ a)[1] for _ in range(3))
    return 2 * size**3 / best


def _clocked(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Wall seconds, CPU seconds and what ``work`` returns."""
    wall, cpu = time.perf_counter(), time.process_time()
    out = work()
    return time.perf_counter() - wall, time.process_time() - cpu, out


def trainer_of(case: str, folder: Path, sets: dict[str, Any]) -> Any:
    """A trainer of the case on the synthetic data, with the settings ``sets`` changed."""
    from skelbench.data.store.roots import data_root
    from skelbench.pipeline.request import Request
    from skelbench.pipeline.resolve import resolve
    from skelbench.plugin.host import get_host
    from skelbench.records.run_dir import RunDir
    from skelbench.training.build import build_method
    from skelbench.training.loop import Trainer

    method, preset, *clips = case.split(":")
    batch = int(clips[0]) if clips else None
    if preset == "native":
        given: dict[str, Any] = {"preset": "paper", "native": True}
        sets, batch = {"train.bodies": "all-slots"} | sets, batch or 8
    else:
        given = {"preset": preset}
    host = get_host()
    run = resolve(Request(method=method, batch_size=batch, sets=sets, **given), host, data_root(), "cpu")
    module = build_method(run.spec, host, run.store.topology, "cpu")
    module.train()
    return Trainer(run.spec, module, run.store, RunDir(folder), "cpu")


def ours(case: str, folder: Path, sets: dict[str, Any]) -> Callable[[int], dict[str, float]]:
    """A function that does one step and says what it took."""
    from skelbench.evaluation.cost.meta import countable

    training = trainer_of(case, folder, sets)
    first = training.views(0)
    with countable() as counter, counter:
        training.train_step(0, first)
    per_body = counter.get_total_flops() / _bodies(first)  # absent ones may be left out: steps are of other numbers

    def step(number: int) -> dict[str, float]:
        views_wall, views_cpu, views = _clocked(lambda: training.views(number))
        wall, cpu, out = _clocked(lambda: training.train_step(number, views))
        found = {"wall": wall, "cpu": cpu, "views_wall": views_wall, "views_cpu": views_cpu, "loss": float(out["loss"])}
        return found | {"clips": training.spec.train.batch_size, "flops": per_body * _bodies(views)}

    return step


def _bodies(views: Any) -> int:
    """Number of bodies in all views of a step."""
    return sum(view.x_RTJC.shape[0] for view in views.values())


def original(checkout: Path) -> Callable[[int], dict[str, float]]:
    """The same of MAMP's public code: 8 clips of 2 body slots, 120 frames, 25 joints."""
    sys.path.insert(0, str(checkout))
    import torch
    from model_mamp.transformer import Transformer  # type: ignore[import-not-found]

    torch.manual_seed(0)
    model = Transformer(dim_in=3, depth=8, decoder_depth=5, num_frames=120, t_patch_size=4, norm_skes_loss=True)
    model.train()
    decayed = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95))
    x_NCTVM = torch.randn(8, 3, 120, 25, 2)

    def work() -> float:
        loss, _, _ = model(x_NCTVM, mask_ratio=0.9, motion_stride=1, motion_aware_tau=0.8)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    def step(number: int) -> dict[str, float]:
        wall, cpu, loss = _clocked(work)
        return {"wall": wall, "cpu": cpu, "views_wall": 0.0, "views_cpu": 0.0, "loss": loss, "clips": 8, "flops": 0.0}

    return step


def serve(case: str, checkout: str, sets: str) -> None:
    """One step for every line of the standard input; a line of JSON for each."""
    with tempfile.TemporaryDirectory() as folder:
        step = original(Path(checkout)) if case == "original" else ours(case, Path(folder), json.loads(sets))
        for line in sys.stdin:
            if line.strip() == "peak":
                answer = {"peak": peak_flops()}
            else:
                answer = step(int(line)) | {"mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
            print("=" + json.dumps(answer), flush=True)


class Server:
    """A process that does steps of one case with one checkout."""

    def __init__(self, case: str, checkout: Path, folder: Path, sets: str) -> None:
        paths = [] if case == "original" else [str(checkout), str(folder)]
        if paths and not (folder / "skelbench_plugins").exists():  # as an installation has them
            (folder / "skelbench_plugins").symlink_to(checkout / "plugins", target_is_directory=True)
        command = [sys.executable, "-P", __file__, "--serve", case, str(checkout), sets]
        env = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

    def ask(self, what: str) -> dict[str, float]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("="):
                return dict(json.loads(line[1:]))
        raise SystemExit("a step failed, see above")

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


@contextmanager
def servers(wanted: dict[str, tuple[str, Path]], sets: str) -> Iterator[dict[str, Server]]:
    """One for every name: (case, checkout)."""
    with ExitStack() as stack:
        started = {}
        for name, (case, checkout) in wanted.items():
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            started[name] = Server(case, checkout, folder, sets)
            stack.callback(started[name].stop)
        yield started


def compare(case: str, wanted: dict[str, tuple[str, Path]], rounds: int, sets: str) -> None:
    """Print what a case takes with each, and the ratios to the first."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in wanted}
    peaks: list[float] = []
    with servers(wanted, sets) as started:
        for number in range(WARM + rounds):
            for name in list(started) if number % 2 else list(started)[::-1]:
                found[name].append(started[name].ask(str(number)))
            peaks.append(started["ours"].ask("peak")["peak"])
    views = "original" not in wanted
    first: dict[str, list[float]] = {}
    for name, steps in found.items():
        kept = steps[WARM:]
        seconds = {clock: [each[clock] + views * each[f"views_{clock}"] for each in kept] for clock in ("wall", "cpu")}
        line = f"{case:14s} {name:9s} {kept[0]['clips'] / median(seconds['wall']):8.2f} clips/s"
        line += f"  CPU {1e3 * median(seconds['cpu']):8.1f} ms a step (least {1e3 * min(seconds['cpu']):.1f})"
        line += f"  peak {max(each['mb'] for each in steps):5.0f} MB"
        if kept[0]["flops"]:
            reached = median(each["flops"] / each["cpu"] for each in kept) / median(peaks)
            flops = median(each["flops"] for each in kept)
            line += f"  {flops / 1e9:.2f} GFLOP, {reached:.2f} of GEMM peak ({median(peaks) / 1e9:.0f} GFLOP/s)"
        if first:
            for clock, label in (("wall", "wall time"), ("cpu", "CPU time")):
                line += f"  {label} {median(b / a for a, b in zip(first[clock], seconds[clock])):.2f} times ours"
            if name != "original":
                pairs = zip(found["ours"], steps)
                line += f"  loss {max(abs(a['loss'] - b['loss']) / abs(b['loss']) for a, b in pairs):.1e}"
        else:
            first = seconds
        print(line, flush=True)


def main() -> None:
    """Compare every case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="slim:quick,slim:small,mamp:small")
    parser.add_argument("--against", type=Path, help="another checkout of this repository")
    parser.add_argument("--original", type=Path, help="a checkout of maoyunyao/MAMP, for mamp:native")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=JSON", help="a setting of every checkout's")
    parser.add_argument("--serve", nargs=3, metavar=("CASE", "CHECKOUT", "SETS"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        return serve(*args.serve)
    sets = json.dumps({key: json.loads(value) for key, value in (each.split("=", 1) for each in args.set)})
    for case in args.cases.split(","):
        wanted = {"ours": (case, HERE)}
        if args.against:
            wanted["before"] = (case, args.against.resolve())
        if args.original and case == "mamp:native":
            wanted["original"] = ("original", args.original.resolve())
        compare(case, wanted, args.rounds, sets)


if __name__ == "__main__":
    main()
