"""What one method or encoder costs at each of the paper's token budgets: on shapes alone, without data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from skelbench.core.spec import GridSpec
from skelbench.evaluation.cost import BODIES
from skelbench.evaluation.cost.macs import count_encoder
from skelbench.evaluation.cost.report import flops_per_clip
from skelbench.evaluation.cost.rows import paper_spec
from skelbench.plugin.descriptors import Descriptor, MethodSpec
from skelbench.plugin.host import Host
from skelbench.training.build import bare_encoder, build_encoder
from skelbench.views.skeleton.grid import BUDGETS, Grid
from skelbench.views.skeleton.topology import NTU25

CONVENTION = (
    "At the published size (a method: its native encoder) on the 25 joints of NTU RGB+D. Matrix products alone; "
    "1 MAC = 2 FLOPs; a training step is all views of a clip, forward and backward, in every role."
)


@dataclass(frozen=True)
class BudgetCost:
    """Cost on one token grid."""

    tokens: int
    """Temporal tokens."""
    encoder_gmacs: float
    """1e9 multiply-accumulates of one pass, share of one body."""
    step_gflops: float | None
    """1e9 FLOPs of a training step per clip of two bodies; None = there is no such step."""


def budget_costs(host: Host, about: Descriptor) -> Iterator[BudgetCost]:
    """Costs of a method or an encoder, fewest tokens first.

    Raises:
        SkelbenchError: the encoder or a step cannot be built.
    """
    for tokens, (frames, patch) in BUDGETS.items():
        grid = Grid(frames, patch, NTU25.num_joints)
        if isinstance(about, MethodSpec):
            spec = paper_spec(host, about, GridSpec(frames=frames, patch=patch))
            encoder = build_encoder(spec, host, NTU25)
            step = BODIES * flops_per_clip(spec, host, NTU25) if about.trains else None
        else:
            encoder, step = bare_encoder(host, host.name(about), {}, NTU25, grid), None
        macs = count_encoder(encoder, grid, NTU25).body_macs
        yield BudgetCost(tokens, macs / 1e9, None if step is None else step / 1e9)
