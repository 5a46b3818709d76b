"""Forward kinematics: joint positions from rotations relative to the parent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def rotation(degrees: np.ndarray, axis: str) -> np.ndarray:
    """Rotation matrices [..., 3, 3] about the axis "X", "Y" or "Z", by angles [...] in degrees."""
    cos, sin = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
    k = "XYZ".index(axis)
    i, j = (k + 1) % 3, (k + 2) % 3
    matrix = np.zeros((*np.shape(degrees), 3, 3))
    matrix[..., k, k] = 1
    matrix[..., i, i] = matrix[..., j, j] = cos
    matrix[..., i, j], matrix[..., j, i] = -sin, sin
    return matrix


def positions(parents: Sequence[int], offset_TJC: np.ndarray, local_TJCC: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return positions [T, J, 3] and global rotations [T, J, 3, 3] of joints whose parents come before them.

    ``offset_TJC``: place of each joint in the frame of its parent; ``local_TJCC``: its rotation relative to the parent.
    """
    x_TJC, turn_TJCC = np.empty_like(offset_TJC), np.empty_like(local_TJCC)
    for j, parent in enumerate(parents):
        if parent < 0:
            x_TJC[:, j], turn_TJCC[:, j] = offset_TJC[:, j], local_TJCC[:, j]
        else:
            x_TJC[:, j] = x_TJC[:, parent] + (turn_TJCC[:, parent] @ offset_TJC[:, j, :, None])[..., 0]
            turn_TJCC[:, j] = turn_TJCC[:, parent] @ local_TJCC[:, j]
    return x_TJC, turn_TJCC
