"""The frame of the command line: what it imports, how it fails, what `plugins` shows."""

import errno
import os
import re
import signal
import subprocess
import sys

import pytest

from skelbench.cli import plugins as plugins_command
from skelbench.cli.main import main
from skelbench.core.errors import Interrupted, SkelbenchError
from skelbench.core.signals import stop_requested
from skelbench.plugin.host import Host

PLUGIN = '''
from pydantic import Field
from skelbench.core.component import Spec
from skelbench.plugin import MethodSpec, hookimpl


class Settings(Spec):
    width: int = Field(64, ge=1, description="how wide it is")
    rate: float = 1e-3
    """How fast it learns,
    in steps."""
    style: str = Field("plain", description="what it [red]looks[/red] like")


class Net:
    pass


@hookimpl
def skelbench_methods():
    return [MethodSpec(name="bee", target=":Net", config=":Settings", summary="a small method", citation="A. Bee, 2026",
                       native={"train.lr": 0.5}, presets={"swarm": {"method.width": 3}})]
'''


@pytest.fixture
def plugin(tmp_path):
    """``plugin(name, code)``: the path of a plugin file."""

    def write(name, code):
        (tmp_path / f"{name}.py").write_text(code)
        return str(tmp_path / f"{name}.py")

    return write


@pytest.fixture
def bee(plugin):
    return plugin("bee_plugin", PLUGIN)


def rows(text):
    """Printed table rows as lists of cells."""
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in text.splitlines()]


def imported(commands, modules=("torch", "pandas", "matplotlib", "timm")):
    """Exit code of each command, issued one after another in a separate process, and the ``modules`` loaded after
    it."""
    code = (
        "import sys\nfrom skelbench.cli.main import main\n"
        f"for words in {commands!r}:\n"
        f"    code = main(words)\n    print('IMPORTED', code, [m for m in {modules!r} if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return re.findall("^IMPORTED (.*)$", result.stdout, re.MULTILINE), result.stdout


def test_light_commands_and_misspelled_names_import_nothing_heavy(monkeypatch):
    monkeypatch.delenv("SKELBENCH_PLUGINS")
    Host()  # its descriptors are in the cache from now on
    right = [f"{group} --help".split() for group in ("", "run", "diagnose", "diagnose order")]
    right += [f"{group} list".split() for group in ("plugins", "runs", "data")] + [["compare"]]
    wrong = [["run", "slm:glcl-only"], ["run", "slim:glcl-onl"], ["train", "slim"]]
    mistakes = ("--tokens 7", "--tokens 8x25", "--preset quik", "--dataset nothere", "--seed 0,1")
    wrong += [f"run slim {mistake}".split() for mistake in (*mistakes, "--set train.learning_rate=1")]
    assert imported(right + wrong)[0] == ["0 []"] * len(right) + ["2 []"] * len(wrong)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rnu", "slim"], "'run'"),
        (["ls"], "runs list"),
        (["run", "slim", "--seed", "0,1"], "--seeds 0,1"),
        (["run", "slim", "--tokns", "8"], "--tokens"),
        (["run"], "METHOD"),
        (["plugins", "list", "--plugin"], "--plugin needs a file"),
    ],
)
def test_usage_errors_are_one_line_with_the_nearest_name(arguments, said, capsys):
    assert main(arguments) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("error: ") and printed.count("\n") == 1 and said in printed


def test_a_command_stopped_by_a_scheduler_has_its_exit_code(monkeypatch, capsys):
    monkeypatch.setattr(plugins_command, "get_host", lambda: os.kill(os.getpid(), signal.SIGUSR2))
    assert main(["plugins", "list"]) == 75
    assert capsys.readouterr().err == "interrupted\n"

    def after_saving():
        with stop_requested() as stop:
            os.kill(os.getpid(), signal.SIGUSR2)
            assert stop.is_set()
        raise Interrupted("stopped after step 3", 3)

    monkeypatch.setattr(plugins_command, "get_host", after_saving)
    assert main(["plugins", "list"]) == 75
    assert capsys.readouterr().err == "error: stopped after step 3\n"


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (SkelbenchError("the hive is empty; add bees"), 2, "error: the hive is empty; add bees\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (OSError(errno.ENOSPC, "No space left on device", "/hive/x"), 2, "error: /hive/x: No space left on device"),
        (ValueError("a\n[b] c"), 1, "error: internal error: ValueError: a [b] c (run again with --debug for the "),
    ],
)
def test_every_error_is_one_line_with_its_exit_code(monkeypatch, capsys, error, code, said):
    def fails():
        raise error

    monkeypatch.setattr(plugins_command, "get_host", fails)
    assert main(["plugins", "list"]) == code
    printed = capsys.readouterr().err
    assert printed.startswith(said) and printed.count("\n") == 1 and "Traceback" not in printed
    assert main(["plugins", "--debug", "list"]) == code
    assert ("Traceback" in capsys.readouterr().err) != isinstance(error, KeyboardInterrupt)


# ---------------------------------------------------------------------------------------------------- plugins
def test_list_shows_announced_plugins(bee, capsys):
    assert main(["--plugin", bee, "plugins", "list", "methods"]) == 0
    found = rows(capsys.readouterr().out)
    assert ["bee", "2026", "bee_plugin", "a small method"] in found
    assert main(["--plugin", bee, "plugins", "list"]) == 0
    assert ["methods", "1", "bee"] in rows(capsys.readouterr().out)


def test_info_shows_settings_presets_and_origin(bee, capsys):
    assert main(["plugins", "info", "bee", "--plugin", bee]) == 0
    text = capsys.readouterr().out
    found = rows(text)
    assert ["citation", "A. Bee, 2026"] in found
    assert ["use it", f"skelbench run bee --tokens 8 --plugin {bee}"] in found
    assert ["train.lr", "0.5"] in found
    assert "preset swarm" in text and ["method.width", "3"] in found
    assert ["width", "int, >= 1", "64", "how wide it is"] in found
    assert ["rate", "float", "0.001", "How fast it learns, in steps."] in found
    assert ["style", "str", "plain", "what it [red]looks[/red] like"] in found
    assert ["source", bee] in found


def test_a_broken_plugin_file_is_one_error(plugin, fails):
    wasp = plugin("wasp", "raise SystemExit(11)\n")
    fails(["run", "bee", "--plugin", wasp], "(import-error): wasp.py:1: SystemExit: 11")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("compare --results nowhere", "no such folder"),
        ("runs list --plugin nowhere.py", "no such file"),
        ("data info ntu60", "skelbench data prepare ntu60"),
        ("data info smal", "'small'"),
        ("run untrained --dataset small --dry-run --set optimizer.betas=0.9", "optimizer.betas=0.9"),
        ("run untrained --dataset small --dry-run --set train.foo=1", "settings of train: accumulate"),
    ],
)
def test_a_wrong_path_name_or_setting_is_one_error(shipped_plugins, small, fails, words, said):
    fails(words.split(), said)
