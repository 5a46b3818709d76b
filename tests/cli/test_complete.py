"""Completions that a shell gets for TAB, requested as the shell requests them."""

import logging
import subprocess
import sys

import pytest

from skelbench.cli.main import main
from skelbench.plugin.host import Host

pytestmark = pytest.mark.usefixtures("shipped_plugins")


@pytest.fixture
def tab(monkeypatch, capsys):
    """``tab("run", "sl")``: the words that bash gets for a command line whose last word is unfinished."""

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


def test_commands_names_and_runs_are_completed(tab, small, tmp_path):
    run = tmp_path / "results" / "slim-small-half-s0-0123"
    run.mkdir(parents=True)
    (run / "run.json").write_text("{}")
    assert tab("ru") == ["run", "runs"] and tab("run", "sl") == ["slim"] and tab("tune", "slim,mam") == ["slim,mamp"]
    assert tab("run", "slim", "--encoder", "two") == ["two-branch"]
    assert tab("eval", "slim-") == [run.name] and tab("data", "info", "sm") == ["small"]
    assert tab("compare", "--table", "token-") == ["token-budget"] and "mamp" in tab("compare", "--method", "m")


def test_completing_imports_no_torch():
    Host()  # its descriptors are in the cache from now on
    code = """
import os, sys
os.environ.update(_SKELBENCH_COMPLETE="complete_bash", COMP_WORDS="skelbench run sli", COMP_CWORD="2")
from skelbench.cli.main import main
try:
    main([])
finally:
    print({"torch", "scipy", "matplotlib", "pandas"} & set(sys.modules), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "slim" in done.stdout.split() and done.stderr.strip() == "set()"
