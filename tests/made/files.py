"""Small files in other people's formats, made from people who stand and move."""

import json
import pickle
import zipfile
from pathlib import Path

import h5py
import numpy as np

from .ntu import person

NAMES = [
    f"S001C{camera:03}P{performer:03}R001A{action:03}"
    for performer in (1, 3)
    for camera in (1, 2, 3)
    for action in (1, 50)
]
"""12 samples: performer 1 trains and 3 tests across subjects, cameras 2 and 3 train and 1 tests across views."""
LENGTHS = [20, 31, 25, 40, 22, 27, 35, 30, 33, 21, 28, 36]


def people(i, bodies=None):
    """Clip ``i`` as a sensor sees it: float32 [M, T, 25, 3], camera coordinates; every other clip has two people."""
    rng = np.random.default_rng([7, i])
    bodies = bodies or 1 + i % 2
    return np.stack([person(rng, LENGTHS[i], place=1.2 * body) for body in range(bodies)]).astype(np.float32)


def centered(x_MTJC, joint=1):
    """The clip as the CTR-GCN pipeline leaves it, and the original position of its origin."""
    origin = x_MTJC[0, 0, joint].copy()
    return x_MTJC - origin, origin


def labels(names=NAMES):
    return np.array([int(name[-3:]) - 1 for name in names])


def mamp_arrays(repeat=False, frames=50, names=NAMES, classes=60):
    """x and y of the MAMP scripts, cross-subject: a dictionary for np.savez."""
    arrays = {}
    for part, performer in (("train", 1), ("test", 3)):
        rows = [i for i, name in enumerate(names) if int(name[9:12]) == performer]
        x = np.zeros((len(rows), frames, 2, 25, 3), np.float32)
        for row, i in enumerate(rows):
            clip, _ = centered(people(i))
            x[row, : clip.shape[1], : len(clip)] = clip.transpose(1, 0, 2, 3)
            if repeat and len(clip) == 1:
                x[row, :, 1] = x[row, :, 0]
        arrays[f"x_{part}"] = x.reshape(len(rows), frames, 150)
        arrays[f"y_{part}"] = np.eye(classes)[labels(names)[rows]]
    return arrays


def write_h5(path, arrays):
    with h5py.File(path, "w") as file:
        for key, name in (("x_train", "x"), ("y_train", "y"), ("x_test", "test_x"), ("y_test", "test_y")):
            file[name] = arrays[key]
        file["valid_x"], file["valid_y"] = arrays["x_train"][:2], arrays["y_train"][:2]


def annotation(i, **changes):
    """An entry of a pyskl pickle, 3-D."""
    x = people(i).astype(np.float16)
    entry = dict(frame_dir=NAMES[i], label=int(labels()[i]), keypoint=x, total_frames=x.shape[1])
    return entry | changes


def split_lists(names=NAMES):
    return {
        "xsub_train": [name for name in names if "P001" in name],
        "xsub_val": [name for name in names if "P003" in name],
        "xview_train": [name for name in names if "C001" not in name],
        "xview_val": [name for name in names if "C001" in name],
    }


def zipped(path, members, method=zipfile.ZIP_DEFLATED):
    """A zip of these members (name -> bytes, or the file that holds them)."""
    with zipfile.ZipFile(path, "w", method) as file:
        for name, data in members.items():
            file.writestr(name, data.read_bytes() if isinstance(data, Path) else data)
    return path


def write_pickle(path, value, protocol=2):
    path.write_bytes(pickle.dumps(value, protocol))
    return path


def slot_array(rows, frames=60):
    """ST-GCN's array [N, 3, T, 25, 2] of these clips, camera coordinates."""
    x = np.zeros((len(rows), 3, frames, 25, 2), np.float32)
    for row, i in enumerate(rows):
        clip = people(i)
        x[row, :, : clip.shape[1], :, : len(clip)] = clip.transpose(3, 1, 2, 0)
    return x


def upright(rows, frames=60):
    """2s-AGCN's array: body 1's spine at 0 in every frame, z up, every body repeated until the array is full."""
    x = slot_array(rows, frames)
    for row, i in enumerate(rows):
        length = LENGTHS[i]
        times = np.arange(frames) % length
        x[row] = x[row][:, times]
        x[row] -= x[row][:, :, 1:2, :1] * x[row].any(axis=(0, 1, 2))
        x[row] = x[row][[0, 2, 1]] * np.array([1, -1, 1], np.float32)[:, None, None, None]  # Y up to z up
    return x


def write_nwucla(folder, numbers, **changes):
    """Files of NW-UCLA in a folder, (action, subject, trial, camera) each; ``changes`` of what the first one holds."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, (action, subject, trial, camera) in enumerate(numbers):
        name = f"a{action:02}_s{subject:02}_e{trial:02}_v{camera:02}"
        label = [1, 2, 3, 4, 5, 6, 8, 9, 11, 12].index(action) + 1
        value = dict(file_name=name, skeletons=people(i % 12, 1)[0, :, :20].round(6).tolist(), label=label)
        value = {key: one for key, one in (value | (changes if i == 0 else {})).items() if one is not None}
        (folder / f"{name}.json").write_text(json.dumps(value))


def write_slots(folder, array=slot_array, pairs=((0, 2, 3, 6, 7, 8, 9), (1, 4, 5, 10, 11))):
    """data.npy and label.pkl of a training and a test part; returns the clips' numbers in their order."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, rows in zip(("train", "val"), pairs, strict=True):
        np.save(folder / f"{part}_data.npy", array(rows))
        names = [f"{NAMES[i]}.skeleton" for i in rows]
        write_pickle(folder / f"{part}_label.pkl", (names, labels()[list(rows)].tolist()), protocol=4)
    return [i for rows in pairs for i in rows]


COCO = (3, 4, 4, 4, 4, 4, 8, 5, 9, 6, 10, 12, 16, 13, 17, 14, 18)
"""Joints of NTU that represent COCO's."""


def pixels(i, height=1080):
    """Clip ``i`` seen by a color camera: pixels [M, T, 17, 2] (y down) and scores [M, T, 17], float16."""
    x = people(i)[:, :, list(COCO)].astype(np.float64)
    flat = np.stack([960 + 1060 * x[..., 0] / x[..., 2], height / 2 - 1060 * x[..., 1] / x[..., 2]], axis=-1)
    score = np.random.default_rng([8, i]).uniform(0.2, 1.05, flat.shape[:3])
    return flat.astype(np.float16), score.astype(np.float16)


def flat_annotation(i, **changes):
    """An entry of a pyskl pickle, 2-D."""
    flat, score = pixels(i)
    entry = dict(
        frame_dir=f"video{i}", label=i % 3, keypoint=flat, keypoint_score=score, total_frames=flat.shape[1],
        img_shape=(1080, 1920), original_shape=(1080, 1920),
    )  # fmt: skip
    return entry | changes
