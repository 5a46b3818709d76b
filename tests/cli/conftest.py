"""Commands that see no installed plugins, and data, results and caches of their own."""

import os

import pytest

from skelbench.plugin import host as host_module
from skelbench.plugin.host import request_files


@pytest.fixture(autouse=True)
def own_places(monkeypatch, tmp_path):
    """Everything that is looked up in the environment lies below the test's directory."""
    monkeypatch.setenv("SKELBENCH_PLUGINS", "")
    monkeypatch.setenv("SKELBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("SKELBENCH_RESULTS", str(tmp_path / "results"))
    for name in [name for name in os.environ if name in ("SKELBENCH_PLUGIN_PATH", "SKELBENCH_STRICT", "RANK")]:
        monkeypatch.delenv(name)
    yield
    request_files([])


@pytest.fixture
def shipped_plugins(own_places, monkeypatch):
    """Installed plugins are seen after all."""
    monkeypatch.delenv("SKELBENCH_PLUGINS")
    monkeypatch.setattr(host_module, "_hosts", {})
