"""``skelbench plugins check`` says what has to be fixed, and its exit code says whether anything has."""

import json
from pathlib import Path

import pytest

from skelbench.cli.main import main

PARTS = """
from skelbench.views import Augment, Crop

class Sway(Augment):
    kind = "sway"

    def draw(self, draws):
        return draws.shift(draws.per_clip(3).float())

class Whole(Crop):
    kind = "whole-of-it"

    def cut(self, cut):
        zero_B = cut.uniform(1)[:, 0] * 0
        return cut.interval(zero_B, zero_B + (cut.length_B - 1))
"""
BROKEN = str(Path(__file__).parents[1] / "testing" / "broken.py")


def test_results_as_json_and_the_exit_code(capsys):
    assert main(["plugins", "check", BROKEN, "--only", "settings", "--json"]) == 2
    results = json.loads(capsys.readouterr().out)
    failed = [result["thing"] for result in results if result["state"] == "failed"]
    assert failed == ["settings", "settings-space"]
    assert {result["name"] for result in results} == {"settings"}


def test_what_a_plugin_prints_is_no_part_of_the_json(capsys, tmp_path):
    loud = tmp_path / "loud.py"
    loud.write_text(PARTS + 'print("hello")\n')
    assert main(["plugins", "check", str(loud), "--only", "keyed", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) and "hello" in printed.err


LOUD_TABLE = """
from skelbench.plugin import TableSpec, hookimpl
from skelbench.reporting.table import Column, Table


@hookimpl
def skelbench_tables():
    return [TableSpec(name="loud", target=":build", needs_runs=False)]


def build(inputs):
    print("hello")
    return Table("Loud", (Column("a", "A"),), ({"a": 1},))
"""


@pytest.mark.parametrize("words", [["--format", "csv"], ["--format=csv"]])
def test_nor_of_any_other_format(words, capsys, tmp_path):
    (tmp_path / "loud.py").write_text(LOUD_TABLE)
    assert main(["compare", "--table", "loud", "--plugin", str(tmp_path / "loud.py"), *words]) == 0
    printed = capsys.readouterr()
    assert printed.out.split() == ["a", "1"] and "hello" in printed.err


def test_checks_of_several_things_are_each_for_those_that_have_them(capsys, tmp_path):
    """In any order; a file may be known by another path, and be there twice."""
    (tmp_path / "a.py").write_text(PARTS)
    (tmp_path / "b.py").write_text(PARTS)
    words = ["--only", "rows-apart", "--only", "contract"]
    for more in ([], ["--plugin", str(tmp_path / "a.py")], ["--plugin", str(tmp_path / "b.py")]):
        assert main(["plugins", "check", f"{tmp_path}/../{tmp_path.name}/a.py", *words, *more]) == 0
        printed = capsys.readouterr()
        assert "internal error" not in printed.err and "unknown check" not in printed.err, printed.err


def test_what_is_found_is_said_in_lines(capsys):
    assert main(["plugins", "check", "settings", "--plugin", BROKEN, "--only", "settings"]) == 2
    said = capsys.readouterr().out
    assert "method settings\n" in said and "1 to fix" in said
    assert all(word in said for word in ("failed", "expected", "seen", "none of speed", "look", "Undescribed"))
    assert main(["plugins", "check", "pose", "--plugin", BROKEN, "--only", "settings"]) == 0
    assert "nothing to fix" in capsys.readouterr().out


def test_what_is_not_there(capsys):
    assert main(["plugins", "check", "none.py"]) == 2
    assert "error: plugin none.py: there is no such file" in capsys.readouterr().err
    assert main(["plugins", "check", BROKEN, "--only", "gradient"]) == 2
    assert "unknown check 'gradient'; did you mean 'gradients'?" in capsys.readouterr().err
