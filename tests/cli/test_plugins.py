"""``skelbench plugins``: lists of one kind, and units of settings."""

import re

import pytest

from skelbench.cli.main import main
from skelbench.core.settings import settings
from skelbench.plugin.descriptors import KINDS
from skelbench.plugin.host import Host

pytestmark = pytest.mark.usefixtures("shipped_plugins")


@pytest.fixture
def shown(capsys):
    """``shown("plugins", "list")``: what the command prints."""

    def shown(*arguments):
        capsys.readouterr()
        assert main([*arguments]) == 0
        return capsys.readouterr().out

    return shown


def test_every_shipped_setting_is_documented():
    host = Host()
    assert {"vit", "stgcn"} <= {*host.names("encoders")}
    for kind in KINDS:
        for about in host.all(kind):
            config = host.config(about)
            if kind == "targets":
                config = getattr(host.load(about), "Config", config)
            assert not [row.name for row in settings(config) if not row.doc], (kind, about.name)


def test_a_list_without_kind_counts_each_kind(shown):
    lines = [line.split() for line in shown("plugins", "list").splitlines() if line.strip()]
    assert ["masks", "2", "random-tokens,", "tube"] in lines and len(lines) < 30


def test_a_list_of_one_kind(shown, fails):
    for kind in ("mask", "masks"):
        lines = [line.split() for line in shown("plugins", "list", kind).splitlines() if line.strip()]
        assert lines[0][:2] == ["name", "summary"] and [line[0] for line in lines[2:]] == ["random-tokens", "tube"]
    fails(["plugins", "list", "metod"], "unknown kind 'metod'; did you mean 'method'?")


def test_settings_with_units_show_them(shown):
    assert re.search(r"std +float, >= 0 +0\.01 +m\b", shown("plugins", "info", "noise"))
    assert re.search(r"(?m)^abilities +cells, drop-lines, short-views *$", shown("plugins", "info", "stgcn"))
    assert " unit " not in shown("plugins", "info", "adamw")
