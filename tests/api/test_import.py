"""``import skelbench`` is cheap, and names all that notebooks use."""

import ast
import importlib.util
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import skelbench

NAMES = {name for names in skelbench._API.values() for name in names}


def test_importing_loads_no_heavy_module():
    code = (
        "import sys, skelbench; dir(skelbench), skelbench.run, skelbench.runs, skelbench.plugins; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "skelbench.api.runs" in done.stdout.split() and not {"torch", "pandas"} & set(done.stdout.split())


def test_completion_lists_the_public_names():
    assert NAMES <= set(dir(skelbench))
    assert all(not name.startswith("_") or name.startswith("__") for name in dir(skelbench))
    with pytest.raises(AttributeError, match="has no attribute 'ruun'"):
        skelbench.ruun  # noqa: B018


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(skelbench.__file__).read_text())
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    told = {(line.module, line.names[0].name, line.names[0].asname) for line in guarded.body}
    assert told == {
        (f"skelbench.api.{module}", name, name) for module, names in skelbench._API.items() for name in names
    }


def test_every_function_is_documented():
    for name in NAMES:
        if name != "SkeletonEmbedding" or importlib.util.find_spec("sklearn"):
            assert inspect.getdoc(getattr(skelbench, name)), name
