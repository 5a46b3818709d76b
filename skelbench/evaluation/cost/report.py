"""The cost of a run, and of the methods at the paper's grids, from their specs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch

from skelbench.core.spec import ONE_BODY, RunSpec
from skelbench.evaluation.cost import BODIES
from skelbench.evaluation.cost.latency import latency, peak_memory
from skelbench.evaluation.cost.macs import count_encoder
from skelbench.evaluation.cost.step import StepCost, count_step, mean
from skelbench.methods.contract import Step
from skelbench.models.encoder import Encoder, evaluating
from skelbench.plugin.host import Host
from skelbench.training.build import (
    build_method,
    fake_views,
    grid_of,
    meta_method,
    parameters,
    phases_of,
)
from skelbench.views.skeleton.topology import Topology
from skelbench.views.view import View

STEPS = 1_000_000
"""Steps of the schedule that a counted step belongs to."""


def step_cost(spec: RunSpec, host: Host, topology: Topology) -> dict[str, Any]:
    """Cost of a training step per clip with two bodies (:class:`~skelbench.evaluation.cost.step.StepCost`).

    Counted in the middle of each phase of a long schedule, where queues of keys are full, and averaged over phases; on
    shapes alone if the method allows it, else on two clips of zeros on the CPU. ``flops_per_clip``: half of the cost.
    """
    try:
        cost = _step(spec, host, topology, 8, "meta")
    except Exception:  # a step that reads values cannot run on shapes; a real error shows again on the CPU
        cost = _step(spec, host, topology, 2, "cpu")
    return {"flops_per_clip": cost.total_flops_per_clip / BODIES, **asdict(cost)}


def _step(spec: RunSpec, host: Host, topology: Topology, clips: int, device: str) -> StepCost:
    meta = device == "meta"
    method = meta_method(spec, host, topology) if meta else build_method(spec, host, topology, device)
    bodies = 1 if spec.train.bodies in ONE_BODY else BODIES
    views, phases = fake_views(spec, topology, clips, bodies, device), phases_of(method)
    costs = []
    for (phase, start), (_, end) in zip(phases, [*phases[1:], ("", 1.0)], strict=True):
        step = Step(int(STEPS * (start + end) / 2), STEPS, 0.0, torch.Generator(), no_draws, phase=phase)
        if end > start:
            costs.append((end - start, count_step(method, views, step)))
    return mean(costs)


def flops_per_clip(spec: RunSpec, host: Host, topology: Topology) -> float:
    """FLOPs of a training step per body of a clip with two bodies."""
    return float(step_cost(spec, host, topology)["flops_per_clip"])


def run_cost(spec: RunSpec, host: Host, encoder: Encoder, device: str, bodies: int) -> dict[str, Any]:
    """Everything ``cost.json`` holds: MACs three ways, parameters, step FLOPs, latency and peak memory here."""
    topology = encoder.topology
    grid = grid_of(spec, topology)
    count = count_encoder(encoder, grid, topology)
    encoder = encoder.to(device)

    def view(clips: int) -> View:
        x_BMTJC = torch.zeros(clips, bodies, grid.frames, grid.joints, 3, device=device)
        return View.of(x_BMTJC, stream=encoder.stream)

    times = latency(encoder, view)
    large = view(64)

    def infer() -> None:
        with evaluating(encoder), torch.inference_mode():
            encoder(large)

    memory = peak_memory(infer, device)
    return {
        "grid": f"{grid.times} x {grid.joints}",
        "bodies_timed": bodies,
        "encoder": asdict(count),
        "parameters": dict(parameters(meta_method(spec, host, topology))),
        "step": step_cost(spec, host, topology) if spec.views else None,
        "latency": {f"batch {time.batch}": asdict(time) for time in times},
        "peak_memory": asdict(memory),
    }


def no_draws(keys_R: Any, n: int, op: int = 0) -> torch.Tensor:
    """Draws for counting, all 0."""
    return torch.zeros(len(keys_R), n, device=keys_R.device)
