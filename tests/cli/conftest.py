"""Commands that see no installed plugins, and data, results and caches of their own."""

import os

import pytest
from small import shorten, write_small_store

from skelbench.cli.main import main


@pytest.fixture(autouse=True)
def own_places(monkeypatch, tmp_path, tmp_path_factory):
    """Everything that is looked up in the environment lies below the test's directory, except the cache, which all
    tests share: plugins need not be imported by each of their processes."""
    monkeypatch.setenv("SKELBENCH_PLUGINS", "")
    monkeypatch.setenv("SKELBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("SKELBENCH_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    for name in [name for name in os.environ if name in ("SKELBENCH_PLUGIN_PATH", "RANK")]:
        monkeypatch.delenv(name)


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
