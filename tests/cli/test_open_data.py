"""`skelbench data fetch`, `map` and `convert` as a user types them; real people that ship."""

import json
import zipfile

import numpy as np
import pytest

from skelbench.cli.main import main
from skelbench.data.store.clip_store import ClipStore
from skelbench.plugin.host import get_host

pytestmark = pytest.mark.usefixtures("shipped_plugins")


def test_open_datasets_are_listed_with_license_and_test_status(capsys):
    assert main(["data", "fetch"]) == 0
    printed = capsys.readouterr().out
    for about in get_host().all("sources"):
        assert about.name in printed and about.license and about.citation and about.files
        get_host().load(about)
    assert "not yet run on the original" in printed


def test_an_unknown_dataset_a_missing_folder_and_a_damaged_archive(tmp_path, capsys):
    assert main(["data", "fetch", "uiprm"]) == 2 and "uiprmd" in capsys.readouterr().err
    root = ["--data-root", str(tmp_path / "data")]
    assert main(["data", "fetch", "uiprmd", "--from", str(tmp_path / "nowhere"), *root]) == 2
    assert "nowhere" in capsys.readouterr().err and not list((tmp_path / "data").glob("[!.]*"))
    with zipfile.ZipFile(damaged := tmp_path / "damaged.zip", "w") as archive:
        archive.writestr("a.txt", "a" * 99)
    damaged.write_bytes(damaged.read_bytes().replace(b"a" * 99, b"b" * 99))
    assert main(["data", "fetch", "uiprmd", "--from", str(damaged), *root]) == 2
    assert "damaged.zip cannot be read" in capsys.readouterr().err and not list((tmp_path / "data").glob("[!.]*"))


def test_real_people_ship_and_convert(tmp_path, capsys):
    root = ["--data-root", str(tmp_path)]
    assert main(["data", "verify", "uiprmd-mini", *root]) == 0
    assert main(["data", "map", "ntu25", "kinect20"]) == 0 and "midpoint" in capsys.readouterr().out
    assert main(["data", "convert", "uiprmd-mini", "--skeleton", "kinect20", "--name", "small", *root]) == 0
    store = ClipStore.open(tmp_path / "small")
    assert (len(store), store.topology.name, store.num_classes) == (200, "kinect20", 20)
    assert set(np.unique(store.index["subject"])) == set(range(1, 11))
    assert main(["data", "export", "small", "-o", str(tmp_path / "small.pkl"), *root]) == 0
    assert main(["data", "import", str(tmp_path / "small.pkl"), "--name", "again", *root]) == 0
    meta = json.loads((tmp_path / "again" / "meta.json").read_text())
    assert meta["topology"] == "kinect20" and meta["clips"] == 200
