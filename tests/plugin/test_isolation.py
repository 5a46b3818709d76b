"""A plugin of any broken kind breaks and slows nothing else: found as a new user has it, in a folder on the path."""

import os
import random
import signal
import sys
import textwrap
import time
import warnings

import numpy as np
import pytest
import torch

from skelbench.cli.main import main
from skelbench.core.errors import SkelbenchError
from skelbench.plugin import builtins, undisturbed
from skelbench.plugin.descriptors import API_VERSION
from skelbench.plugin.host import Host

PLACES = builtins.PLACES  # before the fixture of this folder takes them away
HOOK = """
from skelbench.plugin import MethodSpec, hookimpl

class Net:
    pass

{before}

@hookimpl
def skelbench_methods():
    {inside}
    return [MethodSpec(name="mine", target=":Net", summary=str(WORD))]
"""


def plugin(before="", inside="pass"):
    """A file whose hook uses the name WORD, so that what gives it that is run to list the file."""
    before = before if "WORD" in before else f"{before}\nWORD = 'mine'"
    return HOOK.format(before=textwrap.dedent(before), inside=inside)


NEEDED = "def word():\n    {}\n    return 'mine'\nWORD = word()"
"""Something that is done to list the file."""
TORCH = "import torch\n    torch.{}"

BROKEN = {
    # name: (text of the file, its status, what `plugins list` says of it, whether its method can be had all the same)
    "raises at import": (plugin(NEEDED.format("1 / 0")), "import-error", "ZeroDivisionError", False),
    "raises at registration": ("@hookimpl\ndef skelbench_log(stop):\n    pass", "import-error", "hookimpl", False),
    "raises in a hook": (plugin(inside="1 / 0"), "invalid", "skelbench_methods: ZeroDivisionError", False),
    "leaves at import": (plugin(NEEDED.format("raise SystemExit(3)")), "import-error", "SystemExit: 3", False),
    "leaves for good at import": (plugin(NEEDED.format("import os; os._exit(3)")), "import-error", "_exit(3)", False),
    "skips at import": (plugin(NEEDED.format("import pytest; pytest.skip('no')")), "import-error", "Skipped", False),
    "asks at import": (plugin(NEEDED.format("input('really?')")), "import-error", "EOFError", False),
    "waits for ever at import": (
        plugin(NEEDED.format("while True:\n        pass")),
        "import-error",
        "not read within 2 s; let its hooks need less, or set SKELBENCH_PLUGIN_SECONDS (0 = no limit)",
        False,
    ),
    "catches everything for ever": (
        plugin(
            NEEDED.format("while True:\n        try:\n            pass\n        except Exception:\n            pass")
        ),
        "import-error",
        "not read within 2 s",
        False,
    ),
    "wrong API version": (
        plugin().replace('":Net"', f'":Net", api={API_VERSION + 1}'),
        "api-mismatch",
        "upgrade skelbench",
        False,
    ),
    "wrong return type": (plugin(inside="return 3"), "invalid", "TypeError", False),
    "announces twice": (plugin() + plugin(), "invalid", "skelbench_methods is defined twice, and only the last", True),
    "returns another kind": (plugin(inside="return ['mine']"), "invalid", "MethodSpec is expected", False),
    "prints": (plugin(NEEDED.format("print('hello')")), "ok", "prints while it is read: hello", True),
    "slow": (plugin(NEEDED.format("import time; time.sleep(0.15)")), "ok", "s to be read, for which", True),
    "forks": (plugin(NEEDED.format("import os; os.fork()")), "ok", "", True),
    "sets seeds": (
        plugin(NEEDED.format("import random, numpy; random.seed(1); numpy.random.seed(1)")),
        "ok",
        "changes random's state, numpy's random state while it is read, which is put back",
        True,
    ),
    "sets torch's seed": (plugin(NEEDED.format(TORCH.format("manual_seed(1)"))), "ok", "torch's random state", True),
    "sets the dtype": (
        plugin(NEEDED.format(TORCH.format("set_default_dtype(torch.float64)"))),
        "ok",
        "changes torch's default dtype",
        True,
    ),
    "sets the precision": (
        plugin(NEEDED.format(TORCH.format("backends.cuda.matmul.fp32_precision = 'tf32'"))),
        "ok",
        "torch's precision of products",
        True,
    ),
    "sets the threads": (plugin(NEEDED.format(TORCH.format("set_num_threads(3)"))), "ok", "torch's threads", True),
    "sets the device": (plugin(NEEDED.format(TORCH.format("set_default_device('meta')"))), "ok", "device", True),
    "silences warnings": (plugin(NEEDED.format("import warnings; warnings.simplefilter('ignore')")), "ok", "", True),
    "moves away": (plugin(NEEDED.format("import os; os.chdir('/')")), "ok", "the working directory", True),
    "sets the environment": (
        plugin(NEEDED.format("import os; os.environ['HOME'] = '/'; os.environ['SKELBENCH_STRICT'] = '1'")),
        "ok",
        "changes os.environ",
        True,
    ),
}
"""How a plugin can be broken."""
each = pytest.mark.parametrize("kind", BROKEN)


def limit(monkeypatch, kind):
    """A short one only for what waits for ever: on a busy machine any other file may take longer."""
    if "for ever" in kind:
        monkeypatch.setattr(undisturbed, "LIMIT_S", 2)


@pytest.fixture
def folder(tmp_path, monkeypatch, only_this_test):
    """A folder on the path, with a good method in it."""
    monkeypatch.setenv("SKELBENCH_PLUGIN_PATH", str(tmp_path))
    monkeypatch.setattr(undisturbed, "SLOW_S", 0.1)
    (tmp_path / "fine.py").write_text(plugin().replace('"mine"', '"fine"'))
    return tmp_path


@pytest.fixture
def shipped(monkeypatch, folder):
    """The plugins that ship are there as well."""
    monkeypatch.setattr(builtins, "PLACES", PLACES)
    monkeypatch.delenv("SKELBENCH_PLUGINS")


def global_state():
    return {
        "folder": os.getcwd(),
        "environment": {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"},
        "filters": list(warnings.filters),
        "random": random.getstate(),
        "numpy": np.random.get_state()[1].tolist(),
        "torch": torch.random.get_rng_state().tolist(),
        "dtype": torch.get_default_dtype(),
        "device": torch.get_default_device(),
        "threads": torch.get_num_threads(),
        "alarm": signal.getsignal(signal.SIGALRM),
        "streams": (sys.stdin, os._exit),
    }


@each
def test_what_is_broken_is_told_and_changes_nothing(kind, folder, capfd, monkeypatch):
    text, state, said, usable = BROKEN[kind]
    limit(monkeypatch, kind)
    (folder / "broken.py").write_text(text)
    before, children = global_state(), os.getpid()
    started = time.perf_counter()
    host = Host()
    assert time.perf_counter() - started < 30 and os.getpid() == children
    assert global_state() == before and capfd.readouterr() == ("", "")
    (broken,) = [each for each in host.plugins if each.name == "broken"]
    assert broken.state == state and said in "; ".join([broken.error, *broken.remarks])
    assert host.get("methods", "fine").name == "fine"
    assert ("mine" in host.names("methods")) == usable


def test_a_name_that_ships_is_not_taken_away_by_a_file_that_lies_on_the_path(folder, shipped):
    (folder / "broken.py").write_text(plugin().replace('"mine"', '"raw"'))
    host = Host()
    assert host.origin(host.get("methods", "raw")).dist == "skelbench"
    assert host.origin(host.get("methods", "broken:raw")).name == "broken"
    assert {"raw", "broken:raw"} <= set(host.names("methods"))
    (broken,) = [each for each in host.plugins if each.state != "ok"]
    assert broken.error == "method 'raw' is skelbench's own; write 'broken:raw' for the one of the plugin"
    with pytest.raises(SkelbenchError, match="write 'raw:raw' or 'broken:raw'"):  # asked for: which one is meant?
        Host([folder / "broken.py"]).get("methods", "raw")


@pytest.mark.parametrize("kind", ["waits for ever at import", "raises in a hook", "prints", "slow"])
def test_the_list_of_plugins_tells_and_help_does_not_read_them(kind, folder, capsys, monkeypatch):
    _, state, said, _ = BROKEN[kind]
    limit(monkeypatch, kind)
    (folder / "broken.py").write_text(BROKEN[kind][0] + "\nMARK = open(__file__ + '.read', 'w')\n")
    for command in (["--help"], ["plugins", "--help"], ["run", "--help"]):
        assert main(command) == 0
    capsys.readouterr()
    assert main(["plugins", "list"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.split()[:2] == ["plugin", "broken"]]
    assert said in line and line.split()[-1] == ("remark" if state == "ok" else state)


@pytest.mark.parametrize("text", ["x = 1", "nan", "-1", "inf"])
def test_a_limit_that_is_none_is_refused_at_once(text, folder, monkeypatch, capsys):
    monkeypatch.setenv("SKELBENCH_PLUGIN_SECONDS", text)
    assert main(["plugins", "list"]) == 2
    assert f"SKELBENCH_PLUGIN_SECONDS={text} is no number of seconds" in capsys.readouterr().err


def test_what_the_hooks_do_not_need_is_not_run(folder):
    (folder / "broken.py").write_text(plugin() + "\nimport time\ntime.sleep(60)\nprint('hello')\nraise SystemExit\n")
    (broken,) = [each for each in Host().plugins if each.name == "broken"]
    assert (broken.state, broken.remarks) == ("ok", [])


def test_an_alarm_that_was_set_before_goes_on(folder):
    rang = []
    before = signal.signal(signal.SIGALRM, lambda *_: rang.append(True))
    left, _ = signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        Host()
        deadline = time.monotonic() + 10
        while not rang and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, left)
    assert rang


def losses(root, host, results):
    from small import silent_session, tiny_run

    from skelbench.pipeline.pretrain import pretrain

    made = tiny_run(root, host, "dino", epochs=1)
    run = pretrain(silent_session(root, host, results), made)
    text = (run.path / "metrics.jsonl").read_text()
    return run.outcome, [line.partition('"loss": ')[2].partition(",")[0] for line in text.splitlines()]


RAISES_IN_A_STEP = """
from skelbench.methods import Method

class Net(Method):
    def training_step(self, views, step):
        raise RuntimeError("in a step")
"""
OBSERVER = """
import torch

torch.set_default_dtype(torch.float64)
torch.manual_seed(3)

@hookimpl
def skelbench_run_started(run):
    pass

@hookimpl
def skelbench_log(run, step, metrics):
    raise RuntimeError("an observer")
"""


def test_a_run_of_another_method_is_the_same_beside_all_of_them(folder, shipped, data_root, tmp_path, monkeypatch):
    alone = losses(data_root, Host(), tmp_path / "alone")
    limit(monkeypatch, "for ever")
    for number, (text, *_) in enumerate(BROKEN.values()):
        (folder / f"broken{number}.py").write_text(text)
    header = "from skelbench.plugin import hookimpl\n"
    (folder / "observer.py").write_text(header + OBSERVER)
    (folder / "step.py").write_text(plugin(RAISES_IN_A_STEP).replace('"mine"', '"in-a-step"'))
    assert losses(data_root, Host(), tmp_path / "beside") == alone
    assert alone[0] == "done" and alone[1] and torch.get_default_dtype() == torch.float32
