"""Prototype cross-entropy against the plain version (logits held, ``log_softmax``, autograd): memory, time, gradients.

    python -m benchmarks.prototype_loss [--tokens 4000] [--prototypes 65536] [--repeats 5]

Memory: peak resident size beyond the inputs, one fresh process per version. Time: both versions of a pair in turn in
one process, order swapped every round; the ratio is the median over rounds, so that slow phases affect both, printed
next to the fastest rounds. Gradients: norm of the difference over the norm, against the plain version in the same
precision.

    python -m benchmarks.prototype_loss --rounded [--tokens 1024] [--prototypes 16384]

Effect of rounding factors to bfloat16, as a GPU does in bf16 autocast (emulated here): for random vectors, as at the
start of training, and for samples near prototypes, as later.

    python -m benchmarks.prototype_loss --traffic

Cost of a sample on a GPU in bf16: bytes that operations read and write, and their number, counted on tensors without
values, in tiles of logits and with Triton kernels.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.scale import Issued
from skelbench.models import prototype_loss
from skelbench.models.prototype_loss import Sinkhorn, prototype_cross_entropy, teacher_offset

STUDENT_TEMP, TEACHER_TEMP = 0.1, 0.04
LIMITS = {"center": 1.0, "sinkhorn": 1.5}


def inputs(tokens: int, prototypes: int, width: int) -> dict[str, Tensor]:
    """Unit vectors whose teacher resembles the student, as in training; made row by row to keep the peak low."""
    generator = torch.Generator().manual_seed(0)

    def unit(rows: int, near: Tensor | None = None) -> Tensor:
        x = torch.empty(rows, width)
        for i in range(0, rows, 1024):
            piece = torch.randn(x[i : i + 1024].shape, generator=generator)
            x[i : i + 1024] = F.normalize(piece if near is None else near[i : i + 1024] + 0.03 * piece, dim=1)
        return x

    student_z, student_W = unit(tokens), unit(prototypes)
    return {
        "student_z": student_z.requires_grad_(),
        "student_W": student_W.requires_grad_(),
        "teacher_z": unit(tokens, student_z.detach()),
        "teacher_W": unit(prototypes, student_W.detach()),
        "weights": torch.full((tokens,), 1.0 / tokens),
    }


def center_of(prototypes: int) -> Tensor:
    return 0.01 * torch.randn(prototypes, generator=torch.Generator().manual_seed(1))


def plain(centering: Tensor | None, student_z: Tensor, student_W: Tensor, **others: Tensor) -> Tensor:
    """The textbook version; ``centering`` None = Sinkhorn on the whole matrix, as its authors write it."""
    with torch.no_grad():
        target = others["teacher_z"] @ others["teacher_W"].t()
        if centering is not None:
            target = torch.softmax((target - centering) / TEACHER_TEMP, dim=1)
        else:
            q_Kn = torch.exp(target / TEACHER_TEMP).t()
            q_Kn /= q_Kn.sum()
            for _ in range(3):
                for axis in (1, 0):
                    q_Kn /= q_Kn.sum(axis, keepdim=True)
                    q_Kn /= q_Kn.shape[1 - axis]
            target = q_Kn.t() * q_Kn.shape[1]
    log_student = torch.log_softmax(student_z @ student_W.t() / STUDENT_TEMP, dim=1)
    return -((target * log_student).sum(1) * others["weights"]).sum()


def chunked(centering: Tensor | None, **given: Any) -> Tensor:
    kind = Sinkhorn() if centering is None else centering
    offset_K = teacher_offset(kind, given["teacher_z"], given["teacher_W"], TEACHER_TEMP)
    return prototype_cross_entropy(**given, teacher_temp=TEACHER_TEMP, student_temp=STUDENT_TEMP, offset_K=offset_K)


def rounding(on: bool) -> Any:
    """Round factors of products to bfloat16 as on a GPU, or not."""
    return patch.object(prototype_loss, "rounds_products", lambda like: on)


VERSIONS: dict[str, Callable[..., Tensor]] = {"plain": plain, "chunked": chunked}


def step(version: str, mode: str, tensors: dict[str, Tensor]) -> tuple[float, Tensor, Tensor, Tensor]:
    """Forward and backward; seconds, loss, gradients."""
    centering = center_of(tensors["student_W"].shape[0]) if mode == "center" else None
    tensors["student_z"].grad = tensors["student_W"].grad = None
    began = time.perf_counter()
    loss = VERSIONS[version](centering, **tensors)
    loss.backward()
    seconds = time.perf_counter() - began
    z_grad, W_grad = tensors["student_z"].grad, tensors["student_W"].grad
    assert z_grad is not None and W_grad is not None
    return seconds, loss.detach(), z_grad, W_grad


def process_bytes(field: str) -> int:
    """Resident size of this process: "VmRSS" now, "VmHWM" at its peak (elsewhere than on Linux both are the peak)."""
    status = Path("/proc/self/status")
    if status.exists():  # counted from exec on; ru_maxrss would start at what the parent held when it forked
        return next(int(line.split()[1]) * 1024 for line in status.read_text().splitlines() if field in line)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def memory_of(version: str, mode: str, args: argparse.Namespace) -> int:
    """Extra peak bytes of one step, measured in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.prototype_loss", "--measure-memory", f"{version}:{mode}"]
    for name in ("tokens", "prototypes", "width"):
        command += [f"--{name}", str(getattr(args, name))]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure_memory(version: str, mode: str, args: argparse.Namespace) -> None:
    step(version, mode, inputs(64, 256, 32))  # libraries loaded, thread pools up
    tensors = inputs(args.tokens, args.prototypes, args.width)
    before = process_bytes("VmRSS")
    step(version, mode, tensors)
    print(process_bytes("VmHWM") - before)


def relative(a: Tensor, b: Tensor) -> float:
    return ((a - b).norm() / b.norm()).item()


def compare(mode: str, args: argparse.Namespace) -> bool:
    """Print one mode's line; return whether it keeps the limits."""
    memory = {version: memory_of(version, mode, args) for version in VERSIONS}
    tensors = inputs(args.tokens, args.prototypes, args.width)
    _, loss, *expected = step("plain", mode, tensors)
    expected = [grad.clone() for grad in expected]
    _, ours, *got = step("chunked", mode, tensors)
    errors = [relative(a, b) for a, b in zip(got, expected)]
    del expected, got
    seconds: dict[str, list[float]] = {version: [] for version in VERSIONS}
    for round_ in range(args.repeats):
        for version in list(VERSIONS) if round_ % 2 else list(VERSIONS)[::-1]:
            seconds[version].append(step(version, mode, tensors)[0])
    ratio = median(a / b for a, b in zip(seconds["chunked"], seconds["plain"]))
    share = memory["chunked"] / memory["plain"]
    kept = ratio <= LIMITS[mode] and share <= 1 / 8 and max(errors) <= 1e-5
    print(
        f"{mode:9s} time {ratio:.2f} of plain (limit {LIMITS[mode]}), "
        f"fastest {min(seconds['chunked']):.2f} s against {min(seconds['plain']):.2f} s   "
        f"memory {memory['chunked'] / 2**20:6.0f} MiB against {memory['plain'] / 2**20:6.0f} MiB: "
        f"1/{1 / share:.1f} (limit 1/8)   "
        f"loss {ours.item():.6f} against {loss.item():.6f}   "
        f"gradient error z {errors[0]:.1e}, W {errors[1]:.1e} (limit 1e-5)   {'ok' if kept else 'MISSED'}",
        flush=True,
    )
    return kept


def rounded(args: argparse.Namespace) -> bool:
    """Print errors of loss and gradients with rounded factors; return whether they keep the limits."""
    kept = True
    for near in (0.0, 0.5):
        tensors = inputs(args.tokens, args.prototypes, args.width)
        for side in ("student", "teacher"):  # a sample's cosine with a prototype of its own is ``near`` more
            z_nD, W_KD = tensors[f"{side}_z"].detach(), tensors[f"{side}_W"].detach()
            mixed_nD = F.normalize((1 - near) * z_nD + near * W_KD[: len(z_nD)], dim=1)
            tensors[f"{side}_z"] = mixed_nD.requires_grad_(side == "student")
        for mode, centering in (("center", center_of(args.prototypes)), ("sinkhorn", None)):
            found = []
            for on in (False, True):
                with rounding(on):
                    loss = chunked(centering, **tensors)
                grads = torch.autograd.grad(loss, [tensors["student_z"], tensors["student_W"]])
                found.append([loss.detach(), *grads])
            errors = [relative(a, b) for a, b in zip(found[1], found[0])]
            good = errors[0] <= 1e-3 and max(errors[1:]) <= 1e-2
            kept &= good
            print(
                f"{mode:9s} near {near}: loss {found[0][0].item():.4f}, off by {errors[0]:.1e} (limit 1e-3), gradients "
                f"z {errors[1]:.1e}, W {errors[2]:.1e} (limit 1e-2)   {'ok' if good else 'MISSED'}",
                flush=True,
            )
    return kept


def traffic(args: argparse.Namespace) -> None:
    """Print the difference between two numbers of samples, per sample, for tiles and for kernels."""

    def product(a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
        return torch.mm(a, b).to(dtype) if a.dtype == dtype else torch.ops.aten.mm.dtype(a, b, dtype)

    def launched(*out: Tensor, given: tuple[Tensor | None, ...]) -> None:
        issued.count += 1
        issued.bytes += sum(x.nbytes for x in (*out, *given) if x is not None)

    def logsumexp(a_MD: Tensor, b_ND: Tensor, bias_N: Tensor | None = None) -> Tensor:
        out_M = torch.empty(len(a_MD), device="meta")
        launched(out_M, given=(a_MD, b_ND, bias_N))
        return out_M

    def residuals(*given: Tensor | None) -> tuple[Tensor, Tensor]:
        z_cVD, W_KD = given[4], given[5]
        assert z_cVD is not None and W_KD is not None
        out = torch.empty(z_cVD.shape[:2], device="meta"), z_cVD.new_empty(*z_cVD.shape[:2], len(W_KD))
        launched(*out, given=given)
        return out

    kernels, rows = SimpleNamespace(logsumexp=logsumexp, residuals=residuals), prototype_loss.RESIDUALS
    rows //= args.prototypes
    for name, kernel in (("tiles", None), ("kernels", kernels)):
        found = []
        for parts in (2, 4):
            shapes = {"student_z": rows * parts, "student_W": args.prototypes}
            shapes |= {"teacher_z": rows * parts, "teacher_W": args.prototypes}
            given = {key: torch.empty(n, args.width, device="meta") for key, n in shapes.items()}
            given["student_z"].requires_grad_()
            given["student_W"].requires_grad_()
            weights = torch.empty(rows * parts, device="meta")
            swapped = patch.multiple(prototype_loss, _product=product, _kernel=kernel)
            with swapped, rounding(True), Issued() as issued:
                chunked(None, **given, weights=weights).backward()
            found.append((issued.bytes, issued.count))
        (less, few), (more, many) = found
        print(
            f"{name}: {args.prototypes} prototypes, width {args.width}: "
            f"{(more - less) / 2 / rows / 1e6:.2f} MB a sample, {(many - few) / 2:.0f} operations for {rows} samples"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=4000)
    parser.add_argument("--prototypes", type=int, default=65536)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rounded", action="store_true", help="what rounding to bfloat16 changes, instead")
    parser.add_argument("--traffic", action="store_true", help="bytes moved on a GPU, instead")
    parser.add_argument("--measure-memory", metavar="VERSION:MODE", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure_memory:
        version, mode = args.measure_memory.split(":")
        measure_memory(version, mode, args)
        return 0
    if args.traffic:
        traffic(args)
        return 0
    if args.rounded:
        return 0 if rounded(args) else 1
    print(
        f"{args.tokens} tokens x {args.prototypes} prototypes, width {args.width}, float32, "
        f"{torch.get_num_threads()} threads, torch {torch.__version__}; chunked against plain"
    )
    return 0 if all([compare(mode, args) for mode in LIMITS]) else 1


if __name__ == "__main__":
    sys.exit(main())
