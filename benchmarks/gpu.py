"""Checks and timings of skelbench on a machine with a GPU: one command of at most nine minutes, one JSON file.

    python -m benchmarks.gpu [--minutes 9] [--device cuda|cpu] [--size paper|quick] [--output gpu.json]
                             [--sections data,tests,peak,slim,...]

Each section is a process with a time limit: the synthetic data; the tests marked ``gpu``; the peak of the device's
matrix products; a training step of SLiM, MAMP, SkeletonMAE and DINO at the paper's size; then training and probes of
SLiM and SkeletonMAE in the remaining time. The JSON is written after each section, with results so far and the reason
if the section failed or took too long. A trace of a step of every method is written next to the JSON (chrome://tracing,
ui.perfetto.dev).

Values of a step: ``compile``, clips a second with ``train.compile`` off and auto, and the seconds of the first steps of
both; ``clips_per_s`` of steps as in training (auto), with views built ahead; ``of_peak``, FLOPs of its matrix products
a second as a fraction of the measured peak for bf16 products (on a CPU: float32); ``memory``, the most that PyTorch
allocated and reserved, and how often it had to free blocks; ``kernels``, their number and duration; ``shares``,
fractions of a step whose parts wait for the device one after another: views, heads (forward and backward), optimizer
with the teacher's moving average; ``flops_by_role``; ``host_syncs``, waits for the device, and where; ``blocks`` and
``blocks_trace``, speed and kernels with ``train.compile=blocks``. ``--device cpu --size quick`` runs a small version,
only to test the command.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from skelbench.core.errors import SkelbenchError
from skelbench.core.files import write_json
from skelbench.core.threads import usable_cores
from skelbench.data.store.roots import data_root
from skelbench.evaluation.cost import BODIES
from skelbench.evaluation.cost.latency import wait_for
from skelbench.evaluation.cost.report import step_cost
from skelbench.pipeline.budget import Budget
from skelbench.pipeline.evaluate import eval_spec, evaluate
from skelbench.pipeline.pretrain import pretrain
from skelbench.pipeline.request import Request
from skelbench.pipeline.resolve import Resolved, open_dataset, resolve
from skelbench.pipeline.session import Session, pick_device, prepare
from skelbench.plugin.host import get_host
from skelbench.records.environment import environment
from skelbench.records.run_dir import RunDir
from skelbench.records.store import ResultStore
from skelbench.training.build import build_method
from skelbench.training.compiled import compile_parts
from skelbench.training.loop import Trainer

STEPS = ("slim", "mamp", "skeletonmae", "dino")
RUNS = ("slim", "skeletonmae")
SECTIONS = ("data", "tests", "peak", *STEPS, *(f"{name}-run" for name in RUNS))
SHARES = {"data": 0.05, "tests": 0.3, "peak": 0.05, **dict.fromkeys(STEPS, 0.12), "slim": 0.22}
"""Largest fraction of the whole time that a section may take; the runs share the rest."""
WARM_STEPS, SYNC_STEPS, TIMED_SECONDS, PEAK_SECONDS = 3, 2, 10.0, 3.0
KERNELS = 20
TRAINED = 0.45
"""Fraction of a run's time for training; the rest is for loading, features and probes."""
ROOT = Path(__file__).parents[1]

Save = Callable[..., None]


@dataclass(frozen=True)
class Place:
    """Device and sizes of everything that is measured."""

    device: str
    size: str
    folder: Path
    traces: Path
    deadline: float
    """Seconds since the epoch at which the section is stopped."""
    peak: float | None = None
    """FLOPs a second of matrix products, once measured."""
    steps: dict[str, dict[str, Any]] | None = None
    """Results on a step of methods, filled section by section."""

    @property
    def left(self) -> float:
        """Seconds."""
        return self.deadline - time.time()

    def resolved(self, method: str, **settings: Any) -> Resolved:
        """The run of ``method`` on synthetic data."""
        request = Request(method, dataset="synthetic", tokens=8, preset=self.size, **settings)
        return resolve(request, get_host(), data_root(), torch.device(self.device).type)


# ------------------------------------------------------------------------------------------ sections
def data(place: Place, save: Save) -> None:
    store = open_dataset("synthetic", get_host(), data_root())
    save(clips=len(store.lengths))


def tests(place: Place, save: Save) -> None:
    workers = 0 if place.device == "cpu" else min(8, usable_cores() // 2)
    command = [sys.executable, "-m", "pytest", "-q", f"-n{workers}", "-m", "gpu", "--timeout=100", "--tb=short"]
    command += ["-p", "no:cacheprovider"]
    files = [str(path) for path in sorted((ROOT / "tests").rglob("test_*.py")) if "mark.gpu" in path.read_text()]
    place.traces.mkdir(parents=True, exist_ok=True)
    with (place.traces / "tests.txt").open("w+") as said:
        # It is stopped from here, since a section that is stopped cannot stop it any more.
        done = subprocess.run(
            [*command, *files], cwd=ROOT, timeout=place.left - 2, stdout=said, stderr=subprocess.STDOUT
        )
        said.seek(0)
        last = said.read().strip().splitlines()
    found = {what: int(number) for number, what in re.findall(r"(\d+) (\w+)", last[-1] if last else "")}
    save(exit_code=done.returncode, counts=found, tail=last[-30:] if done.returncode else last[-1:])


def peak(place: Place, save: Save) -> None:
    """Measure products of square matrices, the best of several sizes: the speed of kernels, not of a data sheet."""
    device = torch.device(place.device)
    sizes = (4096, 8192, 16384) if device.type == "cuda" else (512, 1024)
    for name, dtype in (("bf16", torch.bfloat16), ("fp32", torch.float32)):
        rates = {}
        for n in sizes if name == "bf16" or device.type == "cpu" else sizes[:2]:
            a, b = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
            rates[n] = (
                2 * n**3 / _least_seconds(partial(torch.matmul, a, b), device, most=min(PEAK_SECONDS, place.left / 8))
            )
        best = max(rates, key=lambda n: rates[n])
        save(**{name: {"flops_per_s": rates[best], "size": best, "by_size": rates}})


def step(place: Place, save: Save, method: str) -> None:
    """Measure steps of ``method`` as in training, and their parts."""
    resolved = place.resolved(method)
    spec, store, host = resolved.spec, resolved.store, get_host()
    counted = step_cost(spec, host, store.topology)
    trainer = _trainer(place, resolved)
    bodies = _bodies_per_clip(trainer)
    flops = counted["flops_per_clip"] * BODIES * bodies / counted["bodies_per_clip"]
    batch = spec.train.batch_size
    save(
        id=spec.id,
        batch_size=batch,
        precision=spec.train.precision,
        flops_per_clip=flops,
        bodies_per_clip=bodies,
        flops_by_role={role: sum(macs.values()) / counted["total"] for role, macs in _roles(counted).items()},
    )
    cuda = trainer.device.type == "cuda"
    if cuda:
        torch.cuda.reset_peak_memory_stats(trainer.device)
    rates: dict[str, float] = {}
    for how in ("off", "auto"):
        compiled, said = compile_parts(trainer.method, trainer.device, how)
        rate, steps, first = _clips_per_s(trainer, min(TIMED_SECONDS, place.left / 4))
        rates |= {how: rate, f"{how}_first_seconds": first}
        save(compile=rates, compiled=compiled, compile_said=said)
    save(clips_per_s=rate, steps=steps, flops_per_s=rate * flops)
    save(of_peak=rate * flops / place.peak if place.peak else None)
    if cuda:
        most = {"allocated": torch.cuda.max_memory_allocated, "reserved": torch.cuda.max_memory_reserved}
        retries = torch.cuda.memory_stats(trainer.device)["num_alloc_retries"]
        save(memory={name: int(read(trainer.device)) for name, read in most.items()} | {"retries": retries})
        save(host_syncs=_host_syncs(trainer))
    save(**_trace(trainer, place.traces / f"{method}.json.gz"))
    save(shares=_shares(trainer))
    if cuda:
        compile_parts(trainer.method, trainer.device, "blocks")
        rate, _, first = _clips_per_s(trainer, min(TIMED_SECONDS, place.left / 4))
        save(blocks={"clips_per_s": rate, "first_seconds": first})
        save(blocks_trace=_trace(trainer, place.traces / f"{method}-blocks.json.gz"))


def run(place: Place, save: Save, method: str) -> None:
    """Train on as many clips as the time allows, then probe the encoder and the untrained one twice each."""
    known = (place.steps or {}).get(method, {})
    if "clips_per_s" not in known:
        raise SkelbenchError(f"how fast {method} trains was not measured, so its run has no length")
    plain, left = place.resolved(method), place.left - known["compile"]["auto_first_seconds"]
    steps = max(2, int(TRAINED * left * known["clips_per_s"] / plain.spec.train.batch_size))
    resolved = place.resolved(method, budget=Budget("steps", float(steps)))
    session = Session(get_host(), ResultStore(place.folder / "results"), data_root(), place.device, _silent)
    made = pretrain(session, resolved)
    info = made.info
    save(id=made.spec.id, steps=info["steps"], clips=info["clips_seen"], train_seconds=info["train_seconds"])
    control = pretrain(session, place.resolved("untrained"))
    for protocol in ("knn", "linear"):
        for name, of in (("trained", made), ("untrained", control)):
            record = evaluate(session, of, eval_spec(session.host, of, protocol, like=made))
            save(**{f"{protocol}_{name}": record["metrics"]["accuracy"]})


# ------------------------------------------------------------------------------------------ what is measured
def _trainer(place: Place, resolved: Resolved) -> Trainer:
    method = build_method(resolved.spec, get_host(), resolved.store.topology, place.device).train()
    unused = RunDir(place.folder / "unused")
    return Trainer(resolved.spec, method, resolved.store, unused, place.device)


def _bodies_per_clip(trainer: Trainer) -> float:
    """Mean number of bodies that a view has over the training clips."""
    store, spec = trainer.source.store, trainer.spec
    if spec.train.bodies == "valid":
        return float(store.bodies[trainer.ids].mean())
    return float(store.max_bodies) if spec.train.bodies == "all-slots" else 1.0


def _roles(counted: dict[str, Any]) -> dict[str, dict[str, float]]:
    counted["total"] = counted["forward_macs"] + counted["backward_macs"]
    return counted["by_role"]


def _clips_per_s(trainer: Trainer, most: float) -> tuple[float, int, float]:
    """Return clips a second, with views built ahead, over a limited time; the number of steps; seconds of the first
    steps, which compile and are not counted."""
    began = started = time.perf_counter()
    done = 0
    for index, views in trainer.batches(0):
        if index == WARM_STEPS:
            wait_for(trainer.device)
            started = time.perf_counter()
        trainer.train_step(index, views)
        if index >= WARM_STEPS:
            done += 1
            if done % 5 == 0:  # else the host would queue too many steps for the device
                wait_for(trainer.device)
            if done >= 2 and time.perf_counter() > started + most or done == 200:
                break
    wait_for(trainer.device)
    return done * trainer.spec.train.batch_size / (time.perf_counter() - started), done, started - began


def _shares(trainer: Trainer) -> dict[str, float]:
    """Seconds of a step, and fractions of its parts; every part waits for the device."""
    spent: dict[str, float] = defaultdict(float)

    @contextmanager
    def timed(part: str) -> Iterator[None]:
        wait_for(trainer.device)
        began = time.perf_counter()
        yield
        wait_for(trainer.device)
        spent[part] += time.perf_counter() - began

    method, optim = trainer.method, trainer.optimization
    began: dict[Any, float] = {}

    def enter(module: Any, *_: Any) -> None:
        wait_for(trainer.device)
        began[module] = time.perf_counter()

    def leave(module: Any, *_: Any) -> None:
        wait_for(trainer.device)
        if module in began:
            spent["heads"] += time.perf_counter() - began.pop(module)

    heads = [method.get_submodule(name) for name, role in method.roles.items() if role in ("head", "decoder", "target")]
    learning = [head for head in heads if any(p.requires_grad for p in head.parameters())]
    handles = [head.register_forward_pre_hook(enter) for head in heads]
    handles += [head.register_forward_hook(leave) for head in heads]
    handles += [head.register_full_backward_pre_hook(enter) for head in learning]
    handles += [head.register_full_backward_hook(leave) for head in learning]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of hooks on a head whose input needs no gradient
            for index in range(2):
                spent.clear()
                with timed("views"):
                    views = trainer.batch(index)
                with timed("step"):
                    for turn in method.turns:
                        info = trainer.step_info(index, turn, trainer.micro_batches)
                        trainer.gradients(views, info)
                        with timed("optimizer"):
                            optim.step(index, optim.norms(turn), turn)
                    with timed("optimizer"), torch.no_grad():
                        method.after_step(info)
    finally:
        for handle in handles:
            handle.remove()
    whole = spent["views"] + spent["step"]
    return {"seconds": whole} | {part: spent[part] / whole for part in ("views", "heads", "optimizer")}


def _host_syncs(trainer: Trainer) -> dict[str, Any]:
    """Number of times that a step waits for the device, by line of code."""
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for index in range(SYNC_STEPS):
                trainer.train_step(index, trainer.batch(index))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    lines = Counter(f"{w.filename}:{w.lineno}" for w in caught if "synchroniz" in str(w.message))
    return {"per_step": sum(lines.values()) / SYNC_STEPS, "lines": dict(lines.most_common(20))}


def _trace(trainer: Trainer, path: Path) -> dict[str, Any]:
    """Trace of one step, and the kernels and copies that take longest in it."""
    kinds = [torch.profiler.ProfilerActivity.CPU]
    kinds += [torch.profiler.ProfilerActivity.CUDA] if trainer.device.type == "cuda" else []
    with torch.profiler.profile(activities=kinds) as profile:
        trainer.train_step(0, trainer.batch(0))
        wait_for(trainer.device)
    path.parent.mkdir(parents=True, exist_ok=True)
    profile.export_chrome_trace(str(path))
    spent: dict[str, list[float]] = defaultdict(list)
    for event in profile.events() or ():
        if event.device_type == torch.autograd.DeviceType.CUDA and not event.is_user_annotation:
            spent[event.name[:100]].append(event.time_range.elapsed_us() / 1e6)
    kernels = {name: {"times": len(each), "seconds": sum(each)} for name, each in spent.items()}
    total = {key: sum(kernel[key] for kernel in kernels.values()) for key in ("times", "seconds")}
    most = sorted(kernels, key=lambda name: -kernels[name]["seconds"])[:KERNELS]
    return {"trace": str(path), "kernels": {"all": total, **{name: kernels[name] for name in most}}}


def _least_seconds(work: Callable[[], Any], device: torch.device, most: float) -> float:
    """Shortest of many times, in blocks of ten on a GPU, which hides the cost of a launch."""
    times = 10 if device.type == "cuda" else 1
    seconds: list[float] = []
    until = time.perf_counter() + most
    while len(seconds) < 3 or (time.perf_counter() < until and len(seconds) < 50):
        wait_for(device)
        began = time.perf_counter()
        for _ in range(times):
            work()
        wait_for(device)
        seconds.append((time.perf_counter() - began) / times)
    return min(seconds)


@contextmanager
def _silent(**_: Any) -> Iterator[Callable[..., None]]:
    yield lambda *args, **fields: None


# ------------------------------------------------------------------------------------------ sections as processes
def _work(name: str, place: Place, found: Path) -> None:
    """Run a section in this process; results are written one by one."""
    written: dict[str, Any] = {}

    def save(**values: Any) -> None:
        written.update(values)
        write_json(found, written)

    if place.device == "cpu":
        torch.set_num_threads(1)  # threads of OpenMP do not survive a fork
    prepare(place.device)
    try:
        method, _, kind = name.partition("-")
        if name in STEPS:
            step(place, save, name)
        elif kind == "run":
            run(place, save, method)
        else:
            {"data": data, "tests": tests, "peak": peak}[name](place, save)
    except BaseException as error:
        lines = traceback.format_exception(error)
        save(failed=" ".join(f"{type(error).__name__}: {error}".split()), where="".join(lines)[-2000:])


def section(name: str, place: Place) -> dict[str, Any]:
    """Results of section ``name`` until it ended, failed or was stopped."""
    # A GPU cannot be used in a fork.
    context: Any = multiprocessing.get_context("fork" if place.device == "cpu" else "spawn")
    found, began = place.folder / f"{name}.json", time.time()
    process = context.Process(target=_work, args=(name, place, found))
    process.start()
    process.join(max(0.0, place.left))
    seen: dict[str, Any] = {}
    if process.is_alive():
        process.kill()
        process.join()
        seen["failed"] = f"stopped after {time.time() - began:.0f} s, its time limit"
    elif process.exitcode:
        seen["failed"] = f"its process ended with exit code {process.exitcode}"
    written = json.loads(found.read_text()) if found.exists() else {}
    return {**written, **seen, "seconds": round(time.time() - began, 1)}


def measured(device: str, size: str, minutes: float, output: Path, sections: list[str]) -> dict[str, Any]:
    """Every section in turn, written to ``output`` after each."""
    report: dict[str, Any] = {"started": time.time(), "minutes": minutes, "size": size}
    report |= {"environment": environment(device), "sections": {}}
    if device != "cpu":
        total = torch.cuda.get_device_properties(torch.device(device)).total_memory
        report["gpu"] = {"name": torch.cuda.get_device_name(torch.device(device)), "memory": total}
    end, runs = time.time() + 60 * minutes - 2, [name for name in sections if name.endswith("-run")]
    done = report["sections"]
    with tempfile.TemporaryDirectory() as folder:
        place = Place(device, size, Path(folder), output.with_suffix(""), end)
        for name in sections:
            left = end - time.time()
            waiting = runs[runs.index(name) :] if name in runs else []
            share = left / len(waiting) if waiting else min(left, 60 * minutes * SHARES[name])
            steps = {method: done[method] for method in STEPS if method in done}
            best = done.get("peak", {}).get("bf16" if device != "cpu" else "fp32", {}).get("flops_per_s")
            now = replace(place, deadline=time.time() + share, peak=best, steps=steps)
            if left > 1:
                done[name] = section(name, now)
            else:
                done[name] = {"failed": "no time was left"}
            report["seconds"] = round(time.time() - report["started"], 1)
            write_json(output, report)
            print(f"{name:16} {done[name].get('seconds', 0):6.1f} s  {_said(done[name])}", file=sys.stderr, flush=True)
    return report


def _said(found: dict[str, Any]) -> str:
    if "failed" in found:
        return f"failed: {found['failed'][:150]}"
    if "clips_per_s" in found:
        share = f", {found['of_peak']:.1%} of peak" if found.get("of_peak") else ""
        return f"{found['clips_per_s']:,.0f} clips/s{share}"
    shown = ((key, value) for key, value in found.items() if isinstance(value, int | float) and key != "seconds")
    return ", ".join(f"{key} {value:.4g}" for key, value in shown)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--device")
    parser.add_argument("--size", choices=("paper", "small", "quick"), default="paper")
    parser.add_argument("--output", type=Path, default=Path("gpu.json"))
    parser.add_argument("--sections", default=",".join(SECTIONS))
    asked = parser.parse_args()
    try:
        wanted = set(asked.sections.split(","))
        if unknown := sorted(wanted - set(SECTIONS)):
            raise SkelbenchError(f"there is no section {unknown[0]!r}; there are: {', '.join(SECTIONS)}")
        if asked.device is None and not torch.cuda.is_available():
            raise SkelbenchError(
                "this measures a GPU, and PyTorch finds none here; give --device cpu --size quick to try the command"
            )
        device = pick_device(asked.device)
    except SkelbenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    report = measured(device, asked.size, asked.minutes, asked.output, [name for name in SECTIONS if name in wanted])
    print(json.dumps(report, indent=2))
    return 1 if any("failed" in found for found in report["sections"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
