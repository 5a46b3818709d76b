"""Output to a pipe and progress."""

import io

import pytest
from rich.console import Console

from skelbench.core import console
from skelbench.core.console import PipeConsole, make_table, progress, styled


class Clock:
    now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(console, "time", clock)
    return clock


def test_tables_without_a_terminal_are_wide_and_complete():
    piped = io.StringIO()
    PipeConsole(file=piped).print(make_table(("a", "b", "n"), [("x" * 70, "y" * 70, 1), ("[red]", "", 22)]))
    lines = piped.getvalue().splitlines()
    assert 100 < max(map(len, lines)) <= 120 and [piped.getvalue().count(letter) for letter in "xy"] == [70, 70]
    assert any("[red]" in line and line.rstrip().endswith("22") for line in lines)
    PipeConsole(file=piped).print("z" * 200)
    assert piped.getvalue().splitlines()[-1] == "z" * 200


def test_progress_lines_are_limited_in_time_and_end_with_the_total(clock):
    file = io.StringIO()
    with progress(1000, "slim 8x25", "clips", console=PipeConsole(file=file)) as report:
        for step in range(1000):
            clock.now += 0.05
            report(1, **({"loss": 2.0 - step / 1000} if step % 100 == 0 else {}))
    lines = file.getvalue().splitlines()
    assert len(lines) in (5, 6)
    assert lines[0].startswith("slim 8x25: 201/1000 clips (20 %), 20 clips/s, ETA 40 s, loss=")
    assert lines[-1].startswith("slim 8x25: 1000/1000 clips (100 %)")


def test_the_rate_of_a_resumed_run_excludes_earlier_work(clock):
    file = io.StringIO()
    with progress(1000, "r", "clips", console=PipeConsole(file=file)) as report:
        report(900)
        clock.now += 10
        report(20)
    assert "2 clips/s, ETA 40 s" in file.getvalue().splitlines()[-1]


def test_progress_on_a_terminal_is_a_bar_with_the_same_facts():
    file = io.StringIO()
    with progress(4, "slim", "clips", console=Console(file=file, force_terminal=True, width=100)) as report:
        report(1)
        report(3, loss=0.25)
    assert all(text in file.getvalue() for text in ("slim", "4/4", "clips/s", "loss=0.25"))


def test_text_from_files_is_neither_markup_nor_control_characters():
    file, text = io.StringIO(), "[bold]\x1b[2J:skull:\x9b\u202e[/]"
    console = PipeConsole(file=file, force_terminal=True, color_system=None, width=200)
    console.print(text)
    console.print(make_table((text,), [(text,)], title=text))
    console.print(styled(("a", "red"), text))
    assert file.getvalue().count("[bold]\ufffd[2J:skull:\ufffd\ufffd[/]") == 5
