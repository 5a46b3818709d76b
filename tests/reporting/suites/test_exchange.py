"""``skelbench runs export|verify|add``: runs are handed on as they are, and changed ones are rejected."""

import json
import zipfile

import numpy as np
import pytest
from fabricated import Fabricated

from skelbench.cli.main import main
from skelbench.core.errors import SkelbenchError
from skelbench.records.archive import unpack
from skelbench.records.run_dir import ReadRun
from skelbench.records.store import ResultStore


@pytest.fixture
def made(tmp_path, monkeypatch):
    made = Fabricated(tmp_path / "results")
    monkeypatch.setenv("SKELBENCH_RESULTS", str(made.root))
    made.run("untrained", 0.2)
    return made


@pytest.fixture
def run(made):
    """Folder of a finished run with an encoder."""
    folder = made.root / made.run("slim")
    (folder / "encoder.safetensors").write_bytes(b"weights")
    return folder


def exported(run, file, *words):
    assert main(["runs", "export", run.name, "-o", str(file), *words]) == 0
    return file


def test_equal_records_give_an_equal_file(run, tmp_path, capsys):
    one, other = exported(run, tmp_path / "one.zip"), exported(run, tmp_path / "other.zip")
    assert one.read_bytes() == other.read_bytes() and "2 runs" in capsys.readouterr().out
    assert main(["runs", "export", run.name, "-o", str(one), "--weights", "--alone"]) == 2
    assert "--force" in capsys.readouterr().err
    exported(run, one, "--weights", "--alone", "--force")
    names = zipfile.ZipFile(one).namelist()
    assert f"runs/{run.name}/encoder.safetensors" in names and not any("untrained" in name for name in names)


def test_added_runs_are_the_same_and_say_where_they_are_from(run, tmp_path, capsys):
    file = exported(run, tmp_path / "mine.zip")
    assert main(["runs", "verify", str(file)]) == 0
    other = tmp_path / "other"
    assert main(["runs", "add", str(file), "--results", str(other)]) == 0
    mine, theirs = ReadRun(run), ReadRun(other / run.name)
    assert theirs.info.pop("added")["file"] == "mine.zip"
    assert theirs.info == mine.info and theirs.records() == mine.records()
    capsys.readouterr()
    assert main(["runs", "add", str(file), "--results", str(other)]) == 0
    assert capsys.readouterr().out.count("exists already") == 2 and len(ResultStore(other).read()) == 2
    assert main(["runs", "export", run.name, "-o", str(tmp_path / "x.zip"), "--results", str(other)]) == 2
    assert "hand on that file" in capsys.readouterr().err


def edit(path, change):
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("run.json", lambda info: info["spec"].update(seed=5), "not that of its id"),
        ("run.json", lambda info: info.update(outcome="running"), "not done"),
        ("eval-*.json", lambda record: record["metrics"].update(accuracy=0.99), "the predictions give"),
        ("eval-*.json", lambda record: record["spec"].update(seed=5), "the spec has id"),
    ],
)
def test_changed_runs_are_rejected(run, tmp_path, capsys, name, change, message):
    file = exported(run, tmp_path / "mine.zip", "--alone")
    unpacked = tmp_path / "unpacked"
    unpack(file, unpacked)
    edit(next((unpacked / run.name).glob(name)), change)
    with zipfile.ZipFile(file, "w") as archive:
        for path in (unpacked / run.name).iterdir():
            archive.write(path, f"runs/{run.name}/{path.name}")
    assert main(["runs", "verify", str(file)]) == 1
    assert message in capsys.readouterr().out
    assert main(["runs", "add", str(file), "--results", str(tmp_path / "other")]) == 2
    assert message in capsys.readouterr().err and not ResultStore(tmp_path / "other").read()


@pytest.mark.parametrize(
    "member", ["../run.json", "/run.json", "runs/x-0123456789ab/../run.json", "runs/x-0123456789ab/a.py"]
)
def test_only_records_of_runs_are_unpacked(tmp_path, member):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(member, "{}")
    with pytest.raises(SkelbenchError, match="no record of a run"):
        unpack(tmp_path / "x.zip", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_no_archive_is_an_error(run, tmp_path):
    file = exported(run, tmp_path / "mine.zip")
    file.write_bytes(file.read_bytes()[:-100])
    for path in (tmp_path / "none.zip", tmp_path, file):
        with pytest.raises(SkelbenchError, match="there is no file|cannot be read|no record of a run"):
            unpack(path, tmp_path / "out")


def test_a_prediction_file_with_a_pickle_is_not_loaded(run, tmp_path, capsys):
    file = next(run.glob("eval-*.npz"))
    np.savez(file, labels=np.array([{}], dtype=object))
    assert main(["runs", "verify", str(exported(run, tmp_path / "mine.zip"))]) == 1
    assert "holds no predictions" in capsys.readouterr().out
