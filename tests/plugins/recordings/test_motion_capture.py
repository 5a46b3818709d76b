"""BVH, ASF/AMC and C3D: joint positions against a slow reference, names of joints, cutting into clips."""

import sys
from types import ModuleType

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from skelbench_plugins.recordings.amc import BONES, INCH, read_amc, read_asf
from skelbench_plugins.recordings.bvh import read_bvh
from skelbench_plugins.recordings.joint_arrays import MARKERS, c3d, joints_of
from skelbench_plugins.recordings.joint_names import common_names

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers import ImportOptions, import_files
from skelbench.data.store.clip_store import ClipStore

LAFAN = (
    "Hips LeftUpLeg LeftLeg LeftFoot LeftToe RightUpLeg RightLeg RightFoot RightToe Spine Spine1 Spine2 Neck Head "
    "LeftShoulder LeftArm LeftForeArm LeftHand RightShoulder RightArm RightForeArm RightHand"
).split()
SMPL = (
    "pelvis left hip,left knee,left ankle,left foot,right hip,right knee,right ankle,right foot,spine 1,spine 2,"
    "spine 3,neck,head,left collar,left shoulder,left elbow,left wrist,"
    "right collar,right shoulder,right elbow,right wrist"
).replace("pelvis ", "pelvis,")
PARENTS = (-1, 0, 1, 2, 3, 0, 5, 6, 7, 0, 9, 10, 11, 12, 11, 14, 15, 16, 11, 18, 19, 20)
ORDERS = ("ZXY", "XYZ", "YZX")


@pytest.fixture
def bvh(tmp_path, person):
    """Write a BVH file of a standing person in centimeters who turns; returns path, offsets, angles and root path."""

    def write(name="walk.bvh", frames=60, seed=0):
        draw = np.random.default_rng(seed)
        names = [joint for joint in SMPL.split(",")]
        x_JC = 100 * person(0, "smpl22")[0]
        order = [("pelvis", *get_names()).index(joint) for joint in names]
        offset_JC = np.array([x_JC[row] - (x_JC[order[p]] if p >= 0 else x_JC[row]) for row, p in zip(order, PARENTS)])
        angle_TJC = np.cumsum(draw.normal(0, 0.3, (frames, len(names), 3)), axis=0)
        path_TC = x_JC[order[0]] + np.cumsum(draw.normal(0, 0.5, (frames, 3)), axis=0)
        file = tmp_path / "in" / name
        file.parent.mkdir(exist_ok=True)
        lines = ["HIERARCHY"]

        def joint(j, depth):
            word = "ROOT" if depth == 0 else "JOINT"
            channels = " ".join(f"{axis}rotation" for axis in ORDERS[j % 3])
            lines.extend([f"{word} {LAFAN[j]}", "{", f"OFFSET {' '.join(map(repr, map(float, offset_JC[j])))}"])
            places = "6 Xposition Yposition Zposition" if depth == 0 else "3"
            lines.append(f"CHANNELS {places} {channels}")
            children = [k for k, parent in enumerate(PARENTS) if parent == j]
            for child in children:
                joint(child, depth + 1)
            lines.extend([] if children else ["End Site", "{", "OFFSET 0 0 5", "}"])
            lines.append("}")

        joint(0, 0)
        rows = [[*path_TC[t], *(angle_TJC[t].ravel())] for t in range(frames)]
        lines += ["MOTION", f"Frames: {frames}", "Frame Time: 0.0333333"]
        lines += [" ".join(f"{value:.9f}" for value in row) for row in rows]
        file.write_text("\n".join(lines))
        return file, offset_JC, angle_TJC, path_TC

    return write


def get_names():
    from skelbench.views.skeleton.topology import get_topology

    return get_topology("smpl22").joints[1:]


def test_positions_of_bvh_follow_the_chain_of_rotations(bvh):
    file, offset_JC, angle_TJC, path_TC = bvh()
    motion = read_bvh(file)
    assert motion.names == tuple(LAFAN) and motion.parents == PARENTS
    for t in (0, 7, 59):
        place, turn = {}, {}
        for j, parent in enumerate(PARENTS):
            own = Rotation.from_euler(ORDERS[j % 3], angle_TJC[t, j], degrees=True)  # capital letters: intrinsic
            turn[j] = own if parent < 0 else turn[parent] * own
            place[j] = path_TC[t] if parent < 0 else place[parent] + turn[parent].apply(offset_JC[j])
            np.testing.assert_allclose(motion.x_TJC[t, j], place[j], atol=1e-6)


def test_bvh_becomes_ntu25_and_is_cut_into_clips(tmp_path, bvh):
    bvh("one.bvh")
    bvh("two.bvh", seed=1)
    options = ImportOptions(units="cm", clip_seconds=1)
    imported = import_files([tmp_path / "in"], "mine", tmp_path / "data", options)
    store = ClipStore.open(imported.path)
    assert len(store) == 4 and store.lengths.tolist() == [30] * 4 and store.topology.name == "ntu25"
    whole = 0.01 * read_bvh(tmp_path / "in" / "one.bvh").x_TJC[30:]
    wrist = store.clip(1)[0][:, store.topology.joints.index("left wrist")]
    spine = whole[:, LAFAN.index("Spine1")]
    np.testing.assert_allclose(wrist, whole[:, LAFAN.index("LeftHand")] - spine[0], atol=1e-4)
    thumb = store.topology.joints.index("left thumb")
    assert not store.confidence(0)[..., thumb].any() and not store.clip(0)[..., thumb, :].any()
    (tmp_path / "in" / "one.bvh").write_text("HIERARCHY")
    with pytest.raises(SkelbenchError, match="not a BVH file"):
        import_files([tmp_path / "in"], "other", tmp_path / "data", options)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (" ".join(LAFAN), SMPL.replace("spine 2", "spine mid")),
        ("Hips Chest Chest2 Neck RightCollar RightShoulder RightElbow RightWrist RightHip RightKnee RightAnkle "
         "RightToe",
         "pelvis,spine 1,spine mid,neck,right collar,right shoulder,right elbow,right wrist,right hip,right knee,"
         "right ankle,right foot"),
        ("Hips Spine Shoulder_L UpperArm_L LowerArm_L Hand_L UpperLeg_L LowerLeg_L Foot_L Toes_L",
         "pelvis,spine mid,left collar,left shoulder,left elbow,left wrist,left hip,left knee,left ankle,left foot"),
        ("L_Hip L_Knee L_Ankle L_Foot L_Collar L_Shoulder L_Wrist L_Hand",
         "left hip,left knee,left ankle,left foot,left collar,left shoulder,left wrist,left hand"),
        ("mixamorig:Hips mixamorig:LeftUpLeg mixamorig:RightForeArm", "pelvis,left hip,right elbow"),
    ],
)  # fmt: skip
def test_joint_names_of_motion_capture(names, expected):
    assert common_names(names.split()) == expected.split(",")


ASF = """:version 1.10
:units
  mass 1.0
  length 0.45
  angle deg
:root
   order TX TY TZ RX RY RZ
   axis XYZ
   position 0 0 0
   orientation 0 0 0
:bonedata
{bones}
:hierarchy
  begin
    root {first}
{chain}
  end
"""


def test_positions_of_amc_follow_the_axes_of_the_bones(tmp_path):
    draw = np.random.default_rng(0)
    names, blocks, chain = [name for name in BONES if name != "root"], [], []
    axes, directions = draw.uniform(-90, 90, (len(names), 3)), draw.normal(size=(len(names), 3))
    for j, name in enumerate(names):
        axis, direction = " ".join(map(repr, axes[j].tolist())), " ".join(map(repr, directions[j].tolist()))
        dof = "dof rx ry rz" if j % 2 else "dof rx"
        blocks.append(f"begin\nid {j}\nname {name}\ndirection {direction}\nlength 2\naxis {axis} XYZ\n{dof}\nend")
        chain.append(f"    {name} {names[j + 1]}" if j + 1 < len(names) else "")
    asf = tmp_path / "07.asf"
    asf.write_text(ASF.format(bones="\n".join(blocks), first=names[0], chain="\n".join(filter(None, chain))))
    angles = draw.uniform(-40, 40, (2, len(names), 3))
    root = draw.uniform(-40, 40, (2, 6))
    lines = [":FULLY-SPECIFIED", ":DEGREES"]
    for t in range(2):
        lines += [str(t + 1), "root " + " ".join(map(repr, root[t].tolist()))]
        lines += [
            f"{name} " + " ".join(map(repr, angles[t, j, : 3 if j % 2 else 1].tolist())) for j, name in enumerate(names)
        ]
    amc = tmp_path / "07_01.amc"
    amc.write_text("\n".join(lines))
    bones = read_asf(asf)
    x_TJC = read_amc(amc, bones)
    for t in range(2):
        place = root[t, :3] * INCH / 0.45
        turn = Rotation.from_euler("xyz", root[t, 3:], degrees=True)
        np.testing.assert_allclose(x_TJC[t, 0], place, atol=1e-9)
        for j, name in enumerate(names):
            axis = Rotation.from_euler("xyz", axes[j], degrees=True)
            own = angles[t, j] if j % 2 else [angles[t, j, 0], 0, 0]
            turn = turn * axis * Rotation.from_euler("xyz", own, degrees=True) * axis.inv()
            place = place + turn.apply(2 * INCH / 0.45 * directions[j])
            np.testing.assert_allclose(x_TJC[t, list(bones).index(name)], place, atol=1e-9)
    asf.unlink()
    for number in (2, 3, 4):
        amc.with_name(f"07_0{number}.amc").write_bytes(amc.read_bytes())
    with pytest.raises(SkelbenchError, match="07.asf"):
        import_files([tmp_path], "mine", tmp_path / "data")


def test_the_joints_of_a_c3d_file_are_means_of_its_markers(tmp_path):
    ezc3d = pytest.importorskip("ezc3d", reason="needs ezc3d, which is not required")
    labels = list(dict.fromkeys(marker for markers in MARKERS.values() for marker in markers))
    x_TMC, file = np.random.default_rng(0).normal(size=(5, len(labels), 3)), ezc3d.c3d()
    file["parameters"]["POINT"]["RATE"]["value"] = [120]
    file["parameters"]["POINT"]["LABELS"]["value"] = [f"A:{name}" for name in labels]
    file["data"]["points"] = np.concatenate([x_TMC, np.ones((5, len(labels), 1))], axis=2).transpose(2, 1, 0)
    for name in "ab":
        file.write(str(tmp_path / f"{name}.c3d"))
    recording = c3d([tmp_path], ImportOptions())
    _, read = next(next(iter(recording.clips.values()))())
    wrist = x_TMC[:, [labels.index("LWRA"), labels.index("LWRB")]].mean(axis=1)
    np.testing.assert_allclose(read().x_MTJC[0, :, recording.topology.joints.index("left wrist")], wrist, atol=1e-6)
    assert recording.fps == 120


def test_markers_stand_for_joints_and_c3d_needs_ezc3d(tmp_path, monkeypatch):
    markers = {"Subject:LWRA": np.full((2, 3), 1.0), "Subject:LWRB": np.array([[3.0] * 3, [np.nan] * 3])}
    names, x_TJC = joints_of(markers | {"other": np.zeros((2, 3))})
    assert names == ["left wrist"]
    np.testing.assert_allclose(x_TJC[:, 0, 0], [2, 1])
    (tmp_path / "a.c3d").write_bytes(b"\x02P")
    monkeypatch.setitem(sys.modules, "ezc3d", ModuleType("ezc3d"))
    with pytest.raises(SkelbenchError, match="pip install ezc3d"):
        import_files([tmp_path / "a.c3d"], "mine", tmp_path / "data")
