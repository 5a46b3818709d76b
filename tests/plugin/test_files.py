"""Single-file plugins: found on a path, listed from the cache without being run, hashed."""

import hashlib
import json
import os
import subprocess
import sys

import pytest

from skelbench.errors import SkelbenchError
from skelbench.plugin.files import cache_dir
from skelbench.plugin.host import Host

TORCH = """
    import torch

    class Net(torch.nn.Module):
        pass

    class Settings:
        pass

    @hookimpl
    def skelbench_methods():
        return [MethodSpec(name="deep", target="torchy:Net", config=":Settings", native={"train.lr": 2e-4,
                "optim.betas": (0.9, 0.95)}, presets={"release": {"epochs": 3}}, version=4)]
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


def cache_files():
    return list((cache_dir() / "plugins").glob("*.json"))


def test_a_file_with_torch_on_top_is_listed_from_the_cache_without_torch(write):
    path = write("torchy.py", TORCH)
    assert run(LIST, path, "deep") == "True ok True"
    assert run(LIST, path, "deep") == "True ok False"
    path.write_text(path.read_text() + "\n# changed\n")
    assert run(LIST, path, "deep") == "True ok True"


def test_fresh_and_cached_descriptors_are_equal_and_load_the_same_class(write):
    path = write("torchy.py", TORCH)
    fresh = Host([path])
    assert cache_files()
    cached = Host([path])
    one, two = fresh.get("methods", "deep"), cached.get("methods", "deep")
    assert one == two
    assert one.native["optim.betas"] == [0.9, 0.95]
    assert fresh.load(one).__name__ == "Net" and fresh.load(one) is cached.load(two)
    assert cached.load(two, "config").__name__ == "Settings"


def test_the_cache_carries_variants_importers_and_every_kind(write):
    path = write(
        "all.py",
        """
    from skelbench.plugin import FigureSpec, StudySpec, TargetSpec

    class Net:
        pass

    def read():
        pass

    @hookimpl
    def skelbench_methods():
        variants = {"half": {"train.batch_size": "x0.5"}, "far": {"method.ratio": (0.9, 0.9)}}
        return [MethodSpec(name="bee", target=":Net", imports=":read", variants=variants)]

    @hookimpl
    def skelbench_targets():
        return [TargetSpec(name="nectar", target=":Net", summary="sweet", version=2)]

    @hookimpl
    def skelbench_figures():
        return [FigureSpec(name="curve", target=":read")]

    @hookimpl
    def skelbench_studies():
        return [StudySpec(name="grid", target="all:read")]
    """,
    )
    fresh, (file,) = Host([path]), cache_files()
    cached = Host([path])
    assert fresh.plugins[-1].state == "ok" and file in cache_files()
    for kind, name in {"methods": "bee", "targets": "nectar", "figures": "curve", "studies": "grid"}.items():
        one, two = fresh.get(kind, name), cached.get(kind, name)
        assert one == two and type(one) is type(two)
        assert fresh.load(one) is cached.load(two) and cached.load(two).__name__ in ("Net", "read")
    method = cached.get("methods", "bee")
    assert method.variants == {"half": {"train.batch_size": "x0.5"}, "far": {"method.ratio": [0.9, 0.9]}}
    assert cached.method("bee:half") == (method, "half")
    assert cached.load(method, "imports").__name__ == "read"
    assert cached.get("targets", "nectar").version == 2


def test_source_hash_is_the_files_sha256_and_targets_do_not_depend_on_its_place(good, tmp_path):
    path = good("a.py", "bee")
    moved = tmp_path / "elsewhere" / "a.py"
    moved.parent.mkdir()
    moved.write_bytes(path.read_bytes())
    host, other = Host([path]), Host([moved])
    for each in (host, other):
        status = each.origin(each.get("methods", "bee"))
        assert status.source_hash == hashlib.sha256(path.read_bytes()).hexdigest()
    assert host.get("methods", "bee").target == other.get("methods", "bee").target


def test_the_code_that_runs_is_the_code_that_was_hashed(write):
    body = """
    class Net:
        version = {0}

    @hookimpl
    def skelbench_methods():
        return [MethodSpec(name="bee", target=":Net")]
    """
    path = write("a.py", body.format(1))
    Host([path])
    from_cache = Host([write("a.py", body.format(2))])  # same size, same second
    assert from_cache.load(from_cache.get("methods", "bee")).version == 2
    again = Host([path])
    path.write_text("raise ValueError('edited after it was listed')")
    assert again.load(again.get("methods", "bee")).version == 2


@pytest.mark.parametrize("target", [":Net", "self:Net", "{module}:Net"])
def test_ways_to_name_a_class_of_the_same_file(write, target):
    path = write(
        "self.py",
        """
    class Net:
        pass

    @hookimpl
    def skelbench_methods():
        return [MethodSpec(name="bee", target="TARGET".format(module=__name__))]
    """.replace("TARGET", target),
    )
    for _ in range(2):
        host = Host([path])
        assert host.load(host.get("methods", "bee")).__name__ == "Net"


def test_a_misspelt_class_of_the_same_file_is_found_at_listing(write):
    path = write(
        "a.py",
        """
    class Network:
        pass

    @hookimpl
    def skelbench_methods():
        return [MethodSpec(name="bee", target=":Netwrk")]
    """,
    )
    for _ in range(2):
        status = Host([path]).plugins[-1]
        assert status.state == "invalid" and "did you mean 'Network'" in status.error
    assert not cache_files()


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"[]",
        b'{"hooks": {"methods": [{"nam": 1}]}, "observers": []}',
        b'{"hooks": {"methods": [{"name": "A B", "target": "x"}]}, "observers": []}',
        b'{"hooks": {"wings": [{}]}, "observers": []}',
        b"\xff\xfe",
    ],
)
def test_a_damaged_cache_is_ignored_and_repaired(good, damage):
    path = good("a.py", "bee")
    Host([path])
    (cached,) = cache_files()
    whole = cached.read_bytes()
    cached.write_bytes(damage)
    assert Host([path]).names("methods") == ["bee"]
    assert json.loads(cached.read_bytes()) == json.loads(whole)


def test_a_cache_that_cannot_be_written_is_no_error(good, tmp_path, monkeypatch):
    (tmp_path / "blocked").write_text("a file where a directory is wanted")
    monkeypatch.setenv("SKELBENCH_CACHE", str(tmp_path / "blocked" / "cache"))
    host = Host([good("a.py", "bee")])
    assert host.plugins[-1].state == "ok"
    assert host.names("methods") == ["bee"]


def test_path_variable_takes_files_and_directories(good, write, tmp_path, monkeypatch):
    good("dir/one.py", "one")
    good("dir/two.py", "two")
    write("dir/_helper.py", "raise ValueError")
    items = [str(tmp_path / "dir"), str(good("three.py", "three"))]
    monkeypatch.setenv("SKELBENCH_PLUGIN_PATH", os.pathsep.join(items))
    host = Host()
    assert host.names("methods") == ["one", "three", "two"]
    assert [p.name for p in host.plugins[1:]] == ["one", "two", "three"]


def test_a_file_named_twice_is_loaded_once(good, monkeypatch):
    path = good("a.py", "bee")
    monkeypatch.setenv("SKELBENCH_PLUGIN_PATH", f"{path}{os.pathsep}{path.parent}")
    host = Host([path])
    assert host.names("methods") == ["bee"]
    assert len(host.plugins) == 2 and host.plugins[-1].requested


def test_two_files_of_one_stem_stay_apart(good):
    one, two = good("x/a.py", "bee"), good("y/a.py", "wasp")
    host = Host([one, two])
    assert host.names("methods") == ["bee", "wasp"]
    assert [p.name for p in host.plugins[-2:]] == ["a", str(two)]


def test_an_import_that_fails_leaves_no_module_behind(write):
    before = set(sys.modules)
    Host([write("wasp.py", "x = 1\nraise ValueError")])
    assert not {name for name in sys.modules if name.startswith("skelbench_file_")} - before


def test_a_cached_file_that_no_longer_imports_is_one_sentence(write, monkeypatch, tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "honey_dependency.py").write_text("")
    path = write(
        "needy.py",
        """
    import honey_dependency

    class Net:
        pass

    @hookimpl
    def skelbench_methods():
        return [MethodSpec(name="bee", target=":Net")]
    """,
    )
    code = LIST + "\ntry:\n    host.load(host.get('methods', 'bee'))\nexcept Exception as error:\n    print(error)\n"
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "lib"))
    assert run(code, path, "bee") == "True ok False"
    monkeypatch.delenv("PYTHONPATH")
    said = run(code, path, "bee").splitlines()
    assert said[0] == "True ok False"
    assert said[1].startswith("cannot import 'needy.py:Net' of plugin 'needy': ModuleNotFoundError")


def test_a_directory_as_plugin_file_is_one_sentence(tmp_path):
    with pytest.raises(SkelbenchError, match="cannot be used"):
        Host([tmp_path]).get("methods", "x")
