"""``skelbench report``: what it writes, where, and what it says when it cannot."""

import pytest
from fabricated import Fabricated

import skelbench
from skelbench.cli.main import main
from skelbench.core.errors import SkelbenchError


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current directory, with one evaluated run below ``results``."""
    monkeypatch.chdir(tmp_path)
    Fabricated(tmp_path / "results").run("slim")
    return tmp_path


def test_the_page_is_written_and_its_path_printed(here, capsys):
    assert main(["report", "--table", "linear"]) == 0
    assert capsys.readouterr().out.startswith("wrote report.html: ")
    text = (here / "report.html").read_text()
    assert text.startswith("<!doctype html>") and text.count('id="table-') == 1 and "No finished run has" in text


def test_python_writes_the_same_page(here):
    text = skelbench.report("b.html", tables=["linear"], skeletons=False, method="slim").read_text()
    assert text.startswith("<!doctype html>") and "only method slim" in text
    with pytest.raises(SkelbenchError, match="did you mean 'slim'"):
        skelbench.report("c.html", method=["slimm"])


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["-o", "report.pdf"], "a report is a page; end the name in .html"),
        (["-o", "folder.html"], "folder.html is a folder; name a file in it"),
        (["--table", "lineal"], "did you mean 'linear'?"),
        (["--results", "nowhere"], "there is no such folder"),
    ],
)
def test_impossible_requests_are_one_error(here, fails, arguments, said):
    (here / "folder.html").mkdir()
    fails(["report", *arguments], said)
    assert not (here / "report.html").exists()
