"""Cost of every installed method at the paper's token grids, from descriptors alone: no data, no training."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from skelbench.cost import BODIES
from skelbench.cost.macs import MacCount, count_encoder
from skelbench.cost.report import step_cost
from skelbench.identity import canonical_json
from skelbench.plugin.descriptors import MethodSpec
from skelbench.plugin.host import Host
from skelbench.plugin.status import one_line
from skelbench.skeleton.grid import BUDGETS, Grid
from skelbench.skeleton.topology import NTU25, Topology
from skelbench.spec import GridSpec, RunSpec, section, validated
from skelbench.train.build import build_encoder, grid_of, view_specs

MethodOnGrid = tuple[MethodSpec, GridSpec]
"""A method in its native setting on a token grid."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CostRow:
    """What was counted for one method on one token grid. MACs are per body."""

    method: str
    """Slug or name; matched with published names whatever the case and punctuation."""
    tokens: str
    """Token grid, e.g. ``"8x25"``."""
    encoder: MacCount
    """Inference encoder on the whole grid."""
    class_token: bool = False
    visible_macs: float | None = None
    """Student encoder in pre-training: on visible tokens where masked ones are dropped, else on all."""
    decoder_macs: int | None = None
    """For one view; ``None`` = the method has no decoder."""
    step_flops: float | None = None
    """FLOPs of one whole training step per clip with two present bodies (:func:`~skelbench.cost.report.step_cost`)."""
    visible: int | None = None
    """Visible tokens; ``None`` = masked ones are not dropped."""
    target_macs: int | None = None
    """What makes the targets (EMA teacher, target generators), forward, for one view; ``None`` = nothing."""
    head_macs: int | None = None
    """Projection heads of student and teacher, forward, for all views of a step; ``None`` = none."""
    native: bool = False
    """On the token grid that the method was published with."""
    one_body: bool = False
    """The published method trains on one body of a clip."""


def paper_spec(host: Host, method: MethodSpec, grid: GridSpec, topology: Topology = NTU25) -> RunSpec:
    """The method in its native setting and at its published size, but on token grid ``grid``; without data."""
    own = dict(method.native)
    encoder = host.get("encoders", own.get("encoder", "vit"))
    encoder_config = validated(host.config(encoder), section(own, "encoder"), "encoder")
    method_config = validated(host.config(method), section(own, "method"), "method")
    views = host.load(method).views(method_config, Grid(grid.frames, grid.patch, topology.num_joints))
    return RunSpec(
        method=method.name,
        method_config=method_config.model_dump(mode="json"),
        encoder=encoder.name,
        encoder_config=encoder_config.model_dump(mode="json"),
        grid=grid,
        views={name: view.model_dump(mode="json") for name, view in views.items()},
    )


def native_grid(method: MethodSpec) -> GridSpec:
    """The token grid that the method was published with."""
    fields = {name: method.native[f"grid.{name}"] for name in GridSpec.model_fields if f"grid.{name}" in method.native}
    return GridSpec(**fields)


def flops_grids(host: Host) -> list[MethodOnGrid]:
    """Every trainable method on every budget and on its native grid, dense grids first."""
    pairs: list[MethodOnGrid] = []
    methods = [method for method in host.all("methods") if isinstance(method, MethodSpec) and method.trains]
    for method in sorted(methods, key=lambda m: (m.native.get("encoder.cls", True), m.name)):
        grids = {GridSpec(frames=frames, patch=patch) for frames, patch in BUDGETS.values()} | {native_grid(method)}
        ordered = sorted(grids, key=lambda g: (g.frames // g.patch, g.frames), reverse=True)
        pairs += [(method, grid) for grid in ordered]
    return pairs


def flops_rows(host: Host, pairs: Iterable[MethodOnGrid], topology: Topology = NTU25) -> Iterator[CostRow]:
    """One row per method and grid; whole steps are those of clips with two present bodies."""
    counts: dict[Any, MacCount] = {}  # many methods have the same encoder
    for method, grid in pairs:
        try:
            yield _row(host, method, grid, topology, counts)
        except Exception as error:  # one method that cannot be counted must not take the table from the others
            log.warning("%s at %d tokens is left out: %s", method.name, grid.frames // grid.patch, one_line(error))
            log.debug("traceback", exc_info=error)


def _row(host: Host, method: MethodSpec, patches: GridSpec, topology: Topology, counts: dict[Any, MacCount]) -> CostRow:
    spec = paper_spec(host, method, patches, topology)
    grid = grid_of(spec, topology)

    def encoder(visible: int | None = None) -> MacCount:
        key = spec.encoder, canonical_json(spec.encoder_config), grid, visible
        if key not in counts:
            counts[key] = count_encoder(build_encoder(spec, host, topology), grid, topology, visible)
        return counts[key]

    step = step_cost(spec, host, topology, bodies=BODIES)
    # Full-length crops of their own, not views cut from them: each goes through decoder and target once.
    own = [view for view in view_specs(spec).values() if view.parent is None and view.frames == grid.frames]
    crops = sum(view.count for view in own) or 1

    def forward(*roles: str, parts: int = 1) -> int | None:
        """MACs of ``roles`` per body in the forward pass of a step, or a ``parts``-th of them."""
        macs = [step["by_role"][role]["forward"] for role in roles if role in step["by_role"]]
        return round(sum(macs) / BODIES / parts) if macs else None

    return CostRow(
        method=method.name,
        tokens=f"{grid.times}x{grid.joints}",
        encoder=encoder(),
        class_token=encoder().class_token,
        visible=step["visible"],
        visible_macs=encoder(step["visible"]).body_macs,
        decoder_macs=forward("decoder", parts=crops),
        target_macs=forward("teacher", "target", parts=crops),
        head_macs=forward("head"),
        step_flops=step["flops_per_clip"],
        native=patches == native_grid(method),
        one_body=method.native.get("train.bodies") in ("first", "random-valid"),
    )
