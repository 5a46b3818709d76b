"""Cost of methods and encoders at the paper's token grids, from descriptors alone: no data, no training."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from skelbench.core.hashing import canonical_json
from skelbench.core.spec import ONE_BODY, GridSpec, RunSpec, section, validated
from skelbench.evaluation.cost import BODIES
from skelbench.evaluation.cost.count import CostRow, MacCount, MethodOnGrid, native_grid, own_setting
from skelbench.evaluation.cost.macs import count_encoder
from skelbench.evaluation.cost.report import flops_per_clip, step_cost
from skelbench.plugin.descriptors import Descriptor, MethodSpec
from skelbench.plugin.host import Host
from skelbench.plugin.status import one_line
from skelbench.training.build import bare_encoder, build_encoder, grid_of
from skelbench.views.skeleton.grid import BUDGETS, Grid
from skelbench.views.skeleton.topology import NTU25

BUDGET_CONVENTION = (
    "At the published size (a method: its native encoder) on the 25 joints of NTU RGB+D. Matrix products alone; "
    "1 MAC = 2 FLOPs; a training step is all views of a clip, forward and backward, in every role."
)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BudgetCost:
    """Cost on one token grid."""

    tokens: int
    """Temporal tokens."""
    encoder_gmacs: float
    """1e9 multiply-accumulates per body of one pass."""
    step_gflops: float | None
    """1e9 FLOPs of a training step per clip of two bodies; None = there is no such step."""


def budget_costs(host: Host, descriptor: Descriptor) -> Iterator[BudgetCost]:
    """Costs of a method or an encoder, fewest tokens first.

    Raises:
        SkelbenchError: the encoder or a step cannot be built.
    """
    for tokens, (frames, patch) in BUDGETS.items():
        grid, step = Grid(frames, patch, NTU25.num_joints), None
        if isinstance(descriptor, MethodSpec):
            spec = paper_spec(host, descriptor, GridSpec(frames=frames, patch=patch))
            encoder = build_encoder(spec, host, NTU25)
            step = BODIES * flops_per_clip(spec, host, NTU25) / 1e9 if descriptor.trains else None
        else:
            encoder = bare_encoder(host, descriptor.name, {}, NTU25, grid)
        yield BudgetCost(tokens, count_encoder(encoder, grid, NTU25).body_macs / 1e9, step)


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
    host: Host,
    pairs: Iterable[MethodOnGrid],
    counts: dict[Any, MacCount] | None = None,
) -> Iterator[CostRow]:
    """One row per method and grid; clips have two bodies. ``counts``: cache of encoders, as methods share them."""
    counts = {} if counts is None else counts
    for method, grid in pairs:
        try:
            yield _row(host, method, grid, counts)
        except Exception as error:  # the table shows the other methods
            log.warning("%s at %d tokens is left out: %s", method.name, grid.frames // grid.patch, one_line(error))
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
