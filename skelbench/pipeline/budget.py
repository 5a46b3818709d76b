"""Training budget in clips, steps, FLOPs or minutes (torch-free). Only the resulting number of steps is in the id."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from skelbench.core.errors import SkelbenchError

KINDS = ("clips", "steps", "flops", "minutes")
MOST = 1e12
"""Upper limit of the clips and steps of a run."""
_TIMES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_WRITTEN = re.compile(rf"({'|'.join(KINDS)})=(\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)([kKMGTPE]?)")


@dataclass(frozen=True)
class Budget:
    """Training budget.

    >>> str(Budget.parse("flops=1.5P")), str(Budget.parse("clips=40k"))
    ('flops=1.5e15', 'clips=40000')
    """

    kind: str
    """One of :data:`KINDS`: clips seen, optimizer steps, FLOPs of whole training steps, minutes of training."""
    amount: float

    @classmethod
    def parse(cls, text: Any) -> Budget:
        """``clips=40k``, ``steps=500``, ``flops=2e15``, ``minutes=2.5``; SkelbenchError for anything else."""
        match = _WRITTEN.fullmatch(text.strip()) if isinstance(text, str) else None
        # Twelve digits: what is printed is read back as the same.
        amount = float(f"{float(match[2]) * _TIMES[match[3]]:.12g}") if match else 0.0
        whole = not match or match[1] not in ("clips", "steps") or (amount.is_integer() and amount < MOST)
        if not match or not 0 < amount < math.inf or not whole:
            raise SkelbenchError(
                f"budget {text!r} is not clips=N, steps=N, flops=F or minutes=M with a number above 0, of clips and "
                "steps a whole one; write for example clips=40k or flops=1.5P"
            )
        return cls(match[1], amount)

    @property
    def number(self) -> str:
        """The amount as it is typed: ``40000``, ``2e15``."""
        return f"{self.amount:.12g}".replace("e+", "e")

    def __str__(self) -> str:
        return f"{self.kind}={self.number}"


@dataclass(frozen=True)
class Pace:
    """Speed of a machine on the steps of one setting."""

    seconds_per_step: float
    source: str
    """Time of the measurement, and the file that stores it."""


@dataclass(frozen=True)
class Length:
    """Length of one run that follows from a budget."""

    budget: Budget
    steps: int
    batch_size: int
    flops_per_clip: float | None = None
    """FLOPs of a whole training step for a clip of two bodies; None if not needed."""
    pace: Pace | None = None
    """Speed of the timed steps; None if nothing was timed."""

    @property
    def clips(self) -> int:
        """Clips seen."""
        return self.steps * self.batch_size

    @property
    def sentence(self) -> str:
        """``flops=2e13: 431 steps of 16 clips, 2e13 FLOPs at 2.9 GFLOPs for a clip of two bodies``."""
        text = f"{self.budget}: {self.steps:,} steps of {self.batch_size} clips"
        if self.flops_per_clip:
            spent = f"{self.clips * self.flops_per_clip:.4g}".replace("e+", "e")
            text += f", {spent} FLOPs at {self.flops_per_clip / 1e9:.4g} GFLOPs for a clip of two bodies"
        if self.pace:
            text += f", at {self.pace.seconds_per_step:.3g} s each {self.pace.source}"
        return text

    def record(self) -> dict[str, Any]:
        """Fields of run.json."""
        record: dict[str, Any] = {"asked": str(self.budget), "steps": self.steps, "clips": self.clips}
        record |= {"flops_per_clip": self.flops_per_clip} if self.flops_per_clip else {}
        return record | ({"seconds_per_step": self.pace.seconds_per_step} if self.pace else {})
