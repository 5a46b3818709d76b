"""Prediction targets of GL-Transformer: each joint's displacement to an earlier position, as classes.

Facts: Boeun-Kim/GL-Transformer, feeder/ntu_feeder.py. X sequences (clips, or bodies), M bodies of one, T frames, J
joints, C = 3, S = J * M joints of a frame, joint by joint.
"""

import torch

DIRECTIONS, LONGEST, ABSENT = 27, 14, 15
"""Directions; classes of length are 0 (still), 1 to LONGEST, ABSENT (body not present)."""


def local_and_global(x_XMTJC, anchor):
    """Return joints relative to joint ``anchor``, and the position of that joint."""
    at_XMT1C = x_XMTJC[:, :, :, anchor : anchor + 1]
    is_anchor_J1 = (torch.arange(x_XMTJC.shape[3], device=x_XMTJC.device) == anchor)[:, None]
    return torch.where(is_anchor_J1, x_XMTJC, x_XMTJC - at_XMT1C)


def displacement_classes(x_XMTJC, later_XM, interval, length):
    """Return direction (sx + 3 sy + 9 sz; 0 backwards, 1 none, 2 forwards) and length of the displacement to each
    joint's position ``interval`` frames earlier, or in the first frame: int64 [X, T, S] each.

    Bodies that appear after the first frame (``later_XM``) have their own class of length, except a clip's first body.
    """
    frame_T = torch.arange(x_XMTJC.shape[2], device=x_XMTJC.device)
    back_XMTJC = x_XMTJC[:, :, (frame_T - interval).clamp(min=0)] - x_XMTJC
    x, y, z = (back_XMTJC.sign().long() + 1).unbind(-1)
    direction_XMTJ = x + 3 * y + 9 * z
    far_XMTJ = back_XMTJC.square().sum(-1).sqrt()
    length_XMTJ = (torch.div(far_XMTJ, length, rounding_mode="floor") + 1).clamp(max=LONGEST).long()
    length_XMTJ = length_XMTJ.masked_fill(far_XMTJ == 0, 0)
    absent_XM = later_XM & ~x_XMTJC[:, :, 0].flatten(2).any(2)
    length_XMTJ = length_XMTJ.masked_fill(absent_XM[:, :, None, None], ABSENT)
    return tuple(x.permute(0, 2, 3, 1).flatten(2) for x in (direction_XMTJ, length_XMTJ))
