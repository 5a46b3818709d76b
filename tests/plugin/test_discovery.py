"""Entry points, packages and single files: what is read, and under which names."""

import os

import pytest

from skelbench.core.hashing import hash_of_python
from skelbench.plugin.host import Host

HOOK = """
from skelbench.plugin import MethodSpec, hookimpl

class Net:
    pass

@hookimpl
def skelbench_methods():
    return [MethodSpec(name="{name}", target=":Net")]
"""


def states(host):
    return [(plugin.name, plugin.source, plugin.state) for plugin in host.plugins[1:]]


def test_every_public_module_of_a_package_is_a_plugin(install):
    host = install(
        {
            "hive_a/__init__.py": "",
            "hive_a/_shared.py": "NAME = 'bee'",
            "hive_a/bee.py": "from ._shared import NAME\n" + HOOK.replace('"{name}"', "NAME"),
            "hive_a/wasp.py": "def broken(:",
            "hive_a/ant/__init__.py": HOOK.format(name="ant"),
            "hive_a/ant/queen.py": "raise ValueError",
            "hive_a/swarm/__init__.py": '"""Announces nothing itself, so every module does."""',
            "hive_a/swarm/fly.py": HOOK.format(name="fly"),
        },
        "hive_a",
    )
    assert states(host) == [
        ("ant", "hive_a.ant", "ok"),
        ("bee", "hive_a.bee", "ok"),
        ("swarm.fly", "hive_a.swarm.fly", "ok"),
        ("wasp", "hive_a.wasp", "import-error"),
    ]
    assert host.names("methods") == ["ant", "bee", "fly"]
    bee = host.get("methods", "bee")
    assert bee.target == "hive_a.bee:Net"
    assert (host.origin(bee).dist, host.origin(bee).version, host.origin(bee).source_hash) == ("hive", "2.5", None)
    assert host.identity(bee) == "1" and host.find("methods", "bee").__module__ == "hive_a.bee"


@pytest.mark.parametrize(
    ("files", "entry_point", "state", "sentence"),
    [
        ({"hive_d/__init__.py": ""}, "hive_d", "invalid", "announces nothing"),
        ({}, "hive_e", "import-error", "No module named 'hive_e'"),
        ({"hive_g.py": "x = 1"}, "hive_g", "invalid", "announces nothing"),
    ],
)
def test_a_broken_entry_point_is_a_status(install, files, entry_point, state, sentence):
    host = install(files, entry_point)
    assert host.plugins[-1].state == state and sentence in host.plugins[-1].error


def test_the_environment_selects_entry_points(install, monkeypatch):
    install({"hive_plugin.py": HOOK.format(name="bee")}, "hive_plugin")
    install({"swarm_plugin.py": "raise SystemExit('cannot start')\n"}, "swarm_plugin", "swarm")
    monkeypatch.setenv("SKELBENCH_PLUGINS", "hive-ep")
    assert [p.name for p in Host().plugins] == ["builtin", "hive-ep"]
    monkeypatch.setenv("SKELBENCH_PLUGINS", "")
    assert [p.name for p in Host().plugins] == ["builtin"]
    monkeypatch.setenv("SKELBENCH_PLUGINS", "hive-eq, swarm-ep")
    wrong, swarm = Host().plugins[1:]
    assert "did you mean 'hive-ep'" in wrong.error and swarm.state == "import-error" and "cannot start" in swarm.error


def test_the_hash_of_a_single_file_is_its_identity_wherever_it_is(good, tmp_path):
    path = good("a.py", "bee")
    moved = tmp_path / "elsewhere" / "a.py"
    moved.parent.mkdir()
    moved.write_bytes(path.read_bytes())
    code = hash_of_python(path.read_bytes())
    host, other = Host([path]), Host([moved])
    for each in (host, other):
        bee = each.get("methods", "bee")
        assert each.origin(bee).source_hash == code and each.identity(bee) == f"1 {code}"
    assert host.get("methods", "bee").target == other.get("methods", "bee").target


def test_the_code_that_runs_is_the_code_that_was_hashed(write):
    body = HOOK.format(name="bee")
    path = write("a.py", body.replace("pass", "version = 1"))
    Host([path])
    host = Host([write("a.py", body.replace("pass", "version = 2"))])  # same size, same second
    path.write_text("raise ValueError('edited after it was listed')")
    assert host.find("methods", "bee").version == 2


def test_path_variable_takes_files_and_directories(good, write, tmp_path, on_path):
    good("dir/one.py", "one")
    good("dir/two.py", "two")
    write("dir/_helper.py", "raise ValueError")
    write("dir/other.py", "x = 1")
    host = on_path(tmp_path / "dir", good("three.py", "three"))
    assert host.names("methods") == ["one", "three", "two"]
    assert [(p.name, p.state) for p in host.plugins[1:]] == [
        ("one", "ok"),
        ("other", "invalid"),
        ("two", "ok"),
        ("three", "ok"),
    ]


def test_a_file_named_twice_is_loaded_once_and_files_of_one_stem_stay_apart(good, monkeypatch):
    path = good("a.py", "bee")
    monkeypatch.setenv("SKELBENCH_PLUGIN_PATH", f"{path}{os.pathsep}{path.parent}")
    host = Host([path])
    assert host.names("methods") == ["bee"] and len(host.plugins) == 2 and host.plugins[-1].requested
    two, three = good("y/a.py", "wasp"), good("z/a.py", "ant")
    assert [p.name for p in Host([path, two, three]).plugins[-3:]] == ["a", "a", "a"]


def test_a_plugin_may_look_up_others_while_it_is_imported(write, monkeypatch):
    monkeypatch.setattr("skelbench.plugin.discovery.PLACES", ("views.skeleton.topology",))
    body = """
    from skelbench.views.skeleton.topology import get_topology

    JOINTS = get_topology("ntu25").num_joints

    @hookimpl
    def skelbench_methods():
        return [MethodSpec(name="bee", target="os:getcwd", summary=f"{JOINTS} joints")]
    """
    assert Host([write("a.py", body)]).get("methods", "bee").summary == "25 joints"
