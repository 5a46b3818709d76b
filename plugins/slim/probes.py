"""Probes of SLiM's released code (KAIST-VICLab/SLiM at 2b8bb41, ``eval/linear.py``, ``knn.py`` and ``finetune.py``).

Shapes: n clips, b clips of a batch, D width of a token, C classes, G = 13 learning rates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from skelbench_plugins._native import MOMENTUM, newly_augmented
from torch import Tensor
from torch.nn import functional as F

from skelbench.core.errors import SkelbenchError
from skelbench.core.threads import one_thread
from skelbench.evaluation.finetune import FineTune
from skelbench.evaluation.protocol import Features, Progress, Protocol, ProtocolResult, coverage_notes, headline
from skelbench.evaluation.swept import held_out
from skelbench.records.measures import Measure
from skelbench.views import BoneScale, Free, Mirror, Noise, Rotate
from skelbench.views.keyed import Keyed
from skelbench.views.transfer import fetch, send

WEIGHT_STD = 0.01
PARTS = ("class -4", "class -3", "class -2", "class -1", "mean")
"""Parts of the readout "cls4+mean": class tokens of the last four blocks, mean token."""
READOUTS = {"cls": (3, 4), "cls+mean": (3, 5), "cls4": (0, 4), "cls4+mean": (0, 5)}
"""Readout -> its first part and the part after its last."""
SIMILAR = 8
"""Number of best probes whose disagreement measures the gain from selection."""
EXPECTED_MAXIMUM = 1.4236
"""Expected maximum of 8 standard normal variables."""
PAPER_CLIPS = 16_487
"""Test clips of NTU RGB+D 60 X-Sub."""


def training_views():
    """Return crop and augmentations of training clips; bone scaling has the bug of the released code."""
    turn = Rotate(vertical_deg=180.0, tilt_deg=math.degrees(0.3))
    changes = (Mirror(), BoneScale(groups="limbs", order="index"), turn, Noise(p=0.5, std=0.01))
    return Free(lo=0.5, hi=1.0, whole_frames=True, min_frames=16), changes


class SlimReleaseLinear(Protocol):
    """``linear@slim-release``: a grid of linear layers, 4 readouts by 13 learning rates, trained side by side by SGD.

    Features are computed again in every pass over the training clips, which are newly cropped and augmented. The
    readouts are parts of the level "cls4+mean" of the ViT.

    Metrics: ``accuracy``, of the layer that is best on held-out training subjects in a second grid trained without
    them (the headline); ``accuracy_best_on_test``, of the layer that is best on test, which the authors print, an
    upper bound; ``accuracy_fixed``, of the layer with ``fixed_readout`` and ``fixed_rate``; ``selection_gain``,
    ``accuracy_best_on_test`` minus the headline; ``chosen_lr``.
    """

    unit: ClassVar[str] = "clips"
    measures: ClassVar[Mapping[str, Measure]] = {
        "accuracy_fixed": Measure("accuracy of the fixed layer", share=True),
        "selection_gain": Measure("gain by selection on test", share=True),
        "held_out_accuracy": Measure("held-out accuracy", share=True),
        "chosen_lr": Measure("learning rate"),
    }

    rates: tuple[Annotated[float, Field(gt=0)], ...] = Field(
        tuple(digit * 10.0**power for power in range(-5, -1) for digit in (1, 2, 5)) + (0.1,),
        min_length=1,
        description="learning rates at batch size 256; scaled in proportion to the batch size",
    )
    batch_size: int = Field(64, ge=1, description="clips per step")
    steps: int = Field(20_000, ge=1, description="steps of training; the encoder runs once per pass over the clips")
    fixed_readout: Literal["cls", "cls+mean", "cls4", "cls4+mean"] = Field("cls+mean", description="of accuracy_fixed")
    fixed_rate: float = Field(1e-2, gt=0, description="one of the rates, of accuracy_fixed")

    def evaluate(
        self, features: Features, seed: int, device: torch.device | str, progress: Progress | None = None
    ) -> ProtocolResult:
        """Train both grids on the same passes, choose on held-out clips, score on test."""
        again = newly_augmented(features)
        if self.fixed_rate not in self.rates:
            raise SkelbenchError(f"fixed_rate={self.fixed_rate:g} is not one of the rates; choose one of them")
        if features.train_x.shape[1] % len(PARTS):
            raise SkelbenchError("linear@slim-release needs the readout cls4+mean of a ViT with 4 blocks or more")
        n = len(features.train_y)
        kept_n, held_n, notes = held_out(features)
        passes = math.ceil(self.steps / math.ceil(n / self.batch_size))
        grids = [_Grid(self, features, index, seed, device, passes) for index in (np.arange(n), kept_n)]
        crop, changes = training_views()
        for number in range(passes):
            report = None if progress is None else (lambda step, _, p=number: progress(p * n + step, passes * n))
            x_nD = again(Keyed(seed, number), crop, changes, progress=report)
            for grid in grids:
                grid.train(torch.from_numpy(x_nD))

        test_x, test_y = torch.from_numpy(features.test_x), torch.from_numpy(features.test_y)
        logits_LnC = grids[0].logits(test_x)
        right_Ln = logits_LnC.argmax(2) == test_y
        on_test_L = right_Ln.double().mean(1)
        held_y = torch.from_numpy(features.train_y[held_n])
        held_logits_LnC = grids[1].logits(torch.from_numpy(features.train_x[held_n]))
        on_held_L = (held_logits_LnC.argmax(2) == held_y).double().mean(1)
        names = [(readout, rate) for readout in READOUTS for rate in self.rates]
        chosen, best = int(on_held_L.argmax()), int(on_test_L.argmax())
        fixed = names.index((self.fixed_readout, self.fixed_rate))
        metrics, predictions = headline(features, logits_LnC[chosen].numpy())
        gain = float(on_test_L[best] - on_test_L[chosen])
        metrics |= {
            "accuracy_best_on_test": float(on_test_L[best]),
            "accuracy_fixed": float(on_test_L[fixed]),
            "selection_gain": gain,
            "held_out_accuracy": float(on_held_L[chosen]),
            "chosen_lr": names[chosen][1],
            "steps": float(grids[0].step),
        }
        curve = [
            {
                "fit": "grid",
                "readout": readout,
                "lr": rate,
                "val_accuracy": float(on_held_L[i]),
                "test_accuracy": float(on_test_L[i]),
                "chosen": i == chosen,
            }
            for i, (readout, rate) in enumerate(names)
        ]
        notes += [self._on_selection(right_Ln, on_test_L, gain), f"chosen readout: {names[chosen][0]}"]
        logits_nC = logits_LnC[chosen]
        return ProtocolResult(
            metrics,
            predictions,
            curve,
            [*coverage_notes(features), *notes],
            logits_nC.softmax(1).numpy(),
            logits_nC.numpy(),
        )

    def _on_selection(self, right_Ln: Tensor, on_test_L: Tensor, gain: float) -> str:
        best = right_Ln[on_test_L.argsort(descending=True)[:SIMILAR]]
        pairs = [(i, j) for i in range(len(best)) for j in range(i)]
        disagree = float(np.mean([float((best[i] != best[j]).double().mean()) for i, j in pairs])) if pairs else 0.0
        clips = right_Ln.shape[1]
        gain_here, gain_paper = (100 * selection_gain(disagree, number) for number in (clips, PAPER_CLIPS))
        return (
            f"the best of {len(on_test_L)} probes on test is {100 * gain:.1f} points above the chosen one; selection "
            f"alone is worth about {gain_here:.1f} points on {clips:,} test clips, {gain_paper:.1f} on {PAPER_CLIPS:,}"
        )


def selection_gain(disagreement: float, clips: int) -> float:
    """Expected gain in accuracy of the best of about 8 equally good probes on the test clips that choose it.

    ``disagreement``: fraction of the clips that one of two such probes classifies correctly and the other does not. The
    difference of two accuracies then has variance ``disagreement / clips``, so each deviates by its root over the root
    of 2.

    >>> round(100 * selection_gain(0.04, 16487), 2)
    0.16
    """
    return EXPECTED_MAXIMUM * math.sqrt(disagreement / (2 * clips))


class _Grid:
    """Layers of all readouts and rates, trained by SGD with momentum on the clips ``index_n`` of train.

    A layer's gradient does not depend on the others, so one backward pass of the sum of losses serves all.
    """

    def __init__(
        self,
        config: SlimReleaseLinear,
        features: Features,
        index_n: np.ndarray,
        seed: int,
        device: torch.device | str,
        passes: int,
    ) -> None:
        self.index_n, self.y_n = torch.from_numpy(index_n), torch.from_numpy(features.train_y)
        self.size, self.device = config.batch_size, device
        self.step, self.last = 0, passes * math.ceil(len(index_n) / config.batch_size)
        self.generator = torch.Generator().manual_seed(seed)
        part, classes = features.train_x.shape[1] // len(PARTS), features.num_classes
        self.columns = [slice(first * part, last * part) for first, last in READOUTS.values()]
        rates_G = torch.tensor(config.rates, dtype=torch.float32) * config.batch_size / 256
        self.rates_G11 = send(rates_G[:, None, None], device)
        self.parameters: list[Tensor] = []
        for columns in self.columns:
            width = columns.stop - columns.start
            weight_GDC = WEIGHT_STD * torch.randn(len(rates_G), width, classes, generator=self.generator)
            self.parameters += [send(weight_GDC, device), torch.zeros(len(rates_G), 1, classes, device=device)]
        self.momenta = [torch.zeros_like(parameter) for parameter in self.parameters]

    def train(self, x_nD: Tensor) -> None:
        """Train one pass over the features of all training clips."""
        order_n = self.index_n[torch.randperm(len(self.index_n), generator=self.generator)]
        with one_thread(self.size * x_nD.shape[1] * self.parameters[0].shape[2] * len(self.rates_G11)):
            for chosen_b in order_n.split(self.size):
                self._update(send(x_nD[chosen_b], self.device), send(self.y_n[chosen_b], self.device))

    def _update(self, x_bD: Tensor, y_b: Tensor) -> None:
        rate = 0.5 * (1 + math.cos(math.pi * self.step / self.last))
        for parameter in self.parameters:
            parameter.requires_grad_(True)
        y_Gb = y_b.expand(len(self.rates_G11), -1)
        losses = [
            F.cross_entropy(logits_GbC.flatten(0, 1), y_Gb.flatten(), reduction="sum") / len(y_b)
            for logits_GbC in self._logits(x_bD)
        ]
        gradients = torch.autograd.grad(torch.stack(losses).sum(), self.parameters)
        with torch.no_grad():
            for parameter, momentum, gradient in zip(self.parameters, self.momenta, gradients):
                momentum.mul_(MOMENTUM).add_(gradient)
                parameter.sub_(rate * self.rates_G11 * momentum)
        self.step += 1

    def _logits(self, x_bD: Tensor) -> list[Tensor]:
        """[G, b, C] for each readout."""
        pairs = zip(self.columns, self.parameters[::2], self.parameters[1::2])
        return [x_bD[:, columns] @ weight_GDC + bias_G1C for columns, weight_GDC, bias_G1C in pairs]

    @torch.no_grad()
    def logits(self, x_nD: Tensor) -> Tensor:
        """float32 [L, n, C] of all L layers, on the host."""
        parts = [torch.cat(self._logits(send(x_bD, self.device))) for x_bD in x_nD.split(1024)]
        return fetch(torch.cat(parts, 1))


class SlimReleaseSemi(FineTune):
    """``semi@1@slim-release``: all weights by SGD, the encoder at a hundredth of the classifier's rate, 20,000 steps.

    Our assumption: one process with whole batches (each of the release's two processes trains its own encoder), and our
    own lists of labels (the release's depend on the order of its files).
    """

    epochs: int = Field(1, ge=1, description="passes over the labeled clips")
    min_steps: int = Field(20_000, ge=0, description="least number of steps; with few clips, more epochs")
    batch_size: int = Field(256, ge=2, description="clips per step; each epoch is cut into batches in the same way")
    optimizer: Literal["adamw", "adam", "sgd"] = Field("sgd", description="sgd has momentum 0.9")
    lr: float = Field(1e-5, gt=0, description="learning rate at the start, not scaled by the batch size")
    head_lr: float = Field(100.0, gt=0, description="the classifier's rate, times lr")
    layer_decay: float = Field(1.0, gt=0, le=1, description="rate of a layer / rate of the next; 1 = same rate")
    weight_decay: float = Field(1e-4, ge=0, description="weight decay of the optimizer")
    decay_all: bool = Field(True, description="weight decay of biases, norms and other 1-D parameters as well")
    warmup: float = Field(0.0, ge=0, lt=1, description="linear warm-up, fraction of the schedule")
    min_lr: float = Field(0.0, ge=0, description="learning rate at the end of half a cosine")
    drop_path: float = Field(
        0.0, ge=0, lt=1, description="probability of skipping the last block; lower for earlier ones"
    )
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="fraction of the target spread over all classes")
    label_share: float = Field(0.01, gt=0, le=1, description="fraction of the training clips whose labels are used")

    def views(self):
        """Crop and augmentations of the released code."""
        return training_views()


class SlimReleaseSemi10(SlimReleaseSemi):
    """``semi@10@slim-release``: with 10 %."""

    label_share: float = Field(0.1, gt=0, le=1, description="fraction of the training clips whose labels are used")
