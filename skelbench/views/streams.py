"""Bones and motion from coordinates, for views and inside encoders."""

from __future__ import annotations

import torch
from torch import Tensor

from skelbench.core.spec import Stream
from skelbench.views.skeleton.topology import Topology
from skelbench.views.transfer import send

SINGLE: tuple[Stream, ...] = ("joint", "bone", "motion")
"""Streams that an encoder of fused streams computes from joints."""


def as_stream(x: Tensor, stream: Stream, topology: Topology, time: int, joint: int) -> Tensor:
    """``x`` as ``stream``, of its shape; ``time`` and ``joint`` are the dimensions of frames and joints.

    A bone is a joint minus the joint at which the bone begins; a motion is the next frame minus this one, 0 in the
    last frame: LinguoLi/CrosSCLR, net/crossclr_3views.py, and the feeders of CMD, HiCo and UmURL.
    """
    if stream == "bone":
        return x - x.index_select(joint, send(torch.tensor(topology.bones), x.device))
    if stream == "motion":
        return torch.cat([x.diff(dim=time), torch.zeros_like(x.narrow(time, 0, 1))], time)
    return x
