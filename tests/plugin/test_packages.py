"""Entry points: a module is one plugin, a package is many, none of them is imported to be listed."""

import sys

import pytest

HOOK = """
from skelbench.plugin import MethodSpec, hookimpl

class Net:
    pass

@hookimpl
def skelbench_methods():
    return [MethodSpec(name="{name}", target=":Net")]
"""


def test_every_file_of_a_package_is_a_plugin_of_its_own(install):
    host = install(
        {
            "hive_a/__init__.py": "raise ValueError('imported')",
            "hive_a/_shared.py": "RECIPE = {}",
            "hive_a/bee.py": "import no_such_module_here\n" + HOOK.format(name="bee"),
            "hive_a/wasp.py": "def broken(:",
            "hive_a/ant/__init__.py": HOOK.format(name="ant"),
            "hive_a/ant/queen.py": "raise ValueError",
            "hive_a/swarm/__init__.py": '"""Nothing announced here, so every module is."""',
            "hive_a/swarm/fly.py": HOOK.format(name="fly"),
        },
        "hive_a",
    )
    assert [(p.name, p.source, p.state) for p in host.plugins[1:]] == [
        ("ant", "hive_a/ant/__init__.py", "ok"),
        ("bee", "hive_a/bee.py", "ok"),
        ("swarm.fly", "hive_a/swarm/fly.py", "ok"),
        ("wasp", "hive_a/wasp.py", "import-error"),
    ]
    assert host.names("methods") == ["ant", "bee", "fly"]
    assert not any(name.startswith("hive_a") for name in sys.modules)
    bee = host.get("methods", "hive:bee")
    assert bee.target == "hive_a.bee:Net" and bee is host.get("methods", "bee:bee")
    assert (host.origin(bee).dist, host.origin(bee).version, host.origin(bee).source_hash) == ("hive", "2.5", None)
    assert host.identity(bee) == "1"


def test_an_announcement_may_import_from_its_package(install):
    announcement = "from ._shared import NAME\n" + HOOK.replace('"{name}"', "NAME")
    files = {"hive_b/__init__.py": "", "hive_b/_shared.py": "NAME = 'bee'", "hive_b/bee.py": announcement}
    host = install(files, "hive_b")
    assert host.names("methods") == ["bee"] and "hive_b.bee" not in sys.modules
    assert host.find("methods", "bee").__module__ == "hive_b.bee"


def test_a_package_that_announces_itself_is_one_plugin(install):
    files = {"hive_c/__init__.py": HOOK.format(name="bee"), "hive_c/helper.py": "raise ValueError"}
    host = install(files, "hive_c")
    assert [(p.name, p.source, p.state) for p in host.plugins[1:]] == [("hive-ep", "entry point hive_c", "ok")]
    assert host.find("methods", "bee").__module__ == "hive_c"


@pytest.mark.parametrize(
    ("files", "entry_point", "state", "sentence"),
    [
        ({"hive_d/__init__.py": ""}, "hive_d", "import-error", "holds no plugin file"),
        ({}, "hive_e", "import-error", "No module named 'hive_e'"),
        ({"hive_f/__init__.py": ""}, "hive_f.bee", "import-error", "No module named 'hive_f.bee'"),
        ({"hive_g.py": "x = 1"}, "hive_g", "invalid", "announces nothing"),
        ({"hive_h.py": "x = 1"}, "hive_h:y", "import-error", "has no attribute 'y'"),
    ],
)
def test_an_entry_point_that_leads_nowhere_is_a_status(install, files, entry_point, state, sentence):
    host = install(files, entry_point)
    assert host.plugins[-1].state == state and sentence in host.plugins[-1].error


def test_an_entry_point_may_name_an_object(install):
    body = """
    from skelbench.plugin import MethodSpec, hookimpl

    class Plugin:
        @hookimpl
        def skelbench_methods(self):
            return [MethodSpec(name="bee", target="hive_i:Plugin")]

        @hookimpl
        def skelbench_log(self, run, step):
            run["seen"] = step

    plugin = Plugin()
    """
    host = install({"hive_i.py": body}, "hive_i:plugin")
    assert host.plugins[-1].state == "ok" and host.find("methods", "bee").__name__ == "Plugin"
    run = {}
    host.notify("skelbench_log", run=run, step=7, metrics={})
    assert run == {"seen": 7}


def test_observers_of_a_package_are_imported_when_they_are_needed(install):
    body = "from skelbench.plugin import hookimpl\n@hookimpl\ndef skelbench_log(run, step):\n    run['seen'] = step\n"
    host = install({"hive_j/__init__.py": "", "hive_j/watch.py": body}, "hive_j")
    assert host.plugins[-1].state == "ok" and "hive_j.watch" not in sys.modules
    run = {}
    host.notify("skelbench_log", run=run, step=7, metrics={})
    assert run == {"seen": 7} and "hive_j.watch" in sys.modules
