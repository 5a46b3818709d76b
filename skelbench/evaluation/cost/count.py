"""Counted costs as plain data, and the token grids on which methods are counted (torch-free)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from skelbench.core.spec import GridSpec, section
from skelbench.plugin.descriptors import MethodSpec
from skelbench.plugin.host import Host
from skelbench.views.skeleton.grid import BUDGETS

CONVENTION = (
    "Multiply-accumulates (MACs) of matrix products for one body (a clip, where an encoder reads its bodies together); "
    "FLOPs = 2 x MACs x bodies; "
    "norms, softmax, activations, additions and other element-wise operations are not counted."
)


def passes(bodies: int, together: int) -> int:
    """Number of passes over ``bodies`` bodies by an encoder that reads ``together`` bodies at a time."""
    return -(-bodies // together)


@dataclass(frozen=True)
class MacCount:
    """Cost of one pass of an encoder. ``macs`` is fvcore's count; the other two counters confirm it."""

    macs: int
    by_part: dict[str, int]
    """The closed form's parts, or fvcore's count per direct submodule where there is no closed form."""
    closed_form: int | None
    fvcore: int
    torch_flop_counter: int
    """``torch.utils.flop_counter``'s FLOPs / 2."""
    tokens: int
    """Tokens of the grid, or the visible ones, without a class token."""
    class_token: bool = False
    bodies: int = 1
    """Bodies that ``macs`` cover."""
    uncounted_ops: dict[str, int] = field(default_factory=dict)
    """Operator -> calls in one pass, for everything that is not a matrix product."""
    versions: dict[str, str] = field(default_factory=dict)
    convention: str = CONVENTION

    @property
    def body_macs(self) -> float:
        """MACs per body."""
        return self.macs / self.bodies

    def flops(self, bodies: int = 1) -> int:
        """FLOPs of ``bodies`` bodies."""
        return 2 * self.macs * passes(bodies, self.bodies)


@dataclass(frozen=True)
class CostRow:
    """Counts of one method on one token grid. MACs are per body."""

    method: str
    tokens: str
    """Token grid, e.g. ``"8x25"``."""
    encoder: MacCount
    """Inference encoder on the whole grid."""
    class_token: bool = False
    visible_macs: float | None = None
    """Student encoder in pre-training: on visible tokens where masked ones are dropped, else on all."""
    decoder_macs: int | None = None
    """Forward, for all views of a step; ``None`` = the method has no decoder."""
    step_flops: float | None = None
    """FLOPs of one whole training step per clip with two present bodies."""
    visible: int | None = None
    """Visible tokens; ``None`` = masked ones are not dropped."""
    target_macs: int | None = None
    """EMA teacher and target generators, forward, for all views of a step; ``None`` = none."""
    head_macs: int | None = None
    """Projection heads of student and teacher, forward, for all views of a step; ``None`` = none."""
    native: bool = False
    """On the token grid that the method was published with."""
    one_body: bool = False
    """The published method trains on one body of a clip."""


MethodOnGrid = tuple[MethodSpec, GridSpec]
"""A method in its native setting on a token grid."""


def own_setting(method: MethodSpec) -> dict[str, Any]:
    """All settings of a method in its native setting."""
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
    """Return ``wanted`` with the first of ``pairs`` in front: the dense grid, whose cost is the reference."""
    return [*(pair for pair in pairs[:1] if wanted and pair not in wanted), *wanted]
