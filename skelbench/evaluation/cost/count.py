"""What was counted, as plain data (torch-free)."""

from __future__ import annotations

from dataclasses import dataclass, field

CONVENTION = (
    "Multiply-accumulates (MACs) of matrix products for one body (a clip, where an encoder reads its bodies together); "
    "FLOPs = 2 x MACs x bodies; "
    "norms, softmax, activations, additions and other element-wise operations are not counted."
)


def passes(bodies: int, together: int) -> int:
    """How often an encoder that reads so many bodies ``together`` runs for a clip of so many ``bodies``.

    >>> passes(1, 2), passes(2, 2), passes(2, 1)
    (1, 1, 2)
    """
    return -(-bodies // together)


@dataclass(frozen=True)
class MacCount:
    """Cost of one pass of an encoder. ``macs`` is fvcore's count; the other two are its witnesses."""

    macs: int
    by_part: dict[str, int]
    """The closed form's parts, or fvcore's count per direct submodule where there is no closed form."""
    closed_form: int | None
    fvcore: int
    torch_flop_counter: int
    """``torch.utils.flop_counter``'s FLOPs / 2."""
    tokens: int
    """Tokens of the grid, or the visible ones; a class token is not among them."""
    class_token: bool = False
    """Whether the encoder adds one to them."""
    bodies: int = 1
    """Bodies that ``macs`` cover."""
    uncounted_ops: dict[str, int] = field(default_factory=dict)
    """Operator -> calls in one pass, of everything that is not a matrix product."""
    versions: dict[str, str] = field(default_factory=dict)
    convention: str = CONVENTION

    @property
    def body_macs(self) -> float:
        """MACs of one body's share, such that two bodies cost twice as much."""
        return self.macs / self.bodies

    def flops(self, bodies: int = 1) -> int:
        """FLOPs of ``bodies`` bodies."""
        return 2 * self.macs * passes(bodies, self.bodies)


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
    """Forward, for all views of a step; ``None`` = the method has no decoder."""
    step_flops: float | None = None
    """FLOPs of one whole training step per clip with two present bodies
    (:func:`~skelbench.evaluation.cost.report.step_cost`)."""
    visible: int | None = None
    """Visible tokens; ``None`` = masked ones are not dropped."""
    target_macs: int | None = None
    """What makes the targets (EMA teacher, target generators), forward, for all views of a step; ``None`` = nothing."""
    head_macs: int | None = None
    """Projection heads of student and teacher, forward, for all views of a step; ``None`` = none."""
    native: bool = False
    """On the token grid that the method was published with."""
    one_body: bool = False
    """The published method trains on one body of a clip."""
