"""A plugin that fails is explained by its own lines; one that is fine has all its code imported."""

import pytest

from skelbench.cli.main import main
from skelbench.core.errors import SkelbenchError
from skelbench.plugin.doctor import diagnose, find, host_for
from skelbench.plugin.host import Host

HOOK = "@hookimpl\ndef skelbench_methods():\n    return [MethodSpec(name='bee', target=':Bee')]\n"


@pytest.fixture
def findings(write):
    """``findings("1 / 0")``: what is wrong with a plugin file of these lines."""

    def findings(body, file="bee.py"):
        host, path = host_for(str(write(file, body)))
        (plugin,) = find(host, "", path)
        return diagnose(host, plugin).findings

    return findings


@pytest.mark.parametrize(
    ("body", "said", "own", "todo"),
    [
        ("import absent_bee.wax", "No module named 'absent_bee'", "line 2", "install what has the module absent_bee"),
        ("from skelbench.absent import x", "skelbench.absent", "line 2", "has no module skelbench.absent: correct"),
        (
            "from skelbench.core.text import x",
            "cannot import name 'x'",
            "line 2",
            "has none in skelbench.core.text: correct",
        ),
        ("def broken(:", "SyntaxError", "def broken(:", "correct line 2 of "),
        ("raise SystemExit(3)", "SystemExit: 3", "raise SystemExit", "if __name__ == '__main__'"),
        ("open('/absent/bee')", "FileNotFoundError", "line 2", "check the path, or read the file where it is needed"),
        ("def f():\n    return {}['x']\nf()", "KeyError 'x'", "line 4, in <module>", "bee.py, line 3"),
        ("@hookimpl\ndef skelbench_methods():\n    return [MethodSpec(nam='x')]", "nam", "line 4", "bee.py, line 4"),
        ("x = 1", "announces nothing", "", "`skelbench plugins new` writes one that works"),
        (HOOK, "unknown name in bee.py, 'Bee'", "", "correct"),
    ],
)
def test_what_fails_is_told_by_its_own_lines_and_what_to_do(findings, body, said, own, todo):
    (finding, *more) = findings(body)
    assert more == [] and said in finding.sentence
    assert own in finding.own and "skelbench/plugin" not in finding.own
    assert todo in finding.todo and bool(finding.traceback) == bool(own)


def test_a_class_that_cannot_be_imported_is_found_though_it_is_announced(findings):
    body = HOOK + "import absent_bee\nclass Bee: pass\n@hookimpl\ndef skelbench_log(step):\n    pass\n"
    (finding,) = findings(body)  # once, though the observer is of the same file
    assert finding.what == "method bee, target Bee" and "No module named 'absent_bee'" in finding.sentence
    assert finding.own.startswith('  File "') and finding.traceback.startswith("Traceback")


def test_a_newer_api_a_clash_and_slowness_are_found(findings, good, write, on_path):
    (newer,) = findings(HOOK.replace("target", "api=99, target") + "class Bee: pass\n")
    assert "is for plugin API 99" in newer.sentence and newer.todo == ""
    host = on_path(good("a.py", "wasp"), write("b.py", HOOK.replace("'bee'", "'wasp'") + "class Bee: pass\n"))
    assert [plugin.name for plugin in find(host, "wasp")] == ["a", "b"]
    (clash,) = diagnose(host, find(host, "wasp")[0]).findings
    assert "is announced by plugins 'a'" in clash.sentence and "rename one of them" in clash.todo
    (slow,) = findings("import time\ntime.sleep(1.1)\ndef f(): pass\nf()\nclass Bee: pass\n" + HOOK, "slow.py")
    assert "every command waits" in slow.sentence and "imported whole" in slow.todo


def test_what_a_plugin_needs_is_compared_with_what_is_there(install, tmp_path):
    hook = "from skelbench.plugin import hookimpl\n@hookimpl\ndef skelbench_log(step): pass\n"
    host = install({"hive/__init__.py": f"import numpy\nimport absent_bee\nimport os\n{hook}"}, "hive")
    with (tmp_path / "site" / "hive-2.5.dist-info" / "METADATA").open("a") as file:
        for needed in ("pluggy>=99", "rich>=1", "lost>=1", "optuna; extra == 'tune'"):
            file.write(f"Requires-Dist: {needed}\n")
    (plugin,) = find(host, "hive-ep")
    needs = dict(diagnose(host, plugin).needs)
    assert needs["pluggy>=99"].endswith(": does not fit") and needs["lost>=1"] == "not installed: does not fit"
    assert needs["rich>=1"][0].isdigit() and needs["numpy"][0].isdigit()
    assert needs["absent_bee"] == "of no installed distribution"
    assert set(needs) == {"pluggy>=99", "rich>=1", "lost>=1", "numpy", "absent_bee"}


def test_the_doctor_speaks_even_where_problems_are_raised(good, write, monkeypatch, capsys):
    monkeypatch.setenv("SKELBENCH_STRICT", "1")
    assert main(["plugins", "doctor", str(write("broken.py", "1 / 0"))]) == 2
    printed = capsys.readouterr().out
    for said in ("ZeroDivisionError", "what to do: correct ", "SKELBENCH_STRICT=1", "Traceback", "python "):
        assert said in printed
    assert main(["plugins", "doctor", str(good("fine.py", "bee"))]) == 0
    assert "nothing is wrong with" in capsys.readouterr().out
    for name, said in (("absent.py", "is not there"), ("brokn", "unknown plugin 'brokn'")):
        assert main(["plugins", "doctor", name]) == 2
        assert said in capsys.readouterr().err


def test_a_refused_thing_leads_to_its_plugin(write, on_path):
    host = on_path(write("newer.py", HOOK.replace("target", "api=99, target")))
    assert [plugin.name for plugin in find(host, "bee")] == ["newer"]
    with pytest.raises(SkelbenchError, match="unknown plugin"):
        find(Host(), "hornet")
