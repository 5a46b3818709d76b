"""Settings of the protocols that ship with the harness (torch-free: hashed into a run's evaluation identity)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from skelbench.component import Spec


class LinearConfig(Spec):
    """Linear probe on frozen features. The defaults are the neutral recipe ``linear``.

    Length: ``max(min_steps, epochs * ceil(n / batch_size))`` steps. With a ``tolerance`` the learning rate stays
    constant for the first half, and on until 500 steps lower the training loss by less than ``tolerance`` times the
    chance-level loss log(classes), or until ``max_steps`` is reached; only then does the schedule decay. A slope
    measured while the rate decays to zero would vanish whether or not the probe has converged, and a slope relative
    to the loss itself never does on separable features.
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


class SlimLinearConfig(LinearConfig):
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


class MampLinearConfig(Spec):
    """``linear@mamp``: the probe of MAMP's code (maoyunyao/MAMP: main_linprobe, engine_linprobe, lr_sched).

    Batch normalisation without affine, a linear layer, SGD. Every epoch sees the training clips newly cropped and
    rotated, so the frozen encoder runs over all of them in every epoch. On PKU-MMD II its code has
    ``batch_size=32, lr=0.01``.
    """

    lr: float = Field(0.1, gt=0, description="at the start, not scaled by the batch size; 0.01 on PKU-MMD II")
    batch_size: int = Field(256, ge=2, description="clips per step, an incomplete last batch is left out; 32 on PKU-II")
    epochs: int = Field(100, ge=1, description="passes of the encoder over the augmented training clips: the cost")
    rest: float = Field(0.0, ge=0, lt=1, description="share of the epochs at the end with a learning rate of 0")
    dropout: float = Field(0.0, ge=0, lt=1, description="on token features in training, before they are averaged")
    crop_min: float = Field(0.5, gt=0, le=1, description="shortest training crop, share of the clip")
    crop_frames: int = Field(64, ge=1, description="crops are at least this many frames, if the clip has them")
    rotation_deg: float = Field(17.18873385, ge=0, description="rotation limit about every axis in training; 0.3 rad")
    val_share: float = Field(0.1, ge=0, lt=1, description="held out for accuracy_selected, as in ``linear``")


class MacDiffLinearConfig(MampLinearConfig):
    """``linear@macdiff``: the probe of MacDiff's code (Wenrui-Shen/MacDiff, commit 692888f).

    As MAMP's, on features that keep the joints apart, with dropout, and with the cosine at 0 ten epochs early.
    """

    rest: float = Field(0.1, ge=0, lt=1, description="share of the epochs at the end with a learning rate of 0")
    dropout: float = Field(0.3, ge=0, lt=1, description="on token features in training, before they are averaged")


class KnnConfig(Spec):
    """Nearest neighbours among the training clips (the paper's retrieval protocol: k = 1, cosine)."""

    k: int = Field(1, ge=1)
    metric: Literal["cosine", "euclidean"] = "cosine"
