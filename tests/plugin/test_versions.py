"""What is for a newer plugin API is refused with a hint; what goes by an old name works, and is said once."""

import pytest

from skelbench.cli.main import main
from skelbench.core.errors import SkelbenchError
from skelbench.core.version import __version__
from skelbench.plugin import deprecated
from skelbench.plugin.deprecated import RENAMED, Renamed
from skelbench.plugin.descriptors import API_VERSION, MethodSpec
from skelbench.plugin.host import Host

NEW = f"api={API_VERSION + 1}"
HINT = f"for plugin API {API_VERSION + 1}, skelbench {__version__} has {API_VERSION}; upgrade skelbench"
HOOK = "@hookimpl\ndef skelbench_methods():\n    return [MethodSpec(name='bee', target=':Bee', {})]\nclass Bee: pass\n"


@pytest.mark.parametrize(
    "body",
    [
        HOOK.format(NEW),
        HOOK.format(f"{NEW}, wings=4"),  # a field, a hook and a name that the newer one has
        HOOK.format(NEW) + "@hookimpl\ndef skelbench_hives():\n    return []\n",
        "from skelbench.plugin import HiveSpec\n" + HOOK.format(NEW),
    ],
)
def test_a_file_for_a_newer_api_is_refused_with_a_hint(write, on_path, capsys, body):
    host = on_path(write("hive.py", body))
    plugin = host.plugins[-1]
    assert plugin.state == "api-mismatch" and HINT in plugin.error
    if "skelbench_hives" not in body:  # that hook alone is left out
        with pytest.raises(SkelbenchError) as caught:
            host.get("methods", "bee")
        assert HINT in str(caught.value) and "'hive'" in str(caught.value)
        assert main(["run", "bee"]) == 2
        assert HINT in capsys.readouterr().err
    assert main(["plugins", "list"]) == 0
    listed = capsys.readouterr().out
    assert "api-mismatch" in listed and "upgrade skelbench" in listed


def test_what_a_broken_file_names_is_known_as_its_own(write, on_path):
    host = on_path(write("hive.py", "WINGS = 4 / 0\n" + HOOK.format("version=WINGS")))
    with pytest.raises(SkelbenchError, match=r"method 'bee' is not available: plugin 'hive' .*ZeroDivisionError"):
        host.get("methods", "bee")
    with pytest.raises(SkelbenchError, match=r"'hive' .*ZeroDivisionError"):
        host.method("bee:cold")


@pytest.fixture
def renamed(monkeypatch):
    """Three names that were changed."""
    changes = (
        Renamed("skelbench_ways", "skelbench_methods", api=1, goes="99.0"),
        Renamed("skelbench_logged", "skelbench_log", api=1, goes="99.0"),
        Renamed("MethodSpec.about", "summary", api=1, goes="99.0"),
        Renamed("Method.post_step", "after_step", api=1, goes="99.0"),
    )
    monkeypatch.setattr(deprecated, "RENAMED", changes)
    return changes


OLD = """
from skelbench.methods import Method

class Base(Method):
    def post_step(self, step):
        return "done"

class Bee(Base):
    pass

@hookimpl
def skelbench_ways():
    return [MethodSpec(name="bee", target=":Bee", about="stings"), MethodSpec(name="drone", target=":Bee", about="")]

@hookimpl
def skelbench_logged(run, step):
    run["seen"] = step
"""


def test_old_names_work_with_one_warning_that_names_file_and_replacement(write, on_path, renamed, caplog):
    path = write("hive.py", OLD)
    host = on_path(path)
    assert host.plugins[-1].state == "ok" and not caplog.records
    bee = host.get("methods", "bee")
    assert bee.summary == "stings"
    host.get("methods", "drone")
    (warning,) = [record.getMessage() for record in caplog.records]
    assert str(path) in warning
    for change in renamed[:3]:
        assert (
            warning.count(f"{change.old} is called {change.new} since plugin API 1, and goes with skelbench 99.0") == 1
        )
    assert host.find("methods", "bee").after_step(None, None) == "done"
    run = {}
    host.notify("skelbench_log", run=run, step=3, metrics={})
    assert run == {"seen": 3} and len(caplog.records) == 1
    assert "Method.post_step is called after_step" in host.plugins[-1].old_names


def test_an_old_name_of_the_contract_alone_is_said_when_the_class_is_used(write, on_path, renamed, caplog):
    body = OLD.replace("skelbench_ways", "skelbench_methods").replace("about=", "summary=").replace("logged", "log")
    host = on_path(write("hive.py", body))
    descriptor = host.get("methods", "bee")
    assert not caplog.records
    host.load(descriptor)
    host.load(descriptor)
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "Method.post_step is called after_step" in warning


def test_both_names_at_once_are_refused(renamed):
    with pytest.raises(TypeError, match="MethodSpec is given MethodSpec.about and summary, which are the same"):
        MethodSpec(name="bee", target="a:B", about="x", summary="y")
    with pytest.raises(TypeError, match="wings"):
        MethodSpec(name="bee", target="a:B", wings=4)


def test_old_names_go_with_the_release_that_was_said():
    """Take the entry out of the table, and what only it kept alive."""

    def number(version):
        return [int(part) for part in version.split(".")]

    assert [each for each in RENAMED if number(each.goes) <= number(__version__)] == []
    assert Host().plugins[-1].renamed == []
