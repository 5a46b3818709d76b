"""What a shell gets for TAB, asked as it asks."""

import subprocess
import sys

import pytest

from skelbench.cli.main import main
from skelbench.plugin.host import Host

pytestmark = pytest.mark.usefixtures("shipped_plugins")


@pytest.fixture
def tab(monkeypatch, capsys):
    """``tab("run", "sl")``: the words that bash gets for a command line of these, of which the last is unfinished."""

    def tab(*words):
        monkeypatch.setenv("_SKELBENCH_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", "\n".join(["skelbench", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        with pytest.raises(SystemExit):
            main([])
        printed = capsys.readouterr()
        assert printed.err == ""
        return printed.out.split()

    return tab


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["ru"], ["run", "runs"]),
        (["run", "sl"], ["slim"]),
        (["run", "slim", ":", "glcl-o"], ["glcl-only"]),  # bash breaks at the colon and wants what follows it
        (["run", "slim", "--encoder", "two"], ["two-branch"]),
        (["run", "slim", "--encoder", "=", "two"], ["two-branch"]),
        (["run", "slim", "--split", "cross-v"], ["cross-view"]),
        (["run", "slim", "--preset", "re"], ["release"]),
        (["run", "gfp", "--preset", "re"], []),
        (["run", "slim", "--tokens", "1"], ["15"]),
        (["run", "slim", "--probe", "linear,kn"], ["linear,knn", "linear,knn@5", "linear,knn@20", "linear,knn@pclust"]),
        (["run", "slim", "--set", "method.glcl"], ["method.glcl_weight="]),
        (["run", "mamp", "--set", "method.glcl"], []),
        (["run", "slim", "--encoder", "stgcn", "--set", "encoder.k"], ["encoder.kernel="]),
        (["run", "skeletonclr", "--set", "optimizer.mom"], ["optimizer.momentum="]),  # its recipe says SGD
        (["run", "slim", "--set", "optimizer", "=", "sgd", "--set", "optimizer.mom"], ["optimizer.momentum="]),
        (["run", "slim", "--set", "schedule", "=", "co"], ["cosine", "constant"]),
        (["run", "slim", "--set", "train.prec"], ["train.precision="]),
        (["run", "slim", "--set", "data.flip"], []),
        (["tune", "slim,mam"], ["slim,mamp"]),
        (["eval", "x", "--protocol", "linear@mam"], ["linear@mamp"]),
        (["eval", "x", "--protocol", "knn", "--set", "metr"], ["metric="]),
        (["compare", "--table", "token-"], ["token-budget"]),
        (["plot", "cur"], ["curves"]),
        (["compare", "--method", "mamp,sli"], ["mamp,slim"]),
        (["compare", "--method", "slim", "--preset", "rel"], ["release"]),
        (["study", "target-"], ["target-control"]),
        (["plugins", "info", "two-br"], ["two-branch"]),
        (["plugins", "new", "opt"], ["optimizer"]),
        (["run", "slim", "--seed", ""], []),
        (["run", "slim", "--set", "'method.glcl"], ["method.glcl_weight="]),  # an open quote
    ],
)
def test_words_are_completed(tab, words, found):
    assert tab(*words) == found


def test_runs_and_data_sets_are_found_where_they_lie(tab, small, tmp_path):
    run = tmp_path / "results" / "slim-small-half-s0-0123"
    run.mkdir(parents=True)
    (run / "run.json").write_text("no run is opened")
    assert tab("eval", "slim-") == [run.name]
    tagged = tmp_path / "results" / "mamp-small-half-s0-4567"
    tagged.mkdir()
    (tagged / "run.json").write_text('{"tags": ["base", "sweep"]}')
    assert tab("compare", "--tag", "base,sw") == ["base,sweep"] and tab("runs", "tag", tagged.name, "ba") == ["base"]
    assert tab("runs", "show", "--results", str(tmp_path), "") == []
    assert tab("data", "info", "sm") == ["small"]
    assert tab("run", "slim", "--dataset", "small", "--split", "") == ["half"]
    assert tab("data", "export", "small", "--split", "h") == ["half"]


def test_plugins_of_the_command_line_count_and_broken_ones_say_nothing(tab, tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("from skelbench.views import Crop\nclass Mine(Crop):\n    kind = 'mine'\n")
    (tmp_path / "broken.py").write_text("1 / 0")
    monkeypatch.setenv("SKELBENCH_PLUGIN_PATH", str(tmp_path / "broken.py"))
    assert tab("plugins", "--plugin", str(tmp_path / "mine.py"), "info", "min") == ["mine"]
    assert tab("run", "slim", "--plugin", str(tmp_path / "absent.py"), "--encoder", "two") == ["two-branch"]


def test_other_shells_ask_otherwise(monkeypatch, capsys):
    asked = {"zsh": '\'*: :(("mamp":', "fish": "mamp\t"}
    for shell, answer in asked.items():
        monkeypatch.setenv("_SKELBENCH_COMPLETE", f"complete_{shell}")
        monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
        monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "skelbench --debug run mam")
        with pytest.raises(SystemExit):
            main([])
        assert answer in capsys.readouterr().out


def test_a_shell_is_told_how_to_ask(monkeypatch, capsys):
    monkeypatch.setenv("_SKELBENCH_COMPLETE", "source_zsh")
    with pytest.raises(SystemExit):
        main([])
    assert "_SKELBENCH_COMPLETE=complete_zsh" in capsys.readouterr().out


def test_completing_imports_no_torch():
    Host()  # its descriptors are in the cache from now on
    code = """
import os, sys
os.environ.update(_SKELBENCH_COMPLETE="complete_bash", COMP_WORDS="skelbench run slim --set method.m", COMP_CWORD="4")
from skelbench.cli.main import main
try:
    main([])
finally:
    print({"torch", "scipy", "matplotlib", "pandas"} & set(sys.modules), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "method.momentum=" in done.stdout.split() and done.stderr.strip() == "set()"
