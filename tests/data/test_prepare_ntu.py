import json
from collections import Counter

import numpy as np
import pytest
from made.files import zipped
from made.literal_ntu import literal_clip, literal_recording
from made.ntu import sample_names, wild_scene, write_recording

from skelbench.data.raw.ntu.names import ACTIONS, SPLITS, official_missing, sample_of
from skelbench.data.raw.ntu.prepare import prepare_ntu
from skelbench.data.store.clip_store import EMPTY_BODY, ClipStore
from skelbench.data.store.splits import make_split
from skelbench.data.verify import KNOWN


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    """60 made recordings of NTU RGB+D 120, none of them with all bodies short."""
    folder = tmp_path_factory.mktemp("raw")
    for i, name in enumerate(sample_names(60, 32, 120, 106)):
        rng = np.random.default_rng([1, i])
        while True:
            data = write_recording(wild_scene(rng, 24), 24)
            seen = literal_recording(data)
            if seen and literal_clip(*seen):
                break
        (folder / f"{name}.skeleton").write_bytes(data)
    return folder


def put(folder, files):
    """Write these files (name -> bytes)."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)


# ------------------------------------------------------------------------------------------------ names and splits


def test_the_official_list():
    missing = official_missing()
    assert len(missing) == 535 and all(map(sample_of, missing))
    assert sum(sample_of(name).setup <= 17 for name in missing) == 302
    assert (KNOWN["ntu60"].clips, KNOWN["ntu120"].clips) == (56_880 - 302, 114_480 - 535)
    assert len(ACTIONS) == len(set(ACTIONS)) == 120


def test_splits_by_the_published_rules():
    """Subjects as printed in the two papers."""
    sixty = {1, 2, 4, 5, 8, 9, 13, 14, 15, 16, 17, 18, 19, 25, 27, 28, 31, 34, 35, 38}
    more = {45, 46, 47, 49, 50, 52, 53, 54, 55, 56, 57, 58, 59, 70, 74, 78, 80, 81, 82, 83, 84, 85, 86, 89, 91, 92, 93,
            94, 95, 97, 98, 100, 103}  # fmt: skip
    i = np.arange(4000)
    index = {"subject": 1 + i % 106, "camera": 1 + i % 3, "setup": 1 + i % 32, "label": 0 * i}
    for which, split, trains in (
        ("ntu60", "cross-subject", np.isin(index["subject"], sorted(sixty))),
        ("ntu60", "cross-view", index["camera"] != 1),
        ("ntu120", "cross-subject", np.isin(index["subject"], sorted(sixty | more))),
        ("ntu120", "cross-setup", index["setup"] % 2 == 0),
    ):
        made = make_split(split, SPLITS[which][split], index, which)
        assert made.train.tolist() == i[trains].tolist() and made.test.tolist() == i[~trains].tolist()
    assert len(sixty | more) == 53 and {name for rules in SPLITS.values() for name in rules} == {
        "cross-subject", "cross-view", "cross-setup",
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------ the store
def test_the_store_contains_the_clips_of_the_pipeline(raw, tmp_path):
    seen_progress = []
    report = prepare_ntu("ntu120", [raw], "made", tmp_path, progress=lambda *now: seen_progress.append(now))
    store = ClipStore.open(report.path)
    store.verify()
    files = sorted(raw.iterdir())
    assert seen_progress == [(i + 1, 60, 0) for i in range(60)]
    assert store.names.tolist() == [file.stem for file in files]
    assert report.clips == 60 and not report.unexpected and not store.meta.skipped
    assert report.notes == []
    totals = Counter(files=60)
    for i, file in enumerate(files):
        frames, seen = literal_recording(file.read_bytes())
        bodies, origin = literal_clip(frames, seen)
        x = store.clip(i)
        np.testing.assert_array_equal(x, np.array(bodies).reshape(x.shape))
        np.testing.assert_array_equal(store.index["origin"][i], origin)
        numbers = [int(store.index[field][i]) for field in ("setup", "camera", "subject", "trial", "label")]
        assert "S{:03}C{:03}P{:03}R{:03}A{:03}".format(*numbers[:4], numbers[4] + 1) == file.stem
        raw_frames = len({frame for frame, _, _ in seen})
        totals["frames_raw"] += raw_frames
        totals["frames_denoised"] += x.shape[1]
        totals["files_with_missing_frames"] += raw_frames > x.shape[1]
        assert bool(store.index["flags"][i] & EMPTY_BODY) == (len(x) == 2 and not x[1].any())
    assert {key: store.meta.details[key] for key in totals} == totals
    assert store.meta.lineage.startswith("ctrgcn-denoise/1") and store.meta.details["max_wide_share"] == 0.69754
    assert store.meta.up_axis == "y" and store.num_classes == 120 and store.meta.default_split == "cross-subject"
    assert list(store.meta.splits) == ["cross-subject", "cross-setup"]


def test_folders_zips_and_numbers_of_processes_give_the_same_store(raw, tmp_path):
    files = sorted(raw.iterdir())
    zipped(tmp_path / "half.zip", {f"nturgb+d_skeletons/{file.name}": file for file in files[1::2]})
    parts = tmp_path / "parts" / "deeper"
    put(parts, {file.name: file.read_bytes() for file in files[::2]})
    made = [
        prepare_ntu("ntu120", places, f"made{i}", tmp_path / "root", workers=workers).path
        for i, (places, workers) in enumerate([([raw], 1), ([raw], 3), ([tmp_path / "half.zip", parts.parent], 2)])
    ]
    assert len({(path / "frames.npy").read_bytes() for path in made}) == 1
    assert len({(path / "index.npz").read_bytes() for path in made}) == 1
    metas = [json.loads((path / "meta.json").read_text()) | {"name": ""} for path in made]
    assert metas[0] == metas[1] == metas[2]


def test_ntu60_excludes_the_extension_and_the_official_list(raw, tmp_path):
    folder, listed = tmp_path / "raw", sorted(official_missing())[:3]
    put(folder, {f"{name}.skeleton": b"0\r\n" for name in listed})
    put(folder, {"missing.txt": "\n".join(listed).encode(), "._S001C001P001R001A001.skeleton": b"\0\5\26\7"})
    for file in raw.iterdir():
        (folder / file.name).symlink_to(file)
    report = prepare_ntu("ntu60", [folder], "made", tmp_path / "root")
    store = ClipStore.open(report.path)
    first_half = sorted(file.stem for file in raw.iterdir() if int(file.stem[1:4]) <= 17)
    assert store.names.tolist() == first_half and not report.unexpected and store.num_classes == 60
    assert [(skipped.name, skipped.expected) for skipped in store.meta.skipped] == [(name, True) for name in listed]
    assert store.meta.details["official_missing"] == 3
    notes = "\n".join(report.notes)
    assert "other files ignored: 2 (" in notes and "list of incomplete ones, excluded: 3" in notes
    assert f"files of the half that NTU RGB+D 120 added ignored: {60 - len(first_half)} (S" in notes
