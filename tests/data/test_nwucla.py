"""NW-UCLA's JSON files: clips come back, files that cannot be used are skipped with a reason."""

import numpy as np
import pytest
from made.files import people, write_nwucla, zipped

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers import ImportOptions, import_files
from skelbench.data.store.clip_store import ClipStore

NUMBERS = [(1, 1, 0, 1), (12, 2, 3, 1), (8, 10, 9, 2), (1, 3, 0, 2), (12, 1, 1, 3), (8, 4, 2, 3)]
NAMES = [f"a{action:02}_s{subject:02}_e{trial:02}_v{camera:02}" for action, subject, trial, camera in sorted(NUMBERS)]
CLASSES = {1: "pick up with one hand", 8: "donning", 12: "carry"}


def take(path, root, **options):
    imported = import_files([path], "mine", root, ImportOptions(**options), overwrite=True)
    return imported, ClipStore.open(imported.path)


@pytest.mark.parametrize("kind", ["nested", "zip"])
def test_clips_cameras_and_subjects(tmp_path, kind):
    folder = tmp_path / "all_sqe"
    write_nwucla(folder / "below" if kind == "nested" else folder, NUMBERS)
    (folder / "readme.txt").write_text("a01")
    source = folder
    if kind == "zip":
        source = zipped(tmp_path / "x.zip", {f"all_sqe/{one.name}": one for one in folder.iterdir()})
    imported, store = take(source, tmp_path / "root")
    assert store.names.tolist() == NAMES and store.topology.name == "kinect20" and store.num_classes == 10
    for clip, (action, subject, trial, camera) in enumerate(sorted(NUMBERS)):
        x = people(NUMBERS.index((action, subject, trial, camera)), 1)[:, :, :20]
        np.testing.assert_allclose(store.clip(clip), x - x[:, :1, 1:2], atol=2e-6)
        about = [store.index[field][clip] for field in ("subject", "trial", "camera")]
        assert about == [subject, trial, camera] and store.classes[store.labels[clip]] == CLASSES[action]
    split = store.split("xview")
    assert store.meta.default_split == "cross-view" and set(store.index["camera"][split.train]) == {1, 2}
    assert set(store.index["camera"][split.test]) == {3} and not imported.skipped


SKIPPED = {
    "label": (dict(label=2), "its label is 2, by its name it is 1"),
    "no skeletons": (dict(skeletons=None), "no JSON object with a list of skeletons"),
    "NaN": (dict(skeletons=[[[float("nan"), 0, 0]] * 20]), "a coordinate is not a finite number"),
    "zeros": (dict(skeletons=np.zeros((2, 20, 3)).tolist()), "all its coordinates are zero"),
}


@pytest.mark.parametrize("kind", [*SKIPPED, "cut"])
def test_a_file_that_cannot_be_used_is_named_and_skipped(tmp_path, kind):
    changes, reason = SKIPPED.get(kind, ({}, "download it again"))
    write_nwucla(tmp_path / "raw", NUMBERS, **changes)
    if kind == "cut":
        (tmp_path / "raw" / f"{NAMES[0]}.json").write_bytes(b'{"skeletons": [[[1, 2')
    imported, store = take(tmp_path / "raw", tmp_path / "root")
    assert len(store) == 5
    assert [(one.name, one.expected) for one in imported.skipped] == [(NAMES[0], kind == "zeros")]
    assert reason in imported.skipped[0].reason


def test_other_names_and_one_camera(tmp_path):
    write_nwucla(tmp_path / "raw", NUMBERS)
    (tmp_path / "raw" / "a07_s01_e00_v01.json").write_text("{}")
    imported, store = take(tmp_path / "raw", tmp_path / "root")
    assert len(store) == 6 and {one.name for one in imported.unexpected} == {"a07_s01_e00_v01"}
    write_nwucla(tmp_path / "one", [(1, subject, 0, 1) for subject in range(1, 5)])
    with pytest.raises(SkelbenchError, match="every split lacks training or test clips"):
        take(tmp_path / "one", tmp_path / "root")
    with pytest.raises(SkelbenchError, match="20 joints, but topology ntu25 has 25"):
        take(tmp_path / "one", tmp_path / "root", topology="ntu25")
