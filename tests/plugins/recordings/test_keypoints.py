"""2-D and 3-D keypoints of pose estimators: clips come back, people are followed, bad files are named."""

import csv
import json

import numpy as np
import pytest
from skelbench_plugins.recordings.people import follow

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers import ImportOptions, import_files
from skelbench.data.store.clip_store import ClipStore

CLIPS = (0, 20, 40, 60)
IMAGE = {"image_size": (1920, 1080)}


def take(path, root, **options):
    imported = import_files([path], "mine", root / "data", ImportOptions(**options))
    return imported, ClipStore.open(imported.path)


def scored(x, score=0.8):
    return np.concatenate([x, np.full((*x.shape[:-1], 1), score)], axis=-1)


def write_openpose(folder, x_TJC, other_TJC=None):
    folder.mkdir(parents=True)
    for t, x_JC in enumerate(x_TJC):
        people = [x_JC] if other_TJC is None else [x_JC, other_TJC[t]][:: 1 if t % 2 else -1]
        value = {"people": [{"person_id": [-1], "pose_keypoints_2d": scored(p).ravel().tolist()} for p in people]}
        (folder / f"clip_{t:012}_keypoints.json").write_text(json.dumps(value))


def write_alphapose(file, x_TJC):
    people = [{"image_id": f"{t}.jpg", "keypoints": scored(x).ravel().tolist()} for t, x in enumerate(x_TJC)]
    file.write_text(json.dumps(people))


def write_mmpose(file, x_TJC):
    frames = [
        {"frame_id": t, "instances": [{"keypoints": x.tolist(), "keypoint_scores": [0.8] * len(x)}]}
        for t, x in enumerate(x_TJC)
    ]
    file.write_text(json.dumps({"meta_info": {}, "instance_info": frames}))


def write_kinetics(file, x_TJC):
    frames = [
        {"frame_index": t, "skeleton": [{"pose": (x / [1920, 1080]).ravel().tolist(), "score": [0.8] * len(x)}]}
        for t, x in enumerate(x_TJC)
    ]
    file.write_text(json.dumps({"data": frames, "label": f"class {int(file.stem[-1]) // 2}", "label_index": 0}))


def shape_of(x_TJC):
    """Poses relative to the first joint, in units of the median distance from the first to the last joint."""
    x_TJC = x_TJC[..., :2] - x_TJC[:, :1, :2]
    return x_TJC / np.median(np.linalg.norm(x_TJC[:, -1], axis=-1))


@pytest.mark.parametrize(
    ("kind", "joints", "write"),
    [
        ("OpenPose JSON", "body25", write_openpose),
        ("OpenPose JSON", "openpose18", write_openpose),
        ("AlphaPose JSON", "coco17", write_alphapose),
        ("mmpose JSON", "coco17", write_mmpose),
        ("Kinetics-Skeleton JSON", "openpose18", write_kinetics),
    ],
)
def test_2d_keypoints(tmp_path, pixels, kind, joints, write):
    suffix = "" if write is write_openpose else ".json"
    for number, i in enumerate(CLIPS):
        file = tmp_path / "in" / f"class{number // 2}" / f"clip{i}{number}{suffix}"
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file, pixels(i, joints))
    imported, store = take(tmp_path / "in", tmp_path, scale_2d="body")
    assert (imported.recording.kind, store.topology.name, len(store), store.meta.dimensions) == (kind, joints, 4, 2)
    if write is not write_kinetics:
        assert store.classes == ("class0", "class1") and store.names[0] == "class0/clip00"
        np.testing.assert_allclose(shape_of(store.clip(0)[0] * [1, -1, 1]), shape_of(pixels(0, joints)), atol=1e-3)
    assert np.isclose(store.confidence(0), 0.8).all() and not imported.skipped


def test_people_are_followed_by_overlap_and_by_ids(tmp_path, pixels):
    x_TJC = pixels(0, "body25")
    write_openpose(tmp_path / "a" / "one", x_TJC, x_TJC + [600, 0])
    write_openpose(tmp_path / "a" / "two", x_TJC)
    _, store = take(tmp_path / "a", tmp_path, scale_2d="body")
    both = store.clip(0)  # exchanged in every second frame of the files
    assert both.shape[0] == 2
    step_MT = np.abs(np.diff(both[..., 0].mean(axis=2), axis=1))
    assert step_MT.max() < 0.1 < np.abs(both[0] - both[1])[..., 0].mean()
    a, b = scored(np.zeros((3, 2)) + [[0, 0], [1, 1], [2, 0]]), scored(np.full((3, 2), 50.0))
    x_MTJC, score_MTJ = follow([[("p", a), ("q", b)], [], [("q", a)]])
    assert x_MTJC.shape == (2, 3, 3, 2) and not score_MTJ[:, 1].any() and not x_MTJC[0, 2].any()
    np.testing.assert_allclose(x_MTJC[1, 2], a[:, :2])


@pytest.mark.parametrize("suffix", ["json", "csv", "npy"])
@pytest.mark.parametrize("world", [False, True])
def test_mediapipe(tmp_path, person, pixels, suffix, world):
    (tmp_path / "in").mkdir()
    for i in CLIPS:
        x_TJC = person(i, "mediapipe33")
        down_TJC = (x_TJC - x_TJC[:, [23, 24]].mean(axis=1, keepdims=True)) * [1, -1, -1]
        flat_TJC = np.concatenate([pixels(i, "mediapipe33") / [1920, 1080], np.zeros((*x_TJC.shape[:2], 1))], axis=-1)
        points = scored(down_TJC if world else flat_TJC)
        file = tmp_path / "in" / f"clip{i}.{suffix}"
        if suffix == "npy":
            np.save(file, points)
        elif suffix == "csv":
            with open(file, "w", newline="") as stream:
                rows = csv.writer(stream)
                rows.writerow(["frame", *(f"{axis}{k}" for k in range(33) for axis in "xyzv")])
                rows.writerows([t, *row] for t, row in enumerate(points.reshape(len(points), -1).tolist()))
        else:
            key = "pose_world_landmarks" if world else "landmarks"
            frames = [[dict(zip(("x", "y", "z", "visibility"), point)) for point in frame] for frame in points.tolist()]
            file.write_text(json.dumps([{key: frame} for frame in frames]))
    imported, store = take(tmp_path / "in", tmp_path, **({} if world else IMAGE))
    assert store.topology.name == "mediapipe33" and store.meta.dimensions == (3 if world else 2)
    if world:
        x_TJC = person(0, "mediapipe33")
        hips_TJC = x_TJC - x_TJC[:, [23, 24]].mean(axis=1, keepdims=True)
        expected_TJC = hips_TJC - hips_TJC[0, 0]
        np.testing.assert_allclose(store.clip(0)[0], expected_TJC, atol=1e-4)
    else:
        np.testing.assert_allclose(
            shape_of(store.clip(0)[0] * [1, -1, 1]), shape_of(pixels(0, "mediapipe33")), atol=1e-3
        )


def test_smpl_joints_and_files_of_rotations(tmp_path, person):
    (tmp_path / "in").mkdir()
    for i in CLIPS:
        x_TJC = person(i, "smpl22")[..., [0, 2, 1]] * [1, -1, 1]  # Z up
        np.savez(tmp_path / "in" / f"{i}.npz", joints=x_TJC, mocap_framerate=60.0)
    _, store = take(tmp_path / "in", tmp_path)
    x_TJC = person(0, "smpl22")
    assert store.topology.name == "smpl22" and store.meta.fps == 60
    np.testing.assert_allclose(store.clip(0)[0], x_TJC - x_TJC[0, 0], atol=1e-5)
    np.savez(tmp_path / "amass.npz", poses=np.zeros((4, 156)), trans=np.zeros((4, 3)))
    with pytest.raises(SkelbenchError, match="body model"):
        take(tmp_path / "amass.npz", tmp_path)


def test_labels_csv_gives_classes_subjects_and_clips(tmp_path, pixels):
    for i in CLIPS:
        (tmp_path / "in").mkdir(exist_ok=True)
        write_mmpose(tmp_path / "in" / f"clip{i}.json", pixels(i, "coco17"))
    rows = "name,label,subject\nclip0,sit,1\nclip20,stand,2\nclip40,sit,3\n"
    (tmp_path / "in" / "labels.csv").write_text(rows)
    _, store = take(tmp_path / "in", tmp_path, **IMAGE)
    assert store.classes == ("sit", "stand") and store.index["subject"].tolist() == [1, 2, 3]
    assert store.split("by-subject").test.tolist() == [1]
    (tmp_path / "in" / "labels.csv").write_text("file,class\nclip0,sit\n")
    with pytest.raises(SkelbenchError, match="columns name and label"):
        import_files([tmp_path / "in"], "other", tmp_path / "data", ImportOptions(**IMAGE))


def test_bad_files_are_named(tmp_path, pixels):
    folder = tmp_path / "in"
    folder.mkdir()
    for i in CLIPS:
        write_mmpose(folder / f"clip{i}.json", pixels(i, "coco17"))
    (folder / "clip9.json").write_text('{"instance_info": [{"instances": [{"keypoints": [[1, 2]]}]}]}')
    imported, store = take(folder, tmp_path, **IMAGE)
    assert len(store) == 4 and [skip.name for skip in imported.skipped] == ["clip9"]
    with pytest.raises(SkelbenchError, match="--scale-2d body"):
        import_files([folder], "other", tmp_path / "data")
    np.save(tmp_path / "one.npy", np.random.rand(9, 33, 4))
    with pytest.raises(SkelbenchError, match="--image-size"):
        import_files([tmp_path / "one.npy"], "other", tmp_path / "data")
    (tmp_path / "in" / "clip0.json").write_text("{")
    with pytest.raises(SkelbenchError, match="not a JSON file"):
        import_files([folder], "other", tmp_path / "data")
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["mine"]
