"""A plugin that fails is explained by its own lines; one that is fine has all its code imported."""

import pytest

from skelbench.cli.main import main
from skelbench.plugin.doctor import diagnose, find, host_for

HOOK = "@hookimpl\ndef skelbench_methods():\n    return [MethodSpec(name='bee', target={})]\n"


@pytest.fixture
def findings(write):
    """``findings("1 / 0")``: what is wrong with a plugin file of these lines."""

    def findings(body, file="bee.py"):
        host, path = host_for(str(write(file, body)))
        (plugin,) = find(host, "", path)
        return diagnose(host, plugin)

    return findings


@pytest.mark.parametrize(
    ("body", "said", "own", "todo"),
    [
        ("import absent_bee.wax", "No module named 'absent_bee'", "line 2", "install what has the module absent_bee"),
        ("def broken(:", "SyntaxError", "def broken(:", "correct line 2 of "),
        ("def f():\n    return {}['x']\nf()", "KeyError 'x'", "line 4, in <module>", "bee.py, line 3"),
        ("x = 1", "announces nothing", "", "`skelbench plugins new` writes one that works"),
        (HOOK.format("':Bee'"), "unknown name in bee.py, 'Bee'", "", "correct"),
        (HOOK.format("'os:getcwd', api=99"), "is for plugin API 99", "", "upgrade"),
    ],
)
def test_what_fails_is_told_by_its_own_lines_and_what_to_do(findings, body, said, own, todo):
    (finding,) = findings(body)
    assert said in finding.message
    assert own in finding.own and "skelbench/plugin" not in finding.own
    assert todo in finding.todo


def test_a_target_that_cannot_be_imported_is_found_though_it_is_announced(findings):
    (finding,) = findings(HOOK.format("'absent_bee:Bee'"))
    assert finding.message.startswith("method bee, target Bee: ") and "No module named 'absent_bee'" in finding.message


def test_a_clash_is_found(write, good, on_path):
    host = on_path(good("a.py", "wasp"), write("b.py", HOOK.replace("bee", "wasp").format("'os:getcwd'")))
    assert [plugin.name for plugin in find(host, "wasp")] == ["a", "b"]
    (clash,) = diagnose(host, find(host, "wasp")[0])
    assert "is announced by plugins 'a'" in clash.message and "rename one of them" in clash.todo


def test_the_doctor_speaks_even_where_problems_are_raised(good, write, monkeypatch, capsys):
    monkeypatch.setenv("SKELBENCH_STRICT", "1")
    assert main(["plugins", "doctor", str(write("broken.py", "1 / 0"))]) == 2
    printed = capsys.readouterr().out
    for said in ("ZeroDivisionError", "what to do: correct ", "line 2, in <module>"):
        assert said in printed
    assert main(["plugins", "doctor", str(good("fine.py", "bee"))]) == 0
    assert "nothing is wrong with" in capsys.readouterr().out
    for name, said in (("absent.py", "no such file"), ("brokn", "unknown plugin 'brokn'")):
        assert main(["plugins", "doctor", name]) == 2
        assert said in capsys.readouterr().err
