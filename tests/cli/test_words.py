"""Words from files reach a terminal as words: no escape sequence, no markup, no line of their own."""

import json
import re

import pytest
from fabricated import Fabricated
from small import write_small_store

from skelbench.cli.main import main
from skelbench.data.store.clip_store import ClipStore

EVIL = "\x1b]0;x\x07[red]a :skull: \x9b31m\u202ez\r[/]"
SHOWN = "\ufffd]0;x\ufffd[red]a :skull: \ufffd31m\ufffdz\ufffd[/]"
STEERING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")


def edit(path, **fields):
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


@pytest.fixture
def evil(small):
    """A data set and runs whose texts are all hostile."""
    write_small_store(small / "data", "evil", classes=[f"{EVIL}{k}" for k in range(4)])
    edit(small / "data/evil/meta.json", lineage=EVIL, licence=f"{EVIL}\nl")
    fingerprint = ClipStore.open(small / "data/evil").meta.fingerprint
    made = Fabricated(small / "results")
    for title in ("untrained", "slim"):
        name = made.run(title, dataset="evil", split="half", hardware=EVIL, fingerprint=fingerprint, trained_on=())
        path = small / "results" / name / "run.json"
        edit(path, created=0.0, note=EVIL, variant=EVIL)
    for path in (small / "results").glob("*/eval-*.json"):
        edit(path, notes=[EVIL])
    return small


@pytest.mark.parametrize("command", ["data info evil", "runs list", "runs show slim", "compare"])
def test_no_command_lets_a_word_steer_the_terminal(evil, capsys, monkeypatch, command):
    from skelbench.core.console import err, out

    monkeypatch.chdir(evil)
    for console in (out, err):
        monkeypatch.setattr(console, "_width", 400)
    assert main(command.split()) in (0, 3)
    printed = capsys.readouterr()
    assert not STEERING.search(printed.out + printed.err)
    assert "show" in command or SHOWN in printed.out + printed.err
