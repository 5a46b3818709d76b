"""The run spec: everything that decides a pre-training result, and nothing else (torch-free).

A run is a pure function of its :class:`RunSpec`; device, threads and paths are recorded next to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal, Protocol, TypeVar

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from skelbench.core.component import Grown, Spec
from skelbench.core.errors import SkelbenchError, did_you_mean, nearest
from skelbench.core.hashing import digest
from skelbench.core.spelling import earlier

Bodies = Literal["valid", "all-slots", "first", "random-valid"]
"""Bodies of a clip for training: the present ones, every slot (including zero bodies), slot 0, one at random."""

ONE_BODY = "first", "random-valid"
"""Values of :data:`Bodies` with one body of every clip."""

Origin = Literal["clip", "body", "body-in-training"]
"""Origin. "clip": the center joint of the first body in its first frame (as stored). "body": the center joint of each
body in its own first frame. "body-in-training": as "body" in training, as "clip" in evaluation."""

Align = Literal[
    "none",
    "frames",
    "first-frame",
    "frames-as-released",
    "first-frame-as-released",
    "first-frame-shoulders",
    "first-frame-hips",
    "frames-with-path",
]
"""Position and orientation of clips before all other steps (:mod:`skelbench.data.store.alignment`)."""

SecondBody = Literal["zero", "repeat"]
"""Second body of a clip of one: absent, or the first one again as in the NTU-120 files of CTR-GCN and MAMP."""

Pooling = Literal["valid-mean", "valid-sum", "all-mean", "concat"]
"""Pooling of body features into one clip feature."""

Stream = Literal["joint", "bone", "motion", "fused"]
"""Coordinates; differences along bones; differences between frames; all three at once, for encoders that take them."""

Fusion = Literal["none", "features", "scores", "logits"]
"""Fusion of several streams: concatenated features, or the sum of probabilities (1-NN: similarities) or logits."""

EvaluationResize = Literal["ends", "half-pixel", "pad", "strided", "bin-starts", "uniform-frames"]
"""Resizing of a clip to T frames for evaluation, without randomness (:class:`skelbench.views.spec.ViewSpec`)."""


class GridSpec(Spec):
    """Token grid: T frames in patches of P_T frames."""

    frames: int = Field(64, ge=1, description="clip length T in frames after resizing")
    patch: int = Field(8, ge=1, description="frames per temporal token, P_T")


class DataSpec(Grown):
    """Dataset and selection of clips."""

    ADDED = frozenset({"min_frames"})

    name: str = Field("synthetic", description="dataset")
    split: str = Field("", description="split; empty = the dataset's default")
    second_body: SecondBody = Field(
        "zero", description="second body of single-body clips: zeros, or the first one again"
    )
    min_frames: int = Field(0, ge=0, description="training clips with fewer frames are excluded; test clips never are")
    dimensions: Literal[2, 3] = Field(3, description="2 for poses of the image plane, filled in when it is opened")
    fingerprint: str = Field("", description="content hash of the dataset, filled in when it is opened")

    FOUND: ClassVar[frozenset[str]] = frozenset({"dimensions", "fingerprint"})
    """Fields that the dataset decides."""

    @property
    def title(self) -> str:
        """Name in tables: with the presentation of clips if it is not the default."""
        repeated = " (second body repeated)" if self.second_body == "repeat" else ""
        return self.name + repeated + (f" (trained from {self.min_frames} frames)" if self.min_frames else "")


class TrainSpec(Grown):
    """Training without optimizer and schedule. Durations are fractions of the schedule. Fields with ``exclude`` change
    memory or speed only: they are recorded next to the spec and do not enter the id."""

    ADDED = frozenset({"align", "degrade"})

    epochs: float = Field(150, ge=0, description="training length in epochs")
    iters_per_epoch: int | None = Field(None, ge=1, description="steps that count as one epoch; none = one pass")
    batch_size: int = Field(768, ge=1, description="clips per step over all processes")
    lr: float = Field(2e-4, gt=0, le=1e6, description="peak learning rate")
    lr_scaling: Literal["none", "sqrt-1024"] = Field("none", description="multiply lr by sqrt(batch / 1024)")
    weight_decay: float = Field(0.05, ge=0, description="weight decay at the start")
    weight_decay_end: float | None = Field(None, ge=0, description="weight decay at the end (cosine); none = constant")
    clip_grad: float | None = Field(None, gt=0, description="gradient-norm limit per sub-network; none = off")
    bodies: Bodies = Field("valid", description="bodies of a clip used in training")
    center: Origin = Field("clip", description="origin: center of the first body for all bodies, or of each body")
    align: Align = Field("none", description="rotation of clips to one direction, in every frame or as in the first")
    degrade: tuple[dict[str, Any], ...] = Field(
        (), description="degradations, applied once to each training clip, in order: [{kind='zero-fill', share=0.2}]"
    )
    precision: Literal["fp32", "bf16"] = Field("fp32", description="autocast type of the forward pass")
    accumulate: Literal["auto"] | Annotated[int, Field(ge=1)] = Field(
        "auto",
        exclude=True,
        description="micro-batches into which a process splits its batch, to need less memory, if the method's loss "
        "allows it: equal results up to rounding; auto = 1, more if a GPU's memory is too small",
    )
    recompute: Literal["auto", "on", "elementwise", "off"] = Field(
        "auto",
        exclude=True,
        description="recompute activations of blocks in the backward pass, to need less memory: equal results (on a "
        "GPU up to rounding); on = all, a third slower; elementwise = all but matrix products and attention; auto = as "
        "much as a GPU's memory needs",
    )
    batch_norm: Literal["broadcast", "synchronized"] = Field(
        "broadcast",
        description="batch norm with several processes: over the batch of each process (with running statistics of the "
        "first), or over the whole batch, as in one process",
    )
    compile: Literal["auto", "blocks", "off"] = Field(
        "auto",
        exclude=True,  # results differ by rounding only: recorded next to a run, not part of its id
        description="code compiled for a GPU, equal results up to rounding: auto = kernels for the prototype loss "
        "in bf16; blocks = also CUDA graphs of ViT blocks, for small models (not measured yet)",
    )

    @field_validator("degrade", mode="before")
    @classmethod
    def _by_kind(cls, value: Any) -> Any:
        """Accept one step without a list, a kind without settings, and "none"."""
        steps = [] if value == "none" else [value] if isinstance(value, str | Mapping) else value
        return [{"kind": x} if isinstance(x, str) else x for x in steps] if isinstance(steps, list | tuple) else steps


class RunSpec(Spec):
    """One pre-training run. Settings and views of plugins are plain data, so that a run is readable without them."""

    method: str
    method_version: int = 1
    method_source: str | None = Field(None, description="hash of the file of a single-file plugin")
    method_config: dict[str, Any] = {}
    encoder: str = "vit"
    encoder_version: int = 1
    encoder_source: str | None = Field(None, description="the same for a single-file encoder plugin")
    encoder_config: dict[str, Any] = {}
    optimizer: str = "adamw"
    optimizer_config: dict[str, Any] = {}
    schedule: str = "cosine"
    schedule_config: dict[str, Any] = {}
    components: dict[str, str] = Field(
        {}, description="version, and hash of a single file, of everything else that is exchangeable: 'masks tube'"
    )
    grid: GridSpec = GridSpec()
    views: dict[str, dict[str, Any]] = {}
    data: DataSpec = DataSpec()
    train: TrainSpec = TrainSpec()
    seed: int = Field(0, ge=0, lt=2**64)
    init_from: str | None = Field(None, description="id of the run whose weights this one starts from")
    imported: str | None = Field(None, description="sha256 of the checkpoint file that the weights come from")

    @property
    def id(self) -> str:
        """The pretrain_id: 12 hex digits."""
        return digest(earlier(self.model_dump(mode="json")))

    @property
    def tokens(self) -> int:
        """Temporal tokens P of the grid."""
        return self.grid.frames // self.grid.patch


class Configured(Protocol):
    """A run that exists or is only resolved."""

    @property
    def spec(self) -> RunSpec: ...

    @property
    def preset(self) -> str: ...


class EvalSpec(Grown):
    """One evaluation of one encoder."""

    ADDED = frozenset({"align", "weights", "min_confidence"})

    pretrain_id: str
    checkpoint: str = Field("last", description="'last' or the epoch of a kept snapshot")
    protocol: str
    protocol_version: int = 1
    protocol_source: str | None = Field(None, description="hash of the file of a single-file plugin")
    protocol_config: dict[str, Any] = {}
    data: DataSpec
    seed: int = Field(0, ge=0, lt=2**64)
    streams: tuple[Stream, ...] = Field(("joint",), min_length=1, description="input streams of the encoder, in turn")
    fusion: Fusion = Field("none", description="how several streams become one result")
    weights: tuple[Annotated[float, Field(gt=0)], ...] = Field(
        (), description="weight of each stream in a sum of scores or logits; empty = equal weights"
    )
    partners: tuple[str, ...] = Field((), description="runs of the streams after the first: pretrain_id[@epoch]")
    readout: str = Field("pooled", description="features of a body: pooled, mean, joints, or a level of the encoder")
    bodies_pool: Pooling = "valid-mean"
    bodies: Bodies = "valid"
    center: Origin = "clip"
    align: Align = "none"
    share: float = Field(0.95, gt=0, le=1, description="central fraction of a clip that is evaluated")
    resize: EvaluationResize = "ends"
    min_confidence: float = Field(
        0.0, ge=0, le=1, description="tokens whose mean confidence is below it are hidden from the encoder; 0 = none"
    )

    @model_validator(mode="after")
    def _check_streams(self) -> EvalSpec:
        streams = ", ".join(self.streams)
        if len(set(self.streams)) < len(self.streams):
            raise ValueError(f"streams {streams}: give each stream once")
        if len(self.streams) > 1 and self.fusion == "none":
            raise ValueError(f"streams {streams} need a fusion; give --fusion features or --fusion scores")
        if len(self.streams) == 1 and self.fusion != "none":
            raise ValueError(f"fusion of {self.fusion} needs several streams; leave it out or give --stream joint,bone")
        if self.weights and self.fusion not in ("scores", "logits"):
            raise ValueError("weights need streams whose scores are summed; give --fusion scores or logits")
        if self.weights and len(self.weights) != len(self.streams):
            raise ValueError(f"{len(self.weights)} weights cannot weigh streams {streams}; give one for each")
        if self.partners and len(self.partners) + 1 != len(self.streams):
            raise ValueError(
                f"{len(self.partners) + 1} runs cannot have {len(self.streams)} streams; give one for each"
            )
        return self

    @model_serializer(mode="wrap")
    def _as_before(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Exclude equal weights: the sum has the same id as without weights."""
        return {name: value for name, value in super()._as_before(handler).items() if self.weighs or name != "weights"}

    @property
    def weighs(self) -> bool:
        """Whether streams have different weights."""
        return len(set(self.weights)) > 1

    @property
    def stream_title(self) -> str:
        """``bone``, ``joint + bone (scores)``, ``0.6 joint + 0.4 bone (logits)``, ``joint + bone + motion (input)``."""
        if self.streams == ("fused",):
            return "joint + bone + motion (input)"
        named = [f"{w:g} {name}" for w, name in zip(self.weights, self.streams)] if self.weighs else self.streams
        return " + ".join(named) + (f" ({self.fusion})" if self.fusion != "none" else "")

    @property
    def id(self) -> str:
        """The eval_id: 12 hex digits."""
        return digest(earlier(self.model_dump(mode="json")))


S = TypeVar("S", bound=Spec)


def validated(model: type[S], values: Mapping[str, Any], where: str) -> S:
    """Build ``model`` from ``values``; SkelbenchError for the first problem, with the field and the nearest name."""
    values = {name: None if _means_nothing(model, name, value) else value for name, value in values.items()}
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        text = first["msg"].removeprefix("Value error, ")
        path = ".".join(str(part) for part in first["loc"])
        name = f"{where}.{path}" if path else where
        if first["type"] == "extra_forbidden":
            message = did_you_mean(path.rsplit(".", 1)[-1], list(model.model_fields), f"setting of {where}")
        elif first["type"] == "missing":
            message = f"{name} has no value, and {model.__name__} gives it no default"
        elif not path:  # a contradiction between fields: the whole input would be printed
            message = f"settings of {where} are not valid: {text}"
        else:
            message = f"{name}={first.get('input')!r} is not valid: {text[0].lower()}{text[1:]}"
            options = re.findall(r"'([^']+)'", str(first.get("ctx", {}).get("expected", "")))
            near = nearest(str(first.get("input")), options)
            message += f"; did you mean {near!r}?" if near else ""
        raise SkelbenchError(message) from error


def twin_fields(spec: RunSpec) -> dict[str, Any]:
    """Fields that a run shares with its untrained baseline: encoder, grid, data and seed."""
    shared = ("encoder", "encoder_version", "encoder_source", "encoder_config", "grid", "data", "seed")
    return {name: getattr(spec, name) for name in shared}


def _means_nothing(model: type[Spec], name: str, value: Any) -> bool:
    """Whether the text ``none`` means None: the setting may be absent, and no choice has this name."""
    if value != "none" or name not in model.model_fields:
        return False
    annotation = str(model.model_fields[name].annotation)
    return "None" in annotation and "'none'" not in annotation


def evaluation_defaults(spec: RunSpec) -> dict[str, Any]:
    """Default evaluation of a run and of its untrained baseline: bodies, stream and frames as in training.

    A run that was trained on all slots (as MAMP) has empty bodies in the mean.
    """
    streams = {view["stream"] for view in spec.views.values()} or {"joint"}
    streams = {"fused"} & streams or streams
    slots = spec.train.bodies == "all-slots"
    full_views = [view for view in spec.views.values() if view["frames"] == spec.grid.frames]
    resized = {"bin-starts" if view["resize"] == "release" else view["resize"] for view in full_views}
    return {
        "streams": tuple(streams) if len(streams) == 1 else ("joint",),
        "bodies": "all-slots" if slots else "valid",
        "center": "clip" if spec.train.center == "body-in-training" else spec.train.center,
        "align": spec.train.align,
        "bodies_pool": "all-mean" if slots else "valid-mean",
        "resize": next(
            (how for how in ("half-pixel", "uniform-frames", "strided", "pad", "bin-starts") if how in resized), "ends"
        ),
    }


def streams_seen(spec: RunSpec) -> set[str]:
    """Streams of the training views, which may be more than in an evaluation; empty for an untrained encoder."""
    return {view.get("stream", "joint") for view in spec.views.values()}


def stream_names(components: Iterable[str]) -> str:
    """``joint + bone + motion``, in this order; ``fused`` is all three."""
    streams = {*components}
    return " + ".join(name for name in ("joint", "bone", "motion") if name in streams or "fused" in streams)


def titled(method: str, variant: str) -> str:
    """``slim``, ``slim:glcl-only``: a method as the user types it."""
    return f"{method}:{variant}" if variant else method


def file_name(title: str) -> str:
    """``slim.glcl-only``: the value of :func:`titled` as part of a file name."""
    return title.replace(":", ".")


def listed(settings: Mapping[str, Any]) -> str:
    """``method.mfp_weight=0.0, train.batch_size=x0.5``: settings on one line."""
    return ", ".join(f"{key}={value}" for key, value in settings.items())


def section(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The settings of one section of dotted ``values``, by their bare names."""
    return {key.split(".", 1)[1]: value for key, value in values.items() if key.startswith(name + ".")}
