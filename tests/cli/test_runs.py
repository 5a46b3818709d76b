"""``skelbench runs``: numbered lists, one run on a page, tags, removal."""

import json
import time
from types import SimpleNamespace

import pytest
from fabricated import Fabricated

from skelbench.cli.main import main
from skelbench.core.errors import SkelbenchError
from skelbench.core.files import read_json
from skelbench.core.leases import Lease
from skelbench.core.spec import RunSpec
from skelbench.pipeline.encoders import load_encoder
from skelbench.plugin.host import Host
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
    made.now = time.time()
    for days, name in zip((9, 2, 0), made.names, strict=True):
        edit(made.root / name / "run.json", created=made.now - 86400 * days)
    edit(made.root / made.names[1] / "run.json", reason="no space left")
    return made


@pytest.fixture
def shown(capsys):
    def shown(*words):
        assert main(["runs", *words]) == 0
        return capsys.readouterr().out

    return shown


def rows(text):
    """Lines of a table as words."""
    return [line.split() for line in text.splitlines() if line.split()[:1] and line.split()[0].isdigit()]


def test_runs_are_numbered_from_the_oldest_with_dates_and_reasons(made, shown):
    text = shown("list")
    assert [row[:2] for row in rows(text)] == [["1", "slim"], ["2", "mamp"], ["3", "slim"]]
    assert time.strftime("%Y-%m-%d", time.localtime(made.now - 9 * 86400)) in rows(text)[0]
    assert "small+" in rows(text)[0] and "50.0%" in rows(text)[0] and "75.0%" in rows(text)[2]
    assert f"#2 failed: {made.names[1]}: no space left" in text and "method.momentum=0.9, train.epochs=3" in text
    assert "All runs: split cross-view, tokens 8" in text and "trial" not in text.lower()
    made.run("slim", 0.9, split="cross-view~tune-camera", preset="quick")
    assert "slim, trial" in (text := shown("list")) and "\nTrials: " in text


def test_a_training_without_evaluations_is_not_listed_as_done(made, shown):
    made.run("slim", None, seed=5)
    (entry,) = (entry for entry in json.loads(shown("list", "--json")) if entry["seed"] == 5)
    text, number = shown("list"), entry["number"]
    assert entry["outcome"] == "trained, not evaluated" and f"#{number} trained, not evaluated: " in text
    assert f"or: skelbench eval {number}" in text and text.count("trained, not") == 2


def test_two_runs_differ_in_settings_and_accuracies(made, shown):
    lines = [line.split() for line in shown("diff", "1", "3").splitlines()]
    assert ["seed", "0", "1"] in lines and ["linear", "50.0%", "75.0%"] in lines
    assert "the same" in shown("diff", "1", "1")


def test_a_list_is_filtered_and_sorted_as_tables_are(made, shown, fails):
    shown("tag", "1", "mine")
    assert [row[0] for row in rows(shown("list", "--sort", "-linear", "--method", "slim"))] == ["3", "1"]
    assert [row[0] for row in rows(shown("list", "--dataset", "steps,moves", "--preset", "quick"))] == ["2"]
    assert [row[0] for row in rows(shown("list", "--tag", "mine"))] == ["1"]
    assert [row[0] for row in rows(shown("list", "--columns", "seed,run"))] == ["0", "0", "1"]
    fails(["runs", "list", "--sort", "liner"], "did you mean 'linear'?")
    fails(["runs", "list", "--tag", "mien"], "did you mean 'mine'?")
    fails(["runs", "list", "--json", "--sort", "linear"], "leave out --sort and --columns")


def test_json_of_a_list_has_all_facts(made, shown):
    first, failed, last = json.loads(shown("list", "--json"))
    assert (first["number"], first["run"], first["linear"], first["knn"]) == (1, made.names[0], 0.5, 0.4)
    assert failed["reason"] == "no space left" and failed["linear"] is None and last["seed"] == 1
    assert first["made"].startswith(time.strftime("%Y-%m-%d", time.localtime(made.now - 9 * 86400)))
    assert json.loads(shown("list", "--json", "--method", "gfp")) == []


def test_a_number_names_a_run(made, fails):
    find = made.store.find
    assert find("2")[0].name == find("#2")[0].name == made.names[1]
    assert find("3@50")[1] == "50" and find("3@50")[0].name == made.names[2]
    fails(["runs", "show", "#4"], "there is no run #4 in")
    made.run("slim", seed=987654321)  # digits of a seed, a token grid or an id are no number
    for number in "56789":
        fails(["runs", "tag", number, "x"], f"there is no run {number} in")
    fails(["runs", "show", ""], "'' names no run")
    for words in (["show", "1@50"], ["tag", "1@50", "x"], ["export", "1@50", "-o", "p.zip"]):
        fails(["runs", *words], "1@50 is a snapshot")


def test_one_run_on_a_page_marks_changed_settings(made, shown, fails):
    text = " ".join(shown("show", "1").split())
    assert "slim, run #1" in text and "*epochs=" in text and "*batch_size" not in text
    assert "* = changed: method.momentum, train.epochs (preset small)" in text
    for word in ("Environment", "cpu x2", "Training", "40,000", "Cost", "linear", "50.0%"):
        assert word in text
    assert "Nothing was changed (preset small)" in shown("show", "3")
    assert "failed: no space left" in shown("show", "2")
    shown_json = json.loads(shown("show", "1", "--json"))
    assert shown_json["run"]["name"] == made.names[0] and len(shown_json["evaluations"]) == 2
    assert "cls=true, depth=2" in shown("show", made.run("dino", encoder_config={"cls": True, "depth": 2}))
    (made.root / made.names[0] / "cost.json").write_text("{")
    assert "50.0%" in (text := shown("show", made.names[0])) and "Cost (FLOPs" not in text
    fails(["runs", "show", "1", "--json", "--best-on-test"], "leave out --best-on-test")


def test_tags_do_not_change_the_spec(made, shown, fails, capsys):
    before = made.store.find("1")[0].spec.id
    assert shown("tag", "1", "base", "sweep-1", "base").strip().endswith(": base, sweep-1")
    for text in (shown("list"), shown("show", "1")):
        assert "base, sweep-1" in text
    assert shown("tag", "1", "base", "--remove").strip().endswith(": sweep-1")
    fails(["runs", "tag", "1", "sweep-2", "--remove"], "did you mean 'sweep-1'?")
    fails(["runs", "tag", "1", "two words"], "tag 'two words': give a word")
    info = read_json(made.root / made.names[0] / "run.json")
    assert info["tags"] == ["sweep-1"] and made.store.find("1")[0].spec.id == before
    assert main(["compare", "--format", "csv", "--columns", "method,tags", "--tag", "sweep-1", "--all"]) == 0
    assert "sweep-1" in capsys.readouterr().out


def test_runs_are_removed_whole_or_not_at_all(made, shown, fails):
    names, root = made.names, made.root
    fails(["runs", "rm", "1"], "there is no terminal to ask at; give --yes")
    fails(["runs", "rm", names[0], "#2", "--yes"], f"with --yes name the run: {names[1]}")  # numbers move
    with Lease(root / names[2] / ".lock"):
        fails(["runs", "rm", *names[1:], "--yes"], f"another process works on run {names[2]}")
    assert len(made.store.read()) == 3
    assert shown("rm", *names[:2], "--yes").splitlines() == [f"removed {name}" for name in names[:2]]
    assert [run.name for run in made.store.read()] == [names[2]]


def test_a_run_that_others_start_from_stays_unless_forced(made, fails, shown):
    parent, path = made.store.find("1")[0].spec.id, made.root / made.names[1] / "run.json"
    spec = read_json(path)["spec"] | {"init_from": parent}
    edit(path, spec=spec, id=RunSpec.model_validate(spec).id)
    fails(["runs", "rm", made.names[0], "--yes"], f"run {made.names[1]} starts from {made.names[0]}")
    shown("rm", made.names[0], "--yes", "--force")
    assert len(made.store.read()) == 2


def test_a_run_that_was_killed_is_not_running(made, shown):
    name = made.names[1]
    edit(made.root / name / "run.json", outcome="running", reason="")

    def outcome():
        return {row["run"]: row["outcome"] for row in json.loads(shown("list", "--json"))}[name]

    assert outcome() == "interrupted" and "interrupted" in shown("show", name)
    with RunDir(made.root / name).lock():
        assert outcome() == "running"


def test_the_plugin_files_of_a_run_are_in_commands_to_repeat(made):
    path = made.root / made.names[0]
    spec = RunSpec.model_validate(read_json(path / "run.json")["spec"] | {"method": "bees"})
    environment = {"command": "skelbench run bees --plugin bees.py"}
    edit(path / "run.json", environment=environment, spec=spec.model_dump(mode="json"), id=spec.id)
    with pytest.raises(SkelbenchError, match=r"method 'bees' of run .* --plugin bees.py: give that"):
        load_encoder(SimpleNamespace(host=Host()), RunDir(path), "last", None)


def test_a_stopped_run_resumes_without_an_option(fails):
    fails(["run", "slim", "--resume"], "the same command without it resumes a stopped run")
