"""Transfer to another data set: the frozen encoder, probed on data that it was not trained on."""

from __future__ import annotations

from skelbench.evaluation.linear import Linear, SlimLinear
from skelbench.plugin import ProtocolSpec, hookimpl


@hookimpl
def skelbench_protocols() -> list[ProtocolSpec]:
    return [
        ProtocolSpec(
            name="transfer",
            target=":Transfer",
            summary="linear probe of the frozen encoder on another data set (--dataset), as SLiM; others fine-tune",
            elsewhere=True,
        ),
        ProtocolSpec(
            name="transfer@slim",
            target=":SlimTransfer",
            summary="the same by the SLiM paper's recipe: AdamW 1e-4, batch 256, 10 epochs",
            elsewhere=True,
        ),
    ]


class Transfer(Linear):
    """``transfer``: the neutral linear probe on another data set (SLiM paper, appendix: transfer learning)."""


class SlimTransfer(SlimLinear):
    """``transfer@slim``: the same by the paper's own recipe (:class:`~skelbench.evaluation.linear.SlimLinear`)."""
