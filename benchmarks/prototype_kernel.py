"""Triton kernels of the prototype loss on a GPU: errors, speed of the loss, and speed and memory of SLiM's step.

    python -m benchmarks.prototype_kernel [--before CHECKOUT] [--output kernel.json] [--samples 242000]

Errors: loss and gradients in bf16 by kernels and by tiles, against tiles in float64, as norm of the difference over the
norm; and kernels against tiles at 65,536 prototypes. Loss: forward and backward pass at the paper's size. Step: a
training step of SLiM in preset paper. Products: TFLOP/s of each kernel with several sizes of tiles, next to a large
bf16 product.

Loss and step are timed in one process per checkout, in turn with tiles (off) and with compiled code (auto: kernels, or
the compiled tiles of an older ``--before``), so that off relates the processes; elementwise and recompute are auto with
``train.recompute`` elementwise and on. A step needs 100 GiB, an H200. Results are printed and written as they come. The
whole takes about four minutes; an older checkout compiles for one or two. ``--sections errors,loss`` selects some.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F

HERE = Path(__file__).resolve().parent.parent
WIDTH, PROTOTYPES = 256, 65536
MODES = ("sinkhorn", "center", "none")


def milliseconds(work: Callable[[], Any], times: int) -> float:
    """Median over ``times`` calls, by events of the device."""
    work()
    found = []
    for _ in range(times):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        found.append(start.elapsed_time(end))
    return median(found)


def peak_tflops() -> float:
    """Speed of a large product in bf16."""
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return 2 * 8192**3 / milliseconds(lambda: a @ b, 20) / 1e9


def inputs(n: int, views: int, prototypes: int, dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    """Unit vectors whose teacher resembles the student."""
    torch.manual_seed(n)

    def unit(*shape: int) -> torch.Tensor:
        return F.normalize(torch.randn(*shape, device="cuda", dtype=torch.float64), dim=-1)

    student_z, student_W = unit(n, views, WIDTH), unit(prototypes, WIDTH)
    teacher_z = F.normalize(student_z[:, 0] + 0.5 * unit(n, WIDTH), dim=-1)
    teacher_W = F.normalize(student_W + 0.5 * unit(prototypes, WIDTH), dim=-1)
    near = F.normalize(teacher_z + 0.7 * teacher_W[torch.arange(n, device="cuda") % prototypes], dim=-1)
    tensors = {"student_z": student_z, "student_W": student_W, "teacher_z": near, "teacher_W": teacher_W}
    tensors["weights"] = torch.full((n, views), 1 / max(1, n * views), device="cuda", dtype=torch.float64)
    tensors = {name: value.to(dtype) for name, value in tensors.items()}
    return {name: value.requires_grad_(name.startswith("student")) for name, value in tensors.items()}


def switch(on: bool) -> str:
    """Use compiled code of the loss or not, of whichever checkout is imported; name of what is used."""
    from skelbench.models import prototype_loss

    if hasattr(prototype_loss, "use_kernel"):
        prototype_loss.use_kernel(on, *([torch.zeros(16, WIDTH, device="cuda")] if on else []))
        return "kernels" if on else "tiles"
    vars(prototype_loss)["fuse"](torch.device("cuda"), on)
    return "compiled tiles" if on else "tiles"


def loss_of(tensors: dict[str, torch.Tensor], mode: str) -> torch.Tensor:
    from skelbench.models.prototype_loss import Sinkhorn, prototype_cross_entropy, teacher_offset

    W_KD = tensors["teacher_W"]
    center = torch.linspace(-0.1, 0.1, len(W_KD), device="cuda", dtype=W_KD.dtype)
    with torch.autocast("cuda", torch.bfloat16):
        kind: Any = {"sinkhorn": Sinkhorn(), "center": center, "none": None}[mode]
        offset_K = teacher_offset(kind, tensors["teacher_z"], W_KD, 0.04)
        return prototype_cross_entropy(**tensors, teacher_temp=0.04, student_temp=0.1, offset_K=offset_K)


def results(tensors: dict[str, torch.Tensor], mode: str) -> list[torch.Tensor]:
    loss = loss_of(tensors, mode)
    return [loss.detach(), *torch.autograd.grad(loss, [tensors["student_z"], tensors["student_W"]])]


def off_by(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> list[float]:
    return [float((a.double() - b.double()).norm() / b.double().norm()) for a, b in zip(found, wanted)]


def errors(save: Callable[..., None], args: argparse.Namespace) -> None:
    for n, views, prototypes in ((1000, 1, 4109), (333, 3, 1000), (4096, 1, PROTOTYPES)):
        for mode in MODES:
            if prototypes == PROTOTYPES and mode == "center":
                continue
            tensors = inputs(n, views, prototypes)
            switch(False)
            tiles = results(tensors, mode)
            switch(True)
            kernels, again = results(tensors, mode), results(tensors, mode)
            found: dict[str, Any] = {"kernels against tiles": off_by(kernels, tiles)}
            found["same bits again"] = all(map(torch.equal, kernels, again))
            if prototypes < PROTOTYPES:
                exact = results(inputs(n, views, prototypes, torch.float64), mode)
                found |= {"kernels": off_by(kernels, exact), "tiles": off_by(tiles, exact)}
                # Both round factors alike, so they agree better with each other than with float64.
                found["ok"] = all(a <= 1.2 * b + 1e-4 for a, b in zip(found["kernels"], found["tiles"]))
            save(**{f"{n} x {views} x {prototypes} {mode}: loss, dz, dW": found})
    switch(True)
    empty = results(inputs(0, 2, 1000), "sinkhorn")
    save(empty={"loss": float(empty[0]), "largest dW": float(empty[2].abs().max())})


def products(save: Callable[..., None], args: argparse.Namespace) -> None:
    """TFLOP/s of the products in each kernel alone."""
    from skelbench.models import prototype_kernel as kernel

    n = 16384
    save(peak=peak_tflops())
    z, W = (F.normalize(torch.randn(x, WIDTH, device="cuda"), dim=1) for x in (n, PROTOTYPES))
    z, W, bias_K, bias_n = (10 * z).bfloat16(), W.bfloat16(), torch.zeros(PROTOTYPES, device="cuda"), None
    work = 2 * n * PROTOTYPES * WIDTH / 1e9
    log_n, bias_n = kernel.logsumexp(z, W, bias_K), torch.zeros(n, device="cuda")
    usual = kernel._sizes(z)
    save(sizes=usual)
    for sizes in (usual, {"BLOCK": 128, "num_warps": 4}, {"BLOCK": 64, "num_warps": 4}):
        vars(kernel)["_sizes"] = lambda like, sizes=sizes: sizes
        found: dict[str, Any] = {}
        calls = {
            "rows": lambda: kernel.logsumexp(z, W, bias_K),
            "columns": lambda: kernel.logsumexp(W, z, bias_n),
            "residuals": lambda: kernel.residuals(
                z[:8192], W, log_n[:8192], bias_K, z[:8192, None], W, log_n[:8192, None]
            ),
        }
        for name, call in calls.items():
            try:
                found[name] = work / milliseconds(call, 10)
            except Exception as error:
                found[name] = f"{type(error).__name__}: {error}"[:200]
        save(**{f"block {sizes['BLOCK']}, {sizes['num_warps']} warps": found})
    vars(kernel)["_sizes"] = lambda like: usual
    found = {}
    for tiles in (8, 128):
        kernel.TILES, before = tiles, kernel.TILES
        found[str(tiles)] = work / milliseconds(lambda: kernel.logsumexp(z, W, bias_K), 10)
        kernel.TILES = before
    save(rows_by_tiles=found)
    _, residual = kernel.residuals(z[:8192], W, log_n[:8192], bias_K, z[:8192, None], W, log_n[:8192, None])
    for name, call in {
        "dz": lambda: torch.mm(residual[:, 0], W, out_dtype=torch.float32),
        "dW": lambda: torch.mm(residual[:, 0].t(), z[:8192], out_dtype=torch.float32),
    }.items():
        save(**{name: work / 2 / milliseconds(call, 10)})


def loss(save: Callable[..., None], args: argparse.Namespace) -> None:
    tensors = inputs(args.samples, 1, PROTOTYPES)
    for again in range(2):
        for on in (False, True):
            name = switch(on)
            began = time.perf_counter()
            results(tensors, "sinkhorn")
            torch.cuda.synchronize()
            first = time.perf_counter() - began
            torch.cuda.reset_peak_memory_stats()
            held = torch.cuda.memory_allocated()
            ms = milliseconds(lambda: results(tensors, "sinkhorn"), 3)
            extra = (torch.cuda.max_memory_allocated() - held) / 2**30
            save(**{f"{'auto' if on else 'off'} {again}": {"is": name, "ms": ms, "first s": first, "extra GiB": extra}})


def step(save: Callable[..., None], args: argparse.Namespace) -> None:
    from skelbench.data.store.roots import data_root
    from skelbench.evaluation.cost import BODIES
    from skelbench.evaluation.cost.report import step_cost
    from skelbench.pipeline.request import Request
    from skelbench.pipeline.resolve import resolve
    from skelbench.pipeline.session import prepare
    from skelbench.plugin.host import get_host
    from skelbench.records.run_dir import RunDir
    from skelbench.training import memory_saving
    from skelbench.training.build import build_method
    from skelbench.training.loop import Trainer

    for place in ("training.compiled", "models.prototype_loss", "models.compile"):  # now, and in older checkouts
        with suppress(ImportError, AttributeError):
            compile_parts = importlib.import_module(f"skelbench.{place}").compile_parts
            break
    prepare("cuda")
    host = get_host()
    sets = {"train.recompute": "off"}
    request = Request("slim", dataset="synthetic", tokens=8, preset=args.preset, sets=sets)
    resolved = resolve(request, host, data_root(), "cuda")
    method = build_method(resolved.spec, host, resolved.store.topology, "cuda").train()
    counted = step_cost(resolved.spec, host, resolved.store.topology)
    folder = Path(tempfile.mkdtemp())
    trainer = Trainer(resolved.spec, method, resolved.store, RunDir(folder), "cuda")
    bodies = float(resolved.store.bodies[trainer.ids].mean()) if resolved.spec.train.bodies == "valid" else 1.0
    flops = counted["flops_per_clip"] * BODIES * bodies / counted["bodies_per_clip"]
    save(flops_per_clip=flops, batch=resolved.spec.train.batch_size)
    peak = peak_tflops() * 1e12
    older = not hasattr(memory_saving, "Recompute")  # save_memory takes a bool
    plain: Any = False if older else "off"
    recomputed: dict[str, Any] = {"recompute": True} if older else {"elementwise": "elementwise", "recompute": "on"}
    batches = [trainer.batch(index) for index in range(2)]  # views are built ahead in training
    for again in range(2):
        for how in ("off", "auto", *(recomputed if again else [])):
            began = time.perf_counter()
            trainer.save_memory(recomputed.get(how, plain), 1)
            done, note = compile_parts(method, torch.device("cuda"), "off" if how == "off" else "auto")
            losses = [float(trainer.train_step(0, batches[0])["loss"])]
            first = time.perf_counter() - began
            torch.cuda.reset_peak_memory_stats()
            ms = milliseconds(lambda: trainer.train_step(1, batches[1]), 3)
            rate = resolved.spec.train.batch_size / ms * 1e3
            found = {"clips_per_s": rate, "ms": ms, "of_peak": rate * flops / peak, "first s": first, "loss": losses}
            found |= {"GiB": torch.cuda.max_memory_allocated() / 2**30, "compiled": done, "note": note}
            save(**{f"{how} {again}": found})
    trainer.save_memory(plain, 1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        trainer.train_step(1, batches[1])
        torch.cuda.synchronize()
    spent: dict[str, float] = {}
    for event in profile.events() or ():
        if event.device_type == torch.autograd.DeviceType.CUDA and not event.is_user_annotation:
            name = event.name[:80]
            spent[name] = spent.get(name, 0.0) + event.time_range.elapsed_us() / 1e3
    most = sorted(spent, key=lambda name: -spent[name])[:14]
    save(kernels_ms={"all": sum(spent.values()), **{name: round(spent[name], 2) for name in most}})


SECTIONS = {"errors": errors, "step": step, "products": products, "loss": loss}


def work(args: argparse.Namespace) -> None:
    """Run one section in this process; a line for each result."""

    def save(**values: Any) -> None:
        print("=" + json.dumps(values), flush=True)

    try:
        SECTIONS[args.work](save, args)
    except Exception:
        save(failed=traceback.format_exc()[-1500:])


def section(name: str, key: str, checkout: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Results of one section with the code of ``checkout``."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "skelbench_plugins").symlink_to(checkout / "plugins", target_is_directory=True)
        command = [sys.executable, "-P", __file__, "--work", name, "--samples", str(args.samples)]
        env = os.environ | {"PYTHONPATH": os.pathsep.join([str(checkout), folder, os.environ.get("PYTHONPATH", "")])}
        # As in a session, see skelbench.pipeline.session.
        env |= {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
        process = subprocess.Popen(
            [*command, "--preset", args.preset], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env
        )
        found: dict[str, Any] = {}
        last: list[str] = []
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("="):
                found |= json.loads(line[1:])
                print(f"{key} {name}: {line[1:].strip()}", flush=True)
            else:
                last = [*last[-20:], line]
        if process.wait():
            found["failed"] = f"exit code {process.returncode}: {''.join(last)[-1500:]}"
            print(found["failed"], flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="an older checkout of this repository")
    parser.add_argument("--output", type=Path, default=Path("kernel.json"))
    parser.add_argument("--samples", type=int, default=242_000, help="masked tokens of a step")
    parser.add_argument("--preset", default="paper", help="size of the step")
    parser.add_argument("--sections", default=",".join(SECTIONS))
    parser.add_argument("--work", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("error: this measures a GPU, and PyTorch finds none here", file=sys.stderr)
        return 2
    if args.work:
        work(args)
        return 0
    report: dict[str, Any] = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}
    began = time.time()
    checkouts = {"now": HERE} | ({"before": args.before.resolve()} if args.before else {})
    for name in args.sections.split(","):
        for key, checkout in checkouts.items():
            if key == "now" or name in ("loss", "step"):
                report[f"{name}, {key}"] = section(name, key, checkout, args)
                report["seconds"] = round(time.time() - began)
                args.output.write_text(json.dumps(report, indent=1))
        now, then = (report.get(f"{name}, {key}", {}) for key in ("now", "before"))
        for found, label in ((now, "now"), (then, "before")):
            if "auto 1" in found and "off 1" in found:  # loss and step
                ratio = median([found[f"auto {i}"]["ms"] / found[f"off {i}"]["ms"] for i in (0, 1)])
                report[f"{name}, {label}: auto / off"] = ratio
                print(f"{name}, {label}: auto takes {ratio:.3f} of off", flush=True)
    args.output.write_text(json.dumps(report, indent=1))
    return 1 if any("failed" in found for found in report.values() if isinstance(found, dict)) else 0


if __name__ == "__main__":
    sys.exit(main())
