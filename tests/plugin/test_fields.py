"""Settings are named from the text of a file as from the class itself."""

import sys

import pytest

from skelbench.plugin import builtins
from skelbench.plugin.host import Host

PLACES = builtins.PLACES


@pytest.fixture
def everything(monkeypatch):
    monkeypatch.setattr("skelbench.plugin.builtins.PLACES", PLACES)
    monkeypatch.delenv("SKELBENCH_PLUGINS")
    return Host()


def test_the_settings_of_all_that_ships_are_known_without_importing_it(everything):
    kinds = (
        "methods",
        "encoders",
        "protocols",
        "optimizers",
        "schedules",
        "augmentations",
        "crops",
        "masks",
        "degradations",
    )
    every = [about for kind in kinds for about in everything.all(kind)]
    named = {about.name: set(everything.setting_names(about)) for about in every}
    assert len(named) > 40 and named == {about.name: set(everything.config(about).model_fields) for about in every}


def test_settings_are_followed_through_a_package_and_no_further(install):
    files = {
        "comb/__init__.py": "",
        "comb/shared.py": "from typing import ClassVar\nfrom skelbench.methods import MaskedConfig\n"
        "class Base(MaskedConfig):\n    wax: int = 1\n    _own: int = 2\n    unit: ClassVar[str] = 'm'\n",
        "comb/bee.py": """
            from queue import Queue
            from skelbench.plugin import MethodSpec, hookimpl
            from .shared import Base as Shared
            Again = Shared
            class Config(Again, Queue):
                honey: float = 0.5
                wax: int = 2
            class Loop(Loop):
                pass
            @hookimpl
            def skelbench_methods():
                return [MethodSpec(name="bee", target=":Loop", config=":Config"),
                        MethodSpec(name="loop", target=":Loop", config=":Loop"), MethodSpec(name="x", target=":Loop")]
        """,
    }
    host = install(files, "comb", "comb")
    assert host.setting_names(host.get("methods", "bee"))[-2:] == ["wax", "honey"]
    assert "mask_ratio" in host.setting_names(host.get("methods", "bee"))
    assert host.setting_names(host.get("methods", "loop")) == host.setting_names(host.get("methods", "x")) == []
    assert "comb.bee" not in sys.modules
