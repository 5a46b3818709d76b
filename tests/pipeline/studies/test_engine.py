"""Engines of plugins run studies, and only supported options are accepted."""

import os
import re
from pathlib import Path

import pytest

from skelbench.cli.main import main
from skelbench.plugin.host import Host

DOCUMENT = Path(__file__).parents[3] / "docs" / "clusters.md"


@pytest.fixture
def nice(place, tmp_path, monkeypatch):
    """The engine of the document, in a file; a ``nice`` that only writes down what it is given, and fails."""
    (code,) = re.findall(r"```python\n(# nice\.py.*?)```", DOCUMENT.read_text(), re.S)
    (tmp_path / "nice.py").write_text(code)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/nice").write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/given\nexit 4\n')
    (tmp_path / "bin/nice").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}")
    (place / "nice.toml").write_text('dataset = "small"\nseeds = [0, 1]\n[set]\nmethod = "calm"\ntokens = 8\n')
    results = ["--results", str(tmp_path / "results"), "--device", "cpu"]
    return ["study", "nice.toml", "--plugin", "bees.py", "--plugin", str(tmp_path / "nice.py"), *results]


def test_an_engine_of_a_plugin_runs_a_study(nice, tmp_path, capsys):
    assert main([*nice, "--on", "nice"]) == 3
    said = capsys.readouterr()
    assert "0 of 2 trials done" in said.out and said.err.count("failed: ") == 2 and "exit code 4 (see " in said.err
    given = (tmp_path / "given").read_text().splitlines()
    assert len(given) == 2 and all(" -m skelbench run calm --dataset small" in line for line in given)


@pytest.mark.parametrize(
    ("words", "said"), [(["--mem", "4G"], "--mem is not"), (["--status"], "--status needs an engine")]
)
def test_unsupported_options_are_rejected(nice, tmp_path, capsys, words, said):
    assert main([*nice, "--on", "nice", *words]) == 2
    assert said in capsys.readouterr().err and not (tmp_path / "given").exists()


def test_shipped_engines_are_listed():
    assert Host().names("engines") == ["local", "slurm"]
