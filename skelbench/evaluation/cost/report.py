"""Cost of a run, and of methods and encoders at the paper's token grids, from specs and descriptors alone."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

import torch

from skelbench.core.hashing import canonical_json
from skelbench.core.spec import ONE_BODY, GridSpec, RunSpec, section, validated
from skelbench.evaluation.cost import BODIES
from skelbench.evaluation.cost.count import CostRow, MacCount, MethodOnGrid, native_grid, own_setting
from skelbench.evaluation.cost.latency import latency, peak_memory
from skelbench.evaluation.cost.macs import count_encoder
from skelbench.evaluation.cost.step import StepCost, count_step, mean
from skelbench.methods.contract import Step
from skelbench.models.encoder import Encoder, evaluating
from skelbench.plugin.descriptors import MethodSpec
from skelbench.plugin.host import Host
from skelbench.plugin.status import one_line
from skelbench.training.build import (
    build_encoder,
    build_method,
    fake_views,
    grid_of,
    meta_method,
    parameters,
    phases_of,
)
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25, Topology
from skelbench.views.view import View

STEPS = 1_000_000
"""Steps of the schedule that a counted step belongs to."""

log = logging.getLogger(__name__)


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


def run_cost(spec: RunSpec, host: Host, encoder: Encoder, device: str, bodies: int) -> dict[str, Any]:
    """Everything ``cost.json`` holds: MACs three ways, parameters, step FLOPs, latency and peak memory here."""
    topology = encoder.topology
    grid = grid_of(spec, topology)
    count = count_encoder(encoder, grid, topology)
    encoder = encoder.to(device)

    def view(clips: int) -> View:
        x_BMTJC = torch.zeros(clips, bodies, grid.frames, grid.joints, 3, device=device)
        return View.of(x_BMTJC, stream=encoder.stream)

    times, large = latency(encoder, view), view(64)
    with evaluating(encoder), torch.inference_mode():
        memory = peak_memory(lambda: encoder(large), device)
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


def paper_spec(host: Host, method: MethodSpec, grid: GridSpec) -> RunSpec:
    """The method in its native setting at its published size, on ``grid`` of NTU's skeleton; without data."""
    own = own_setting(method)
    encoder = host.get("encoders", own.get("encoder", "vit"))
    encoder_config = validated(host.config(encoder), section(own, "encoder"), "encoder")
    method_config = validated(host.config(method), section(own, "method"), "method")
    views = host.load(method).views(method_config, Grid(grid.frames, grid.patch, NTU25.num_joints))
    return RunSpec(
        method=method.name,
        method_config=method_config.model_dump(mode="json"),
        encoder=encoder.name,
        encoder_config=encoder_config.model_dump(mode="json"),
        grid=grid,
        views={name: view.model_dump(mode="json") for name, view in views.items()},
    )


def flops_rows(
    host: Host, pairs: Iterable[MethodOnGrid], counts: dict[Any, MacCount] | None = None
) -> Iterator[CostRow]:
    """One row per method and grid; clips have two bodies. ``counts``: cache of encoders, as methods share them."""
    counts = {} if counts is None else counts
    for method, grid in pairs:
        try:
            yield _row(host, method, grid, counts)
        except Exception as error:  # the table shows the other methods
            log.warning("%s at %d tokens is skipped: %s", method.name, grid.frames // grid.patch, one_line(error))
            log.debug("traceback", exc_info=error)


def _row(host: Host, method: MethodSpec, patches: GridSpec, counts: dict[Any, MacCount]) -> CostRow:
    spec = paper_spec(host, method, patches)
    grid = grid_of(spec, NTU25)

    def encoder(visible: int | None = None) -> MacCount:
        key = spec.encoder, canonical_json(spec.encoder_config), grid, visible
        if key not in counts:
            counts[key] = count_encoder(build_encoder(spec, host, NTU25), grid, NTU25, visible)
        return counts[key]

    step = step_cost(spec, host, NTU25)

    def forward(*roles: str) -> int | None:
        """MACs of ``roles`` per body in the forward pass of a step, all its views."""
        macs = [step["by_role"][role]["forward"] for role in roles if role in step["by_role"]]
        return round(sum(macs) / BODIES) if macs else None

    return CostRow(
        method=method.name,
        tokens=f"{grid.times}x{grid.joints}",
        encoder=encoder(),
        class_token=encoder().class_token,
        visible=step["visible"],
        visible_macs=encoder(step["visible"]).body_macs,
        decoder_macs=forward("decoder"),
        target_macs=forward("teacher", "target"),
        head_macs=forward("head"),
        step_flops=BODIES * step["flops_per_clip"],
        native=patches == native_grid(method),
        one_body=own_setting(method).get("train.bodies") in ONE_BODY,
    )
