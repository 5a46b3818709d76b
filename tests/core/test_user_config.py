"""An option goes before a variable, a variable before skelbench.toml, the file before the default."""

import json
import os

import pytest

from skelbench.cli.main import main
from skelbench.core.errors import SkelbenchError
from skelbench.core.user_config import SETTINGS, Found, found, said
from skelbench.data.store.roots import data_root
from skelbench.records.store import default_root


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A folder with a subfolder, in which the test works, and no variable."""
    for setting in SETTINGS.values():
        monkeypatch.delenv(setting.variable, raising=False)
    monkeypatch.setenv("SKELBENCH_PLUGINS", "")
    (tmp_path / "place" / "sub").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "place" / "sub")
    return tmp_path / "place"


def write(folder, text):
    (folder / "skelbench.toml").write_text(text)


def test_variables_go_before_the_file(place, monkeypatch):
    assert found("results") == Found(None, "default") and str(default_root()) == "results"
    monkeypatch.chdir(place)  # the file is read once for each folder
    write(place, 'results = "runs"\ndata = "/clips"\nplugins = ["my.py", "more"]\nthreads = 3\ndeterministic = true\n')
    assert found("results") == (place / "runs", str(place / "skelbench.toml")) and default_root() == place / "runs"
    assert str(data_root()) == "/clips" and said("plugins") == (place / "my.py", place / "more")
    assert said("threads") == 3 and said("deterministic") is True and said("device") is None
    monkeypatch.setenv("SKELBENCH_RESULTS", "~/elsewhere")
    assert found("results") == (place.home() / "elsewhere", "SKELBENCH_RESULTS")
    monkeypatch.setenv("SKELBENCH_PLUGIN_PATH", f"a.py{os.pathsep}b")
    assert list(map(str, said("plugins"))) == ["a.py", "b"]
    monkeypatch.setenv("SKELBENCH_DETERMINISTIC", "false")
    assert said("deterministic") is False
    monkeypatch.setenv("SKELBENCH_DETERMINISTIC", "maybe")
    with pytest.raises(SkelbenchError, match="write true or false"):
        said("deterministic")
    assert said("entry_points") == ()  # set, and empty: none


def test_the_nearest_file_counts(place):
    write(place, 'results = "outer"')
    write(place / "sub", 'data = "inner"')
    assert said("data") == place / "sub" / "inner" and said("results") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('resluts = "x"', "did you mean 'results'?"),
        ("results = ", "cannot be read as TOML"),
        ("results = 3", 'write "FOLDER"'),
        ('plugins = "my.py"', 'write ["FILE.py", "FOLDER"]'),
        ("threads = 0", "write a whole number from 1 on"),
        ("deterministic = 1", "write true or false"),
    ],
)
def test_an_invalid_file_is_an_error(place, text, message, capsys):
    write(place, text)
    assert main(["plugins", "list"]) == 2 and main(["--version"]) == 0
    assert message in capsys.readouterr().err


def test_a_file_of_another_user_is_not_read(place, monkeypatch):
    write(place, 'plugins = ["theirs.py"]')
    place.chmod(0o777)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    os.chown(place / "skelbench.toml", 54321, -1) if os.geteuid() == 0 else None
    with pytest.raises(SkelbenchError, match="another user"):
        said("plugins")


def test_env_shows_values_and_sources(place, monkeypatch, capsys):
    write(place, 'results = "runs"\nplugins = ["gone.py"]\n')
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    assert main(["env", "--json"]) == 0
    shown = json.loads(text := capsys.readouterr().out)
    assert shown["settings"]["results"] == {"value": str(place / "runs"), "from": str(place / "skelbench.toml")}
    assert shown["settings"]["device"]["from"] == "default" and "hunter2" not in text
    assert shown["problems"][0].startswith("plugin gone ")
