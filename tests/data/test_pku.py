import numpy as np
import pytest
from made.literal_ntu import literal_frames
from made.pku import split_file, video, write_labels, write_video

from skelbench.core.errors import SkelbenchError
from skelbench.data.raw.files import BadFile
from skelbench.data.raw.pku import prepare
from skelbench.data.raw.pku.names import parse_split
from skelbench.data.raw.pku.prepare import prepare_pku
from skelbench.data.store.clip_store import ClipStore
from skelbench.data.store.splits import NameRule

VIDEOS = ["A01N01-L", "A01N01-M", "A02N07-R"]


@pytest.fixture
def raw(tmp_path):
    """``raw(labels, **files)``: a folder with three videos of 40 frames; ``labels`` are the first video's."""

    def make(rows=((3, 5, 20, 2), (7, 20, 40, 1)), splits=(VIDEOS[:1], VIDEOS[1:]), frames=40, **files):
        folder = tmp_path / "raw"
        for i, name in enumerate(VIDEOS):
            x = video(np.random.default_rng(i), frames, people=i == 1)
            put(folder, name, x, write_labels(rows if i == 0 else [(51, 0, 9, 2)]))
        for split in ("subject", "view"):
            (folder / f"cross_{split}_v2.txt").write_bytes(split_file(*splits))
        for name, data in files.items():
            (folder / name).write_bytes(data)
        return folder

    return make


def put(folder, name, frames=None, labels=None):
    """The texts of a video: its frames (as an array or as they are) and its labels, where they are given."""
    if isinstance(frames, np.ndarray):
        frames = write_video(frames)
    for part, data in (("skeleton", frames), ("label", labels)):
        (folder / part).mkdir(parents=True, exist_ok=True)
        if data is not None:
            (folder / part / f"{name}.txt").write_bytes(data)


def frames_of(folder, name):
    data = (folder / "skeleton" / f"{name}.txt").read_bytes()
    return np.frombuffer(literal_frames(data), np.float32).reshape(-1, 150)


def padded(store, i):
    """A clip as [T, 150], zeros for a second body that is not there: MAMP's rows without the padding."""
    x = store.clip(i)
    rows = np.zeros((x.shape[1], 2, 75), dtype=np.float32)
    rows[:, : len(x)] = x.reshape(len(x), -1, 75).transpose(1, 0, 2)
    return rows.reshape(-1, 150)


# ------------------------------------------------------------------------------------------------ texts
RULE = NameRule(field="video", train=("A01N01-L", "A02N01-M"), test=("A03N01-R",))


@pytest.mark.parametrize("data", [
    b"Training videos: \nA01N01-L, A02N01-M\nValidation videos: \nA03N01-R\n",
    b"Training videos: \r\nA01N01-L, A02N01-M, \r\nValidataion videos: \r\nA03N01-R,\r\n",
    b"validation\nA03N01-R\ntraining\nA01N01-L,,\nA02N01-M.txt,\n",
])  # fmt: skip
def test_split_files_are_read_tolerantly(data):
    assert parse_split("pku2", data) == RULE


def test_contradictory_split_files_are_rejected():
    with pytest.raises(BadFile, match=r"A01N01-L for training and for testing \(videos in both: 1\)"):
        parse_split("pku2", b"train\nA01N01-L\ntest\nA01N01-L,A02N01-M\n")
    assert parse_split("pku2", b"train\n0012-L\ntest\n0013-M") is None, "the other phase"


# ------------------------------------------------------------------------------------------------ the store
def test_clips_are_the_rows_of_mamps_script(raw, tmp_path):
    folder = raw(rows=[(3, 5, 20, 2), (7, 20, 99, 1)])
    report = prepare_pku("pku2", [folder], "made", tmp_path)
    store = ClipStore.open(report.path)
    assert store.names.tolist() == ["A01N01-L_0", "A01N01-L_1", "A01N01-M_0", "A02N07-R_0"]
    assert store.labels.tolist() == [2, 6, 50, 50] and store.lengths.tolist() == [15, 20, 9, 9]
    for i, (video_name, rows) in enumerate([(VIDEOS[0], slice(5, 20)), (VIDEOS[0], slice(20, 99)),
                                            (VIDEOS[1], slice(0, 9)), (VIDEOS[2], slice(0, 9))]):  # fmt: skip
        np.testing.assert_array_equal(padded(store, i), frames_of(folder, video_name)[rows])
    assert not store.index["origin"].any() and not report.unexpected
    assert "actions that end after their video, cut where it ends: 1" in report.notes
    expected = dict(subject=[1, 1, 1, 7], camera=[1, 1, 2, 3], setup=[1, 1, 1, 2], trial=[0, 1, 0, 0])
    assert {field: store.index[field].tolist() for field in expected} == expected
    assert store.split("xsub").train.tolist() == [0, 1] and store.split("cross-view").test.tolist() == [2, 3]
    assert store.meta.lineage == "mamp-pku/1, rows [start, end), first 300 frames, camera coordinates"
    assert store.meta.details == {"videos": 3, "frames": 53, "unfinished": 1}
    store.verify()


def test_a_long_action_keeps_its_first_frames(raw, tmp_path, monkeypatch):
    monkeypatch.setattr(prepare, "MAX_FRAMES", 10)
    folder = raw(rows=[(3, 5, 30, 2)])
    store = ClipStore.open(prepare_pku("pku2", [folder], "made", tmp_path).path)
    np.testing.assert_array_equal(padded(store, 0), frames_of(folder, VIDEOS[0])[5:15])


def test_bad_videos_and_actions_are_reported_and_skipped(raw, tmp_path):
    rows = [(3, 5, 20, 2), (52, 1, 9, 1), (4, -1, 9, 1), (5, 30, 35, 2), (6, 31, 33, 2)]
    folder = raw(rows=rows, splits=(VIDEOS[:2], ["A03N03-R"]), **{"readme.txt": b"hello"})
    x = video(np.random.default_rng(0), 40)
    x[30:35] = 0
    x[32, 0, 3, 1] = np.nan
    put(folder, "A01N01-L", x)
    put(folder, "A09N09-L", x)
    put(folder, "A08N09-L", b"", b"1,2,3,1\n")
    for name in ("A03N03-R", "A06N06-M"):
        put(folder, name, np.zeros((40, 2, 25, 3)) + (name < "A05"), b"1,2,30,1\n")
    reports = [prepare_pku("pku2", [folder], f"made{n}", tmp_path / "root", workers=n) for n in (1, 2)]
    assert reports[0].unexpected == reports[1].unexpected and reports[0].clips == 4
    reasons = reports[0].unexpected
    for video_name in ("A02N07-R", "A06N06-M", "A08N09-L", "A09N09-L"):
        for split in ("cross-subject", "cross-view"):
            assert (video_name, f"in neither list of the split {split}") in reasons
    assert [(name, reason) for name, reason in reasons if "neither list" not in reason] == [
        ("A01N01-L_1", "action 52 is not one of 1 to 51"),
        ("A01N01-L_2", "frames -1 to 9 do not lie in a video of 40 frames"),
        ("A01N01-L_3", "frame 32 has a coordinate that is not finite"),
        ("A01N01-L_4", "frame 32 has a coordinate that is not finite"),
        ("A08N09-L.txt", "neither of its two files holds frames"),
        ("A09N09-L.txt", "a video needs two files of its name, its frames and its labels; there are 1"),
    ]
    store = ClipStore.open(reports[0].path)
    assert [(s.name, s.expected) for s in store.meta.skipped if s.expected] == [("A06N06-M_0", True)]
    assert "actions without a body in any of their frames, skipped: 1" in reports[0].notes
    assert "other files ignored: 1 (readme.txt)" in reports[0].notes


def test_missing_or_contradictory_splits_are_one_error_and_no_store(raw, tmp_path):
    folder = raw()

    def refused(reason, which="pku2"):
        with pytest.raises(SkelbenchError, match=reason):
            prepare_pku(which, [folder], "made", tmp_path / "root")

    (folder / "cross_view_v2.txt").write_bytes(split_file(VIDEOS, VIDEOS[:1]))
    refused("cross_view_v2.txt: it lists A01N01-L for training and for testing")
    for file in folder.glob("cross*"):
        file.unlink()
    refused("no split file .*second --raw")
    refused("no file with a name like 0002-L.txt", "pku1")
    assert not (tmp_path / "root" / "made").exists()
