"""Origin of the coordinates of a clip."""

from __future__ import annotations

import numpy as np


def centre(x_MTJC: np.ndarray, joint: int) -> tuple[np.ndarray, np.ndarray]:
    """Move ``joint`` of the first body, in the first frame that shows it, to 0: the clip (float32) and its old place.

    Bodies that are absent from a frame (all zeros) stay zeros. A clip whose ``joint`` is there already is unchanged.
    """
    x_MTJC = np.asarray(x_MTJC, dtype=np.float32)
    seen_MT = np.any(x_MTJC, axis=(2, 3))
    body = int(np.argmax(seen_MT.any(axis=1)))
    origin = x_MTJC[body, int(np.argmax(seen_MT[body])), joint].copy()
    if origin.any():
        x_MTJC = np.where(seen_MT[:, :, None, None], x_MTJC - origin, np.float32(0))
    return x_MTJC, origin
