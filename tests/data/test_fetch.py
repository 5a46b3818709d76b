"""Datasets by one command: from the network (a server of this machine), or from what was downloaded."""

import hashlib
import json
import pickle
import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from made.files import people

from skelbench.core.errors import SkelbenchError
from skelbench.data.convert import convert_store
from skelbench.data.fetch import fetch
from skelbench.data.importers import recognize
from skelbench.data.importers.exporters import export_pyskl
from skelbench.data.store.clip_store import ClipStore
from skelbench.plugin import SourceSpec
from skelbench.views.skeleton.topology import get_topology


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Print nothing."""


@pytest.fixture
def served(tmp_path):
    """(folder of a server on the loopback interface, its address)."""
    folder = tmp_path / "served"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def write_clips(file):
    names = [f"clip{i}" for i in range(6)]
    clips = [{"frame_dir": name, "label": i % 2, "keypoint": people(i, 1), "total_frames": people(i, 1).shape[1]}
             for i, name in enumerate(names)]  # fmt: skip
    split = {"train": names[:4], "test": names[4:]}
    file.write_bytes(pickle.dumps({"split": split, "annotations": clips}))
    return f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"


def source(url, checksum=""):
    return SourceSpec(name="open", target=":read", files={url: checksum}, license="CC0", citation="Somebody, 2026")


def test_a_download_is_stored_with_license_citation_and_checksum(tmp_path, served):
    folder, address = served
    checksum, loaded = write_clips(folder / "clips.pkl"), []
    about = source(f"{address}/clips.pkl", checksum)
    fetch(about, recognize, tmp_path / "data" / "open", loaded=lambda done, **_: loaded.append(done))
    store = ClipStore.open(tmp_path / "data" / "open")
    kept = store.meta.details["source"]
    assert (len(store), store.meta.license, kept["citation"]) == (6, "CC0", "Somebody, 2026")
    assert kept["from"] == [f"{address}/clips.pkl"] and kept["sha256"] == {"clips.pkl": checksum[7:]}
    assert sum(loaded) == pytest.approx((folder / "clips.pkl").stat().st_size / 1e6, rel=0.05)
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["open"]


def test_from_a_zip_that_was_downloaded(tmp_path):
    (tmp_path / "in").mkdir()
    write_clips(tmp_path / "in" / "clips.pkl")
    archive = shutil.make_archive(str(tmp_path / "clips"), "zip", tmp_path / "in")

    def read(files, options):
        return recognize([next(files[0].rglob("*.pkl"))], options)

    fetch(source("http://nowhere.invalid/clips.zip"), read, tmp_path / "data" / "open", tmp_path / archive)
    assert len(ClipStore.open(tmp_path / "data" / "open")) == 6
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["open"]


@pytest.mark.parametrize("problem", ["checksum", "no file", "no network", "half", "no space"])
def test_a_problem_is_one_error_and_leaves_no_dataset(tmp_path, served, monkeypatch, problem):
    folder, address = served
    checksum, url = write_clips(folder / "clips.pkl"), f"{address}/clips.pkl"
    expected = "download failed"
    if problem == "checksum":
        checksum, expected = "sha256:" + "0" * 64, "checksum failed"
    elif problem == "no file":
        url += "x"
    elif problem == "no network":
        url = "http://127.0.0.1:9/clips.pkl"
    elif problem == "half":
        (folder / "clips.pkl").write_bytes((folder / "clips.pkl").read_bytes()[:1000])
        checksum, expected = "", "cannot be read|not import|is not a"
    else:

        def full(*_, **__):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("pooch.retrieve", full)
        expected = "No space left"
    with pytest.raises(SkelbenchError, match=expected):
        fetch(source(url, checksum), recognize, tmp_path / "data" / "open")
    assert not [path for path in (tmp_path / "data").glob("[!.]*")]


def test_the_reader_of_uiprmd_reproduces_the_clips_that_ship(tmp_path):
    """Files in the layout of the original, written from known rotations: positions come back, hands are assumed."""
    from skelbench_plugins.recordings.sources.uiprmd import PARENTS, SAME, read_clip

    draw = np.random.default_rng(0)
    offsets, angles = draw.normal(0, 20, (4, 22, 3)), draw.uniform(-60, 60, (4, 22, 3))
    for kind, values in (("Positions", offsets), ("Angles", angles)):
        folder = tmp_path / "Kinect" / kind
        folder.mkdir(parents=True)
        np.savetxt(folder / f"m01_s01_e01_{kind.lower()}.txt", values.reshape(4, -1), delimiter=",")
    x_TJC = read_clip(tmp_path / "Kinect" / "Positions" / "m01_s01_e01_positions.txt").x_MTJC[0]
    from scipy.spatial.transform import Rotation

    for t in range(4):
        place, turn = {}, {}
        for j, parent in enumerate(PARENTS):
            own = Rotation.from_euler("ZXY", angles[t, j, [2, 0, 1]], degrees=True)
            turn[j] = own if parent < 0 else turn[parent] * own
            offset = offsets[t, j] / 100
            place[j] = offset if parent < 0 else place[parent] + turn[parent].apply(offset)
        for joint, original in enumerate(SAME):
            if original >= 0:
                np.testing.assert_allclose(x_TJC[t, joint], place[original] * [-1, 1, -1], atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(x_TJC[:, 7] - x_TJC[:, 6], axis=-1), 0.07, atol=1e-6)


def test_irds_files(tmp_path):
    from skelbench_plugins.recordings.sources.rehabilitation import KINECT, irds

    from skelbench.data.importers import ImportOptions, store_recording

    for number in range(4):
        x_TJC = people(number, 1)[0]
        lines = ["Version0.1"]
        for x_JC in x_TJC:
            joints = ",".join(f"({name},Tracked,{x},{y},{z},1,2)" for name, (x, y, z) in zip(KINECT, x_JC.tolist()))
            lines.append(f"1,4,33,{joints}")
        lines.insert(2, "1,4,33," + ",".join(f"({name},NotTracked,0,0,0,1,2)" for name in KINECT))
        (tmp_path / f"10{number % 2}_18_0_{number}_{1 + number // 2}_stand.txt").write_text("\n".join(lines))
    options = ImportOptions()
    store = ClipStore.open(store_recording(irds([tmp_path], options), tmp_path / "data" / "irds", options).path)
    assert store.classes == ("elbow flexion left / correct", "elbow flexion left / incorrect")
    assert store.index["subject"].tolist() == [100, 100, 101, 101] and store.split("by-subject").test.tolist() == [2, 3]
    assert store.lengths[0] == people(0, 1).shape[1]  # the frame of zeros is dropped


def test_a_converted_store_survives_pyskl_export_and_import(tmp_path, served):
    write_clips(tmp_path / "clips.pkl")
    fetch(source("http://nowhere.invalid/clips.pkl"), recognize, tmp_path / "open", tmp_path / "clips.pkl")
    store = ClipStore.open(tmp_path / "open")
    again = fetch(source("x"), recognize, tmp_path / "again", export_pyskl(store, tmp_path / "out.pkl")).path
    for i in range(len(store)):
        np.testing.assert_array_equal(ClipStore.open(again).clip(i), store.clip(i))
    assert sorted(ClipStore.open(again).meta.splits) == sorted(store.meta.splits)
    small = ClipStore.open(convert_store(store, tmp_path / "small", get_topology("kinect20")))
    assert small.labels.tolist() == store.labels.tolist() and small.classes == store.classes
    x, y = store.clip(0)[0], small.clip(0)[0]
    left = [topology.joints.index("left wrist") for topology in (store.topology, small.topology)]
    right = [topology.joints.index("right knee") for topology in (store.topology, small.topology)]
    np.testing.assert_allclose(x[:, left[0]] - x[:, right[0]], y[:, left[1]] - y[:, right[1]], atol=1e-6)
    assert "converted to kinect20" in small.meta.lineage and "exact" in json.dumps(small.meta.details)
    with pytest.raises(SkelbenchError, match="already"):
        convert_store(small, tmp_path / "third", get_topology("kinect20"))
