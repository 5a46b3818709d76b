"""Skeletons as data (torch-free): what a topology is, and the known ones by name."""

from skelbench.views.skeleton.topology.known import (
    COCO17,
    H36M17,
    KINECT20,
    NTU25,
    OPENPOSE18,
    get_topology,
    topologies,
)
from skelbench.views.skeleton.topology.tree import Topology

__all__ = ["COCO17", "H36M17", "KINECT20", "NTU25", "OPENPOSE18", "Topology", "get_topology", "topologies"]
