"""Skeletons of public datasets. Left and right are the body's own; all skeletons name joints the same way."""

from __future__ import annotations

from skelbench.core.errors import SkelbenchError
from skelbench.plugin import TopologySpec, hookimpl
from skelbench.plugin.host import get_host
from skelbench.views.skeleton.topology.tree import Topology

# fmt: off
# Kinect v2 as in NTU RGB+D and PKU-MMD; joint j here is joint j + 1 in the datasets' own 1-based numbering.
# Rooted at the spine base (the paper's joint 0). The shoulder spine (20) carries neck and both shoulders, so index
# order is not topological order. Tip and thumb are both children of the hand. Bones follow the field's bone streams
# and graphs (2s-AGCN, ST-GCN): from the shoulder spine outwards, the tip on the thumb.
NTU25 = Topology(
    name="ntu25",
    joints=(
        "spine base", "spine mid", "neck", "head",
        "left shoulder", "left elbow", "left wrist", "left hand",
        "right shoulder", "right elbow", "right wrist", "right hand",
        "left hip", "left knee", "left ankle", "left foot",
        "right hip", "right knee", "right ankle", "right foot",
        "spine shoulder", "left hand tip", "left thumb", "right hand tip", "right thumb",
    ),
    parents=(-1, 0, 20, 2, 20, 4, 5, 6, 20, 8, 9, 10, 0, 12, 13, 14, 0, 16, 17, 18, 1, 7, 7, 11, 11),
    pairs=((4, 8), (5, 9), (6, 10), (7, 11), (12, 16), (13, 17), (14, 18), (15, 19), (21, 23), (22, 24)),
    parts={
        "trunk": (0, 1, 20, 2, 3), "left arm": (4, 5, 6, 7, 21, 22), "right arm": (8, 9, 10, 11, 23, 24),
        "left leg": (12, 13, 14, 15), "right leg": (16, 17, 18, 19),
    },
    root=0, center=1,
    bones=(1, 20, 20, 2, 20, 4, 5, 6, 20, 8, 9, 10, 0, 12, 13, 14, 0, 16, 17, 18, 20, 22, 7, 24, 11),
)

# Kinect v1 as its SDK numbers the joints and NW-UCLA stores them. Other datasets of that sensor (MSR Action3D) have
# the same joints in another order.
KINECT20 = Topology(
    name="kinect20",
    joints=(
        "hip center", "spine", "shoulder center", "head",
        "left shoulder", "left elbow", "left wrist", "left hand",
        "right shoulder", "right elbow", "right wrist", "right hand",
        "left hip", "left knee", "left ankle", "left foot",
        "right hip", "right knee", "right ankle", "right foot",
    ),
    parents=(-1, 0, 1, 2, 2, 4, 5, 6, 2, 8, 9, 10, 0, 12, 13, 14, 0, 16, 17, 18),
    pairs=((4, 8), (5, 9), (6, 10), (7, 11), (12, 16), (13, 17), (14, 18), (15, 19)),
    parts={
        "trunk": (0, 1, 2, 3), "left arm": (4, 5, 6, 7), "right arm": (8, 9, 10, 11),
        "left leg": (12, 13, 14, 15), "right leg": (16, 17, 18, 19),
    },
    root=0, center=1,
)

# COCO key points (HRNet, ViTPose, pyskl's 2-D pickles). No joint lies on the trunk's midline, so the nose carries the
# shoulders and each shoulder the hip below it, as in pyskl's graph: the sides of the trunk belong to the legs.
COCO17 = Topology(
    name="coco17",
    joints=(
        "nose", "left eye", "right eye", "left ear", "right ear",
        "left shoulder", "right shoulder", "left elbow", "right elbow", "left wrist", "right wrist",
        "left hip", "right hip", "left knee", "right knee", "left ankle", "right ankle",
    ),
    parents=(-1, 0, 0, 1, 2, 0, 0, 5, 6, 7, 8, 5, 6, 11, 12, 13, 14),
    pairs=((1, 2), (3, 4), (5, 6), (7, 8), (9, 10), (11, 12), (13, 14), (15, 16)),
    parts={
        "head": (0, 1, 2, 3, 4), "left arm": (5, 7, 9), "right arm": (6, 8, 10),
        "left leg": (11, 13, 15), "right leg": (12, 14, 16),
    },
    root=0, center=0,
)

# OpenPose's COCO model with a neck (Kinetics-Skeleton). Hips are children of the neck, as OpenPose itself draws them.
OPENPOSE18 = Topology(
    name="openpose18",
    joints=(
        "nose", "neck",
        "right shoulder", "right elbow", "right wrist", "left shoulder", "left elbow", "left wrist",
        "right hip", "right knee", "right ankle", "left hip", "left knee", "left ankle",
        "right eye", "left eye", "right ear", "left ear",
    ),
    parents=(1, -1, 1, 2, 3, 1, 5, 6, 1, 8, 9, 1, 11, 12, 0, 0, 14, 15),
    pairs=((5, 2), (6, 3), (7, 4), (11, 8), (12, 9), (13, 10), (15, 14), (17, 16)),
    parts={
        "head": (1, 0, 14, 16, 15, 17), "left arm": (5, 6, 7), "right arm": (2, 3, 4),
        "left leg": (11, 12, 13), "right leg": (8, 9, 10),
    },
    root=1, center=1,
)

# OpenPose's BODY_25. Hips are connected to the pelvis, toes and heels to the ankle, as OpenPose itself draws them.
BODY25 = Topology(
    name="body25",
    joints=(
        "nose", "neck",
        "right shoulder", "right elbow", "right wrist", "left shoulder", "left elbow", "left wrist",
        "pelvis", "right hip", "right knee", "right ankle", "left hip", "left knee", "left ankle",
        "right eye", "left eye", "right ear", "left ear",
        "left big toe", "left small toe", "left heel", "right big toe", "right small toe", "right heel",
    ),
    parents=(1, 8, 1, 2, 3, 1, 5, 6, -1, 8, 9, 10, 8, 12, 13, 0, 0, 15, 16, 14, 19, 14, 11, 22, 11),
    pairs=((5, 2), (6, 3), (7, 4), (12, 9), (13, 10), (14, 11), (16, 15), (18, 17), (19, 22), (20, 23), (21, 24)),
    parts={
        "trunk": (8, 1, 0, 15, 17, 16, 18), "left arm": (5, 6, 7), "right arm": (2, 3, 4),
        "left leg": (12, 13, 14, 19, 20, 21), "right leg": (9, 10, 11, 22, 23, 24),
    },
    root=8, center=8,
)

# The 17 moving joints of Human3.6M, in the order that lifting networks use (VideoPose3D, MotionBERT).
H36M17 = Topology(
    name="h36m17",
    joints=(
        "pelvis", "right hip", "right knee", "right ankle", "left hip", "left knee", "left ankle",
        "spine", "thorax", "nose", "head",
        "left shoulder", "left elbow", "left wrist", "right shoulder", "right elbow", "right wrist",
    ),
    parents=(-1, 0, 1, 2, 0, 4, 5, 0, 7, 8, 9, 8, 11, 12, 8, 14, 15),
    pairs=((4, 1), (5, 2), (6, 3), (11, 14), (12, 15), (13, 16)),
    parts={
        "trunk": (0, 7, 8, 9, 10), "left arm": (11, 12, 13), "right arm": (14, 15, 16),
        "left leg": (4, 5, 6), "right leg": (1, 2, 3),
    },
    root=0, center=0,
)
# fmt: on


def get_topology(name: str) -> Topology:
    """Return the topology called ``name``, also from a plugin; :class:`SkelbenchError` names the nearest known name.

    >>> get_topology("coco17").num_joints
    17
    """
    topology = get_host().find("topologies", name)
    if not isinstance(topology, Topology) or topology.name != name:
        raise SkelbenchError(f"topology {name!r}: the plugin gives {topology!r}, not a Topology of that name")
    return topology


def topologies() -> dict[str, Topology]:
    """Return every available topology, by name.

    >>> topologies()["coco17"].joints[0]
    'nose'
    """
    return {name: get_topology(name) for name in get_host().names("topologies")}


@hookimpl
def skelbench_topologies() -> list[TopologySpec]:
    """The shipped skeletons; names are written out, so that a listing builds no tree."""
    return [
        TopologySpec(name="ntu25", target=":NTU25", summary="25 joints of Kinect v2: NTU RGB+D, PKU-MMD"),
        TopologySpec(name="kinect20", target=":KINECT20", summary="20 joints of Kinect v1: NW-UCLA"),
        TopologySpec(name="coco17", target=":COCO17", summary="17 key points of COCO: HRNet, ViTPose"),
        TopologySpec(name="openpose18", target=":OPENPOSE18", summary="18 joints of OpenPose: Kinetics-Skeleton"),
        TopologySpec(name="body25", target=":BODY25", summary="25 joints of OpenPose: BODY_25"),
        TopologySpec(name="h36m17", target=":H36M17", summary="17 joints of Human3.6M: VideoPose3D, MotionBERT"),
    ]
