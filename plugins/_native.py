"""Base of the linear probes of released codes: training by epochs on features that may be augmented in every epoch.

Shapes: n clips, b clips of a batch, D feature width, C classes, 1 checkpoint.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from skelbench.core.errors import SkelbenchError
from skelbench.core.threads import one_thread
from skelbench.evaluation.probe import Heads, Part, ProbeTrainer, curve_rows, probe_result, stratified
from skelbench.evaluation.protocol import Again, Features, Progress, Protocol, ProtocolResult, share
from skelbench.plugin.plugin_errors import lacking
from skelbench.views.augmentations import Augment
from skelbench.views.crops import Crop
from skelbench.views.keyed import Keyed
from skelbench.views.transfer import fetch, send, waiting

NORM_EPS, MOMENTUM = 1e-6, 0.9


def newly_augmented(features: Features) -> Again:
    """Return the function that computes features of newly augmented training clips; SkelbenchError without one."""
    if features.again is None:
        raise SkelbenchError(
            "this probe augments training clips in every epoch, but got fixed features; use it on a run: skelbench "
            "eval RUN"
        )
    return features.again


class NativeLinear(Protocol):
    """A linear layer trained as in released code: whole epochs, no early stopping, SGD with momentum 0.9 unless
    a subclass has another :meth:`build_optimizer`.

    A subclass gives its learning rate (:meth:`rate`) and training features (:meth:`passes`). Test and held-out clips
    are never augmented.

    Metrics: ``accuracy`` (after the last epoch, the headline), ``macro_accuracy``, ``top5_accuracy`` (10 or more
    classes), ``train_accuracy`` (without augmentation); ``accuracy_selected``: a second probe that sees the same epochs
    except a stratified part of train, after the epoch that is best on that part; ``accuracy_best_on_test``: the
    maximum over the epochs that are scored, which the official codes print, an upper bound for reference only;
    ``steps``, ``train_loss`` (nats, mean over the last epoch's batches).
    """

    unit: ClassVar[str] = "clips"
    normalizes: ClassVar[bool]
    """Whether batch normalization without affine precedes the layer."""
    weight_std: ClassVar[float] = 0.01
    """Standard deviation of the initial weights; biases begin at 0."""
    drops_incomplete: ClassVar[bool]
    """Whether the last batch of an epoch is skipped if it is not full."""
    every: ClassVar[int] = 1
    """Number of epochs between scores on test and held-out clips; the last epoch always has one."""

    lr: float = Field(0.1, gt=0, description="learning rate at the start, not scaled by the batch size")
    batch_size: int = Field(256, ge=2, description="clips per step")
    epochs: int = Field(100, ge=1, description="passes over the training clips")
    val_share: float = Field(0.1, ge=0, lt=1, description="fraction held out for accuracy_selected, as in `linear`")

    def rate(self, epoch: float) -> float:
        """Learning rate ``epoch`` epochs after the start."""
        raise lacking(self, "rate(self, epoch)")

    def passes(
        self, features: Features, seed: int, device: torch.device | str, progress: Progress | None
    ) -> Iterator[Tensor]:
        """Features of all training clips, float32 [n, D], once per epoch."""
        raise lacking(self, "passes(self, features, seed, device, progress)")

    def classifier(self, width: int, classes: int, generator: torch.Generator, device: torch.device | str) -> nn.Module:
        """Module that is trained: ``weight`` [C, D] and ``bias`` [C], logits [b, C] of features [b, D]. First weights
        come from ``generator``, on the CPU."""
        layer = nn.utils.skip_init(nn.Linear, width, classes, device=device)
        with torch.no_grad():
            first_CD = self.weight_std * torch.randn(classes, width, generator=generator)
            layer.weight.copy_(send(first_CD, device))
            layer.bias.zero_()
        return layer

    def build_optimizer(self, layer: nn.Module) -> torch.optim.Optimizer:
        """Optimizer of :meth:`classifier`; the learning rate is set by :meth:`rate`."""
        return torch.optim.SGD(layer.parameters(), lr=self.lr, momentum=MOMENTUM)

    @property
    def heads(self) -> type[Heads]:
        """Class that scores clips with the layer's weights."""
        return Heads

    def evaluate(
        self, features: Features, seed: int, device: torch.device | str, progress: Progress | None = None
    ) -> ProtocolResult:
        """Train both probes on the same passes and score them during training."""
        n = len(features.train_y)
        if self.normalizes and n < 2:
            raise SkelbenchError("batch normalization needs at least 2 training clips, the split has 1")
        kept_n, held_n = stratified(features.train_y, self.val_share, seed)
        probes = {"all-train": _Probe(features, np.arange(n), self, seed, device)}
        if len(held_n) and len(kept_n) > 1:
            probes["held-out"] = _Probe(features, kept_n, self, seed, device)
        test = Part.of(features.test_x, features.test_y, device)
        held_part = Part.of(features.train_x[held_n], features.train_y[held_n], device)
        for epoch, x_nD in enumerate(self.passes(features, seed, device, progress)):
            scored = (epoch + 1) % self.every == 0 or epoch + 1 == self.epochs
            for fit, probe in probes.items():
                with one_thread(probe.batch * x_nD.shape[1] * features.num_classes):
                    train_loss = probe.train(x_nD)
                if not scored:
                    continue
                probe.steps.append(probe.trainer.step)
                probe.columns["train_loss"].append(train_loss)
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
            notes.append(f"batches of all {first.batch} clips instead of the recipe's {self.batch_size}")
        return probe_result(features, first.head.score(test)[2], curve, train_accuracy, self.val_share, notes)

    def unchanged(self, features: Features, device: torch.device | str, progress: Progress | None) -> Iterator[Tensor]:
        """The same training features in every epoch, float32 [n, D] on ``device``."""
        x_nD = send(torch.from_numpy(features.train_x), device)
        for epoch in range(self.epochs):
            yield x_nD
            if progress:
                progress(len(x_nD) * (epoch + 1), len(x_nD) * self.epochs)

    def augmented(
        self,
        features: Features,
        keyed: Keyed,
        crop: Crop,
        augment: tuple[Augment, ...] = (),
        dropout: float = 0.0,
        progress: Progress | None = None,
        noisy: bool = False,
    ) -> Tensor:
        """The training features of the epoch ``keyed.step``, float32 [n, D] on the host."""
        x_nD = newly_augmented(features)(keyed, crop, augment, dropout, share(progress, keyed.step, self.epochs), noisy)
        if not np.isfinite(x_nD).all():
            raise SkelbenchError(
                f"features of augmented clips are not finite in epoch {keyed.step}; check the clips' data and whether "
                f"the encoder's training diverged"
            )
        return torch.from_numpy(x_nD)


class _Probe:
    """Return the protocol's layer, after batch normalization if it has that, trained on the clips ``index_n`` of
    train."""

    def __init__(
        self, features: Features, index_n: np.ndarray, config: NativeLinear, seed: int, device: torch.device | str
    ) -> None:
        self.config = config
        self.index_n, self.y_n = torch.from_numpy(index_n), torch.from_numpy(features.train_y)
        self.batch = min(config.batch_size, len(index_n))
        batches = len(index_n) / self.batch
        self.per_epoch = math.floor(batches) if config.drops_incomplete else math.ceil(batches)
        self.generator = torch.Generator().manual_seed(seed)
        width, classes = features.train_x.shape[1], features.num_classes
        with waiting():  # the layer counts its batches
            self.norm = nn.BatchNorm1d(width, eps=NORM_EPS, affine=False, device=device) if config.normalizes else None
        self.layer = config.classifier(width, classes, self.generator, device)
        self.trainer = ProbeTrainer(
            config.build_optimizer(self.layer),
            lambda step: config.rate(step // self.per_epoch + step % self.per_epoch / self.per_epoch),
        )
        self.steps: list[int] = []
        self.columns: defaultdict[str, list[float]] = defaultdict(list)
        """Columns of the curve, one entry per scored epoch."""

    def train(self, x_nD: Tensor) -> float:
        """Train one epoch on ``x_nD`` (all training clips); return its mean loss in nats."""
        batches = self.y_n, self.index_n, self.batch, self.generator, self.config.drops_incomplete
        return fetch(torch.stack(list(self.trainer.epoch(self._backward, x_nD, *batches))).mean()).item()

    def _backward(self, x_bD: Tensor, y_b: Tensor) -> Tensor:
        loss = F.cross_entropy(self.layer(x_bD if self.norm is None else self.norm(x_bD)), y_b)
        loss.backward()
        return loss.detach()

    @property
    def head(self) -> Heads:
        """Return a copy of the probe, with the current running statistics of its normalization."""
        weights = self.layer.state_dict()
        weight_CD, bias_C = weights["weight"], weights["bias"]
        mean_D, inverse_std_D = weight_CD.new_zeros(weight_CD.shape[1]), weight_CD.new_ones(weight_CD.shape[1])
        if self.norm is not None:
            running_D, variance_D = self.norm.running_mean, self.norm.running_var
            assert running_D is not None and variance_D is not None  # they exist: track_running_stats is on
            mean_D, inverse_std_D = running_D, (variance_D + NORM_EPS).rsqrt()
        return self.config.heads(self.steps[-1:], weight_CD[None], bias_C[None], mean_D, inverse_std_D)
