"""An option goes before a variable, a variable before skelbench.toml, that before the default."""

import json
import os
from pathlib import Path

import pytest
import torch

from skelbench.cli.main import main
from skelbench.core.errors import SkelbenchError
from skelbench.core.threads import limit_threads
from skelbench.core.user_config import SETTINGS, Found, found, said
from skelbench.data.store.roots import data_root
from skelbench.pipeline.session import pick_device
from skelbench.plugin.host import get_host
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


def test_what_is_said_of_a_place(place, monkeypatch):
    assert found("results") == Found(None, "default") and str(default_root()) == "results"
    write(place, 'results = "runs"\ndata = "/clips"\nplugins = ["my.py", "more"]\nthreads = 3\nstrict = true\n')
    file = str(place / "skelbench.toml")
    assert found("results") == (place / "runs", file) and default_root() == place / "runs"
    assert str(data_root()) == "/clips" and said("plugins") == (place / "my.py", place / "more")
    assert said("threads") == 3 and said("strict") is True and said("device") is None
    monkeypatch.setenv("SKELBENCH_RESULTS", "~/elsewhere")
    assert found("results") == (place.home() / "elsewhere", "SKELBENCH_RESULTS")
    monkeypatch.setenv("SKELBENCH_PLUGIN_PATH", f"a.py{os.pathsep}b")
    assert list(map(str, said("plugins"))) == ["a.py", "b"]
    for text in ("0", "false", "No"):
        monkeypatch.setenv("SKELBENCH_STRICT", text)
        assert said("strict") is False
    monkeypatch.setenv("SKELBENCH_STRICT", "maybe")
    with pytest.raises(SkelbenchError, match="SKELBENCH_STRICT: 'maybe' is neither true nor false"):
        said("strict")
    monkeypatch.setenv("SKELBENCH_DATA", "~nobody-of-that-name/data")
    assert said("data") == Path("~nobody-of-that-name/data")
    assert said("entry_points") == ()  # set, and empty: none


def test_the_nearest_file_counts_and_is_read_again_when_it_changes(place):
    write(place, 'results = "outer"')
    write(place / "sub", 'data = "inner"')
    assert said("data") == place / "sub" / "inner" and said("results") is None
    write(place / "sub", 'data = "another one"')
    os.utime(place / "sub" / "skelbench.toml", ns=(1, 1))
    assert said("data") == place / "sub" / "another one"


@pytest.mark.parametrize(
    "text,sentence",
    [
        ('resluts = "x"', "unknown key 'resluts'; did you mean 'results'?"),
        ("results = ", "cannot be read as TOML"),
        ("results = 3", 'results = 3 is not valid; write results = "FOLDER"'),
        ('plugins = "my.py"', 'plugins = \'my.py\' is not valid; write plugins = ["FILE.py", "FOLDER"]'),
        ("threads = 0", "threads = 0 is not valid; write threads = a whole number from 1 on"),
        ("strict = 1", "strict = 1 is not valid; write strict = true or false"),
    ],
)
def test_a_file_that_says_what_cannot_be(place, text, sentence, capsys):
    write(place, text)
    with pytest.raises(SkelbenchError) as refused:
        said("data")
    assert str(refused.value).startswith(f"{place / 'skelbench.toml'}") and sentence in str(refused.value)
    assert main(["plugins", "list"]) == 2
    assert main(["--version"]) == 0
    assert main(["env", "--json"]) == 0
    printed = capsys.readouterr()
    assert len(printed.err.splitlines()) == 1 and sentence in printed.err
    assert any(sentence in problem for problem in json.loads(printed.out.partition("\n")[2])["problems"])


def test_a_file_that_anybody_could_have_written_is_refused(place, monkeypatch):
    write(place, 'plugins = ["theirs.py"]')
    place.chmod(0o777)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    os.chown(place / "skelbench.toml", 54321, -1) if os.geteuid() == 0 else None
    with pytest.raises(SkelbenchError, match="is another user's, in a folder where everybody can write"):
        said("plugins")


def test_commands_and_helpers_take_what_the_file_says(place, monkeypatch):
    write(place, 'plugins = ["more"]\ndevice = "abacus"\nthreads = 1\n')
    (place / "more").mkdir()
    (place / "more" / "wave.py").write_text(
        "from skelbench.views import Augment\n\n\nclass Wave(Augment):\n    kind = 'wave'\n"
    )
    assert "wave" in get_host().names("augmentations")
    with pytest.raises(SkelbenchError, match=r"device of .*skelbench\.toml: 'abacus' is not a device"):
        pick_device(None)
    assert pick_device("cpu") == "cpu"  # the option goes before it
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    limit_threads()
    assert torch.get_num_threads() == 1
    torch.set_num_threads(before)


def test_env_says_what_is_in_effect_and_who_set_it(place, monkeypatch, capsys):
    write(place, 'results = "runs"\nplugins = ["gone.py"]\n')
    monkeypatch.setenv("SKELBENCH_DATA", "/clips")
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    assert main(["env", "--json"]) == 0
    text = capsys.readouterr().out
    facts = json.loads(text)
    assert facts["versions"]["torch"] == torch.__version__.partition("+")[0] and facts["threads"] >= 1
    assert facts["settings"]["results"] == {"value": str(place / "runs"), "from": str(place / "skelbench.toml")}
    assert facts["settings"]["data"] == {"value": "/clips", "from": "SKELBENCH_DATA"}
    assert facts["settings"]["device"]["from"] == "default" and "cpu" in facts["devices"]
    assert facts["cores"]["usable"] <= facts["cores"]["of the machine"]
    (problem,) = facts["problems"]
    assert problem.startswith("plugin gone ") and "hunter2" not in text
    assert main(["env"]) == 0
    shown = capsys.readouterr().out
    assert f"problem: {problem}" in shown and f"{place / 'runs'}  ({place / 'skelbench.toml'})" in shown


def test_env_works_without_torch(monkeypatch, capsys):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    assert main(["env", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["devices"] == {} and any(said.startswith("torch cannot be used") for said in facts["problems"])
