"""``skelbench plugins check`` says what has to be fixed, and its exit code says whether anything has."""

import json
from pathlib import Path

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


def test_prints_of_a_plugin_are_not_in_the_json(capsys, tmp_path):
    loud = tmp_path / "loud.py"
    loud.write_text(PARTS + 'print("hello")\n')
    assert main(["plugins", "check", str(loud), "--only", "keyed", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) and "hello" in printed.err


def test_results_of_checks_are_printed_as_lines(capsys):
    assert main(["plugins", "check", "settings", "--plugin", BROKEN, "--only", "settings"]) == 2
    said = capsys.readouterr().out
    assert "method settings\n" in said and "1 to fix" in said
    assert all(word in said for word in ("failed", "expected", "seen", "none of speed", "check", "Undescribed"))
    assert main(["plugins", "check", "pose", "--plugin", BROKEN, "--only", "settings"]) == 0
    assert "nothing to fix" in capsys.readouterr().out


def test_checks_of_unknown_names_are_errors(capsys):
    assert main(["plugins", "check", "none.py"]) == 2
    assert "error: plugin none.py: there is no such file" in capsys.readouterr().err
    assert main(["plugins", "check", BROKEN, "--only", "gradient"]) == 2
    assert "unknown check 'gradient'; did you mean 'gradients'?" in capsys.readouterr().err
