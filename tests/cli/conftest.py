"""Commands that see no installed plugins, and data and results of their own."""

import pytest
from small import shorten, write_small_store

from skelbench.cli.main import main


@pytest.fixture(autouse=True)
def own_places(monkeypatch, tmp_path):
    """Data and results lie below the test's directory."""
    monkeypatch.setenv("SKELBENCH_PLUGINS", "")
    monkeypatch.setenv("SKELBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("SKELBENCH_RESULTS", str(tmp_path / "results"))


@pytest.fixture
def shipped_plugins(own_places, monkeypatch):
    """Installed plugins are seen after all."""
    monkeypatch.delenv("SKELBENCH_PLUGINS")


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A directory whose dataset ``small`` is the one that commands find; runs are made without long measurements."""
    shorten(monkeypatch)
    (tmp_path / "data").mkdir(exist_ok=True)
    write_small_store(tmp_path / "data")
    return tmp_path


@pytest.fixture
def fails(capsys):
    """``fails(arguments, message)``: exit code 2, one error message on stderr and, unless ``shown``, nothing on
    stdout."""

    def fails(arguments, said, shown=False):
        capsys.readouterr()
        assert main(arguments) == 2
        printed = capsys.readouterr()
        errors = [line for line in printed.err.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1 and said in errors[0], printed.err
        assert "Traceback" not in printed.err and (shown or not printed.out)

    return fails
