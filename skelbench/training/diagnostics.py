"""What is watched while a method trains: effective ranks of features, usage of prototypes and what they tell, and what
turns of a few fixed clips change.

A look costs time and waits for the device, so there are about ``LOOKS`` of them in a schedule; on all other steps
nothing is computed and no hook is installed. A look changes nothing. Of several processes each adds rows of its share
of the batch; what prototypes tell of places and clips, and the fixed clips, are the first one's alone. Figures are
explained in docs/results_on_disk.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from skelbench.core import distributed
from skelbench.core.errors import SkelbenchError
from skelbench.methods.contract import Method
from skelbench.models.encoder import Encoded, Encoder
from skelbench.models.prototype_objective import PrototypeObjective
from skelbench.models.rank import effective_rank, sample_rows
from skelbench.training.fixed_clips import FixedClips
from skelbench.views.transfer import read, waiting
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
        self.piece = 0
        """Which piece of the batch is looked at: what is seen of several is put together."""
        self._seen: dict[str, dict[int, Tensor]] | None = None
        """By figure and piece: the figure, or features [n, D] whose rank it is."""

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
        with torch.no_grad(), waiting():
            if isinstance(what, PrototypeObjective):
                for figure, value in what.figures(view).items():
                    self._seen.setdefault(f"{figure}_{name}", {})[self.piece] = value
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
        x_nD = distributed.gather(sample_rows(x.detach().flatten(0, -2), ROWS))
        if len(x_nD) and self._seen is not None:
            self._seen.setdefault(f"rank_{name}", {})[self.piece] = sample_rows(x_nD, ROWS)

    @contextmanager
    def look(self, done: int) -> Iterator[dict[str, float]]:
        """Around the step that makes ``done`` steps: yields a dict that holds its figures afterwards, if it is due."""
        figures: dict[str, float] = {}
        if not self.due(done):
            yield figures
            return
        target = self.method.inference_encoder()
        encoders = [target, *(m for m in self.method.modules() if isinstance(m, Encoder) and m is not target)]
        first: dict[nn.Module, dict[int, dict[str, Tensor]]] = {}

        def keep(module: nn.Module, _: Any, out: Any) -> None:
            out = out[0] if isinstance(out, list) else out
            if isinstance(out, Encoded) and self.piece not in (pieces := first.setdefault(module, {})):
                pieces[self.piece] = {name: x.detach() for name, x in out.readouts.items()}

        self._seen = {}
        with ExitStack() as stack:
            stack.callback(setattr, self, "_seen", None)
            for encoder in encoders:
                stack.callback(encoder.register_forward_hook(keep).remove)
            yield figures
            for self.piece, readouts in first.get(target, next(iter(first.values()), {})).items():
                for name, x_RD in readouts.items():
                    self._rank(name, x_RD)
            self.piece = 0
            with torch.no_grad(), waiting():
                seen = {name: _together(list(pieces.values())) for name, pieces in self._seen.items()}
            figures |= read(seen)
        if self.fixed is not None and self.turns(done):
            figures |= self.fixed.figures(target)


def _together(pieces: list[Tensor]) -> Tensor:
    """The figure of all pieces: the rank of all features, or the mean of the pieces' figures."""
    if pieces[0].dim():
        return effective_rank(sample_rows(torch.cat(pieces), ROWS))
    return torch.stack(pieces).mean()
