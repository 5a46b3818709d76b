"""Cost of every installed method at the paper's token grids, from descriptors alone: no data, no training."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from skelbench.config import GridSpec, RunSpec, validated
from skelbench.cost.macs import count_encoder
from skelbench.cost.report import step_cost
from skelbench.plugin.descriptors import MethodSpec
from skelbench.plugin.host import Host
from skelbench.pretrain.build import build_encoder, fake_views, grid_of
from skelbench.resolve import config_class
from skelbench.skeleton.grid import BUDGETS, Grid
from skelbench.skeleton.topology import NTU25, Topology

if TYPE_CHECKING:
    from skelbench.tables.flops import CostRow

STEP_BODIES = 2

log = logging.getLogger(__name__)


def paper_spec(host: Host, method: MethodSpec, frames: int, patch: int, topology: Topology = NTU25) -> RunSpec:
    """The method at its published size on a token grid, without data."""
    encoder = host.get("encoders", method.native.get("encoder", "vit"))
    native = {key.split(".", 1)[1]: value for key, value in method.native.items() if key.startswith("encoder.")}
    method_config = config_class(host, method)()
    return RunSpec(
        method=method.name,
        method_config=method_config.model_dump(mode="json"),
        encoder=encoder.name,
        encoder_config=validated(config_class(host, encoder), native, "encoder").model_dump(mode="json"),
        grid=GridSpec(frames=frames, patch=patch),
        views=host.load(method).views(method_config, Grid(frames, patch, topology.num_joints)),
    )


def flops_rows(host: Host, topology: Topology = NTU25) -> Iterator[CostRow]:
    """One row per trainable method and budget, dense grids first; whole steps with two present bodies per clip."""
    methods = [method for method in host.all("methods") if method.trains]
    for method in sorted(methods, key=lambda m: (m.native.get("encoder.cls", True), m.name)):
        for tokens in sorted(BUDGETS, reverse=True):
            try:
                yield _row(host, method, tokens, topology)
            except Exception as error:  # one method that cannot be counted must not take the table from the others
                log.warning("%s at %d tokens is left out: %s", method.name, tokens, error)
                log.debug("traceback", exc_info=error)


def _row(host: Host, method: MethodSpec, tokens: int, topology: Topology) -> CostRow:
    from skelbench.tables.flops import CostRow

    spec = paper_spec(host, method, *BUDGETS[tokens], topology)
    grid = grid_of(spec, topology)
    encoder = build_encoder(spec, host, topology)
    whole = count_encoder(encoder, grid, topology)
    kept = [view.keep_RK.shape[1] for view in fake_views(spec, topology, 1).values() if view.keep_RK is not None]
    visible = count_encoder(encoder, grid, topology, visible=kept[0]).macs if kept else whole.macs
    step = step_cost(spec, host, topology, bodies=STEP_BODIES)
    decoder = step["by_role"].get("decoder")
    return CostRow(
        method=method.name,
        tokens=f"{grid.times}x{grid.joints}",
        encoder=whole,
        class_token=bool(spec.encoder_config.get("cls")),
        visible_macs=visible,
        decoder_macs=round(decoder["forward"] / STEP_BODIES) if decoder else None,
        step_flops=step["flops_per_clip"],
    )
