"""Options for files that do not say everything about themselves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers.bodies import Units, Up


@dataclass(frozen=True)
class ImportOptions:
    """Defaults are right for every format as it is published."""

    topology: str | None = None
    """None = the one with that many joints."""
    up: Up = "auto"
    """Axis that points up in the file; "auto" = found from the bodies."""
    units: Units | None = None
    """None = as the file says, else metres."""
    scale_2d: Literal["image", "body"] | None = None
    """2-D poses: the image's height, or each clip's largest body, becomes ``image_m`` or ``body_m`` metres; None = the
    image's height."""
    image_m: float | None = None
    """None = 3."""
    body_m: float | None = None
    """None = 1.7."""
    max_bodies: int = 2
    """Bodies kept of a clip: those seen longest (2-D: with the highest confidence in sum)."""
    fps: float = 30.0
    label_fields: tuple[str, ...] = ("label",)
    """Ragged npz: fields whose combinations are the classes."""
    train: Path | None = None
    """Training part of two files of clips, whatever names and order say."""

    def __post_init__(self) -> None:
        """Reject heights that ``scale_2d`` does not use."""
        if self.body_m is not None and self.scale_2d != "body":
            raise SkelbenchError("--body-height says how large bodies become with --scale-2d body; give that too")
        if self.image_m is not None and self.scale_2d == "body":
            raise SkelbenchError("--image-height is for --scale-2d image; with body it is --body-height that counts")

    def check_used(self, ragged: bool, flat: bool, where: str) -> None:
        """Raise if an option was given that does not apply to this format."""
        if self.label_fields != ImportOptions.label_fields and not ragged:
            raise SkelbenchError(f"{where}: --label-fields is for ragged npz; leave it out")
        if not flat and (self.scale_2d, self.image_m, self.body_m) != (None, None, None):
            raise SkelbenchError(
                f"{where}: --scale-2d and heights are for 2-D poses, and these are 3-D; leave them out"
            )
