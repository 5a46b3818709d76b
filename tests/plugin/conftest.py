"""Hosts that see only what a test gives them."""

import textwrap

import pytest


@pytest.fixture(autouse=True)
def only_this_test(monkeypatch):
    """No built-in and no installed plugins, no inherited paths."""
    monkeypatch.setattr("skelbench.builtins.PLACES", ())
    monkeypatch.setenv("SKELBENCH_PLUGINS", "")
    monkeypatch.delenv("SKELBENCH_PLUGIN_PATH", raising=False)
    monkeypatch.delenv("SKELBENCH_STRICT", raising=False)


@pytest.fixture
def write(tmp_path):
    """``write("a.py", body)``: a plugin file with the usual imports on top; returns its path."""

    def write(name, body, header=True):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        top = "from skelbench.plugin import MethodSpec, TableSpec, ProtocolSpec, hookimpl\n" if header else ""
        path.write_text(top + textwrap.dedent(body))
        return path

    return write


GOOD = """
    class Net:
        pass

    @hookimpl
    def skelbench_methods():
        return [MethodSpec(name="{name}", target=":Net", summary="a method")]
"""


@pytest.fixture
def good(write):
    """``good("b.py", "bee")``: a valid single-file method plugin."""
    return lambda file, name: write(file, GOOD.format(name=name))
