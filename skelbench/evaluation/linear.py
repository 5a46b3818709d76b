"""Linear probe: one linear layer on frozen features, reported by its last step and never selected on test data.

Shapes: n clips, b clips of a batch, D feature width, C classes, E checkpoints.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from skelbench.core.threads import one_thread
from skelbench.evaluation.probe import Heads, Part, curve_rows, probe_result, stratified
from skelbench.evaluation.protocol import Features, Progress, Protocol, ProtocolResult, share
from skelbench.plugin import ProtocolSpec, hookimpl
from skelbench.views.transfer import fetch, send

WINDOW = 500
"""Steps over which the fall of the training loss is judged."""
CHECKPOINTS = 20
NOTHING = 1e-30
"""A probability below this is none."""


@hookimpl
def skelbench_protocols() -> list[ProtocolSpec]:
    return [
        ProtocolSpec(
            name="linear",
            target=":Linear",
            summary="linear probe, AdamW to convergence on standardised frozen features (neutral default)",
        ),
        ProtocolSpec(
            name="linear@slim",
            target=":SlimLinear",
            summary="linear probe by the SLiM paper's recipe: AdamW 1e-4, batch 256, 10 epochs",
        ),
    ]


class Linear(Protocol):
    """Linear probe.

    Metrics: ``accuracy`` (last step, the headline), ``macro_accuracy``, ``top5_accuracy`` (10 or more classes),
    ``train_accuracy``; ``accuracy_selected``: a second fit without a stratified part of train, at the checkpoint that
    is best on that part; ``accuracy_best_on_test``: the maximum over the checkpoints of the first fit, an upper bound
    for reference only; ``steps``, ``train_loss`` (nats), ``train_loss_fall`` (over the last 500 steps at constant
    learning rate, as a share of log C; only with a ``tolerance``).

    The defaults are the neutral recipe. Length: ``max(min_steps, epochs * ceil(n / batch_size))`` steps. With a
    ``tolerance`` the learning rate stays constant for the first half, and on until 500 steps lower the training loss by
    less than ``tolerance`` times the chance-level loss log(classes), or until ``max_steps`` is reached; only then does
    the schedule decay. A slope measured while the rate decays to zero would vanish whether or not the probe has
    converged, and a slope relative to the loss itself never does on separable features.
    """

    standardise: bool = True
    """Subtract the mean and divide by the standard deviation of every feature over the training clips; no affine."""
    optimizer: Literal["adamw", "sgd"] = "adamw"
    """AdamW with PyTorch's betas, or SGD with momentum 0.9."""
    lr: float = Field(1e-2, gt=0)
    """Peak learning rate, not scaled by the batch size."""
    weight_decay: float = Field(0.1, ge=0)
    """Decoupled. With ``lr`` strong enough for an optimum that is reached: on a thousand clips in 4,000 steps, where
    1e-3 and 0.01 were still falling after 10,000."""
    batch_size: int = Field(256, ge=1)
    epochs: int = Field(20, ge=1)
    min_steps: int = Field(2000, ge=0)
    max_steps: int = Field(20000, ge=0)
    """Limit of the extension by ``tolerance``; never shortens the planned length."""
    tolerance: float | None = Field(1e-3, gt=0)
    """None = exactly the planned length."""
    schedule: Literal["cosine", "constant"] = "cosine"
    val_share: float = Field(0.1, ge=0, lt=1)
    """Share of the training clips, stratified by class, held out to choose the checkpoint of ``accuracy_selected``;
    0 = no such figure."""

    def evaluate(
        self, features: Features, seed: int, device: torch.device | str, progress: Progress | None = None
    ) -> ProtocolResult:
        """Fit twice (see the class) and score every checkpoint."""
        return self.fitted(features, seed, device, progress)[0]

    def fitted(
        self, features: Features, seed: int, device: torch.device | str, progress: Progress | None = None
    ) -> tuple[ProtocolResult, Heads]:
        """:meth:`evaluate`, and the probe that it measured."""
        train = Part.of(features.train_x, features.train_y, device)
        test = Part.of(features.test_x, features.test_y, device)
        kept, held = stratified(features.train_y, self.val_share, seed)
        selects = len(held) > 0
        products = self.batch_size * train.x_nD.shape[1] * features.num_classes
        with one_thread(products):
            fit = _fit(train, features.num_classes, self, seed, share(progress, 0, 1 + selects))

        train_loss_E, train_accuracy_E, _ = fit.score(train)
        _, test_accuracy_E, logits_nC = fit.score(test)
        columns = {"train_loss": train_loss_E, "train_accuracy": train_accuracy_E, "test_accuracy": test_accuracy_E}
        per_epoch = math.ceil(len(train.y_n) / self.batch_size)
        curve = {"all-train": curve_rows("all-train", fit.steps, per_epoch, **columns)}
        falls, notes = {} if fit.fall is None else {"train_loss_fall": fit.fall}, []
        if fit.fall is not None and self.tolerance is not None and fit.fall > self.tolerance:
            notes.append(
                f"the probe had not converged after {fit.steps[-1]} steps: its training loss still fell by "
                f"{fit.fall:.2%} of chance level in {WINDOW} steps (tolerance {self.tolerance:.2%})"
            )
        if selects:
            length = (fit.hold, fit.steps[-1]) if self.tolerance else None
            with one_thread(products):
                second = _fit(train.take(kept), features.num_classes, self, seed, share(progress, 1, 2), length)
            val_loss_E, val_accuracy_E, _ = second.score(train.take(held))
            columns = {"val_loss": val_loss_E, "val_accuracy": val_accuracy_E, "test_accuracy": second.score(test)[1]}
            per_epoch = math.ceil(len(kept) / self.batch_size)
            curve["held-out"] = curve_rows("held-out", second.steps, per_epoch, **columns)
        return probe_result(features, logits_nC, curve, train_accuracy_E[-1], self.val_share, notes, **falls), fit


class SlimLinear(Linear):
    """``linear@slim``: the SLiM paper's recipe (appendix A): AdamW, learning rate 1e-4, batch 256, 10 epochs.

    The paper names no schedule, weight decay or normalisation: constant rate, PyTorch's 0.01, and none.
    """

    standardise: bool = False
    lr: float = Field(1e-4, gt=0)
    weight_decay: float = Field(1e-2, ge=0)
    epochs: int = Field(10, ge=1)
    min_steps: int = Field(0, ge=0)
    tolerance: float | None = Field(None, gt=0)
    schedule: Literal["cosine", "constant"] = "constant"


@dataclass(frozen=True)
class _Fit(Heads):
    """The probe at about 20 checkpoints, the last one included."""

    hold: int
    """Steps at constant learning rate."""
    fall: float | None
    """Share of log C by which the training loss fell over the last WINDOW of them; None = not asked for."""


def standardisation(x_nD: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and 1 / standard deviation over the clips; 0 for features that are constant up to rounding."""
    double_nD = x_nD.double()
    mean_D, std_D = double_nD.mean(0), double_nD.std(0, unbiased=False)
    constant_D = std_D <= 1e-6 * double_nD.abs().amax(0)
    return mean_D.float(), torch.where(constant_D, 0.0, 1 / std_D.masked_fill(constant_D, 1)).float()


def residual(logits: Tensor, y_b: Tensor) -> Tensor:
    """Gradient of the mean cross-entropy by ``logits`` [b, C], or by those of several probes [b, P, C]."""
    # Written out: softmax minus one-hot. Where clips are told apart surely, its smallest values would be multiplied as
    # denormal numbers, which takes processors ten times as long.
    found = F.threshold(logits.softmax(-1), NOTHING, 0.0)
    found[torch.arange(len(y_b), device=y_b.device), ..., y_b] -= 1
    return found.div_(len(y_b))


def shuffled(x_nD: Tensor, y_n: Tensor, size: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """The mini-batches of an epoch. Each is picked by itself: a shuffled copy of all of wide features is as costly as
    the products with them."""
    for chosen_b in send(torch.randperm(len(x_nD), generator=generator), x_nD.device).split(size):
        yield x_nD.index_select(0, chosen_b), y_n[chosen_b]


def _fit(
    part: Part,
    num_classes: int,
    config: Linear,
    seed: int,
    progress: Progress | None = None,
    length: tuple[int, int] | None = None,
) -> _Fit:
    """Train a probe. ``length`` = (steps at constant rate, steps in all) instead of the config's rule."""
    x_nD, y_n = part.x_nD, part.y_n
    n, width = x_nD.shape
    device = x_nD.device
    if config.standardise:
        mean_D, inverse_std_D = standardisation(x_nD)
    else:
        mean_D, inverse_std_D = x_nD.new_zeros(width), x_nD.new_ones(width)
    x_nD = (x_nD - mean_D) * inverse_std_D

    # All randomness comes from a CPU generator, so that a seed means the same on every device.
    generator = torch.Generator().manual_seed(seed)
    weight = send(0.01 * torch.randn(num_classes, width, generator=generator), device)
    bias = torch.zeros(num_classes, device=device)
    build = torch.optim.AdamW if config.optimizer == "adamw" else partial(torch.optim.SGD, momentum=0.9)
    optimizer = build([weight, bias], lr=config.lr, weight_decay=config.weight_decay, fused=True)

    per_epoch = math.ceil(n / config.batch_size)
    planned = max(config.min_steps, config.epochs * per_epoch)
    tolerance = config.tolerance if length is None else None
    if length is None:
        hold, total = (planned // 2 if tolerance else 0), planned
    else:
        hold, total = length
    if total == config.epochs * per_epoch:
        every = per_epoch * math.ceil(config.epochs / CHECKPOINTS)  # checkpoints at ends of epochs
    else:
        every = math.ceil(total / CHECKPOINTS)
    chance = math.log(num_classes)
    before, fall = chance, None
    snapshots: list[tuple[int, Tensor, Tensor]] = []
    step = 0
    while step < total:
        for x_bD, y_b in shuffled(x_nD, y_n, config.batch_size, generator):
            if config.schedule == "cosine" and step >= hold:
                decay = 0.5 * (1 + math.cos(math.pi * (step - hold) / (total - hold)))
                optimizer.param_groups[0]["lr"] = config.lr * decay
            residual_bC = residual(F.linear(x_bD, weight, bias), y_b)
            weight.grad, bias.grad = residual_bC.T @ x_bD, residual_bC.sum(0)
            optimizer.step()
            step += 1

            if tolerance and step == hold - WINDOW:
                before = fetch(F.cross_entropy(F.linear(x_nD, weight, bias), y_n)).item()
            elif tolerance and step == hold:
                now = fetch(F.cross_entropy(F.linear(x_nD, weight, bias), y_n)).item()
                fall, before = (before - now) / chance, now
                if fall > tolerance and total + WINDOW <= config.max_steps:
                    hold, total = hold + WINDOW, total + WINDOW
            if step % every == 0 or step == total:
                snapshots.append((step, weight.clone(), bias.clone()))
                if progress:
                    progress(step, total)
            if step == total:
                break

    # An extended fit has more snapshots: thin them, counting back from the last.
    snapshots = snapshots[:: -math.ceil(len(snapshots) / CHECKPOINTS)][::-1]
    steps, weights, biases = zip(*snapshots)
    return _Fit(list(steps), torch.stack(weights), torch.stack(biases), mean_D, inverse_std_D, hold, fall)
