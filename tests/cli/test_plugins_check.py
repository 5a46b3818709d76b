"""``skelbench plugins check`` says what has to be mended, and its exit code says whether anything has."""

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
    assert main(["plugins", "check", BROKEN, "--only", "settings-described", "--json"]) == 2
    results = json.loads(capsys.readouterr().out)
    assert [result["thing"] for result in results if result["state"] == "failed"] == ["settings-described"]
    assert {result["name"] for result in results} == {"settings-described"}


def test_what_a_plugin_prints_is_no_part_of_the_json(capsys, tmp_path):
    loud = tmp_path / "loud.py"
    loud.write_text(PARTS + 'print("hello")\n')
    assert main(["plugins", "check", str(loud), "--only", "never", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) and "hello" in printed.err


def test_what_is_found_is_said_in_lines(capsys):
    assert main(["plugins", "check", "settings-described", "--plugin", BROKEN, "--only", "settings-described"]) == 2
    said = capsys.readouterr().out
    assert "method settings-described\n" in said and "1 to mend" in said
    assert all(word in said for word in ("failed", "expected", "seen", "none of speed", "look", "Undescribed"))
    assert main(["plugins", "check", "pose", "--plugin", BROKEN, "--only", "settings"]) == 0
    assert "nothing to mend" in capsys.readouterr().out


def test_what_is_not_there(capsys):
    assert main(["plugins", "check", "none.py"]) == 2
    assert "error: there is no file none.py" in capsys.readouterr().err
    assert main(["plugins", "check", BROKEN, "--only", "gradient"]) == 2
    assert "unknown check 'gradient'; did you mean 'gradients'?" in capsys.readouterr().err
