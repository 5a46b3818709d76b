"""How a frozen encoder looks at clips, as data that can travel with its weights."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field

from skelbench.core.component import Spec
from skelbench.core.spec import Align, Bodies, Centre, EvalSpec, EvaluationResize, Pooling, SecondBody, Stream
from skelbench.data.store.clip_store import ClipStore
from skelbench.data.store.source import ClipSource
from skelbench.views.augmentations import Augment
from skelbench.views.builder import ViewBuilder
from skelbench.views.crops import Center, Crop, Resize
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import Topology
from skelbench.views.spec import ViewSpec


class Preprocessing(Spec):
    """From a clip of any length to what an encoder reads, and from features of its bodies to one of the clip."""

    units: Literal["m"] = Field("m", description="of coordinates, as they are given")
    up_axis: Literal["y"] = Field("y", description="axis that points up")
    stream: Stream = Field("joint", description="what is looked at: joints, bones, motion, or all for it to fuse")
    share: float = Field(0.95, gt=0, le=1, description="central share of a clip that is looked at")
    resize: EvaluationResize = Field("ends", description="how that becomes the T frames of the grid")
    centre: Centre = Field("clip", description="origin: as given for all bodies, or each body's own centre joint")
    align: Align = Field("none", description="where clips are turned to before anything else")
    bodies: Bodies = Field("valid", description="bodies that are encoded: those present, or every slot")
    bodies_pool: Pooling = Field("valid-mean", description="how features of bodies become one of the clip")
    second_body: SecondBody = Field("zero", description="second body of a clip of one: absent, or the first repeated")
    readout: str = Field("pooled", description="feature of a body: pooled, mean, joints, or a level of the encoder")
    dimensions: Literal[2, 3] = Field(3, description="2 for poses of the image plane")
    slots: int | None = Field(None, ge=1, description="body slots M of the data set; none = not looked up")

    @classmethod
    def of(cls, spec: EvalSpec, stream: Stream, slots: int | None = None) -> Preprocessing:
        """Preprocessing of an evaluation, for one of its streams."""
        kept = spec.model_dump(include={*cls.model_fields} - {"stream", "slots"})
        data = {"second_body": spec.data.second_body, "dimensions": spec.data.dimensions}
        return cls(stream=stream, slots=slots, **kept, **data)

    def source(self, store: ClipStore, device: torch.device) -> ClipSource:
        """The clips of ``store`` on their way to ``device``."""
        return ClipSource(store, device, second_body=self.second_body, align=self.align)

    def builder(
        self,
        topology: Topology,
        grid: Grid,
        device: torch.device,
        crop: Crop | None = None,
        augment: tuple[Augment, ...] = (),
        resize: EvaluationResize | None = None,
    ) -> ViewBuilder:
        """Maker of the view ``eval`` of a batch of clips, cut by ``crop`` (None = the central ``share``).

        Random crops draw their frames where an evaluation takes the first frame of each bin."""
        resize = resize or self.resize
        drawn: Resize = "release" if crop is not None and resize == "bin-starts" else resize
        crop = crop or Center(share=self.share)
        view = ViewSpec(frames=grid.frames, crop=crop, augment=augment, resize=drawn, stream=self.stream)
        return ViewBuilder({"eval": view}, topology, grid.patch, self.bodies, device, self.centre, self.dimensions)


def slots_matter(bodies: Bodies, pooling: Pooling) -> bool:
    """Whether features depend on how many body slots the data set has."""
    return bodies == "all-slots" or pooling in ("all-mean", "concat")
