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


@pytest.mark.parametrize("width", [30, 200])
@pytest.mark.parametrize("terminal", [False, True])
def test_a_table_line_by_line_is_what_rich_makes_cell_by_cell(width, terminal, monkeypatch):
    rows = [("漢字", None, 1), ("e\u0301 and a word that is long enough to be folded", "", 22)]
    shown = set()
    for kind in (console.WordTable, console.Table):
        monkeypatch.setattr(console, "WordTable", kind)
        file = io.StringIO()
        PipeConsole(file=file, force_terminal=terminal, color_system=None, width=width).print(
            make_table(("a header", "", "n"), rows)
        )
        shown.add(file.getvalue())
    assert len(shown) == 1


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


def test_slow_progress_speaks_every_ten_seconds_fast_one_once(clock):
    slow, fast = io.StringIO(), io.StringIO()
    with progress(10_000, console=PipeConsole(file=slow)) as report:
        for _ in range(60):
            clock.now += 1
            report()
    assert len(slow.getvalue().splitlines()) == 6
    with progress(100, console=PipeConsole(file=fast)) as report:
        for _ in range(100):
            clock.now += 0.001
            report()
    assert len(fast.getvalue().splitlines()) == 1


@pytest.mark.parametrize("notes", [0, 1])
def test_rate_of_a_resumed_run_leaves_out_what_was_done_before(clock, notes):
    """Whatever is said before: of how memory is saved, say."""
    file = io.StringIO()
    with progress(1000, "r", "clips", console=PipeConsole(file=file)) as report:
        for _ in range(notes):
            report(0, note="a batch is taken in 2 pieces")
            clock.now += 1
        report(900)
        clock.now += 10
        report(20)
    assert file.getvalue().splitlines()[-1] == "r: 920/1000 clips (92 %), 2 clips/s, ETA 0:40"


def test_work_of_unknown_length_has_no_share_and_no_eta(clock):
    file = io.StringIO()
    with progress(label="read", unit="files", console=PipeConsole(file=file)) as report:
        report(1)
        clock.now += 20
        report(4)
    assert file.getvalue() == "read: 5 files, 0.2 files/s\n"


def test_a_total_that_is_known_later_gives_share_and_eta(clock):
    file = io.StringIO()
    with progress(label="probe", unit="clips", console=PipeConsole(file=file)) as report:
        report(100, total=400)
        clock.now += 20
        report(100, total=400)
    assert file.getvalue() == "probe: 200/400 clips (50 %), 5 clips/s, ETA 0:40\n"


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


def test_an_error_inside_passes_and_leaves_no_final_line(clock):
    file = io.StringIO()
    with pytest.raises(ValueError, match="boom"), progress(2, console=PipeConsole(file=file)) as report:
        report(1)
        raise ValueError("boom")
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


def test_a_notebook_has_one_bar_that_moves(clock, monkeypatch):
    shown = pytest.importorskip("IPython.display", reason="IPython is not installed")
    outputs = []

    class Handle:
        def __init__(self, place):
            self.place = place

        def update(self, data, raw):
            outputs[self.place] = data["text/html"]

    def display(data, raw, display_id=False):
        outputs.append(data["text/html"])
        return Handle(len(outputs) - 1) if display_id else None

    monkeypatch.setattr(shown, "display", display)
    with progress(40, "slim <a>", "clips", Console(file=io.StringIO(), force_jupyter=True)) as report:
        for _ in range(4):
            clock.now += 1
            report(10, loss=0.5)
        report(0, note="a & b")
        assert "30/40" not in outputs[0] and "40/40 clips" in outputs[0]
    assert len(outputs) == 2 and outputs[1] == "<b>a &amp; b</b>"
    assert outputs[0].startswith('<progress value="40.0" max="40"></progress> slim &lt;a&gt;: 40/40 clips')
    assert "loss=0.5" in outputs[0]
