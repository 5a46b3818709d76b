"""Poses of the image plane: z = 0, Y up, centered, in nominal meters, with each joint's confidence.

Pixels have no length. By default 3 meters are the height of the image, for all clips: people keep their relative size.
With ``scale_2d="body"`` each clip is scaled so that the longer side of its largest body's box is 1.7 meters (median
over frames): relative size is lost.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers.bodies import Unusable, check_finite
from skelbench.data.importers.recording import ImportOptions
from skelbench.data.store.writer import Clip

IMAGE_M, BODY_M = 3.0, 1.7
"""Nominal height of an image, and of the largest body of a clip."""


class FlatPose:
    """Scale from pixels to nominal meters."""

    def __init__(self, options: ImportOptions) -> None:
        if options.units != "m" or options.up not in ("auto", "y", "-y"):
            raise SkelbenchError("--units and --up with x or z are for 3-D poses, and these are 2-D; leave them out")
        self.options = options
        self.by_body = options.scale_2d == "body"
        self.meters = BODY_M if self.by_body else IMAGE_M
        reference = "each clip's largest body" if self.by_body else "the image's height"
        self.lineage = f"{reference} scaled to {self.meters:g} m, confidence kept, centered at the first frame"

    def scale(self, xy_MTJC: np.ndarray, sure_MTJ: np.ndarray, image: Any) -> float:
        """Return nominal meters per unit of the file."""
        if not self.by_body:
            height = image[0] if isinstance(image, list | tuple | np.ndarray) and len(image) in (2, 3) else None
            if not isinstance(height, int | float | np.number) or not 0 < height < np.inf:
                raise Unusable("it has no img_shape, so pixels have no size; import with --scale-2d body")
            return self.meters / float(height)
        bound = np.where(sure_MTJ[..., None], xy_MTJC, np.nan)
        seen_MT = sure_MTJ.sum(axis=2) >= 2
        if not seen_MT.any():
            raise Unusable("no frame shows two joints of a body, so it has no size")
        sides = []
        for body, seen_T in zip(bound, seen_MT, strict=True):
            if seen_T.any():
                box_FC = np.nanmax(body[seen_T], axis=1) - np.nanmin(body[seen_T], axis=1)
                sides.append(float(np.median(box_FC.max(axis=1))))
        if max(sides) == 0:
            raise Unusable("its bodies have no size")
        return self.meters / max(sides)


def flat_clip(clip: Clip, center: int, pose: FlatPose, image: Any) -> Clip:
    """Return a clip [M, T, J, 3] with confidence in [0, 1] from one of pixels [M, T, J, 2] with scores [M, T, J].

    The y axis keeps its direction. A joint of confidence 0 is set to 0, even if it is NaN. Bodies and frames that
    have only such joints do not count as seen. Scores above 1 become 1.
    """
    xy_MTJC, score_MTJ = (np.asarray(array, dtype=np.float32) for array in (clip.x_MTJC, clip.confidence_MTJ))
    xy_MTJC = np.where((score_MTJ == 0)[..., None], np.float32(0), xy_MTJC)
    check_finite(xy_MTJC, score_MTJ)
    score_MTJ = score_MTJ.clip(0, 1)
    sums_M = score_MTJ.sum(axis=(1, 2))
    bodies = np.flatnonzero(sums_M > 0)
    if not len(bodies):
        raise Unusable("no joint has a confidence above 0", expected=True)
    bodies = np.sort(bodies[np.argsort(-sums_M[bodies], kind="stable")[: pose.options.max_bodies]])
    frames_T = score_MTJ[bodies].any(axis=(0, 2))
    xy_MTJC, score_MTJ = (array[bodies][:, frames_T] for array in (xy_MTJC, score_MTJ))
    sure_MTJ = score_MTJ > 0
    scale = pose.scale(xy_MTJC, sure_MTJ, image)
    origin = np.zeros(3, dtype=np.float32)
    origin[:2] = _start(xy_MTJC, sure_MTJ, center)
    x_MTJC = np.zeros((*xy_MTJC.shape[:3], 3), dtype=np.float32)
    x_MTJC[..., :2] = np.where(sure_MTJ[..., None], xy_MTJC - origin[:2], 0)
    x_MTJC, origin = (array * np.float32(scale) + np.float32(0) for array in (x_MTJC, origin))  # + 0: no negative zeros
    return clip._replace(x_MTJC=x_MTJC, origin=origin, confidence_MTJ=score_MTJ)


def _start(xy_MTJC: np.ndarray, sure_MTJ: np.ndarray, joint: int) -> np.ndarray:
    """Return the first body's ``joint`` in the first frame that shows it, else the mean of its first frame."""
    frames = np.flatnonzero(sure_MTJ[0, :, joint])
    if len(frames):
        return xy_MTJC[0, frames[0], joint]
    first = int(np.argmax(sure_MTJ[0].any(axis=1)))
    return xy_MTJC[0, first][sure_MTJ[0, first]].mean(axis=0)
