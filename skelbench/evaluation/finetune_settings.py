"""Settings of fine-tuning: learning rates by layer and step, batches, epochs."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
from pydantic import Field, model_validator
from torch import nn

from skelbench.core.component import Share
from skelbench.evaluation.downstream import EncoderProtocol
from skelbench.models.encoder import Encoder
from skelbench.models.optim.groups import merged
from skelbench.models.optim.optimizers import SGD, Adam, AdamW, Groups, Optimizer
from skelbench.models.optim.schedules import Cosine, Schedule, StepDecay
from skelbench.plugin.plugin_errors import plugin_code, wrong
from skelbench.views.augmentations import Augment, Rotate
from skelbench.views.crops import Crop, Free

OPTIMIZERS: dict[str, Optimizer] = {"adamw": AdamW(), "adam": Adam(), "sgd": SGD()}


class FineTuneSettings(EncoderProtocol):
    """Settings of one fit, and of the clips that it sees."""

    trained: ClassVar[bool] = True
    """Whether it starts from the run's weights, or from the encoder as it was initialized."""
    unit: ClassVar[str] = "steps"
    drawn: ClassVar[str] = "label subsets"

    epochs: int = Field(100, ge=1, description="passes over the labeled clips")
    min_steps: int = Field(500, ge=0, description="least number of steps; with few clips, more epochs")
    batch_size: int = Field(48, ge=2, description="clips per step; each epoch is cut into batches in the same way")
    optimizer: Literal["adamw", "adam", "sgd"] = Field("adamw", description="PyTorch's betas; sgd has momentum 0.9")
    lr: float = Field(3e-4, gt=0, description="peak learning rate, not scaled by the batch size")
    head_lr: float = Field(1.0, gt=0, description="the classifier's rate, times lr")
    layer_decay: float = Field(0.8, gt=0, le=1, description="rate of a layer / rate of the next; 1 = same rate")
    weight_decay: float = Field(0.05, ge=0, description="weight decay of the optimizer")
    decay_all: bool = Field(False, description="weight decay of biases, norms and other 1-D parameters as well")
    warmup: float = Field(0.05, ge=0, lt=1, description="linear warm-up, fraction of the schedule")
    min_lr: float = Field(1e-5, ge=0, description="learning rate at the end of half a cosine")
    drops: tuple[Share, ...] = Field(
        (), description="fractions of the schedule where the rate falls to a tenth; no cosine"
    )
    drop_path: float = Field(0.3, ge=0, lt=1, description="probability of skipping the last block (lower before)")
    dropout: float = Field(0.0, ge=0, lt=1, description="dropout on tokens before their mean; needs --readout")
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="fraction of the target spread over all classes")
    head_hidden: int = Field(0, ge=0, description="width of a hidden layer with batch norm and ReLU; 0 = linear")
    frozen: bool = Field(False, description="only the classifier is trained, the encoder in eval mode")
    encoder_mode: Literal["train", "eval"] = Field(
        "train", description="eval: no dropout or drop path, fixed batch-norm statistics"
    )
    crop_min: float = Field(0.5, gt=0, le=1, description="shortest training crop, fraction of the clip; 1 = none")
    crop_frames: int = Field(64, ge=1, description="crops are at least this many frames, if the clip has them")
    rotation_deg: float = Field(17.18873385, ge=0, description="rotation limit about every axis in training; 0.3 rad")
    label_share: float = Field(1.0, gt=0, le=1, description="fraction of the training clips whose labels are used")
    draws: int = Field(1, ge=1, description="lists of such clips (`skelbench data labels`), from the first on")
    stratified: bool = Field(True, description="label_share of every class; false = of all clips, as in some codes")
    val_share: float = Field(0.1, ge=0, lt=1, description="fraction of labeled clips held out for accuracy_selected")
    best_on_test: bool = Field(False, description="score test clips after every epoch, for accuracy_best_on_test")

    @model_validator(mode="after")
    def _one_list_of_all(self) -> FineTuneSettings:
        if self.label_share == 1 and self.draws > 1:
            raise ValueError(f"with all labels there are no {self.draws} lists; set draws=1, or a label_share below 1")
        return self

    def schedule(self) -> Schedule:
        """Schedule of the learning rate, by steps."""
        if self.drops:
            return StepDecay(warmup=self.warmup, milestones=self.drops)
        return Cosine(warmup=self.warmup, min_lr=min(self.min_lr, self.lr))

    def views(self) -> tuple[Crop | None, tuple[Augment, ...]]:
        """Crop and augmentations of training clips; None and nothing = as clips are evaluated."""
        crop = Free(lo=self.crop_min, hi=1.0, whole_frames=True, min_frames=self.crop_frames)
        turn = Rotate(p=1.0, vertical_deg=self.rotation_deg, tilt_deg=self.rotation_deg)
        return crop if self.crop_min < 1 else None, (turn,) if self.rotation_deg else ()

    def per_epoch(self, clips: int) -> int:
        """Batches of an epoch of ``clips``. No batch has one clip alone, for batch norm."""
        return max(1, min(math.ceil(clips / self.batch_size), clips // 2))

    def epochs_of(self, clips: int) -> int:
        """Epochs of ``clips``."""
        return max(self.epochs, math.ceil(self.min_steps / self.per_epoch(clips)))

    def steps_of(self, clips: int) -> int:
        """Updates in a whole fit of ``clips``."""
        return self.per_epoch(clips) * self.epochs_of(clips)

    def classifier(self, width: int, classes: int) -> nn.Module:
        """The last layer, which returns logits [B, C]."""
        layer = nn.Linear(width, classes)
        nn.init.normal_(layer.weight, std=0.01)
        nn.init.zeros_(layer.bias)
        return layer

    def hidden(self, width: int, hidden: int) -> nn.Linear:
        """The layer before batch norm and ReLU."""
        return nn.Linear(width, hidden)

    def build_optimizer(self, groups: Groups) -> torch.optim.Optimizer:
        """Optimizer of :meth:`groups`, at the peak rate."""
        return OPTIMIZERS[self.optimizer].build(groups, self.lr, self.weight_decay)

    def groups(self, encoder: Encoder, head: nn.Module) -> Groups:
        """Parameters by rate and decay: ``lr_scale`` falls by ``layer_decay`` from the encoder's last layer to its
        first."""
        layers = [] if self.frozen else layers_of(encoder)
        parts = [(self.layer_decay ** (len(layers) - 1 - place), layer) for place, layer in enumerate(layers)]
        groups = []
        for scale, parameters in [*parts, (self.head_lr, list(head.parameters()))]:
            for decays in (True, False):
                of_kind = [p for p in parameters if p.requires_grad and decays == (self.decay_all or p.ndim > 1)]
                groups.append({"params": of_kind, "lr_scale": scale, "weight_decay": self.weight_decay * decays})
        return merged(groups)


def layers_of(encoder: Encoder) -> list[list[nn.Parameter]]:
    """The encoder's parameters by layer; :class:`SkelbenchError` if ``layers()`` forgets one or gives one twice."""
    with plugin_code(encoder.layers, "()"):
        layers = [list(layer) for layer in encoder.layers()]
    names = {parameter: name for name, parameter in encoder.named_parameters()}
    parameters = [parameter for layer in layers for parameter in layer]
    for parameter in names.keys() | set(parameters):
        times = sum(parameter is member for member in parameters)
        if parameter not in names or times != 1:
            name = names.get(parameter, "a parameter of another module")
            raise wrong(encoder.layers, f"gives {name} {times} times; give every parameter of the encoder once")
    return layers
