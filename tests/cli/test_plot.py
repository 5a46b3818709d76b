"""``skelbench plot``: what it writes, where, and what it says when it cannot."""

import os

import pytest
from fabricated import Fabricated

from skelbench.cli.main import main
from skelbench.plugin.host import Host


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty current directory."""
    path = tmp_path / "here"
    path.mkdir()
    monkeypatch.chdir(path)
    return path


@pytest.fixture
def results(tmp_path):
    """One evaluated run."""
    Fabricated(tmp_path / "results").run("slim")


def test_the_default_is_a_png_in_the_current_directory(here, results, capsys):
    assert main(["plot", "token-budget", "--dpi", "50"]) == 0
    assert capsys.readouterr().out == "written to token-budget.png\n"
    assert (here / "token-budget.png").read_bytes().startswith(b"\x89PNG") and len(os.listdir(here)) == 1


@pytest.mark.parametrize(
    ("arguments", "name", "start"), [(["-o", "f.svg"], "f.svg", b"<?xml"), (["-o", "f.PDF"], "f.PDF", b"%PDF")]
)
def test_the_file_name_decides_the_kind(here, results, arguments, name, start):
    assert main(["plot", "token-budget", *arguments]) == 0
    assert (here / name).read_bytes().startswith(start) and os.listdir(here) == [name]


def test_every_figure_of_an_empty_store_is_an_error_with_advice(here, capsys):
    for figure in Host().names("figures"):
        assert main(["plot", figure]) == 2
        printed = capsys.readouterr()
        assert ": skelbench " in printed.err, figure
        assert printed.err.count("\n") == 1 and printed.out == ""
    assert os.listdir(here) == []


def test_without_a_name_the_figures_are_listed(here, capsys):
    assert main(["plot"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in Host().names("figures")) and os.listdir(here) == []


def test_skipped_runs_are_counted(here, tmp_path, capsys):
    Fabricated(tmp_path / "results").run("slim", modified={"train.lr": 1})
    assert main(["plot", "token-budget"]) == 2
    printed = capsys.readouterr()
    assert "start with" in printed.err and "1 run with changed settings" in printed.err
    assert main(["plot", "token-budget", "--all", "--dpi", "50"]) == 0
    assert capsys.readouterr().err == ""
    for figure in ("coverage", "gallery"):  # which are of no run
        assert main(["plot", figure]) == 2 and "left out" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tokenbudget"], "unknown figure 'tokenbudget'; did you mean 'token-budget'?"),
        (["token-budget", "-o", "f.svgg"], "end the name in .png, .svg or .pdf"),
        (["token-budget", "-o", "no/f.png"], "there is no folder no"),
        (["token-budget", "--dpi", "1"], "--dpi"),
    ],
)
def test_bad_input_is_one_error_and_nothing_is_written(here, results, arguments, said, capsys):
    assert main(["plot", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith("error: ") and printed.err.count("\n") == 1
    assert said in printed.err
    assert os.listdir(here) == []


def test_the_file_name_decides_the_format_of_a_table(here, results, capsys):
    starts = {"t.csv": "group,", "t.json": "{", "t.tex": "% Needs in the preamble", "t.md": "**", "t.txt": "**"}
    for name, start in starts.items():
        assert main(["compare", "-o", name]) == 0
        assert (here / name).read_text().startswith(start)
    assert main(["compare", "-o", "u.csv", "--format", "md"]) == 0
    assert (here / "u.csv").read_text() == (here / "t.md").read_text()
