"""``skelbench runs``: numbered lists, one run on a page, tags, notes, removal."""

import json
import time

import pytest
from fabricated import Fabricated

from skelbench.cli.main import main
from skelbench.core.files import read_json
from skelbench.core.leases import Lease
from skelbench.core.spec import RunSpec
from skelbench.records.run_dir import RunDir

pytestmark = pytest.mark.usefixtures("shipped_plugins")


def edit(path, **fields):
    path.write_text(json.dumps(read_json(path) | fields))


@pytest.fixture
def made(tmp_path):
    """Three runs, made one day after the other: slim with a changed setting, mamp, which failed, and slim of today."""
    made = Fabricated(tmp_path / "results")
    made.names = [
        made.run("slim", 0.5, modified={"method.momentum": 0.9, "train.epochs": 3}),
        made.run("mamp", None, outcome="failed", preset="quick", dataset="steps"),
        made.run("slim", 0.75, seed=1),
    ]
    now = time.time()
    for days, name in zip((9, 2, 0), made.names, strict=True):
        edit(made.root / name / "run.json", created=now - 86400 * days)
    edit(made.root / made.names[1] / "run.json", reason="no space left")
    return made


@pytest.fixture
def shown(capsys):
    def shown(*words):
        assert main(["runs", *words]) == 0
        return capsys.readouterr().out

    return shown


def narrow(monkeypatch, width):
    """A terminal that is ``width`` columns wide."""
    from skelbench.core.console import out

    for name, value in (("_force_terminal", True), ("_color_system", None), ("_width", width)):
        monkeypatch.setattr(out, name, value)


def rows(text):
    """Lines of a table as words."""
    return [line.split() for line in text.splitlines() if line.split()[:1] and line.split()[0].isdigit()]


def test_runs_are_numbered_from_the_oldest_with_dates_and_reasons(made, shown):
    text = shown("list")
    assert [row[:2] for row in rows(text)] == [["1", "slim"], ["2", "mamp"], ["3", "slim"]]
    today = time.strftime("%H:%M", time.localtime(read_json(made.root / made.names[2] / "run.json")["created"]))
    assert today in rows(text)[2] and time.strftime("%Y-") in " ".join(rows(text)[0])
    assert "small+" in rows(text)[0] and "50.0%" in rows(text)[0] and "75.0%" in rows(text)[2]
    assert f"#2 failed: {made.names[1]}: no space left" in text and "All runs: split cross-view, tokens 8" in text
    assert "method.momentum=0.9, train.epochs=3" in text


def test_a_trial_is_told_from_a_run_by_whose_test_clips_nothing_was_chosen(made, shown, monkeypatch):
    assert "trial" not in shown("list").lower()
    made.run("slim", 0.9, split="cross-view~tune-camera", preset="quick")
    narrow(monkeypatch, 80)  # there is no room for the split
    told = [line for line in shown("list").splitlines() if "trial" in line.lower()]
    assert len(told) == 2 and "slim, trial" in told[0] and "90.0%" in told[0] and told[1].startswith("Trials: ")


def test_a_list_is_filtered_and_sorted_as_tables_are(made, shown, fails):
    shown("tag", "1", "mine")
    assert [row[0] for row in rows(shown("list", "--sort", "-linear", "--method", "slim"))] == ["3", "1"]
    assert [row[0] for row in rows(shown("list", "--dataset", "steps,moves", "--preset", "quick"))] == ["2"]
    assert [row[0] for row in rows(shown("list", "--tag", "mine"))] == ["1"]
    assert [row[0] for row in rows(shown("list", "--columns", "seed,run"))] == ["0", "0", "1"]
    fails(["runs", "list", "--sort", "liner"], "unknown column 'liner'; did you mean 'linear'?")
    fails(["runs", "list", "--tag", "mien"], "did you mean 'mine'?")


def test_json_of_a_list_has_all(made, shown):
    first, failed, last = json.loads(shown("list", "--json"))
    assert "no space left" in shown("list", "--columns", "number,reason,finished")
    assert (first["number"], first["run"], first["linear"], first["knn"]) == (1, made.names[0], 0.5, 0.4)
    assert failed["reason"] == "no space left" and failed["linear"] is None and last["seed"] == 1
    assert first["made"].startswith(time.strftime("%Y-%m-%d", time.localtime(time.time() - 9 * 86400)))
    assert json.loads(shown("list", "--json", "--method", "gfp")) == []
    assert "is of method gfp" in shown("list", "--method", "gfp")


def test_a_number_stands_for_a_run(made, fails):
    find = made.store.find
    assert find("2")[0].name == find("#2")[0].name == made.names[1]
    assert find("3@50")[1] == "50" and find("3@50")[0].name == made.names[2]
    ident = made.names[2].rsplit("-", 1)[-1]
    assert find(ident)[0].name == made.names[2]  # a whole id goes before a number, were it one
    fails(["runs", "show", "#4"], "there is no run #4 in")
    # A seed, the grid and the data set hold digits as well: those of a run that was removed name no other.
    made.run("slim", seed=987654321)
    for number in "56789":  # nor do those of an id: nearly every id has a 7
        fails(["runs", "tag", number, "x"], f"there is no run {number} in")
    fails(["runs", "show", "1", "--json", "--classes"], "leave one out")
    with pytest.raises(Exception, match="fits 3 runs"):
        find("slim")


def test_one_run_on_a_page_says_what_was_changed(made, shown):
    text = " ".join(shown("show", "1").split())
    assert "slim, run #1" in text and "*epochs=" in text and "*batch_size" not in text
    assert "Behind * what was changed: method.momentum, train.epochs (preset small)" in text
    for word in ("Environment", "cpu x2", "Training", "40,000", "Cost", "linear", "50.0%"):
        assert word in text
    assert "Nothing was changed (preset small)" in shown("show", "3")
    assert "failed: no space left" in shown("show", "2")
    whole = json.loads(shown("show", "1", "--json"))
    assert whole["run"]["name"] == made.names[0] and len(whole["evaluations"]) == 2 and whole["cost"]["grid"]


def test_tags_and_notes_are_kept_beside_the_spec(made, shown, fails):
    before = made.store.find("1")[0].spec.id
    assert shown("tag", "1", "base", "sweep-1", "base").strip().endswith(": base, sweep-1")
    assert shown("note", "1", "  the first\n look ").strip().endswith(": the first look")
    for text in (shown("list"), shown("show", "1")):
        assert "base, sweep-1" in text and "the first look" in text
    assert shown("tag", "1", "base", "--remove").strip().endswith(": sweep-1")
    fails(["runs", "tag", "1", "sweep-2", "--remove"], "unknown tag 'sweep-2'; did you mean 'sweep-1'?")
    fails(["runs", "tag", "1", "two words"], "tag 'two words': give a word")
    fails(["runs", "note", "1", "x" * 501], "a note has 500 characters at most")
    assert shown("note", "1", "").strip().endswith(": no note")
    info = read_json(made.root / made.names[0] / "run.json")
    assert info["tags"] == ["sweep-1"] and "note" not in info and made.store.find("1")[0].spec.id == before


def test_runs_are_removed_whole(made, shown, fails):
    fails(["runs", "rm", "1"], "there is no terminal to ask at; give --yes")
    fails(["runs", "rm", made.names[0], "nothing-like-it", "--yes"], "nothing-like-it")
    fails(["runs", "rm", "1@50", "--yes"], "is a snapshot")
    for number in ("2", "#2"):  # after a removal it is another run
        fails(["runs", "rm", made.names[0], number, "--yes"], f"with --yes name the run: {made.names[1]}")
    fails(["runs", "rm", "", "--yes"], "'' names no run")
    fails(["runs", "rm", made.names[0][:-3], "--yes"], "is neither name nor id")
    assert len(made.store.read()) == 3
    first, second = (name.rsplit("-", 1)[-1] for name in made.names[:2])
    assert shown("rm", first, second, made.names[0], "--yes").splitlines() == [
        f"removed {name}" for name in made.names[:2]
    ]
    assert [run.name for run in made.store.read()] == [made.names[2]]
    assert sorted(path.name for path in made.root.iterdir()) == [made.names[2]]


def test_what_is_done_with_a_whole_run_is_refused_for_a_snapshot(made, fails, tmp_path):
    for words in (["show", "1@50"], ["tag", "1@50", "mine"], ["note", "1@50", "x"], ["export", "1@50", "-o", "p.zip"]):
        fails(["runs", *words], "1@50 is a snapshot")


def test_a_run_that_was_killed_is_running_no_more(made, shown):
    name = made.names[1]
    edit(made.root / name / "run.json", outcome="running", reason="")

    def outcomes():
        return {row["run"]: row["outcome"] for row in json.loads(shown("list", "--json"))}

    assert outcomes()[name] == "interrupted" and "interrupted" in shown("show", name)
    with RunDir(made.root / name).lock():
        assert outcomes()[name] == "running"


def test_a_run_that_is_worked_on_or_started_from_stays(made, fails, shown):
    with Lease(made.root / made.names[2] / ".lock"):
        fails(["runs", "rm", *made.names[1:], "--yes"], f"another process works on run {made.names[2]}")
    parent, path = made.store.find("1")[0].spec.id, made.root / made.names[1] / "run.json"
    spec = read_json(path)["spec"] | {"init_from": parent}
    edit(path, spec=spec, id=RunSpec.model_validate(spec).id)
    fails(["runs", "rm", made.names[0], "--yes"], f"run {made.names[1]} starts from {made.names[0]}")
    assert len(list(made.root.glob("*/run.json"))) == 3
    shown("rm", made.names[0], "--yes", "--force")
    assert len(list(made.root.glob("*/run.json"))) == 2
