"""The cost of a run, and of the methods at the paper's grids, from their specs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch

from skelbench.cost.latency import latency, peak_memory
from skelbench.cost.macs import count_encoder
from skelbench.cost.step import count_step
from skelbench.methods.contract import Step
from skelbench.plugin.host import Host
from skelbench.skeleton.topology import Topology
from skelbench.spec import RunSpec
from skelbench.train.build import build_encoder, build_method, fake_views, grid_of, parameters
from skelbench.views.view import View


def step_cost(spec: RunSpec, host: Host, topology: Topology, clips: int = 8, bodies: int = 1) -> dict[str, Any]:
    """Whole-training-step cost per clip with ``bodies`` present bodies, by role.

    Counted on shapes alone where the method allows it, else on two clips of zeros on the CPU. ``flops_per_clip``: of an
    encoder that reads more bodies together their share of it, so that two bodies always cost twice one.
    """
    step = Step(0, 1, 0.0, torch.Generator(), no_draws)
    try:
        method = build_method(spec, host, topology, "meta")
        cost = count_step(method, fake_views(spec, topology, clips, bodies), step)
    except Exception:  # a step that looks at values cannot run on shapes; a real error shows again on the CPU
        method = build_method(spec, host, topology)
        cost = count_step(method, fake_views(spec, topology, 2, bodies, "cpu"), step)
    share = bodies / max(bodies, method.inference_encoder().bodies)
    return {"flops_per_clip": share * cost.total_flops_per_clip, **asdict(cost)}


def flops_per_clip(spec: RunSpec, host: Host, topology: Topology) -> float:
    """FLOPs of a training step per clip with one present body; see :func:`step_cost`."""
    return float(step_cost(spec, host, topology)["flops_per_clip"])


def run_cost(spec: RunSpec, host: Host, topology: Topology, device: str, bodies: int) -> dict[str, Any]:
    """Everything ``cost.json`` holds: MACs three ways, parameters, step FLOPs, latency and peak memory here."""
    grid = grid_of(spec, topology)
    encoder = build_encoder(spec, host, topology)
    count = count_encoder(encoder, grid, topology)
    encoder = encoder.to(device)

    def view(clips: int) -> View:
        x_BMTJC = torch.zeros(clips, bodies, grid.frames, grid.joints, 3, device=device)
        return View.of(x_BMTJC, stream=encoder.stream)

    times = latency(encoder, view)
    large = view(64)

    def infer() -> None:
        with torch.inference_mode():
            encoder(large)

    memory = peak_memory(infer, device)
    return {
        "grid": f"{grid.times} x {grid.joints}",
        "bodies_timed": bodies,
        "encoder": asdict(count),
        "parameters": dict(parameters(build_method(spec, host, topology, "meta"))),
        "step": step_cost(spec, host, topology) if spec.views else None,
        "latency": {f"batch {time.batch}": asdict(time) for time in times},
        "peak_memory": asdict(memory),
    }


def no_draws(keys_R: Any, n: int, op: int = 0) -> torch.Tensor:
    """Draws for counting: their values do not matter."""
    return torch.zeros(len(keys_R), n, device=keys_R.device)
