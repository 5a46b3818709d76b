"""The skeleton as graph convolutions see it. S subsets of neighbours, J joints."""

from __future__ import annotations

import torch
from torch import Tensor

from skelbench.views.skeleton.topology.tree import Topology

SUBSETS = 3
"""A joint itself, the joint that its bone begins at, the joints whose bones begin at it."""


def bone_subsets(topology: Topology) -> Tensor:
    """float32 [S, J, J]: column k says how joint k is made of itself, of the joint at which its bone begins, and of the
    mean of those whose bones begin at it. Bones are :attr:`Topology.bones`, as in 2s-AGCN's code and its descendants'.

    >>> from skelbench.views.skeleton.topology import NTU25
    >>> bone_subsets(NTU25).shape
    torch.Size([3, 25, 25])
    """
    joints = topology.num_joints
    from_parent_JJ = torch.zeros(joints, joints)
    for joint, begin in enumerate(topology.bones):
        from_parent_JJ[begin, joint] = float(begin != joint)
    from_children_JJ = from_parent_JJ.T / from_parent_JJ.sum(1).clamp(min=1)
    return torch.stack([torch.eye(joints), from_parent_JJ, from_children_JJ])
