import json
import re

import numpy as np
import pytest
from made.clips import open_writer, write_store
from small import write_small_store

from skelbench.core.errors import SkelbenchError
from skelbench.data.store.clip_store import ClipStore, Skipped
from skelbench.data.store.splits import FieldRule
from skelbench.testing.stick7 import STICK7
from skelbench.testing.thing import STICK7 as STICK7_FILE


def test_rows_have_the_documented_positions(store, clips):
    for i, x in enumerate(clips):
        for m, t, c in np.ndindex(*x.shape[:2], 3):
            row = store.frames_FJ[store.offsets[i] + (m * 3 + c) * x.shape[1] + t]
            np.testing.assert_array_equal(row, x[m, t, :, c])
    plain = np.load(store.path / "frames.npy")
    assert plain.shape == (3 * sum(len(x) * x.shape[1] for x in clips), 25) and plain.dtype == np.float32


HALF = {"half": FieldRule(field="subject", train="odd")}


def write_rich(path, clips, confidence=True, prefix="V1", splits=HALF, **changes):
    """Clips with everything a clip can have: clip i is V1_i."""
    rng = np.random.default_rng(3)
    made = [rng.random(x.shape[:3]).astype(np.float32) for x in clips]
    with open_writer(path, splits=splits, default_split=next(iter(splits)), **changes) as writer:
        for i, x in enumerate(clips):
            more = dict(confidence_MTJ=made[i]) if confidence else {}
            about = dict(name=f"{prefix}_{i}")
            writer.add(x, i % 3, subject=i, **about, **more)
        writer.skipped.append(Skipped(name="V1_99", reason="the file is empty", expected=False))
        writer.details["frames"] = 7
    return path, made


def test_names_confidence_and_notes_come_back(tmp_path, clips):
    path, confidence = write_rich(tmp_path / "made", clips)
    store = ClipStore.open(path)
    assert store.names.tolist() == [f"V1_{i}" for i in range(len(clips))]
    for i, expected in enumerate(confidence):
        np.testing.assert_array_equal(store.confidence(i), expected)
        start, length = store.offsets[i] // 3, store.lengths[i]
        for m, t in np.ndindex(*expected.shape[:2]):
            np.testing.assert_array_equal(store.confidence_FJ[start + m * length + t], expected[m, t])
    assert store.meta.skipped == (Skipped(name="V1_99", reason="the file is empty"),)
    assert store.meta.details == {"frames": 7} and store.meta.up_axis == "y"
    store.verify()


@pytest.mark.parametrize("name", ["frames.npy", "confidence.npy"])
def test_one_changed_bit_and_a_cut_or_missing_file_are_detected(tmp_path, clips, name):
    path, _ = write_rich(tmp_path / "made", clips)
    data = bytearray((path / name).read_bytes())
    data[-1] ^= 1
    (path / name).write_bytes(data)
    with pytest.raises(SkelbenchError, match=f"{name} are not those that were written"):
        ClipStore.open(path).verify()
    (path / name).write_bytes(data[:-4])
    with pytest.raises(SkelbenchError, match=f"{name} cannot be read"):
        ClipStore.open(path)


def test_fingerprint_follows_content_and_nothing_else(tmp_path, clips):
    def fingerprint(name, clips=clips, **changes):
        return ClipStore.open(write_store(tmp_path / name, clips, **changes)).fingerprint

    moved = [x.copy() for x in clips]
    moved[3][0, 0, 7, 1] += 1e-6
    first = fingerprint("one")
    assert first == fingerprint("two", license="another", lineage="another")
    others = [fingerprint("moved", moved), fingerprint("shorter", clips[:-1]), fingerprint("named", classes="xyz")]
    assert len({first, *others}) == 4


def _edit_meta(path, **changes):
    file = path / "meta.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def _edit_index(path, change):
    with np.load(path / "index.npz") as file:
        arrays = dict(file)
    change(arrays)
    np.savez(path / "index.npz", **arrays)


def _cut(name, keep):
    return lambda path: (path / name).write_bytes((path / name).read_bytes()[:keep])


DAMAGE = {
    "meta missing": (lambda path: (path / "meta.json").unlink(), "there is no clip store"),
    "meta field of the wrong type": (lambda path: _edit_meta(path, clips="many"), "meta.json cannot be read"),
    "newer version": (lambda path: _edit_meta(path, format=99, novelty=1), "format 99.*update skelbench"),
    "index cut short": (_cut("index.npz", 700), "index.npz cannot be read"),
    "index of another store": (lambda path: _edit_index(path, lambda a: a["label"].sort()), "do not belong together"),
    "frames of another type": (lambda path: np.save(path / "frames.npy", np.zeros((9, 25))), "not float32"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_store_is_one_error(store, kind):
    damage, message = DAMAGE[kind]
    damage(store.path)
    with pytest.raises(SkelbenchError, match=message) as caught:
        ClipStore.open(store.path)
    assert "\n" not in str(caught.value) and re.search(r"; |did you mean", str(caught.value))


def test_the_plugin_of_a_skeleton_must_be_given(tmp_path, monkeypatch):
    monkeypatch.setenv("SKELBENCH_PLUGIN_PATH", STICK7_FILE)
    path = write_small_store(tmp_path, "seven", topology=STICK7)
    monkeypatch.delenv("SKELBENCH_PLUGIN_PATH")
    with pytest.raises(SkelbenchError, match="dataset seven: unknown topology 'stick7'.*; .* with --plugin FILE"):
        ClipStore.open(path)
