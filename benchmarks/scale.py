"""Estimated hours of pre-training on one and several GPUs, from counted FLOPs: the tables of docs/scale.md.

    python -m benchmarks.scale [--methods slim,mamp] [--peak 790] [--fraction 0.4] [--launch 40]

Every method in its native setting and schedule, the masked ones also on 8 tokens. Hours are clips seen times counted
FLOPs of a clip (matrix products of a whole step, for the bodies in training), over ``--peak`` TFLOP/s times the reached
``--fraction`` of it. A step cannot be shorter than the launches of its operations, ``--launch`` microseconds each;
hours with this limit are marked *. The limit matters on many GPUs, which share a batch. It is not known for methods
with recurrent layers: these layers are few kernels on a GPU and many operations here. Nothing runs on a GPU.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from skelbench.core.spec import GridSpec, RunSpec
from skelbench.data.store.roots import data_root
from skelbench.evaluation.cost.cache import kept_rows
from skelbench.evaluation.cost.report import no_draws
from skelbench.methods.contract import Step
from skelbench.pipeline.request import Request
from skelbench.pipeline.resolve import resolve
from skelbench.plugin.descriptors import MethodSpec
from skelbench.plugin.host import Host, get_host
from skelbench.training.build import build_method, fake_views
from skelbench.views.skeleton.topology import NTU25

CLIPS = {"NTU-60": (40_091, 1 + 11 / 60), "NTU-120": (63_026, 1 + 26 / 120), "10 x NTU-120": (630_260, 1 + 26 / 120)}
"""Training clips of the cross-subject split, and bodies of a clip: classes of two people have two."""
GPUS = (1, 8, 64)
DENSE = ("slim", "mamp", "skeletonmae", "sjepa", "gfp", "amr", "macdiff")
"""Methods that are shown on 8 tokens as well."""
VIEWS = frozenset(
    "view _unsafe_view transpose t permute expand slice select unsqueeze squeeze detach alias split split_with_sizes "
    "unbind as_strided _reshape_alias unflatten view_as_complex view_as_real _conj promote_types".split()
)
"""Operations that start nothing on a device."""


@dataclass(frozen=True)
class Work:
    """Cost of a training, for any data."""

    title: str
    epochs: float
    batch: int
    bodies: str
    gflops_two: float
    """1e9 FLOPs of a clip of two bodies."""
    operations: int | None
    """Number of launches of one step; None = not known."""

    def gflops(self, bodies: float) -> float:
        """1e9 FLOPs of a clip with as many ``bodies``."""
        taken = {"all-slots": 2.0, "valid": bodies}.get(self.bodies, 1.0)
        return self.gflops_two * taken / 2


class Issued(TorchDispatchMode):
    """Counts operations that start something on a device, and the bytes that they read and write."""

    count = bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ not in VIEWS:
            self.count += 1
            self.bytes += sum(x.nbytes for x in tree_leaves((args, kwargs, out)) if isinstance(x, torch.Tensor))
        return out


def operations(spec: RunSpec, host: Host) -> int | None:
    """Operations of one step's forward and backward pass, counted on shapes, or on two clips where it needs values."""

    def counted(device: str, clips: int) -> int:
        method = build_method(spec, host, NTU25, device).train()
        views = fake_views(spec, NTU25, clips, 2, device)
        with Issued() as issued:
            for turn in method.turns:
                step = Step(0, 1, 0.0, torch.Generator(), no_draws, turn=turn)
                method(views, step)["loss"].backward()
        return issued.count

    if any(isinstance(module, torch.nn.RNNBase) for module in build_method(spec, host, NTU25, "meta").modules()):
        return None
    try:
        return counted("meta", 8)
    except Exception:  # it reads values; a real error shows again
        return counted("cpu", 2)


def works(host: Host, names: list[str]) -> Iterator[Work]:
    """Every method natively, and the dense ones on 8 tokens."""
    for name in names:
        method = host.get("methods", name)
        assert isinstance(method, MethodSpec)
        grids: set[tuple[int, int]] = set()
        for tokens in (None, 8) if name in DENSE else (None,):
            request = Request(method=name, dataset="synthetic", preset="paper", native=True, tokens=tokens)
            resolved = resolve(request, host, data_root(), "cpu")
            spec = resolved.spec
            grid = GridSpec(frames=spec.grid.frames, patch=spec.grid.patch)
            if (grid.frames, grid.patch) in grids:
                continue
            grids.add((grid.frames, grid.patch))
            (row,) = kept_rows(host, [(method, grid)])
            assert row.step_flops is not None
            title, train, gflops = f"{name}, {row.tokens}", spec.train, row.step_flops / 1e9
            size = train.epochs, train.batch_size, train.bodies, gflops
            yield Work(title, *size, operations(spec, host))


def hours(work: Work, clips: int, bodies: float, gpus: int, flops: float, launch: float) -> tuple[float, bool]:
    """Hours, and whether the issue of operations takes longer than they do."""
    steps = work.epochs * clips / work.batch
    products = work.batch / gpus * work.gflops(bodies) * 1e9 / flops
    issue = (work.operations or 0) * launch
    return steps * max(products, issue) / 3600, issue > products


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default="")
    parser.add_argument("--peak", type=float, default=790.0, help="bf16 TFLOP/s of one GPU")
    parser.add_argument("--fraction", type=float, default=0.4, help="of it that a step reaches")
    parser.add_argument("--launch", type=float, default=40.0, help="microseconds of issuing one operation")
    args = parser.parse_args()
    host = get_host()
    names = args.methods.split(",") if args.methods else [one.name for one in host.all("methods") if _trains(one)]
    flops, launch = args.peak * args.fraction * 1e12, args.launch * 1e-6
    heads = [f"{name}: hours on {' / '.join(map(str, GPUS))}" for name in CLIPS]
    facts = "method, tokens | epochs | batch | GFLOP a clip | operations | EFLOP, NTU-60"
    print(f"| {facts} | {' | '.join(heads)} |")
    print("|---|" + "---:|" * (5 + len(heads)))
    for work in works(host, names):
        clips, bodies = CLIPS["NTU-60"]
        total = work.epochs * clips * work.gflops(bodies) / 1e9
        cells = []
        for count, each in CLIPS.values():
            known = (hours(work, count, each, gpus, flops, launch) for gpus in GPUS)
            cells.append(" / ".join(f"{value:.2g}{'*' if issued else ''}" for value, issued in known))
        issued = "–" if work.operations is None else f"{work.operations:,}"
        facts = f"{work.title} | {work.epochs:g} | {work.batch} | {work.gflops(bodies):.0f} | {issued}"
        facts += f" | {total:.2f}"
        print(f"| {facts} | {' | '.join(cells)} |", flush=True)


def _trains(one: Any) -> bool:
    return isinstance(one, MethodSpec) and one.trains


if __name__ == "__main__":
    main()
