"""`data import` and `data export` of other people's formats, as typed."""

import numpy as np
import pytest
from made.files import annotation, people, split_lists, write_pickle

from skelbench.cli.main import main
from skelbench.data.store.clip_store import ClipStore


@pytest.fixture
def pickled(tmp_path):
    """``pickled(change)``: a pyskl pickle of 12 clips; returns its path."""

    def pickled(change=lambda entries: None):
        entries = [annotation(i, keypoint=people(i, bodies=1).astype(np.float16)) for i in range(12)]
        change(entries)
        return str(write_pickle(tmp_path / "NTU 60 3danno.pkl", {"split": split_lists(), "annotations": entries}, 4))

    return pickled


def test_import_export_import(pickled, tmp_path, capsys):
    assert main(["data", "import", pickled()]) == 0
    printed = capsys.readouterr().out
    assert "pyskl pickle, 3-D" in printed and "next: skelbench run slim --tokens 8 --dataset ntu-60-3danno" in printed
    file = tmp_path / "out" / "x.npz"
    assert main(["data", "export", "ntu-60-3danno", "-o", str(file), "--second-body", "repeat"]) == 0
    printed = capsys.readouterr().out
    assert "float32 [6, 40, 150]" in printed and "data_path" in printed
    assert main(["data", "export", "ntu-60-3danno", "-o", str(file)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["data", "import", str(file), "--name", "again"]) == 0
    stores = [ClipStore.open(tmp_path / "data" / name) for name in ("ntu-60-3danno", "again")]
    assert sorted(stores[0].labels) == sorted(stores[1].labels) and stores[1].bodies.max() == 1


def test_skipped_clips_are_listed_with_exit_code_3(pickled, capsys):
    def change(entries):
        entries[2] = None
        entries[4]["keypoint"][0, 3, 7] = np.nan

    assert main(["data", "import", pickled(change), "--name", "mine"]) == 3
    printed = capsys.readouterr()
    assert (
        "skipped: S001C003P001R001A001: a coordinate is not a finite number (joint 7 of body 0 in frame 3)"
        in printed.err
    )
    assert "1 skipped unexpectedly" in printed.err
    facts = [line.split() for line in printed.out.splitlines()]
    assert ["empty", "clips", "skipped", "1"] in facts and ["clips", "10"] in facts
    assert main(["data", "info", "mine"]) == 0


def test_short_and_duplicate_clips_are_reported_at_the_end(pickled, capsys):
    def change(entries):
        train, test = [one for one in entries if "P001" in one["frame_dir"]], entries[-1]
        test["keypoint"] = train[0]["keypoint"][:, :5]
        train[0].update(keypoint=test["keypoint"], total_frames=5)
        test["total_frames"] = 5

    assert main(["data", "import", pickled(change), "--name", "mine"]) == 0
    imported = " ".join(capsys.readouterr().out.split())
    assert "short clips: 2 of fewer than 8 frames, a patch of the default grid" in imported
    assert "on both sides of split cross-subject: 1 of 6 test clips are training clips, too (clip 11 (" in imported
    assert main(["data", "info", "mine"]) == 0
    assert "on both sides of split cross-subject" in " ".join(capsys.readouterr().out.split())
