"""Hosts that see only what a test gives them."""

import os
import textwrap

import pytest

from skelbench.plugin.host import Host


@pytest.fixture(autouse=True)
def only_this_test(monkeypatch, tmp_path):
    """No built-in and no installed plugins, no inherited paths, and a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("skelbench.plugin.discovery.PLACES", ())
    monkeypatch.setenv("SKELBENCH_PLUGINS", "")


@pytest.fixture
def on_path(monkeypatch):
    """``on_path(*files)``: a host that finds these files, or directories, by the path variable."""

    def on_path(*files):
        monkeypatch.setenv("SKELBENCH_PLUGIN_PATH", os.pathsep.join(map(str, files)))
        return Host()

    return on_path


@pytest.fixture
def install(tmp_path, monkeypatch):
    """``install({"hive/bee.py": text, ...}, "hive")``: a distribution ``hive`` 2.5 with these files and the entry point
    ``hive-ep``; ``install(..., "swarm_plugin", "swarm")``: one of another name. Returns a host that sees this one."""
    monkeypatch.syspath_prepend(str(tmp_path / "site"))

    def install(files, entry_point, name="hive"):
        info = f"{name}-2.5.dist-info"
        for path, text in {
            **files,
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.5\n",
            f"{info}/entry_points.txt": f"[skelbench]\n{name}-ep = {entry_point}\n",
        }.items():
            place = tmp_path / "site" / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(textwrap.dedent(text))
        monkeypatch.setenv("SKELBENCH_PLUGINS", f"{name}-ep")
        return Host()

    return install


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
