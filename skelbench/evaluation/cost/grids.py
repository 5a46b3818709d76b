"""Token grids on which the cost of methods is counted (torch-free)."""

from __future__ import annotations

from typing import Any

from skelbench.core.spec import GridSpec, section
from skelbench.plugin.descriptors import MethodSpec
from skelbench.plugin.host import Host
from skelbench.views.skeleton.grid import BUDGETS

MethodOnGrid = tuple[MethodSpec, GridSpec]
"""A method in its native setting on a token grid."""


def own_setting(method: MethodSpec) -> dict[str, Any]:
    """Everything that a method has of its own in its native setting."""
    return {**method.recipe, **method.native}


def native_grid(method: MethodSpec) -> GridSpec:
    """The token grid that the method was published with."""
    return GridSpec(**section(own_setting(method), "grid"))


def flops_grids(host: Host) -> list[MethodOnGrid]:
    """Every trainable method on every budget and on its native grid, dense grids first."""
    pairs: list[MethodOnGrid] = []
    methods = [method for method in host.all("methods") if isinstance(method, MethodSpec) and method.trains]
    for method in sorted(methods, key=lambda m: (own_setting(m).get("encoder.cls", True), m.name)):
        grids = {GridSpec(frames=frames, patch=patch) for frames, patch in BUDGETS.values()} | {native_grid(method)}
        ordered = sorted(grids, key=lambda g: (g.frames // g.patch, g.frames), reverse=True)
        pairs += [(method, grid) for grid in ordered]
    return pairs


def with_reference(pairs: list[MethodOnGrid], wanted: list[MethodOnGrid]) -> list[MethodOnGrid]:
    """``wanted`` behind the first of ``pairs``, the dense grid without a class token that other costs are shares of."""
    return [*(pair for pair in pairs[:1] if wanted and pair not in wanted), *wanted]
