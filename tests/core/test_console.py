"""Output survives a pipe, and progress speaks in time."""

import io

import pytest
from rich.console import Console

from skelbench.core import console
from skelbench.core.console import PipeConsole, duration, fail, make_table, progress, styled


class Clock:
    now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(console, "time", clock)
    return clock


def test_fail_prints_the_message_as_it_is(capsys):
    assert fail("no [bold] here " + "x" * 300, 3) == 3
    assert capsys.readouterr().err == "error: no [bold] here " + "x" * 300 + "\n"


def test_tables_are_not_cut_without_a_terminal_and_fit_with_one():
    rows = [("x" * 70, "y" * 70, 1), ("[red]", "", 22)]
    piped, terminal = io.StringIO(), io.StringIO()
    PipeConsole(file=piped).print(make_table(("a", "b", "n"), rows))
    shown = PipeConsole(file=terminal, force_terminal=True, color_system=None, width=80)
    shown.print(make_table(("a", "b", "n"), rows))
    lines = piped.getvalue().splitlines()
    assert any("x" * 70 in line and "y" * 70 in line and line.rstrip().endswith(" 1") for line in lines)
    assert any("[red]" in line and line.rstrip().endswith("22") for line in lines)
    assert max(map(len, terminal.getvalue().splitlines())) <= 80
    assert "x" * 70 not in terminal.getvalue()


def test_progress_lines_are_limited_in_time_and_end_with_the_total(clock):
    file = io.StringIO()
    with progress(1000, "slim 8x25", "clips", console=PipeConsole(file=file)) as report:
        for step in range(1000):
            clock.now += 0.05
            report(1, **({"loss": 2.0 - step / 1000} if step % 100 == 0 else {}))
    lines = file.getvalue().splitlines()
    assert len(lines) == 10
    assert lines[0] == "slim 8x25: 100/1000 clips (10 %), 20 clips/s, ETA 0:45, loss=2"
    assert lines[-1] == "slim 8x25: 1000/1000 clips (100 %), 20 clips/s, loss=1.1"


def test_the_rate_of_a_resumed_run_excludes_earlier_work(clock):
    file = io.StringIO()
    with progress(1000, "r", "clips", console=PipeConsole(file=file)) as report:
        report(0, note="a batch is taken in 2 pieces")
        clock.now += 1
        report(900)
        clock.now += 10
        report(20)
    assert file.getvalue().splitlines()[-1] == "r: 920/1000 clips (92 %), 2 clips/s, ETA 0:40"


def test_progress_on_a_terminal_is_a_bar_with_the_same_facts():
    file = io.StringIO()
    terminal = Console(file=file, force_terminal=True, width=100)
    with progress(4, "slim", "clips", console=terminal) as report:
        report(1)
        report(3, loss=0.25)
    shown = file.getvalue()
    assert "slim" in shown and "4/4" in shown and "clips/s" in shown and "loss=0.25" in shown


def test_other_ranks_are_silent(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    file = io.StringIO()
    with progress(2, console=PipeConsole(file=file)) as report:
        report(2)
    assert file.getvalue() == ""


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0:00"), (59.6, "1:00"), (754, "12:34"), (3723, "1:02:03")])
def test_duration(seconds, text):
    assert duration(seconds) == text


def test_words_are_neither_markup_nor_emoji_and_steer_nothing():
    said, words = io.StringIO(), "[bold]\x1b[2J:skull:\x9b\u202e[/]"
    console = PipeConsole(file=said, force_terminal=True, color_system=None, width=200)
    console.print(words)
    console.print(make_table((words,), [(words + "\nnext",)], title=words))
    console.print(styled(("a", "red"), words))
    with progress(2, words, "clips", console=console) as report:
        report(2, note=words, loss=words)
    assert said.getvalue().count("[bold]\ufffd[2J:skull:\ufffd\ufffd[/]") >= 7
    assert "[/] next" in said.getvalue()
    assert not set(said.getvalue().replace("\x1b[2K", "").replace("\x1b[?25", "")) & {"\x1b", "\x9b", "\u202e"}
