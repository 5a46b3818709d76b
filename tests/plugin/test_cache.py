"""Listing imports a plugin once: afterwards its descriptors come from the cache, until its source changes."""

import json
import os
import subprocess
import sys

import pytest

from skelbench.plugin import builtins
from skelbench.plugin.cache import Announcement, DescriptorCache
from skelbench.plugin.descriptors import MethodSpec, NativeProbe, Stage
from skelbench.plugin.host import Host
from skelbench.plugin.space import Linear, Log

PLACES = builtins.PLACES
COUNTED = """
    import torch
    from pathlib import Path

    with Path(__file__ + ".imports").open("a") as file:
        file.write("x")

    class Settings:
        model_fields = {{"wax": 1}}

    @hookimpl
    def skelbench_methods():
        native = {{"optim.betas": (0.9, 0.95)}}
        return [MethodSpec(name="{name}", target=":Settings", config=":Settings", native=native)]

    @hookimpl
    def skelbench_log(run):
        run["seen"] = True
"""
LIST = """
import sys
from skelbench.plugin import builtins
from skelbench.plugin.host import Host
if sys.argv[1:]:
    builtins.PLACES = ()
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
    assert listed(path) == (True, ["bee"]) and imports(path) == 1
    assert listed(path) == (False, ["bee"]) and imports(path) == 1
    host = Host([path])
    bee = host.get("methods", "bee")
    assert imports(path) == 1 and bee.native == {"optim.betas": (0.9, 0.95)} and host.setting_names(bee) == ("wax",)
    assert host.load(bee).__name__ == "Settings" and imports(path) == 2
    run = {}
    host.notify("skelbench_log", run=run, step=1, metrics={})
    assert run == {"seen": True}
    write("a.py", COUNTED.format(name="wasp"))
    assert listed(path) == (True, ["wasp"]) and imports(path) == 3


def test_what_ships_is_listed_without_torch_by_the_second_process(monkeypatch):
    monkeypatch.delenv("SKELBENCH_PLUGINS")
    first, names = listed()
    assert first and {"slim", "mamp", "untrained", "ntu25", "tube"} <= set(names)
    assert listed() == (False, names)
    monkeypatch.setattr("skelbench.plugin.builtins.PLACES", PLACES)
    host = Host()
    every = [each for kind in ("methods", "encoders", "protocols", "schedules", "masks") for each in host.all(kind)]
    assert len(every) > 40
    assert all(set(host.setting_names(each)) == set(host.config(each).model_fields) for each in every)


def test_descriptors_are_read_as_they_were_written(tmp_path):
    method = MethodSpec(
        name="bee",
        target="hive:Bee",
        native={"betas": (0.9, [1, None]), "nested": {"on": True, "rate": 2e-4}},
        space={"train.lr": Log("x0.5", "x2", from_one=True), "method.mask": Linear(0.1, 0.9)},
        probe=NativeProbe(protocol="linear", settings={"": {"lr": 0.1}}),
        stage=Stage(after=("wasp",)),
    )
    cache = DescriptorCache(tmp_path)
    cache.put("hive", "1", Announcement([("methods", method)], ["skelbench_log"], {"hive:Config": ["wax"]}))
    cache.put("odd", "1", Announcement([("methods", MethodSpec(name="odd", target="a:B", native={"path": tmp_path}))]))
    cache.save()
    kept = DescriptorCache(tmp_path)
    assert kept.get("hive", "1") == Announcement([("methods", method)], ["skelbench_log"], {"hive:Config": ["wax"]})
    assert kept.get("hive", "2") is kept.get("odd", "1") is None  # another source, and a value that is no plain data


@pytest.mark.parametrize("text", ["[]", "{", None])
def test_a_damaged_cache_is_written_anew(good, text):
    path = good("a.py", "bee")
    assert Host([path]).names("methods") == ["bee"]
    file = DescriptorCache(path).path
    document = json.loads(file.read_text())
    if text is None:
        (plugin,) = document["plugins"].values()
        plugin["descriptors"][0][1] = {"MethodSpec": {"honey": 1}}
        text = json.dumps(document)
    file.write_text(text)
    assert Host([path]).names("methods") == ["bee"]
    assert "bee" in file.read_text()


def test_without_a_writable_folder_plugins_work(good, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", os.fspath(tmp_path / "file"))
    for _ in range(2):
        assert Host([good("a.py", "bee")]).names("methods") == ["bee"]
