"""What is watched while a method trains: effective ranks of features, usage of prototypes and what they tell, and what
turns of a few fixed clips change.

A look costs time and waits for the device, so there are about ``LOOKS`` of them in a schedule; on all other steps
nothing is computed and no hook is installed. A look changes nothing and asks no other process: only the first process
looks, at its own share of the batch. Figures are explained in docs/results_on_disk.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from skelbench import distributed
from skelbench.errors import SkelbenchError
from skelbench.methods.contract import Method
from skelbench.nn.encoder import Encoded, Encoder
from skelbench.nn.prototype_objective import PrototypeObjective
from skelbench.nn.rank import effective_rank, sample_rows
from skelbench.train.fixed_clips import FixedClips
from skelbench.views.view import View

LOOKS = 25
"""Looks in a schedule, at even intervals, besides the first step and the last. With those at the fixed clips they cost
the cheapest method (AMR) 0.9 to 1 % of preset ``quick``."""
ROWS = 1024
"""Rows of a matrix whose rank is taken, evenly spread over all of them."""


class Watch:
    """Decides which steps are looked at, and is ``Step.watch``: it listens during :meth:`look` and is deaf otherwise.

    ``every``: steps between the lines of metrics.jsonl; looks are taken on steps that have a line. ``fixed``:
    clips on which the encoder to be probed is looked at besides.
    """

    def __init__(
        self,
        method: Method,
        total: int,
        every: int,
        fixed: FixedClips | None = None,
    ) -> None:
        self.method, self.total, self.fixed = method, total, fixed
        self.interval = -(-total // (LOOKS * every)) * every
        self._seen: dict[str, Any] | None = None

    def due(self, done: int) -> bool:
        """Whether the step that makes ``done`` steps is looked at."""
        return done == 1 or done % self.interval == 0 or done == self.total

    def turns(self, done: int) -> bool:
        """Whether the look after ``done`` steps is one at the fixed clips too."""
        if self.fixed is None or done == self.total:
            return self.fixed is not None
        return self.fixed.often and done in (1, self.total // (2 * self.interval) * self.interval)

    def __call__(self, name: str, what: Any, view: View | None = None) -> None:
        """See :attr:`skelbench.methods.contract.Step.watch`."""
        if self._seen is None:
            return
        with torch.no_grad():
            if isinstance(what, PrototypeObjective):
                self._seen |= {f"{figure}_{name}": value for figure, value in what.figures(view).items()}
                return
            x = what() if callable(what) else what
            if not isinstance(x, Tensor) or x.dim() < 2:
                kind = f"a tensor of shape {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
                raise SkelbenchError(
                    f'watch("{name}", ...) takes features [n, D], a function that returns them or a '
                    f"PrototypeObjective, not {kind}"
                )
            self._rank(name, x)

    def _rank(self, name: str, x: Tensor) -> None:
        x_nD = x.detach().flatten(0, -2)
        if len(x_nD) and self._seen is not None:
            self._seen[f"rank_{name}"] = effective_rank(sample_rows(x_nD, ROWS))

    @contextmanager
    def look(self, done: int) -> Iterator[dict[str, float]]:
        """Around the step that makes ``done`` steps: yields a dict that holds its figures afterwards, if it is due."""
        figures: dict[str, float] = {}
        if distributed.rank() or not self.due(done):
            yield figures
            return
        target = self.method.inference_encoder()
        encoders = [target, *(m for m in self.method.modules() if isinstance(m, Encoder) and m is not target)]
        first: dict[nn.Module, dict[str, Tensor]] = {}

        def keep(module: nn.Module, _: Any, out: Any) -> None:
            out = out[0] if isinstance(out, list) else out
            if isinstance(out, Encoded) and module not in first:
                first[module] = {name: x.detach() for name, x in out.readouts.items()}

        self._seen = {}
        with ExitStack() as stack:
            stack.callback(setattr, self, "_seen", None)
            for encoder in encoders:
                stack.callback(encoder.register_forward_hook(keep).remove)
            yield figures
            for name, x_RD in first.get(target, next(iter(first.values()), {})).items():
                self._rank(name, x_RD)
            figures |= {name: float(value) for name, value in self._seen.items()}
        if self.fixed is not None and self.turns(done):
            figures |= self.fixed.figures(target)
