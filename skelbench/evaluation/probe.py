"""Parts of all probes: the training loop, clips on the device, held-out clips, scores of checkpoints, curve.

Shapes: n clips, b clips of a chunk, D feature width, C classes, E checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from skelbench.evaluation.protocol import Features, ProtocolResult, coverage_notes, headline
from skelbench.views.transfer import fetch, send

CHUNK = 4096
NOT_SELECTED = "too few training clips per class to hold some out, so no checkpoint was selected"

Found = TypeVar("Found")


class ProbeTrainer:
    """Updates by ``optimizer``; the learning rate of a group is ``rate(step)`` times the group's ``lr_scale`` (1)."""

    def __init__(self, optimizer: torch.optim.Optimizer, rate: Callable[[int], float]) -> None:
        self.optimizer, self.rate = optimizer, rate
        self.step = 0
        """Number of updates so far."""

    def update(self, backward: Callable[..., Found], *batch: Tensor) -> Found:
        """Make one update by the gradients that ``backward(*batch)`` leaves; return its result."""
        rate = self.rate(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group.get("lr_scale", 1.0)
        self.optimizer.zero_grad()
        gradients = backward(*batch)
        self.optimizer.step()
        self.step += 1
        return gradients

    def epoch(
        self,
        backward: Callable[[Tensor, Tensor], Found],
        x_nD: Tensor,
        y_n: Tensor,
        index_n: Tensor,
        size: int,
        generator: torch.Generator,
        drops_incomplete: bool = False,
    ) -> Iterator[Found]:
        """Update once per mini-batch of the clips ``index_n``, in random order; yield each result of ``backward``.

        ``generator`` is on the CPU, so that a seed means the same on every device.
        """
        order_n = index_n[torch.randperm(len(index_n), generator=generator)]
        if drops_incomplete:
            order_n = order_n[: len(order_n) // size * size]
        device = self.optimizer.param_groups[0]["params"][0].device
        y_n, order_n = send(y_n, x_nD.device), send(order_n, x_nD.device)
        for chosen_b in order_n.split(size):
            yield self.update(backward, send(x_nD.index_select(0, chosen_b), device), send(y_n[chosen_b], device))


@dataclass(frozen=True)
class Part:
    """Features and labels of some clips on the device."""

    x_nD: Tensor
    y_n: Tensor

    @classmethod
    def of(cls, x: np.ndarray, y: np.ndarray, device: torch.device | str) -> Part:
        return cls(send(torch.from_numpy(x), device), send(torch.from_numpy(y), device))

    def take(self, index: np.ndarray) -> Part:
        index_n = send(torch.from_numpy(index), self.y_n.device)
        return Part(self.x_nD[index_n], self.y_n[index_n])


@dataclass(frozen=True)
class Heads:
    """Linear layers on normalized features, one per checkpoint."""

    steps: list[int]
    weight_ECD: Tensor
    bias_EC: Tensor
    mean_D: Tensor
    inverse_std_D: Tensor

    def only(self, checkpoint: int) -> Heads:
        """One of the checkpoints."""
        chosen = slice(checkpoint, checkpoint + 1)
        weight_1CD, bias_1C = self.weight_ECD[chosen], self.bias_EC[chosen]
        return replace(self, steps=[self.steps[checkpoint]], weight_ECD=weight_1CD, bias_EC=bias_1C)

    def logits(self, x_nD: Tensor) -> Tensor:
        """[n, C], of the last checkpoint."""
        last = self.only(len(self.steps) - 1)
        return torch.cat([last.every(x_bD)[:, 0] for x_bD in x_nD.split(CHUNK)])

    def every(self, x_bD: Tensor) -> Tensor:
        """[b, E, C]: logits of a chunk at every checkpoint."""
        x_bD = (x_bD - self.mean_D) * self.inverse_std_D
        logits = F.linear(x_bD, self.weight_ECD.flatten(0, 1), self.bias_EC.flatten())
        return logits.unflatten(1, self.bias_EC.shape)

    def score(self, part: Part) -> tuple[list[float], list[float], Tensor]:
        """Mean loss (nats) and accuracy at every checkpoint, and the logits [n, C] of the last one."""
        E = len(self.bias_EC)
        loss_E = torch.zeros(E, dtype=torch.float64, device=part.x_nD.device)
        right_E = torch.zeros_like(loss_E)
        last = []
        for x_bD, y_b in zip(part.x_nD.split(CHUNK), part.y_n.split(CHUNK)):
            logits_bEC = self.every(x_bD)
            y_bE = y_b[:, None].expand(-1, E)
            loss_bE = F.cross_entropy(logits_bEC.flatten(0, 1), y_bE.flatten(), reduction="none").view(-1, E)
            loss_E += loss_bE.sum(0, dtype=torch.float64)
            right_E += (logits_bEC.argmax(2) == y_bE).sum(0)
            last.append(logits_bEC[:, -1])
        n = len(part.y_n)
        return fetch(loss_E / n).tolist(), fetch(right_E / n).tolist(), torch.cat(last)


def stratified(labels: np.ndarray, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices (kept, held), ascending: ``share`` of the clips held out, each class in proportion, none entirely.

    Class quotas are rounded by the largest remainder, ties at random, so that many small classes still give some.
    """
    rng = np.random.default_rng(seed)
    classes, counts = np.unique(labels, return_counts=True)
    quota = share * counts
    take = np.floor(quota).astype(int)
    by_remainder = np.lexsort((rng.random(len(classes)), take - quota))
    able = by_remainder[take[by_remainder] + 1 < counts[by_remainder]]
    take[able[: round(share * len(labels)) - take.sum()]] += 1
    held_out = np.zeros(len(labels), dtype=bool)
    for label, number in zip(classes, take):
        held_out[rng.permutation(np.flatnonzero(labels == label))[:number]] = True
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def curve_rows(fit: str, steps: list[int], per_epoch: int, **columns: list[float]) -> list[dict[str, Any]]:
    """One row of the curve per checkpoint of the fit "all-train" or "held-out"."""
    return [
        {"fit": fit, "step": step, "epoch": step / per_epoch, **{name: values[i] for name, values in columns.items()}}
        for i, step in enumerate(steps)
    ]


def probe_result(
    features: Features,
    logits_nC: Tensor,
    curve: dict[str, list[dict[str, Any]]],
    train_accuracy: float,
    val_share: float,
    notes: list[str],
    **metrics: float,
) -> ProtocolResult:
    """Result with the headline of ``logits_nC``, from the end of the fit "all-train"; ``accuracy_selected`` is of the
    checkpoint of the fit "held-out" that is best on held-out clips (ties: the lower loss)."""
    logits_nC = fetch(logits_nC)
    figures, predictions = headline(features, logits_nC.numpy())
    first, last = curve["all-train"], curve["all-train"][-1]
    figures |= {
        "train_accuracy": train_accuracy,
        "train_loss": last["train_loss"],
        "accuracy_best_on_test": max(row["test_accuracy"] for row in first),
        "steps": float(last["step"]),
        **metrics,
    }
    if "held-out" in curve:
        best = max(curve["held-out"], key=lambda row: (row["val_accuracy"], -row["val_loss"]))
        figures |= {"accuracy_selected": best["test_accuracy"], "selected_step": float(best["step"])}
    elif val_share:
        notes = [*notes, NOT_SELECTED]
    rows = [row for fit in curve.values() for row in fit]
    notes = [*coverage_notes(features), *notes]
    scores, logits = logits_nC.softmax(1).numpy(), logits_nC.numpy()
    return ProtocolResult(figures, predictions, rows, notes, scores, logits)
