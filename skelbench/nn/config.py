"""Settings of the shared encoder and of shared parts of methods; torch-free, hashed into the run's identity."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, PositiveFloat, model_validator

from skelbench.component import Spec


class ViTConfig(Spec):
    """The ViT of the paper's appendix A; ``MAMP`` below is the form of the masked-autoencoder family.

    ``temporal``: "rope" rotates queries and keys by temporal index (class and register tokens stay unrotated),
    "learned" adds one learned vector per temporal index, as many as the full-length grid has. ``cls``, ``registers``:
    extra tokens in front. ``cls_position``: one more joint slot, added to the class token. ``mask_token``: needed by
    methods that replace hidden tokens, not by those that drop them. ``mlp``: GELU with ``mlp_ratio * dim`` hidden
    units, or SwiGLU with two thirds of that, rounded up to a multiple of 8. ``readout``: what is used downstream,
    "auto" = class token and mean token side by side where there is a class token, else the mean. ``input_mean``,
    ``input_std``: constants that standardise x, y, z before they are cut into patches (metres; none = as they are).
    """

    dim: int = Field(256, ge=1)
    depth: int = Field(8, ge=1)
    heads: int = Field(8, ge=1)
    mlp_ratio: float = Field(4.0, gt=0)
    mlp: Literal["gelu", "swiglu"] = "gelu"
    temporal: Literal["rope", "learned"] = "rope"
    rope_base: float = Field(10000.0, gt=1)
    cls: bool = True
    cls_position: bool = False
    registers: int = Field(0, ge=0)
    mask_token: bool = True
    readout: Literal["auto", "cls", "mean", "cls+mean"] = "auto"
    qkv_bias: bool = True
    norm_eps: float = Field(1e-6, gt=0)
    drop_path: float = Field(0.0, ge=0, lt=1)
    input_mean: tuple[float, float, float] | None = None
    input_std: tuple[PositiveFloat, PositiveFloat, PositiveFloat] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> ViTConfig:
        if self.dim % self.heads:
            raise ValueError(f"dim {self.dim} cannot be split into {self.heads} heads; choose a multiple")
        if self.temporal == "rope" and self.dim // self.heads % 2:
            raise ValueError(f"RoPE needs an even width per head, not {self.dim // self.heads}")
        if self.cls_position and not self.cls:
            raise ValueError("cls_position needs a class token; set cls=true")
        if "cls" in self.readout and not self.cls:
            raise ValueError(f"readout {self.readout!r} needs a class token; set cls=true or readout='mean'")
        if (self.input_mean is None) != (self.input_std is None):
            raise ValueError("input_mean and input_std belong together; set both or neither")
        return self

    @property
    def mlp_hidden(self) -> int:
        """Hidden units of the feed-forward part."""
        if self.mlp == "gelu":
            return int(self.dim * self.mlp_ratio)
        hidden = int(self.dim * self.mlp_ratio * 2 / 3)
        return hidden + -hidden % 8

    @property
    def prefix(self) -> int:
        """Tokens in front of the patch tokens: class token and registers."""
        return int(self.cls) + self.registers

    @property
    def pooled(self) -> Literal["cls", "mean", "cls+mean"]:
        """``readout`` with "auto" resolved."""
        if self.readout == "auto":
            return "cls+mean" if self.cls else "mean"
        return self.readout


MAMP = ViTConfig(temporal="learned", cls=False, mask_token=False)
"""Encoder of MAMP, SkeletonMAE as compared there, S-JEPA, GFP, AMR: 6,336,000 parameters at T = 120, P_T = 4."""


class PrototypeSettings(Spec):
    """Projection head, prototypes, temperatures and teacher that DINO, iBOT and SLiM share.

    What SLiM's paper leaves open (*our reading*) follows DINOv2's ViT-L recipe, whose published constants it shares.
    """

    prototypes: int = Field(65536, ge=1, description="prototypes K of each head")
    head_hidden: int = Field(2048, ge=1, description="hidden width of the 3-layer projection heads")
    bottleneck: int = Field(256, ge=1, description="bottleneck width of the projection heads")
    prototype_gain: bool = Field(True, description="learn each prototype's length; false = 1 (our reading: DINOv2)")
    student_temp: float = Field(0.1, gt=0, description="student temperature (our reading: DINOv2)")
    teacher_temp: float = Field(0.07, gt=0, description="teacher temperature after its warm-up (our reading: DINOv2)")
    teacher_temp_start: float = Field(0.04, gt=0, description="teacher temperature at the start (our reading: DINOv2)")
    teacher_temp_warmup: float = Field(
        0.2, ge=0, le=1, description="its linear warm-up, share of the schedule (30 of 150 epochs)"
    )
    centering: Literal["sinkhorn", "running", "none"] = Field("sinkhorn", description="anti-collapse (our reading)")
    momentum: float = Field(0.994, ge=0, le=1, description="EMA momentum at the start, cosine to 1")
    freeze_prototypes: float = Field(
        1 / 150, ge=0, le=1, description="prototypes held still at first, share (our reading)"
    )
    patch_lr: float = Field(0.2, ge=0, description="learning-rate factor of the patch projection (our reading: DINOv2)")


class TargetSettings(Spec):
    """What hidden tokens are made to predict, where it can be exchanged (:mod:`skelbench_plugins.slim.targets`)."""

    target: str = Field("prototypes", description="what hidden tokens predict, see `skelbench plugins list`")
    target_settings: dict[str, Any] = Field({}, description="settings of a target of your own")
    decoder_dim: int = Field(256, ge=1, description="decoder width of target=coordinates")
    decoder_depth: int = Field(5, ge=1, description="decoder blocks of target=coordinates")
    decoder_heads: int = Field(8, ge=1, description="decoder attention heads of target=coordinates")
