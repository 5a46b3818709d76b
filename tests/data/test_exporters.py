import numpy as np
import pytest
from made.clips import CLASSES, open_writer, write_store
from made.files import centered, people

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers import import_files
from skelbench.data.importers.exporters import export_mamp_npz
from skelbench.data.store.clip_store import ClipStore
from skelbench.views.skeleton.topology import KINECT20


def test_the_exported_layout_is_mamps(store, tmp_path):
    export_mamp_npz(store, tmp_path / "x.npz", split="xsub")
    with np.load(tmp_path / "x.npz") as file:
        longest = store.lengths.max()
        for part, ids in (("train", store.split("xsub").train), ("test", store.split("xsub").test)):
            x, y = file[f"x_{part}"], file[f"y_{part}"]
            assert x.dtype == np.float32 and x.shape == (len(ids), longest, 150)
            assert y.dtype == np.float64 and y.shape == (len(ids), len(CLASSES)) and set(y.ravel()) == {0, 1}
            # As its feeder takes it apart: clips, frames, bodies, joints, coordinates.
            x = x.reshape(len(ids), longest, 2, 25, 3)
            ids = sorted(ids, key=lambda i: (store.index["subject"][i], i))
            assert np.where(y > 0)[1].tolist() == store.labels[ids].tolist()
            for row, i in enumerate(ids):
                clip = store.clip(i)
                for body in range(2):
                    for frame in range(longest):
                        there = body < len(clip) and frame < clip.shape[1]
                        np.testing.assert_array_equal(x[row, frame, body], clip[body, frame] if there else 0)


def test_exported_files_can_be_imported(tmp_path):
    with open_writer(tmp_path / "made") as writer:
        for i in range(6):
            x, origin = centered(people(i))
            writer.add(x, i % 3, subject=i % 2, camera=1 + i % 2, origin=origin)
    store = ClipStore.open(tmp_path / "made")
    split = store.split("cross-subject")
    for second in ("zero", "repeat"):
        file = export_mamp_npz(store, tmp_path / f"{second}.npz", split=split.name, second_body=second)
        back = ClipStore.open(import_files([file], second, tmp_path).path)
        for clip, i in enumerate([*split.train, *split.test]):
            np.testing.assert_array_equal(back.clip(clip), store.clip(i))
        assert back.split().train.tolist() == list(range(len(split.train)))


def test_impossible_exports_are_errors(store, tmp_path):
    (tmp_path / "there.npz").write_bytes(b"mine")
    kinect = write_store(tmp_path / "kinect", [np.zeros((1, 2, 20, 3), "f4")] * 4, topology=KINECT20)
    for message, source, file, split in (
        ("exists already; .*--force", store, "there.npz", None),
        ("has skeleton kinect20", ClipStore.open(kinect), "x.npz", None),
        ("cross-subject~tune is for choosing settings", store, "x.npz", "cross-subject~tune"),
    ):
        with pytest.raises(SkelbenchError, match=message):
            export_mamp_npz(source, tmp_path / file, split=split)
    assert (tmp_path / "there.npz").read_bytes() == b"mine"
    assert not (tmp_path / "x.npz").exists()
