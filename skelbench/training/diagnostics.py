"""Diagnostics during training: effective ranks of features, prototype usage and information.

A diagnostic step costs time and waits for the device, so a schedule has about ``STEPS`` of them. Other steps compute
nothing and have no hook. Diagnostics change nothing. Several processes contribute rows of their parts of the batch;
prototype information comes from the first process. docs/monitoring.md explains the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from skelbench.core import distributed
from skelbench.methods.contract import Method
from skelbench.models.encoder import Encoded, Encoder
from skelbench.models.rank import effective_rank, sample_rows
from skelbench.views.transfer import read, waiting
from skelbench.views.view import View

STEPS = 25
"""Diagnostic steps of a schedule, besides the first and the last."""
ROWS = 1024
"""Rows of a matrix whose rank is computed, evenly spread over all of them."""


class Diagnostics:
    """Recorder behind ``Step.watch``; it records values in diagnostic steps only, within :meth:`record_step`.

    ``every``: steps between the lines of metrics.jsonl; each diagnostic step writes such a line.
    """

    def __init__(self, method: Method, total: int, every: int) -> None:
        self.method, self.total = method, total
        self.interval = -(-total // (STEPS * every)) * every
        self.micro_batch = 0
        """Index of the micro-batch that is being computed."""
        self._recorded: dict[str, dict[int, Tensor]] | None = None
        """Name -> micro-batch -> value, or features [n, D] whose rank is the value. None outside diagnostic steps."""

    def is_due(self, step: int) -> bool:
        """Whether ``step``, counted from 1, is a diagnostic step."""
        return step == 1 or step % self.interval == 0 or step == self.total

    def __call__(self, name: str, value: Any, view: View | None = None) -> None:
        """Record features, or the metrics of an objective: see :attr:`skelbench.methods.contract.Step.watch`."""
        if self._recorded is None:
            return
        with torch.no_grad(), waiting():
            if hasattr(value, "figures"):
                for figure, number in value.figures(view).items():
                    self._recorded.setdefault(f"{figure}_{name}", {})[self.micro_batch] = number
                return
            self._record_features(name, value() if callable(value) else value)

    def _record_features(self, name: str, x: Tensor) -> None:
        x_nD = distributed.gather(sample_rows(x.detach().flatten(0, -2), ROWS))
        if len(x_nD) and self._recorded is not None:
            self._recorded.setdefault(f"rank_{name}", {})[self.micro_batch] = sample_rows(x_nD, ROWS)

    @contextmanager
    def record_step(self, step: int) -> Iterator[dict[str, float]]:
        """Context of ``step``, counted from 1; the yielded dict is filled on exit if this is a diagnostic step."""
        figures: dict[str, float] = {}
        if not self.is_due(step):
            yield figures
            return
        probed = self.method.inference_encoder()
        encoders = [probed, *(m for m in self.method.modules() if isinstance(m, Encoder) and m is not probed)]
        readouts: dict[nn.Module, dict[int, dict[str, Tensor]]] = {}

        def keep_first(module: nn.Module, _: Any, out: Any) -> None:
            out = out[0] if isinstance(out, list) else out
            if isinstance(out, Encoded) and self.micro_batch not in (first := readouts.setdefault(module, {})):
                first[self.micro_batch] = {name: x.detach() for name, x in out.readouts.items()}

        self._recorded = {}
        with ExitStack() as stack:
            stack.callback(setattr, self, "_recorded", None)
            for encoder in encoders:
                stack.callback(encoder.register_forward_hook(keep_first).remove)
            yield figures
            for self.micro_batch, by_name in readouts.get(probed, next(iter(readouts.values()), {})).items():
                for name, x_RD in by_name.items():
                    self._record_features(name, x_RD)
            self.micro_batch = 0
            with torch.no_grad(), waiting():
                merged = {name: _merged(list(values.values())) for name, values in self._recorded.items()}
            figures |= read(merged)


def _merged(values: list[Tensor]) -> Tensor:
    """Metric over all micro-batches: the rank of all features, or the mean of the values."""
    if values[0].dim():
        return effective_rank(sample_rows(torch.cat(values), ROWS))
    return torch.stack(values).mean()
