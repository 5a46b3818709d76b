"""Cost of one pass of an encoder, counted three ways under one convention.

R rows (bodies), T frames, J joints, C = 3 coordinates, N tokens of the grid, K visible tokens, D width.
"""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from skelbench.core.errors import SkelbenchError
from skelbench.evaluation.cost.count import MacCount
from skelbench.evaluation.cost.handles import matrix_product_handles
from skelbench.evaluation.cost.meta import countable, on_meta
from skelbench.views.skeleton.grid import Grid
from skelbench.views.view import View

if TYPE_CHECKING:
    from skelbench.models.encoder import Encoder
    from skelbench.views.skeleton.topology import Topology

PRODUCTS = {"bilinear", "_trilinear", "cdist", "_cdist_forward"}
"""Operators that multiply matrices but that no counter supports."""
TOLERANCE = 0.01
"""Largest relative disagreement between the counters."""


class _Pass(nn.Module):
    """One pass of the encoder as a function of tensors, for tracing."""

    def __init__(self, encoder: nn.Module, view: View) -> None:
        super().__init__()
        self.encoder, self.view = encoder, view

    def forward(self, x_RTJC: Tensor, keep_RK: Tensor | None = None) -> tuple[Tensor, ...]:
        view = self.view.with_x(x_RTJC)
        if keep_RK is None:
            encoded = self.encoder(view)
        else:
            encoded = self.encoder(replace(view, keep_RK=keep_RK), keep_RK=keep_RK)
        outputs = (encoded.tokens_RND, encoded.pooled_RD, encoded.cls_RD)
        return tuple(x for x in outputs if x is not None)


def count_encoder(encoder: Encoder, grid: Grid, topology: Topology, visible: int | None = None) -> MacCount:
    """Count the matrix products of one pass of ``encoder`` on ``grid``: of one body, or of all that it reads together.

    ``visible``: encode that many tokens only (``keep_RK``), as masked autoencoders do in pre-training. The encoder is
    copied and counted in evaluation mode.

    Raises:
        SkelbenchError: the three counts differ by more than 1 %, or one of :data:`PRODUCTS` is used.
    """
    if grid.joints != topology.num_joints:
        raise SkelbenchError(f"the grid has {grid.joints} joints, the topology {topology.num_joints}; use the same")
    try:
        fvcore, parts, uncounted, torch_macs = _measure(on_meta(encoder), grid, visible, "meta")
    except Exception:  # an encoder that reads values cannot run on shapes alone
        fvcore, parts, uncounted, torch_macs = _measure(copy.deepcopy(encoder).cpu(), grid, visible, "cpu")
    if missed := sorted(PRODUCTS & uncounted.keys()):
        raise SkelbenchError(
            f"encoder {type(encoder).__name__} multiplies by {', '.join(missed)}, which neither fvcore nor PyTorch "
            "counts; write it with einsum or matmul"
        )
    closed = encoder.closed_form_macs(grid, visible)
    count = MacCount(
        macs=fvcore,
        by_part=dict(closed) or parts,
        closed_form=sum(closed.values()) if closed else None,
        fvcore=fvcore,
        torch_flop_counter=torch_macs,
        tokens=grid.tokens if visible is None else visible,
        class_token=encoder.has_class_token,
        bodies=encoder.bodies,
        uncounted_ops=uncounted,
        versions={"fvcore": version("fvcore"), "torch": torch.__version__},
    )
    _agree(count, type(encoder).__name__)
    return count


def _measure(
    encoder: Encoder, grid: Grid, visible: int | None, device: str
) -> tuple[int, dict[str, int], dict[str, int], int]:
    """fvcore's MACs, their split over direct submodules, uncounted operators, and PyTorch's MACs."""
    encoder.eval().requires_grad_(True)  # frozen layers without gradients would take fused paths that are not counted
    view = View.of(torch.zeros(1, 1, grid.frames, grid.joints, 3, device=device), stream=encoder.stream)
    inputs: tuple[torch.Tensor, ...] = (view.x_RTJC,)
    if visible is not None:
        inputs += (torch.arange(visible, device=device)[None],)
    one_pass = _Pass(encoder, view)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fvcore imports deprecated parts of torch
        from fvcore.nn import FlopCountAnalysis

        analysis = FlopCountAnalysis(one_pass, inputs).clear_op_handles().set_op_handle(**matrix_product_handles())
        analysis.unsupported_ops_warnings(False).uncalled_modules_warnings(False).tracer_warnings("none")
        total = int(analysis.total())
    by_module = analysis.by_module()
    parts = {name: int(by_module[f"encoder.{name}"]) for name, _ in encoder.named_children()}
    parts = {name: macs for name, macs in parts.items() if macs}
    if rest := total - sum(parts.values()):
        parts["other"] = rest
    uncounted = {name.removeprefix("aten::"): calls for name, calls in sorted(analysis.unsupported_ops().items())}
    with countable() as counter, counter:
        one_pass(*inputs)
    return total, parts, uncounted, counter.get_total_flops() // 2


def _agree(count: MacCount, name: str) -> None:
    counts = {"fvcore": count.fvcore, "torch.utils.flop_counter": count.torch_flop_counter}
    if count.closed_form is not None:
        counts["the closed form"] = count.closed_form
    low, high = min(counts.values()), max(counts.values())
    if high - low <= TOLERANCE * low:
        return
    figures = ", ".join(f"{counter} {macs:,} MACs" for counter, macs in counts.items())
    ops = ", ".join(f"{op} x{calls}" for op, calls in count.uncounted_ops.items()) or "none"
    raise SkelbenchError(
        f"the counters disagree by {100 * (high - low) / max(low, 1):.1f} % on {name} at {count.tokens} tokens "
        f"({figures}); correct its closed_form_macs, or add a handle in skelbench.evaluation.cost.handles for a "
        f"matrix product among the operators that are not counted: {ops}"
    )
