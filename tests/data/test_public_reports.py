"""Files that public issue reports describe: stored the right way, or rejected with the numbers."""

import pickle

import numpy as np
import pytest
from made.people import person

from skelbench.core.errors import SkelbenchError
from skelbench.data.anatomy import contradiction, measure
from skelbench.data.importers import ImportOptions, import_files
from skelbench.data.importers.bodies import choose_topology
from skelbench.data.importers.labels import read_label_file
from skelbench.data.store.clip_store import ClipStore
from skelbench.data.verify import verify
from skelbench.views.skeleton.topology import get_topology, topologies

WIDTH, HEIGHT = 1280, 720
COCO = get_topology("coco17")


def bodies(topology, i, frames=20):
    """[1, T, J, 3]: Y up, meters, about the hips."""
    x_MTJC = person(topology, label=4 * (i % 7), subject=1 + i, camera=1 + i % 3, frames=frames)[:1]
    hip = topology.joints.index("left hip")
    return x_MTJC - x_MTJC[0, 0, hip]


def entry(topology, i, center=WIDTH / 2, **changes):
    """An annotation in pixels, y down."""
    x = bodies(topology, i)
    keypoint = np.stack([center + 300 * x[..., 0], HEIGHT / 2 - 300 * x[..., 1]], -1).astype(np.float32)
    made = dict(frame_dir=f"v{i}", label=i % 2, img_shape=(HEIGHT, WIDTH), total_frames=20, keypoint=keypoint)
    return made | {"keypoint_score": np.full(keypoint.shape[:3], 0.9, np.float32)} | changes


def entry_3d(topology, i, **changes):
    return dict(frame_dir=f"v{i}", label=i % 2, total_frames=20, keypoint=bodies(topology, i)) | changes


@pytest.fixture
def take(tmp_path):
    """``take(entries, **options)``: import annotations; the opened store."""

    def take(entries, name="mine", **options):
        file = tmp_path / "x.pkl"
        file.write_bytes(pickle.dumps(entries))
        imported = import_files([file], name, tmp_path / "root", ImportOptions(**options), overwrite=True)
        return ClipStore.open(imported.path)

    return take


@pytest.fixture
def refused(take, tmp_path):
    def refused(message, entries, **options):
        with pytest.raises(SkelbenchError, match=message):
            take(entries, "refused", **options)
        assert not (tmp_path / "root" / "refused").exists()

    return refused


@pytest.mark.parametrize("topology", topologies().values(), ids=topologies())
@pytest.mark.parametrize("dimensions", [2, 3])
def test_bodies_fit_only_their_own_skeleton_in_any_pose(topology, dimensions):
    clips = [bodies(topology, i)[..., :dimensions] for i in range(8)]
    lying = [x[..., [1, 0, *range(2, dimensions)]] for x in clips]
    assert contradiction(clips, topology) == contradiction(lying, topology) == ""
    for other in topologies().values():
        if other.num_joints == topology.num_joints and other is not topology:
            assert contradiction(clips, other)
    rng = np.random.default_rng(0)
    for _ in range(5):
        order = rng.permutation(topology.num_joints)
        assert contradiction([x[..., order, :] for x in clips], topology)


def test_a_joint_order_of_another_program_is_detected(take, refused):
    kinect = get_topology("kinect20")
    other = [3, 2, 1, 0, *range(4, 20)]  # head first, hips fourth: UTD-MHAD
    entries = [entry_3d(kinect, i) for i in range(8)]
    assert take(entries).topology is kinect
    moved = [one | {"keypoint": one["keypoint"][:, :, other]} for one in entries]
    refused("not in the order of kinect20: the head is not beyond the shoulders", moved)
    refused("not in the order of kinect20", moved, up="y")
    mirrored = [one | {"keypoint": one["keypoint"] * np.float32([-1, 1, 1])} for one in entries]
    refused("left and right are exchanged in 8 of 8 clips", mirrored)


def test_body25_is_not_taken_for_kinect(take, refused):
    entries = [entry(get_topology("body25"), i) for i in range(8)]
    assert take(entries).topology.name == "body25"
    refused("not in the order of ntu25: .*say --topology body25", entries, topology="ntu25")
    assert take([entry(get_topology("ntu25"), i) for i in range(8)]).topology.name == "ntu25"
    refused(
        "not in the order of h36m17: .*say --topology coco17", [entry(COCO, i) for i in range(8)], topology="h36m17"
    )


def test_the_up_axis_of_2d_poses_is_detected(take, refused):
    entries = [entry(COCO, i) for i in range(8)]
    good = take(entries)
    for one in entries:
        one["keypoint"] = one["keypoint"] * np.float32([1, -1]) + np.float32([0, HEIGHT])
    refused("stand along y; say --up y or --up -y", entries)
    turned = take(entries, up="y")
    np.testing.assert_allclose(turned.clip(3), good.clip(3), atol=1e-5)
    assert turned.clip(0)[0, 0, 0, 1] > turned.clip(0)[0, 0, 15, 1]


def test_verify_finds_a_store_in_another_order(take):
    store = take([entry(COCO, i) for i in range(8)])
    checks = {check.name: check.state for check in verify(store, None, measure(store))}
    assert checks["joint order"] == checks["up"] == "ok"
    store.frames_FJ = np.roll(store.frames_FJ, 5, axis=1)
    (check,) = [check for check in verify(store, None, measure(store)) if check.name == "joint order"]
    assert check.state == "wrong" and "not in the order of coco17" in check.advice


@pytest.mark.parametrize("make", [entry, entry_3d])
def test_contradictory_total_frames_are_errors(refused, make):
    entries = [make(COCO, i) for i in range(8)]
    keys = [key for key in ("keypoint", "keypoint_score") if key in entries[0]]
    swapped = [one | {key: one[key].swapaxes(0, 1) for key in keys} for one in entries]
    refused(r"total_frames is 20, but keypoint has 1 frames of 20 bodies: .* \[bodies, frames", swapped)
    padded = [one | {key: one[key].repeat(3, axis=1) for key in keys} for one in entries]
    refused("total_frames is 20, but keypoint has 60 frames of 1 bodies: cut off padding", padded)
    refused(
        r"of one body: keypoint\[None\]\), not \[20, 17, .\]",
        [one | {"keypoint": one["keypoint"][0]} for one in entries],
    )


def test_scores(take, refused):
    entries = [entry(COCO, i) for i in range(8)]
    good = take(entries)
    entries[0]["keypoint_score"] = entries[0]["keypoint_score"][..., None]
    entries[1]["keypoint_score"][0, 3, 9], entries[1]["keypoint"][0, 3, 9] = 0, np.nan
    entries[2]["keypoint"][0, 4, 10] = np.nan
    entries[3]["keypoint_score"][:] = 0
    store = take(entries)
    assert len(store) == 6 and not store.clip(1)[0, 3, 9].any() and store.confidence(1)[0, 3, 9] == 0
    np.testing.assert_array_equal(store.clip(1)[0, 4:], good.clip(1)[0, 4:])
    assert [(one.name, one.expected) for one in store.meta.skipped] == [("v2", False), ("v3", True)]
    assert "joint 10 of body 0 in frame 4" in store.meta.skipped[0].reason
    refused("add ones: entry.'keypoint_score'. = numpy.ones", [one | {"keypoint_score": None} for one in entries])


def test_img_shape_with_width_first(refused, take):
    entries = [entry(COCO, i, center=1000, img_shape=(WIDTH, HEIGHT)) for i in range(8)]
    refused(r"if img_shape is \(width, height\); write it as \(height, width\)", entries)
    assert len(take([entry(COCO, i, center=1000) for i in range(8)])) == 8


NAMES, LABELS = ["a.skeleton", "b.skeleton", "c"], [0, 2, 1]
BARE = ["a", "b", "c"]
PICKLES = [
    ((NAMES, LABELS), BARE),
    ((np.array(NAMES), np.array(LABELS)), BARE),
    (([name.encode() for name in NAMES], LABELS), BARE),
    (dict(zip(NAMES, LABELS)), BARE),
    (np.array(LABELS), []),
]


@pytest.mark.parametrize("value,names", PICKLES)
def test_label_files(tmp_path, value, names):
    for protocol in (0, 5):
        (tmp_path / "label.pkl").write_bytes(pickle.dumps(value, protocol))
        labels, found = read_label_file(tmp_path / "label.pkl")
        assert labels.tolist() == LABELS and found == names


FORMATS = {
    "a.bvh": "not a BVH file",
    "clip.mat": "2-D joints or several bodies as a pyskl pickle",
    "S001C001P001R001A001.skeleton": "skelbench data prepare ntu60",
    "openpose/v_keypoints.json": "not a JSON file",
}


@pytest.mark.parametrize("name,message", FORMATS.items())
def test_unsupported_formats_get_working_advice(tmp_path, name, message):
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"HIERARCHY 1\n0\n")
    target = file.parent if "/" in name else file
    with pytest.raises(SkelbenchError, match=message) as caught:
        import_files([target], "mine", tmp_path / "root")
    assert ("data prepare" in str(caught.value)) == name.endswith(".skeleton")


def test_other_numbers_of_joints_need_a_skeleton_plugin():
    with pytest.raises(SkelbenchError, match="34 joints fit no known skeleton .*--plugin FILE"):
        choose_topology(34, None, "file")


def test_flat_poses_without_legs_are_imported(take):
    entries = [entry(COCO, i) for i in range(8)]
    for one in entries:
        one["keypoint_score"][..., 11:] = 0
    assert take(entries, topology="coco17").clip(0)[0, 1, 5, 1] < 0, "shoulders are below the nose"
