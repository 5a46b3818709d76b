"""Plugin files: listed by the slice that announces, imported when used, single ones hashed."""

import ast
import hashlib
import os
import subprocess
import sys
import textwrap

import pytest

from skelbench.core.errors import SkelbenchError
from skelbench.plugin.descriptors import DatasetSpec
from skelbench.plugin.host import Host
from skelbench.plugin.slices import TopLevel
from skelbench.plugin.validate import descriptor_problem

TORCH = """
    import torch

    BETAS = (0.9, 0.95)

    class Net(torch.nn.Module):
        pass

    class Settings:
        pass

    @hookimpl
    def skelbench_methods():
        return [MethodSpec(name="deep", target="torchy:Net", config=":Settings", native={"train.lr": 2e-4,
                "optim.betas": BETAS}, presets={"release": {"epochs": 3}}, version=4)]
"""

BEE = """
@hookimpl
def skelbench_methods():
    return [MethodSpec(name="bee", target=":Net")]
"""

LIST = """
import sys
from skelbench.plugin.host import Host
host = Host([sys.argv[1]])
print(sys.argv[2] in host.names("methods"), host.plugins[-1].state, "torch" in sys.modules)
"""


def run(code, *arguments):
    result = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def method(path):
    host = Host([path])
    assert host.plugins[-1].state == "ok", host.plugins[-1].error
    return host.get("methods", "bee")


def test_a_file_with_torch_on_top_is_listed_without_torch(write):
    path = write("torchy.py", TORCH)
    assert run(LIST, path, "deep") == "True ok False"
    host = Host([path])
    deep = host.get("methods", "deep")
    assert deep.native["optim.betas"] == (0.9, 0.95) and deep.version == 4
    assert host.load(deep).__name__ == "Net" and host.load(deep, "config").__name__ == "Settings"


def test_what_ships_is_listed_without_torch_and_numpy(monkeypatch):
    monkeypatch.delenv("SKELBENCH_PLUGINS")
    code = """
import sys
from skelbench.plugin.host import Host
host = Host()
assert all(plugin.state == "ok" for plugin in host.plugins), [plugin.error for plugin in host.plugins]
print(*host.names("methods"), *host.names("topologies"), *({"torch", "numpy"} & set(sys.modules)))
"""
    names = run(code).split()
    assert {"slim", "mamp", "untrained", "ntu25", "coco17"} <= set(names) and not {"torch", "numpy"} & set(names)


def test_a_shipped_methods_plugin_is_its_file(monkeypatch):
    monkeypatch.delenv("SKELBENCH_PLUGINS")
    host = Host()
    slim = host.get("methods", "slim")
    plugin = host.origin(slim)
    assert (plugin.name, plugin.dist, plugin.source_hash) == ("slim", "skelbench", None)
    assert plugin.source.startswith("skelbench_plugins/slim")
    assert host.load(slim).__module__.startswith("skelbench_plugins.slim") and host.identity(slim) == "1"


SLICES = {
    "constants, also through others, changed in place": """
        BASE = {"a": 1}
        RECIPE = dict(BASE)
        RECIPE["b"] = 2
        RECIPE |= {"c": 3}
        RECIPE.update(d=4)
        for name in ("e", "f"):
            RECIPE[name] = 5
        def fill(recipe):
            recipe["g"] = 6
        fill(RECIPE)
        """,
    "changed by methods, loops and second names": """
        PARTS = {"x": {"a": 0, "b": 2, "z": 9}, "y": {"c": 0, "d": 4}}
        for part in PARTS.values():
            part |= {name: 1 + "ac".index(name) * 2 for name in part.keys() & {"a", "c"}}
        GONE = PARTS["x"].pop("z")
        RECIPE = {**PARTS["x"], **PARTS["y"]}
        OTHER = RECIPE
        OTHER["e"] = 5
        dict.update(RECIPE, f=5)
        assert RECIPE.setdefault("g", 6)
        if __name__ == "__main__":
            RECIPE.clear()
        """,
    "changed by comprehensions and by functions whose result is taken": """
        RECIPE = {"a": 1, "b": 2, "c": 0, "z": 9}
        [RECIPE.update({name: 3 + at}) for at, name in enumerate("cd")]
        GONE = {name: RECIPE.pop(name) for name in "z"}
        def add(recipe, **more):
            recipe |= more
            return len(recipe)
        COUNT = add(RECIPE, e=5)
        def put(key):
            mine = RECIPE
            mine[key] = 5
        def finish():
            put("f")
            return add(RECIPE, g=6)
        DONE = finish()
        """,
    "a registry filled by a decorator": """
        RECIPE = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 5}
        def register(function):
            RECIPE[function.__name__] = 6
            return function
        @register
        def g():
            pass
        """,
    "a registry filled by subclasses": """
        RECIPE = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 5}
        class Base:
            def __init_subclass__(cls):
                RECIPE[cls.__name__] = 6
        class g(Base):
            pass
        """,
    "conditions and failures": """
        import sys
        if sys.version_info > (3,):
            RECIPE = {"a": 1, "b": 2, "c": 3, "d": 4}
        try:
            import no_such_module_here
        except ImportError:
            RECIPE |= {"e": 5, "f": 5, "g": 6}
        """,
    "names that only the running file knows": """
        globals()["RECIPE"] = dict(a=1, b=2, c=3, d=4, e=5, f=5, g=6)
        """,
    "names that only exec knows": """
        exec("RECIPE = dict(a=1, b=2, c=3, d=4, e=5, f=5, g=6)")
        """,
}


def test_a_comprehension_s_own_names_bring_in_nothing():
    hook = BEE.replace("return [", "return [x for x in ")
    sliced = TopLevel("import torch\nTABLE = [torch.tensor(x) for x in range(3)]\n" + hook).slice()
    assert "x for x in" in ast.unparse(sliced) and "torch" not in ast.unparse(sliced)


@pytest.mark.parametrize("body", SLICES.values(), ids=SLICES)
def test_the_slice_gives_what_the_whole_file_gives(write, body):
    hook = BEE.replace('":Net"', '"os:getcwd", recipe=RECIPE')
    assert method(write("a.py", textwrap.dedent(body) + hook)).recipe == {
        "a": 1,
        "b": 2,
        "c": 3,
        "d": 4,
        "e": 5,
        "f": 5,
        "g": 6,
    }


@pytest.mark.parametrize(
    ("imports", "decorator"),
    [
        ("from skelbench.plugin import hookimpl as hook", "@hook"),
        ("import skelbench.plugin as plugin", "@plugin.hookimpl"),
        ("import skelbench.plugin", "@skelbench.plugin.hookimpl"),
        ("import pluggy\nmark = pluggy.HookimplMarker('skelbench')", "@mark"),
        ("hook = hookimpl(specname='skelbench_methods')", "@hook"),
    ],
)
def test_ways_to_mark_a_hook(write, imports, decorator):
    name = "methods" if "specname" in imports else "skelbench_methods"
    hook = f"{decorator}\ndef {name}():\n    return [MethodSpec(name='bee', target='os:getcwd')]\n"
    assert method(write("a.py", f"{imports}\n{hook}")).target == "os:getcwd"


def test_hooks_from_elsewhere_in_a_file(write, monkeypatch, tmp_path):
    hook = BEE.replace(":Net", "os:getcwd")
    write("lib/bee_hooks.py", hook)
    monkeypatch.syspath_prepend(str(tmp_path / "lib"))
    assert method(write("named.py", "from bee_hooks import skelbench_methods\n", header=False))
    assert method(write("star.py", "from bee_hooks import *\n", header=False))
    assert method(write("if.py", f"import os\nif os.sep:\n{textwrap.indent(hook, '    ')}\n"))


def test_source_hash_is_the_files_sha256_and_targets_do_not_depend_on_its_place(good, tmp_path):
    path = good("a.py", "bee")
    moved = tmp_path / "elsewhere" / "a.py"
    moved.parent.mkdir()
    moved.write_bytes(path.read_bytes())
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    host, other = Host([path]), Host([moved])
    for each in (host, other):
        bee = each.get("methods", "bee")
        assert each.origin(bee).source_hash == sha256 and each.identity(bee) == f"1 {sha256}"
    assert host.get("methods", "bee").target == other.get("methods", "bee").target


def test_the_code_that_runs_is_the_code_that_was_hashed(write):
    body = "class Net:\n    version = {}\n" + BEE
    path = write("a.py", body.format(1))
    Host([path])
    host = Host([write("a.py", body.format(2))])  # same size, same second
    path.write_text("raise ValueError('edited after it was listed')")
    assert host.find("methods", "bee").version == 2


@pytest.mark.parametrize("target", [":Net", "self:Net", "{module}:Net", ":NETS.first"])
def test_ways_to_name_a_class_of_the_same_file(write, target):
    body = """
    import types

    class Net:
        pass

    NETS = types.SimpleNamespace(first=Net)

    @hookimpl
    def skelbench_methods():
        return [MethodSpec(name="bee", target="TARGET".format(module=__name__))]
    """
    assert Host([write("self.py", body.replace("TARGET", target))]).find("methods", "bee").__name__ == "Net"


def test_a_class_that_only_the_running_file_has(write):
    assert Host([write("a.py", 'globals()["Net"] = dict\n' + BEE)]).find("methods", "bee") is dict


def test_a_misspelt_class_of_the_same_file_is_found_at_listing(write):
    body = """
    class Network:
        pass

    @hookimpl
    def skelbench_methods():
        return [MethodSpec(name="bee", target=":Netwrk"), MethodSpec(name="wasp", target=":Network")]
    """
    host = Host([write("a.py", body)])
    assert host.plugins[-1].state == "invalid" and "did you mean 'Network'" in host.plugins[-1].error
    assert host.names("methods") == ["wasp"]


def test_path_variable_takes_files_and_directories(good, write, tmp_path, on_path):
    good("dir/one.py", "one")
    good("dir/two.py", "two")
    write("dir/_helper.py", "raise ValueError")
    host = on_path(tmp_path / "dir", good("three.py", "three"))
    assert host.names("methods") == ["one", "three", "two"]
    assert [p.name for p in host.plugins[1:]] == ["one", "two", "three"]


def test_a_file_named_twice_is_loaded_once(good, monkeypatch):
    path = good("a.py", "bee")
    monkeypatch.setenv("SKELBENCH_PLUGIN_PATH", f"{path}{os.pathsep}{path.parent}")
    host = Host([path])
    assert host.names("methods") == ["bee"]
    assert len(host.plugins) == 2 and host.plugins[-1].requested


def test_two_files_of_one_stem_stay_apart(good):
    one, two, three = good("x/a.py", "bee"), good("y/a.py", "wasp"), good("z/a.py", "ant")
    host = Host([one, two, three])
    assert host.names("methods") == ["ant", "bee", "wasp"]
    assert [p.name for p in host.plugins[-3:]] == ["a", "a.py", str(three)]


def test_an_import_that_fails_leaves_no_module_behind(write):
    before = set(sys.modules)
    Host([write("wasp.py", "x = 1\nraise ValueError")])
    assert not {name for name in sys.modules if name.startswith("skelbench_file_")} - before


def test_a_listed_file_that_does_not_import_is_one_sentence(write):
    path = write("needy.py", "import honey_dependency\n\nclass Net(honey_dependency.Net):\n    pass\n" + BEE)
    with pytest.raises(
        SkelbenchError, match=r"^cannot import 'needy\.py:Net' of plugin 'needy': needy\.py:\d+: ModuleNotFoundError"
    ):
        Host([path]).find("methods", "bee")


def test_a_directory_as_plugin_file_is_one_sentence(tmp_path):
    with pytest.raises(SkelbenchError, match="cannot be used"):
        Host([tmp_path]).get("methods", "x")


def test_a_script_beside_plugins_is_not_run(write, tmp_path, monkeypatch):
    """It holds no hook and no component, so there is nothing to find out by running it."""
    ran = tmp_path / "ran"
    path = write("script.py", f"import skelbench\nfrom pathlib import Path\nPath({str(ran)!r}).touch()\n", header=False)
    monkeypatch.setenv("SKELBENCH_PLUGIN_PATH", str(path.parent))
    status = next(plugin for plugin in Host().plugins if plugin.name == "script")
    assert status.state == "invalid" and "announces nothing" in status.error and not ran.exists()


def test_what_an_import_on_use_changes_of_torch_is_put_back(write):
    """The slice that lists the file has none of it."""
    import torch

    text = "import torch\n\ntorch.set_default_dtype(torch.float64)\ntorch.set_float32_matmul_precision('medium')\n"
    path = write("a.py", text + BEE.replace('":Net"', '":Linear"') + "\nfrom torch.nn import Linear\n")
    host = Host([path])
    assert host.load(host.get("methods", "bee")) is torch.nn.Linear
    assert torch.get_default_dtype() == torch.float32 and torch.get_float32_matmul_precision() == "highest"


def test_splits_are_names():
    problem = descriptor_problem("datasets", DatasetSpec(name="x", target="a:B", splits=("half", 2)))
    assert "splits=('half', 2) is not a tuple of names of splits" in problem[1]
    assert "is not a tuple" in descriptor_problem("datasets", DatasetSpec(name="x", target="a:B", splits="half"))[1]
