"""Listing imports a plugin once: afterwards its descriptors come from the cache, until its source changes."""

import os
import subprocess
import sys

from skelbench.plugin import discovery
from skelbench.plugin.cache import DescriptorCache
from skelbench.plugin.descriptors import MethodSpec, NativeProbe, Stage
from skelbench.plugin.host import Host
from skelbench.plugin.space import Linear, Log

PLACES = discovery.PLACES
COUNTED = """
    import torch
    from pathlib import Path

    with Path(__file__ + ".imports").open("a") as file:
        file.write("x")

    class Settings:
        pass

    @hookimpl
    def skelbench_methods():
        native = {{"optim.betas": (0.9, 0.95)}}
        return [MethodSpec(name="{name}", target=":Settings", native=native)]
"""
LIST = """
import sys
from skelbench.plugin import discovery
from skelbench.plugin.host import Host
if sys.argv[1:]:
    discovery.PLACES = ()
host = Host(sys.argv[1:])
assert all(plugin.state == "ok" for plugin in host.plugins), [plugin.error for plugin in host.plugins]
print("torch" in sys.modules, *host.names("methods"), *host.names("topologies"), *host.names("masks"))
"""


def listed(*files):
    """Whether another process imports torch to list plugins, and the names it lists."""
    command = [sys.executable, "-c", LIST, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    torch, *names = done.stdout.split()
    return torch == "True", names


def imports(path):
    return len(path.with_name(f"{path.name}.imports").read_text())


def test_a_file_is_imported_once_for_all_processes_and_again_after_an_edit(write):
    path = write("a.py", COUNTED.format(name="bee"))
    assert Host([path]).names("methods") == ["bee"] and imports(path) == 1
    assert listed(path) == (False, ["bee"]) and imports(path) == 1
    host = Host([path])
    bee = host.get("methods", "bee")
    assert imports(path) == 1 and bee.native == {"optim.betas": (0.9, 0.95)}
    assert host.load(bee).__name__ == "Settings"
    write("a.py", COUNTED.format(name="wasp"))
    assert Host([path]).names("methods") == ["wasp"] and imports(path) == 2


def test_shipped_plugins_are_listed_without_torch(monkeypatch):
    monkeypatch.delenv("SKELBENCH_PLUGINS")
    monkeypatch.setattr(discovery, "PLACES", PLACES)
    host = Host()
    names = [name for kind in ("methods", "topologies", "masks") for name in host.names(kind)]
    assert {"slim", "mamp", "untrained", "ntu25", "tube"} <= set(names)
    assert listed() == (False, names)


def test_descriptors_are_read_as_they_were_written(tmp_path):
    method = MethodSpec(
        name="bee",
        target="hive:Bee",
        native={"betas": (0.9, [1, None]), "nested": {"on": True, "rate": 2e-4}},
        space={"train.lr": Log("x0.5", "x2", from_one=True), "method.mask": Linear(0.1, 0.9)},
        probe=NativeProbe(protocol="linear", settings={"": {"lr": 0.1}}),
        stage=Stage(after=("wasp",)),
    )
    odd = MethodSpec(name="odd", target="a:B", native={"function": lambda: 0})
    cache = DescriptorCache(tmp_path)
    cache.put("hive", "1", [("methods", method)])
    cache.put("odd", "1", [("methods", odd)])
    cache.save()
    kept = DescriptorCache(tmp_path)
    assert kept.get("hive", "1") == [("methods", method)]
    assert kept.get("hive", "2") is kept.get("odd", "1") is None  # another source, and a value that cannot be kept


def test_a_damaged_cache_is_replaced(good):
    path = good("a.py", "bee")
    assert Host([path]).names("methods") == ["bee"]
    file = DescriptorCache(path).path
    file.write_bytes(b"damaged")
    assert Host([path]).names("methods") == ["bee"]
    assert b"bee" in file.read_bytes()


def test_without_a_writable_folder_plugins_work(good, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", os.fspath(tmp_path / "file"))
    for _ in range(2):
        assert Host([good("a.py", "bee")]).names("methods") == ["bee"]
