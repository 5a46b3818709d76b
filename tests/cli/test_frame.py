"""The frame of the command line: what it imports, how it fails, what `plugins` shows."""

import errno
import os
import re
import signal
import subprocess
import sys

import pytest

from skelbench import __version__
from skelbench.cli import plugins as plugins_command
from skelbench.cli.main import main, split_globals
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
    """Of each command, issued one after another in a process of their own: exit code and which of ``modules`` are there
    after it."""
    code = (
        "import sys\nfrom skelbench.cli.main import main\n"
        f"for words in {commands!r}:\n"
        f"    code = main(words)\n    print('IMPORTED', code, [m for m in {modules!r} if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return re.findall("^IMPORTED (.*)$", result.stdout, re.MULTILINE), result.stdout


def test_light_commands_and_misspelt_names_import_nothing_heavy(monkeypatch):
    monkeypatch.delenv("SKELBENCH_PLUGINS")
    Host()  # its descriptors are in the cache from now on
    right = [f"{group} --help".split() for group in ("", "run", "diagnose", "diagnose order")]
    right += [f"{group} list".split() for group in ("plugins", "runs", "data")] + [["compare"]]
    wrong = [["run", "slm:glcl-only"], ["run", "slim:glcl-onl"]]
    assert imported(right + wrong)[0] == ["0 []"] * len(right) + ["2 []"] * len(wrong)


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"skelbench {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rnu", "slim"], "'run'"),
        (["run", "slim", "--tokns", "8"], "--tokens"),
        (["run"], "method"),
        (["run", "slim", "--seed", "x"], "seed"),
        (["plugins", "list", "--plugin"], "--plugin needs a file"),
    ],
)
def test_usage_errors_are_one_line_with_the_nearest_name(arguments, said, capsys):
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ") and printed.err.count("\n") == 1
    assert said in printed.err


def test_a_command_that_a_scheduler_stops_says_so_by_its_exit_code(monkeypatch, capsys):
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
        (Interrupted("stopped after step 3", 3), 130, "error: stopped after step 3\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (OSError(errno.ENOSPC, "No space left on device", "/hive/x"), 2, "error: /hive/x: No space left on device"),
        (PermissionError(errno.EACCES, "Permission denied", "/hive"), 2, "error: /hive: Permission denied"),
        (FileNotFoundError(errno.ENOENT, "No such file", "/hive"), 1, "error: internal error: FileNotFoundError: "),
        (ValueError("a\n[b] c"), 1, "error: internal error: ValueError: a [b] c (run again with --debug for the "),
    ],
)
def test_every_error_is_one_sentence_with_its_exit_code(monkeypatch, capsys, error, code, said):
    def fails():
        raise error

    monkeypatch.setattr(plugins_command, "get_host", fails)
    assert main(["plugins", "list"]) == code
    printed = capsys.readouterr()
    assert printed.err.startswith(said) and printed.err.count("\n") == 1
    assert "Traceback" not in printed.err
    assert main(["plugins", "--debug", "list"]) == code
    if not isinstance(error, KeyboardInterrupt):
        assert "Traceback" in capsys.readouterr().err


def test_global_options_may_stand_anywhere_before_two_dashes():
    assert split_globals(["run", "slim"]) == (["run", "slim"], False, [])
    assert split_globals(["--debug", "run", "--plugin", "a.py", "slim", "--plugin=b.py"]) == (
        ["run", "slim"],
        True,
        ["a.py", "b.py"],
    )
    assert split_globals(["run", "--", "--debug"]) == (["run", "--", "--debug"], False, [])


# ---------------------------------------------------------------------------------------------------- plugins
@pytest.mark.parametrize("where", [0, 2])
def test_list_shows_what_is_announced(bee, capsys, where):
    arguments = ["plugins", "list"]
    assert main([*arguments[:where], "--plugin", bee, *arguments[where:]]) == 0
    found = rows(capsys.readouterr().out)
    assert ["kind", "name", "summary", "plugin", "status"] in found
    assert ["method", "bee", "a small method", "bee_plugin", "ok"] in found


def test_info_shows_settings_presets_and_origin(bee, capsys):
    assert main(["plugins", "info", "bee", "--plugin", bee]) == 0
    text = capsys.readouterr().out
    found = rows(text)
    assert ["citation", "A. Bee, 2026"] in found
    assert ["train.lr", "0.5"] in found
    assert "preset swarm" in text and ["method.width", "3"] in found
    assert ["width", "int, >= 1", "64", "how wide it is"] in found
    assert ["rate", "float", "0.001", "How fast it learns, in steps."] in found
    assert ["style", "str", "plain", "what it [red]looks[/red] like"] in found
    assert ["source", bee] in found


def test_run_with_a_broken_plugin_file_is_one_sentence_and_writes_nothing(tmp_path, plugin, capsys):
    wasp = plugin("wasp", "raise SystemExit(11)\n")
    before = set(tmp_path.rglob("*"))
    assert main(["run", "bee", "--plugin", wasp]) == 2
    printed = capsys.readouterr().err
    assert printed == f"error: plugin {wasp} cannot be used (import-error): wasp.py:1: SystemExit: 11\n"
    assert set(tmp_path.rglob("*")) == before


BAD = """
from skelbench.methods import Method
from skelbench.plugin import MethodSpec, hookimpl


class Bad(Method):
    @classmethod
    def views(cls, config, grid):
        return {"clip": config.nothing}


@hookimpl
def skelbench_methods():
    return [MethodSpec(name="bad", target=":Bad", summary="fails")]
"""


def test_an_error_in_a_users_file_names_file_line_and_function(small, fails):
    file = small / "bad.py"
    file.write_text(BAD)
    said = "error: bad.py:9, views: AttributeError 'Spec' object has no attribute 'nothing'"
    fails(["--plugin", str(file), "run", "bad", "--dataset", "small"], said)


@pytest.mark.parametrize("command", [["runs", "show", "x"], ["compare"], ["eval", "x"]])
def test_results_that_are_not_there_are_not_an_empty_list(fails, command):
    fails([*command, "--results", "nowhere"], "--results nowhere: there is no such folder")


@pytest.mark.parametrize("command", ["runs list"])
def test_a_plugin_file_that_is_not_there_is_one_sentence(fails, tmp_path, command):
    fails(["--plugin", "nowhere.py", *command.split()], "--plugin nowhere.py: there is no such file; check the path")
    fails([*command.split(), f"--plugin={tmp_path}"], "is a folder; name a file in it")


@pytest.mark.parametrize(
    ("name", "said"),
    [("ntu60", "skelbench data prepare ntu60"), ("kinetics", "skelbench data import"), ("smal", "'small'")],
)
def test_a_data_set_that_is_not_there_says_how_to_get_it(small, fails, name, said):
    fails(["data", "info", name], said)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("optimizer.betas=0.9", "'optimizer.betas=[0.9, 0.9"),
        ("train.foo=1", "settings of train: accumulate"),
        ("foo.lrate=1", "sections: method, encoder"),
    ],
)
def test_a_setting_that_does_not_fit_says_how_one_does(shipped_plugins, small, fails, setting, said):
    fails(["run", "untrained", "--dataset", "small", "--dry-run", "--set", setting], said)
