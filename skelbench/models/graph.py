"""Subsets of neighbors for graph convolutions. S subsets of neighbors, J joints."""

from __future__ import annotations

import torch
from torch import Tensor

from skelbench.views.skeleton.topology.tree import Topology

SUBSETS = 3
"""Subsets of neighbors: the joint itself, the joint at which its bone begins, the joints whose bones begin at it."""


def bone_subsets(topology: Topology) -> Tensor:
    """float32 [S, J, J]: column k has the weights of joints in the update of joint k: itself, the joint at which its
    bone begins, and the mean of the joints whose bones begin at it. Bones are :attr:`Topology.bones`, as in 2s-AGCN.

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
