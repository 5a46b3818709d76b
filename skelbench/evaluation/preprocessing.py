"""Preprocessing of clips for a frozen encoder, as data that can be stored with its weights."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from skelbench.core.component import Spec
from skelbench.core.spec import Align, Bodies, EvalSpec, EvaluationResize, Origin, Pooling, SecondBody, Stream


class Preprocessing(Spec):
    """From a clip of any length to what an encoder reads, and from features of its bodies to one of the clip."""

    units: Literal["m"] = Field("m", description="unit of the given coordinates")
    up_axis: Literal["y"] = Field("y", description="axis that points up")
    stream: Stream = Field("joint", description="encoder input: joints, bones, motion, or all three to fuse")
    share: float = Field(0.95, gt=0, le=1, description="central fraction of a clip that is evaluated")
    resize: EvaluationResize = Field("ends", description="resampling to the T frames of the grid")
    center: Origin = Field("clip", description="origin: as given for all bodies, or each body's own center joint")
    align: Align = Field("none", description="rotation of clips before all other steps")
    bodies: Bodies = Field("valid", description="bodies that are encoded: those present, or every slot")
    bodies_pool: Pooling = Field("valid-mean", description="pooling of the features of bodies")
    second_body: SecondBody = Field(
        "zero", description="second body of single-body clips: zeros, or the first one again"
    )
    readout: str = Field("pooled", description="feature of a body: pooled, mean, joints, or a level of the encoder")
    dimensions: Literal[2, 3] = Field(3, description="2 for poses of the image plane")
    slots: int | None = Field(None, ge=1, description="body slots M of the dataset; none = not looked up")

    @classmethod
    def of(cls, spec: EvalSpec, stream: Stream, slots: int | None = None) -> Preprocessing:
        """Preprocessing of an evaluation, for one of its streams."""
        values = spec.model_dump(include={*cls.model_fields} - {"stream", "slots"})
        data = {"second_body": spec.data.second_body, "dimensions": spec.data.dimensions}
        return cls(stream=stream, slots=slots, **values, **data)


def slots_matter(bodies: Bodies, pooling: Pooling) -> bool:
    """Whether features depend on how many body slots the dataset has."""
    return bodies == "all-slots" or pooling in ("all-mean", "concat")
