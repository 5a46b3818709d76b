"""``skelbench runs export|verify|add``: runs stay as they are, and changed ones are rejected."""

import json
import zipfile

import pytest
from fabricated import Fabricated

from skelbench.cli.main import main
from skelbench.records.archive import unpack
from skelbench.records.run_dir import ReadRun
from skelbench.records.store import ResultStore


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Folder of a finished run with an encoder, next to an untrained run."""
    made = Fabricated(tmp_path / "results")
    monkeypatch.setenv("SKELBENCH_RESULTS", str(made.root))
    made.run("untrained", 0.2)
    folder = made.root / made.run("slim")
    (folder / "encoder.safetensors").write_bytes(b"weights")
    return folder


def exported(run, file, *words):
    assert main(["runs", "export", run.name, "-o", str(file), *words]) == 0
    return file


def test_equal_records_give_an_equal_file(run, tmp_path, capsys):
    one, other = exported(run, tmp_path / "one.zip"), exported(run, tmp_path / "other.zip")
    assert one.read_bytes() == other.read_bytes() and "2 runs" in capsys.readouterr().out
    assert main(["runs", "export", run.name, "-o", str(one)]) == 2
    assert "--force" in capsys.readouterr().err
    exported(run, one, "--weights", "--alone", "--force")
    names = zipfile.ZipFile(one).namelist()
    assert f"runs/{run.name}/encoder.safetensors" in names and not any("untrained" in name for name in names)


def test_added_runs_are_the_same_and_name_their_file(run, tmp_path, capsys):
    file, other = exported(run, tmp_path / "mine.zip"), str(tmp_path / "other")
    assert main(["runs", "verify", str(file)]) == 0
    assert main(["runs", "add", str(file), "--results", other]) == 0
    mine, theirs = ReadRun(run), ReadRun(tmp_path / "other" / run.name)
    assert theirs.info.pop("added")["file"] == "mine.zip"
    assert theirs.info == mine.info and theirs.records() == mine.records()
    capsys.readouterr()
    assert main(["runs", "add", str(file), "--results", other]) == 0
    assert capsys.readouterr().out.count("exists already") == 2 and len(ResultStore(other).read()) == 2
    assert main(["runs", "export", run.name, "-o", str(tmp_path / "x.zip"), "--results", other]) == 2
    assert "share that file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("run.json", lambda info: info["spec"].update(seed=5), "does not match its id"),
        ("run.json", lambda info: info.update(outcome="running"), "not done"),
        ("eval-*.json", lambda record: record["metrics"].update(accuracy=0.99), "the predictions give"),
        ("eval-*.json", lambda record: record["spec"].update(seed=5), "the spec has id"),
    ],
)
def test_changed_runs_are_rejected(run, tmp_path, capsys, name, change, message):
    file = exported(run, tmp_path / "mine.zip", "--alone")
    unpack(file, tmp_path / "unpacked")
    folder = tmp_path / "unpacked" / run.name
    changed = next(folder.glob(name))
    value = json.loads(changed.read_text())
    change(value)
    changed.write_text(json.dumps(value))
    with zipfile.ZipFile(file, "w") as archive:
        for path in folder.iterdir():
            archive.write(path, f"runs/{run.name}/{path.name}")
    assert main(["runs", "verify", str(file)]) == 1
    assert message in capsys.readouterr().out
    assert main(["runs", "add", str(file), "--results", str(tmp_path / "other")]) == 2
    assert message in capsys.readouterr().err and not ResultStore(tmp_path / "other").read()
