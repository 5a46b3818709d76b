"""Skeletons of keypoint formats and motion capture. Joint names follow the shipped skeletons, so that clips convert."""

from __future__ import annotations

from skelbench.views.skeleton.topology.tree import Topology

# fmt: off
# MediaPipe Pose, in the order of its landmarks. No joint lies on the midline but the nose, so the nose carries the
# shoulders and each shoulder the hip below it, as in coco17.
MEDIAPIPE33 = Topology(
    name="mediapipe33",
    joints=(
        "nose", "left inner eye", "left eye", "left outer eye", "right inner eye", "right eye", "right outer eye",
        "left ear", "right ear", "left mouth", "right mouth", "left shoulder", "right shoulder", "left elbow",
        "right elbow", "left wrist", "right wrist", "left pinky", "right pinky", "left index", "right index",
        "left thumb", "right thumb", "left hip", "right hip", "left knee", "right knee", "left ankle", "right ankle",
        "left heel", "right heel", "left foot index", "right foot index",
    ),
    parents=(
        -1, 0, 1, 2, 0, 4, 5, 3, 6, 0, 0, 0, 0, 11, 12, 13, 14, 15, 16, 15, 16, 15, 16, 11, 12, 23, 24, 25, 26, 27,
        28, 27, 28,
    ),
    pairs=(
        (1, 4), (2, 5), (3, 6), (7, 8), (9, 10), (11, 12), (13, 14), (15, 16), (17, 18), (19, 20), (21, 22), (23, 24),
        (25, 26), (27, 28), (29, 30), (31, 32),
    ),
    parts={
        "head": (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10), "left arm": (11, 13, 15, 17, 19, 21),
        "right arm": (12, 14, 16, 18, 20, 22), "left leg": (23, 25, 27, 29, 31), "right leg": (24, 26, 28, 30, 32),
    },
    root=0, center=0,
)

# The body joints of SMPL (AMASS, HumanML3D), and the 22 joints of LaFAN1.
SMPL22 = Topology(
    name="smpl22",
    joints=(
        "pelvis", "left hip", "right hip", "spine 1", "left knee", "right knee", "spine 2", "left ankle", "right ankle",
        "spine 3", "left foot", "right foot", "neck", "left collar", "right collar", "head", "left shoulder",
        "right shoulder", "left elbow", "right elbow", "left wrist", "right wrist",
    ),
    parents=(-1, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 12, 13, 14, 16, 17, 18, 19),
    pairs=((1, 2), (4, 5), (7, 8), (10, 11), (13, 14), (16, 17), (18, 19), (20, 21)),
    parts={
        "trunk": (0, 3, 6, 9, 12, 15), "left arm": (13, 16, 18, 20), "right arm": (14, 17, 19, 21),
        "left leg": (1, 4, 7, 10), "right leg": (2, 5, 8, 11),
    },
    root=0, center=0,
)

# Ends of the bones of CMU's ASF files, and their root. "left foot" is the base of the toes.
CMU31 = Topology(
    name="cmu31",
    joints=(
        "pelvis", "left hip", "left knee", "left ankle", "left foot", "left toes",
        "right hip", "right knee", "right ankle", "right foot", "right toes",
        "lower back", "upper back", "thorax", "lower neck", "neck", "head",
        "left shoulder", "left elbow", "left wrist", "left palm", "left hand", "left hand tip", "left thumb",
        "right shoulder", "right elbow", "right wrist", "right palm", "right hand", "right hand tip", "right thumb",
    ),
    parents=(
        -1, 0, 1, 2, 3, 4, 0, 6, 7, 8, 9, 0, 11, 12, 13, 14, 15, 13, 17, 18, 19, 20, 21, 20, 13, 24, 25, 26, 27, 28, 27,
    ),
    pairs=(
        (1, 6), (2, 7), (3, 8), (4, 9), (5, 10), (17, 24), (18, 25), (19, 26), (20, 27), (21, 28), (22, 29), (23, 30),
    ),
    parts={
        "trunk": (0, 11, 12, 13, 14, 15, 16), "left arm": (17, 18, 19, 20, 21, 22, 23),
        "right arm": (24, 25, 26, 27, 28, 29, 30), "left leg": (1, 2, 3, 4, 5), "right leg": (6, 7, 8, 9, 10),
    },
    root=0, center=0,
)

# Xsens suits (100STYLE). "left foot" is the base of the toes.
XSENS23 = Topology(
    name="xsens23",
    joints=(
        "pelvis", "spine 1", "spine 2", "spine 3", "spine 4", "neck", "head",
        "right collar", "right shoulder", "right elbow", "right wrist",
        "left collar", "left shoulder", "left elbow", "left wrist",
        "right hip", "right knee", "right ankle", "right foot", "left hip", "left knee", "left ankle", "left foot",
    ),
    parents=(-1, 0, 1, 2, 3, 4, 5, 4, 7, 8, 9, 4, 11, 12, 13, 0, 15, 16, 17, 0, 19, 20, 21),
    pairs=((11, 7), (12, 8), (13, 9), (14, 10), (19, 15), (20, 16), (21, 17), (22, 18)),
    parts={
        "trunk": (0, 1, 2, 3, 4, 5, 6), "left arm": (11, 12, 13, 14), "right arm": (7, 8, 9, 10),
        "left leg": (19, 20, 21, 22), "right leg": (15, 16, 17, 18),
    },
    root=0, center=0,
)
# fmt: on
