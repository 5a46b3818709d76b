"""The linear probe of the masked-autoencoder family's own code: batch normalisation, SGD, augmentation left on.

Shapes: n clips, b clips of a batch, D feature width, C classes, 1 checkpoint.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from skelbench.cores import one_thread
from skelbench.errors import SkelbenchError
from skelbench.evaluate.probe import Heads, Part, curve_rows, probe_result, stratified
from skelbench.evaluate.protocol import Again, Features, Progress, Protocol, ProtocolResult, share
from skelbench.plugin import ProtocolSpec, hookimpl
from skelbench.views.augmentations import Rotate
from skelbench.views.crops import Free
from skelbench.views.keyed import Keyed

NORM_EPS, MOMENTUM = 1e-6, 0.9

MAE_DEFAULTS = {"bodies": "all-slots", "bodies_pool": "all-mean", "share": 0.95, "resize": "half-pixel"}
"""How the family evaluates: absent bodies are encoded and averaged in, its centre crop and resizing."""


@hookimpl
def skelbench_protocols() -> list[ProtocolSpec]:
    return [
        ProtocolSpec(
            name="linear@mamp",
            target=":MampLinear",
            summary="linear probe of MAMP's code: batch norm, SGD 0.1, 100 epochs, each on newly augmented clips; "
            "costs about 100 times `linear`",
            defaults={**MAE_DEFAULTS, "readout": "mean"},
        ),
        ProtocolSpec(
            name="linear@macdiff",
            target=":MacDiffLinear",
            summary="linear probe of MacDiff's code: as linear@mamp, with dropout, on features that keep the joints "
            "apart (J x D wide)",
            defaults={**MAE_DEFAULTS, "readout": "joints"},
        ),
    ]


class MampLinear(Protocol):
    """``linear@mamp``: the probe of MAMP's code (maoyunyao/MAMP: main_linprobe, engine_linprobe, lr_sched).

    Batch normalisation without affine, a linear layer, SGD, on training features that are computed anew in every epoch:
    clips newly cropped and rotated. On PKU-MMD II its code has ``batch_size=32, lr=0.01``.

    An evaluation runs the encoder ``epochs + 1`` times over the training clips and once over the test clips; the
    neutral ``linear`` does so once over both. Test and held-out clips are never augmented.

    Metrics: ``accuracy`` (after the last epoch, the headline), ``macro_accuracy``, ``top5_accuracy`` (10 or more
    classes), ``train_accuracy`` (without augmentation); ``accuracy_selected``: a second probe that sees the same epochs
    but for a stratified part of train, after the epoch that is best on that part; ``accuracy_best_on_test``: the
    maximum over epochs, which the official codes print, an upper bound for reference only; ``steps``, ``train_loss``
    (nats, mean over the last epoch's batches).
    """

    unit: ClassVar[str] = "clips"

    lr: float = Field(0.1, gt=0, description="at the start, not scaled by the batch size; 0.01 on PKU-MMD II")
    batch_size: int = Field(256, ge=2, description="clips per step, an incomplete last batch is left out; 32 on PKU-II")
    epochs: int = Field(100, ge=1, description="passes of the encoder over the augmented training clips: the cost")
    rest: float = Field(0.0, ge=0, lt=1, description="share of the epochs at the end with a learning rate of 0")
    dropout: float = Field(0.0, ge=0, lt=1, description="on token features in training, before they are averaged")
    crop_min: float = Field(0.5, gt=0, le=1, description="shortest training crop, share of the clip")
    crop_frames: int = Field(64, ge=1, description="crops are at least this many frames, if the clip has them")
    rotation_deg: float = Field(17.18873385, ge=0, description="rotation limit about every axis in training; 0.3 rad")
    val_share: float = Field(0.1, ge=0, lt=1, description="held out for accuracy_selected, as in ``linear``")

    def evaluate(
        self, features: Features, seed: int, device: torch.device | str, progress: Progress | None = None
    ) -> ProtocolResult:
        """Train both probes on the same passes and score them after every epoch."""
        n = len(features.train_y)
        if features.again is None:
            raise SkelbenchError(
                "this probe needs newly augmented training clips in every epoch and was handed finished features; "
                "use it on a run: skelbench eval RUN"
            )
        if n < 2:
            raise SkelbenchError("batch normalisation needs at least 2 training clips, the split has 1")
        kept, held = stratified(features.train_y, self.val_share, seed)
        probes = {"all-train": _Probe(features, np.arange(n), self, seed, device)}
        if len(held) and len(kept) > 1:
            probes["held-out"] = _Probe(features, kept, self, seed, device)
        test = Part.of(features.test_x, features.test_y, device)
        held_part = Part.of(features.train_x[held], features.train_y[held], device)
        for epoch in range(self.epochs):
            x_nD = torch.from_numpy(self._augmented(features.again, Keyed(seed, epoch), epoch, progress))
            for fit, probe in probes.items():
                with one_thread(probe.batch * x_nD.shape[1] * features.num_classes):
                    probe.train(x_nD, epoch)
                probe.columns["test_accuracy"] += probe.head.score(test)[1]
                if fit == "held-out":
                    val_loss_1, val_accuracy_1, _ = probe.head.score(held_part)
                    probe.columns["val_loss"] += val_loss_1
                    probe.columns["val_accuracy"] += val_accuracy_1

        curve = {fit: curve_rows(fit, probe.steps, probe.per_epoch, **probe.columns) for fit, probe in probes.items()}
        first = probes["all-train"]
        (train_accuracy,) = first.head.score(Part.of(features.train_x, features.train_y, device))[1]
        notes = []
        if first.batch < self.batch_size:
            notes.append(f"batches of {first.batch} clips, all there are, instead of the recipe's {self.batch_size}")
        return probe_result(features, first.head.score(test)[2], curve, train_accuracy, self.val_share, notes)

    def _augmented(self, again: Again, keyed: Keyed, epoch: int, progress: Progress | None) -> np.ndarray:
        """The training features of one epoch, float32 [n, D]."""
        crop = Free(lo=self.crop_min, hi=1.0, whole_frames=True, min_frames=self.crop_frames)
        turn = Rotate(p=1.0, vertical_deg=self.rotation_deg, tilt_deg=self.rotation_deg)
        x_nD = again(keyed, crop, (turn,), self.dropout, share(progress, epoch, self.epochs))
        if not np.isfinite(x_nD).all():
            raise SkelbenchError(
                f"features of augmented clips are not finite in epoch {epoch}; check the clips' data and whether the "
                f"encoder's training diverged"
            )
        return x_nD


class MacDiffLinear(MampLinear):
    """``linear@macdiff``: the probe of MacDiff's code (Wenrui-Shen/MacDiff, commit 692888f).

    As MAMP's, on features that keep the joints apart, with dropout, and with the cosine at 0 ten epochs early.
    """

    rest: float = Field(0.1, ge=0, lt=1, description="share of the epochs at the end with a learning rate of 0")
    dropout: float = Field(0.3, ge=0, lt=1, description="on token features in training, before they are averaged")


class _Probe:
    """Batch normalisation without affine and a linear layer, trained on the clips ``index_n`` of the training split."""

    def __init__(
        self, features: Features, index_n: np.ndarray, config: MampLinear, seed: int, device: torch.device | str
    ) -> None:
        self.config, self.device = config, device
        self.index_n, self.y_n = torch.from_numpy(index_n), torch.from_numpy(features.train_y)
        self.batch = min(config.batch_size, len(index_n))
        self.per_epoch = len(index_n) // self.batch
        # All randomness comes from a CPU generator, so that a seed means the same on every device.
        self.generator = torch.Generator().manual_seed(seed)
        width, classes = features.train_x.shape[1], features.num_classes
        self.norm = nn.BatchNorm1d(width, eps=NORM_EPS, affine=False, device=device)
        self.linear = nn.utils.skip_init(nn.Linear, width, classes, device=device)
        with torch.no_grad():
            self.linear.weight.copy_(0.01 * torch.randn(classes, width, generator=self.generator))
            self.linear.bias.zero_()
        self.optimizer = torch.optim.SGD(self.linear.parameters(), lr=config.lr, momentum=MOMENTUM)
        self.steps: list[int] = []
        self.columns: defaultdict[str, list[float]] = defaultdict(list)
        """Of the curve, one entry per epoch."""

    def train(self, x_nD: Tensor, epoch: int) -> None:
        """One epoch on ``x_nD`` (all training clips, on the host)."""
        losses = []
        order_n = self.index_n[torch.randperm(len(self.index_n), generator=self.generator)]
        for i, chosen_b in enumerate(order_n[: self.per_epoch * self.batch].split(self.batch)):
            self.optimizer.param_groups[0]["lr"] = learning_rate(self.config, epoch + i / self.per_epoch)
            logits_bC = self.linear(self.norm(x_nD[chosen_b].to(self.device)))
            loss = F.cross_entropy(logits_bC, self.y_n[chosen_b].to(self.device))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.detach())
        self.steps.append(self.per_epoch * (epoch + 1))
        self.columns["train_loss"].append(torch.stack(losses).mean().item())

    @property
    def head(self) -> Heads:
        """The probe as it is now, with the running statistics of its normalisation."""
        weight_CD, bias_C = self.linear.weight.detach(), self.linear.bias.detach()
        mean_D, variance_D = self.norm.running_mean, self.norm.running_var
        assert mean_D is not None and variance_D is not None  # this normalisation keeps them
        return Heads(self.steps[-1:], weight_CD[None], bias_C[None], mean_D, (variance_D + NORM_EPS).rsqrt())


def learning_rate(config: MampLinear, epoch: float) -> float:
    """A half cosine per step down to 0 at the end, or ``rest`` of the epochs before it."""
    share = min(1.0, epoch / (config.epochs * (1 - config.rest)))
    return config.lr * 0.5 * (1 + math.cos(math.pi * share))
