"""What a shell gets for TAB, asked as it asks."""

import logging
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
        logging.disable(logging.NOTSET)
        printed = capsys.readouterr()
        assert printed.err == ""
        return printed.out.split()

    return tab


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["ru"], ["run", "runs"]),
        (["run", "sl"], ["slim"]),
        (["run", "slim", "--encoder", "two"], ["two-branch"]),
        (["run", "slim", "--probe", "linear,knn@"], ["linear,knn@20", "linear,knn@5", "linear,knn@pclust"]),
        (["run", "skeletonclr", "--set", "optimizer.mom"], ["optimizer.momentum="]),  # its recipe sets SGD
        (["tune", "slim,mam"], ["slim,mamp"]),
        (["eval", "x", "--protocol", "knn", "--set", "metr"], ["metric="]),
        (["compare", "--table", "token-"], ["token-budget"]),
        (["plugins", "new", "opt"], ["optimizer"]),
    ],
)
def test_words_are_completed(tab, words, found):
    assert tab(*words) == found


def test_runs_data_sets_and_tags_are_completed(tab, small, tmp_path):
    run = tmp_path / "results" / "slim-small-half-s0-0123"
    run.mkdir(parents=True)
    (run / "run.json").write_text('{"tags": ["base", "sweep"]}')
    assert tab("eval", "slim-") == [run.name] and tab("compare", "--tag", "base,sw") == ["base,sweep"]
    assert tab("data", "info", "sm") == ["small"]
    assert tab("run", "slim", "--dataset", "small", "--split", "") == ["half"]


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
