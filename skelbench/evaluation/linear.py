"""Linear probe: one linear layer on frozen features, reported by its last step and never selected on test data.

Shapes: n clips, b clips of a batch, D feature width, C classes, E checkpoints.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from skelbench.core.threads import one_thread
from skelbench.evaluation.probe import Heads, Part, ProbeTrainer, curve_rows, probe_result, stratified
from skelbench.evaluation.protocol import Features, Progress, Protocol, ProtocolResult, share
from skelbench.plugin import ProtocolSpec, hookimpl
from skelbench.views.transfer import fetch, send

WINDOW = 500
"""Number of steps over which the decrease of the training loss is measured."""
CHECKPOINTS = 20
NOTHING = 1e-30
"""Smaller probabilities count as 0: products of denormal numbers are ten times slower."""


@hookimpl
def skelbench_protocols() -> list[ProtocolSpec]:
    return [
        ProtocolSpec(
            name="linear",
            target=":Linear",
            summary="linear probe on standardized frozen features, AdamW until convergence",
        ),
        ProtocolSpec(
            name="linear@slim",
            target=":SlimLinear",
            summary="linear probe with the SLiM paper's recipe: AdamW 1e-4, batch 256, 10 epochs",
        ),
        ProtocolSpec(
            name="transfer",
            target=":Linear",
            summary="linear probe of the frozen encoder on another dataset (--dataset NAME)",
            elsewhere=True,
        ),
        ProtocolSpec(
            name="transfer@slim",
            target=":SlimLinear",
            summary="transfer with the SLiM paper's recipe: AdamW 1e-4, batch 256, 10 epochs",
            elsewhere=True,
        ),
    ]


class Linear(Protocol):
    """Linear probe.

    Metrics: ``accuracy`` (last step, the headline), ``macro_accuracy``, ``top5_accuracy`` (10 or more classes),
    ``train_accuracy``; ``accuracy_selected``: a second fit without a stratified part of train, at the checkpoint that
    is best on that part; ``accuracy_best_on_test``: the maximum over checkpoints, an upper bound; ``steps``,
    ``train_loss`` (nats), ``train_loss_fall`` (over the last 500 steps at constant rate, as a fraction of log C).

    The defaults are the neutral recipe. Length: ``max(min_steps, epochs * ceil(n / batch_size))`` steps. With a
    ``tolerance`` the rate stays constant for the first half, and until 500 steps lower the training loss by less than
    ``tolerance`` times log(classes), or until ``max_steps``; then the schedule decays.
    """

    standardize: bool = True
    """Subtract the mean and divide by the standard deviation of every feature over the training clips; no affine."""
    optimizer: Literal["adamw", "sgd"] = "adamw"
    """AdamW with PyTorch's betas, or SGD with momentum 0.9."""
    lr: float = Field(1e-2, gt=0)
    """Peak learning rate, not scaled by the batch size."""
    weight_decay: float = Field(0.1, ge=0)
    """Decoupled weight decay, strong enough to converge: a thousand clips take 4,000 steps."""
    batch_size: int = Field(256, ge=1, description="Clips of a step.")
    epochs: int = Field(20, ge=1, description="Planned length in passes over the training clips.")
    min_steps: int = Field(2000, ge=0, description="Least number of steps of the planned length.")
    max_steps: int = Field(20000, ge=0)
    """Limit of the extension by ``tolerance``; never shortens the planned length."""
    tolerance: float | None = Field(1e-3, gt=0)
    """Train longer while 500 steps lower the loss by more than this fraction of log(classes); None = planned length."""
    schedule: Literal["cosine", "constant"] = "cosine"
    """Learning rate over time: decays to 0 by a cosine, or stays constant."""
    val_share: float = Field(0.1, ge=0, lt=1)
    """Fraction of the training clips, stratified by class, held out for ``accuracy_selected``; 0 = no such metric."""

    def evaluate(
        self, features: Features, seed: int, device: torch.device | str, progress: Progress | None = None
    ) -> ProtocolResult:
        """Fit twice (see the class) and score every checkpoint."""
        return self.fitted(features, seed, device, progress)[0]

    def fitted(
        self, features: Features, seed: int, device: torch.device | str, progress: Progress | None = None
    ) -> tuple[ProtocolResult, Heads]:
        """Return the result of :meth:`evaluate`, and the probe."""
        train = Part.of(features.train_x, features.train_y, device)
        test = Part.of(features.test_x, features.test_y, device)
        kept_n, held_out = stratified(features.train_y, self.val_share, seed)
        selects = len(held_out) > 0
        products = self.batch_size * train.x_nD.shape[1] * features.num_classes
        with one_thread(products):
            probe = fit_linear(train, features.num_classes, self, seed, share(progress, 0, 1 + selects))

        train_loss_E, train_accuracy_E, _ = probe.score(train)
        _, test_accuracy_E, logits_nC = probe.score(test)
        columns = {"train_loss": train_loss_E, "train_accuracy": train_accuracy_E, "test_accuracy": test_accuracy_E}
        per_epoch = math.ceil(len(train.y_n) / self.batch_size)
        curve = {"all-train": curve_rows("all-train", probe.steps, per_epoch, **columns)}
        falls, notes = {} if probe.fall is None else {"train_loss_fall": probe.fall}, []
        if probe.fall is not None and self.tolerance is not None and probe.fall > self.tolerance:
            notes.append(
                f"the probe had not converged after {probe.steps[-1]} steps: its training loss still fell by "
                f"{probe.fall:.2%} of chance level in {WINDOW} steps (tolerance {self.tolerance:.2%})"
            )
        if selects:
            length = (probe.hold, probe.steps[-1]) if self.tolerance else None
            with one_thread(products):
                second = fit_linear(train.take(kept_n), features.num_classes, self, seed, share(progress, 1, 2), length)
            val_loss_E, val_accuracy_E, _ = second.score(train.take(held_out))
            columns = {"val_loss": val_loss_E, "val_accuracy": val_accuracy_E, "test_accuracy": second.score(test)[1]}
            per_epoch = math.ceil(len(kept_n) / self.batch_size)
            curve["held-out"] = curve_rows("held-out", second.steps, per_epoch, **columns)
        return probe_result(features, logits_nC, curve, train_accuracy_E[-1], self.val_share, notes, **falls), probe


class SlimLinear(Linear):
    """``linear@slim``: the SLiM paper's recipe (appendix A): AdamW, learning rate 1e-4, batch 256, 10 epochs.

    The paper names no schedule, weight decay or normalization: constant rate, PyTorch's 0.01, and none.
    """

    standardize: bool = False
    lr: float = Field(1e-4, gt=0)
    weight_decay: float = Field(1e-2, ge=0)
    epochs: int = Field(10, ge=1)
    min_steps: int = Field(0, ge=0)
    tolerance: float | None = Field(None, gt=0)
    schedule: Literal["cosine", "constant"] = "constant"


@dataclass(frozen=True)
class Fitted(Heads):
    """The probe at about 20 checkpoints, the last one included; or several probes at the last step."""

    hold: int
    """Steps at constant learning rate."""
    fall: float | None
    """Fraction of log C by which the training loss fell over the last WINDOW of them; None = not measured."""


def standardization(x_nD: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and 1 / standard deviation over the clips; 0 for features that are constant up to rounding."""
    double_nD = x_nD.double()
    mean_D, std_D = double_nD.mean(0), double_nD.std(0, unbiased=False)
    constant_D = std_D <= 1e-6 * double_nD.abs().amax(0)
    return mean_D.float(), torch.where(constant_D, 0.0, 1 / std_D.masked_fill(constant_D, 1)).float()


def residual(logits: Tensor, y_b: Tensor) -> Tensor:
    """Gradient of the mean cross-entropy by ``logits`` [b, C], or [b, P, C] of several probes."""
    residual_bC = F.threshold(logits.softmax(-1), NOTHING, 0.0)
    residual_bC[torch.arange(len(y_b), device=y_b.device), ..., y_b] -= 1
    return residual_bC.div_(len(y_b))


def fit_linear(
    part: Part,
    num_classes: int,
    config: Linear,
    seed: int,
    progress: Progress | None = None,
    length: tuple[int, int] | None = None,
    pairs: Sequence[tuple[float, float]] = (),
) -> Fitted:
    """Train a probe, or one for each (learning rate, weight decay) of ``pairs``, each as if it were trained alone.

    ``length`` = (steps at constant rate, steps in all) instead of the config's rule.
    """
    n, width = part.x_nD.shape
    device = part.x_nD.device
    if config.standardize:
        mean_D, inverse_std_D = standardization(part.x_nD)
    else:
        mean_D, inverse_std_D = part.x_nD.new_zeros(width), part.x_nD.new_ones(width)
    x_nD, y_n = (part.x_nD - mean_D) * inverse_std_D, part.y_n

    generator = torch.Generator().manual_seed(seed)
    first_CD = send(0.01 * torch.randn(num_classes, width, generator=generator), device)
    probes = pairs or [(config.lr, config.weight_decay)]
    weight_PCD = first_CD.expand(len(probes), -1, -1).clone()
    bias_PC = torch.zeros(len(probes), num_classes, device=device)
    parameters = list(zip(weight_PCD, bias_PC))  # views: the optimizer changes the stacked weights
    groups = [{"params": list(own), "lr_scale": lr, "weight_decay": wd} for own, (lr, wd) in zip(parameters, probes)]
    build = torch.optim.AdamW if config.optimizer == "adamw" else partial(torch.optim.SGD, momentum=0.9)

    per_epoch = math.ceil(n / config.batch_size)
    planned = max(config.min_steps, config.epochs * per_epoch)
    tolerance = config.tolerance if length is None else None
    hold, total = length or (planned // 2 if tolerance else 0, planned)
    if total == config.epochs * per_epoch:
        every = per_epoch * math.ceil(config.epochs / CHECKPOINTS)  # checkpoints at ends of epochs
    else:
        every = math.ceil(total / CHECKPOINTS)

    def rate(step: int) -> float:
        decays = config.schedule == "cosine" and step >= hold
        return 0.5 * (1 + math.cos(math.pi * (step - hold) / (total - hold))) if decays else 1.0

    def logits(x_bD: Tensor) -> Tensor:
        return F.linear(x_bD, weight_PCD.flatten(0, 1), bias_PC.flatten()).unflatten(1, bias_PC.shape)

    def backward(x_bD: Tensor, y_b: Tensor) -> None:
        residual_bPC = residual(logits(x_bD), y_b)
        weight_grad_PCD = (residual_bPC.flatten(1).T @ x_bD).unflatten(0, bias_PC.shape)
        for own, *grads in zip(parameters, weight_grad_PCD, residual_bPC.sum(0)):
            for parameter, grad in zip(own, grads):
                parameter.grad = grad

    trainer = ProbeTrainer(build(groups, lr=1.0, fused=True), rate)
    chance = math.log(num_classes)
    before, fall = chance, None
    snapshots: list[tuple[int, Tensor, Tensor]] = []
    while trainer.step < total:
        for _ in trainer.epoch(backward, x_nD, y_n, torch.arange(n), config.batch_size, generator):
            step = trainer.step
            if tolerance and step in (hold - WINDOW, hold):
                now = fetch(F.cross_entropy(logits(x_nD)[:, 0], y_n)).item()
                if step == hold:
                    fall = (before - now) / chance
                    if fall > tolerance and total + WINDOW <= config.max_steps:
                        hold, total = hold + WINDOW, total + WINDOW
                before = now
            if step % every == 0 or step == total:
                if step == total or not pairs:
                    snapshots.append((step, weight_PCD.clone(), bias_PC.clone()))
                if progress:
                    progress(step, total)
            if step == total:
                break

    # An extended fit has more snapshots: thin them, counting back from the last.
    snapshots = snapshots[:: -math.ceil(len(snapshots) / CHECKPOINTS)][::-1]
    steps, weights, biases = zip(*snapshots)
    heads = [step for step in steps for _ in probes], torch.cat(weights), torch.cat(biases), mean_D, inverse_std_D
    return Fitted(*heads, hold, fall)
