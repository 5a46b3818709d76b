"""What is kept of many runs is what their files say, whatever was done to them meanwhile."""

import json
import logging
import os
import shutil

import numpy as np
import pytest
from fabricated import Fabricated

from skelbench.cli.main import main
from skelbench.core.files import read_json
from skelbench.core.spec import EvalSpec
from skelbench.records import cache
from skelbench.records.errors import warn_once
from skelbench.records.run_dir import RunDir
from skelbench.records.store import ResultStore
from skelbench.reporting import frame as frames
from skelbench.reporting.frame import frame

METRICS = [{"step": step, "epoch": float(step), "clips_seen": 32 * step, "seconds": 0.1 * step} for step in (1, 50, 99)]


@pytest.fixture
def cache_folder(tmp_path, monkeypatch):
    """A cache folder of its own, used from the first run on, of files that are trusted at once."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "LEAST", 1)
    monkeypatch.setattr(cache, "SETTLED_NS", 0)
    return tmp_path / "cache" / "skelbench"


@pytest.fixture
def made(tmp_path):
    """Runs of several methods and seeds with controls, subjects, a snapshot, a partner, odd probes; what is damaged."""
    made = Fabricated(tmp_path / "results")
    rng = np.random.default_rng(0)
    subjects = np.repeat(np.arange(8), 5)

    def right(share):
        return rng.random(40) < share

    for seed in range(2):
        made.run("slim:glcl-only", right(0.8), seed=seed, subjects=subjects)
        made.run("mamp", right(0.7), seed=seed, subjects=subjects, encoder_config={"dim": 32, "cls": True})
        made.run("untrained", right(0.5), seed=seed, subjects=subjects)
    made.run("raw", right(0.4), encoder="raw", encoder_config={}, subjects=subjects)
    made.run("dino", right(0.6), checkpoint="50", metrics=METRICS, epochs=100, modified={"train.lr": 0.1})
    made.run("gfp", right(0.6), standard=False, knn=None, costed=False)
    made.run("cmd", np.stack([right(0.6), right(0.5)]), drawn="label subsets", knn=None)
    made.run("ibot", outcome="interrupted")
    (made.root / made.run("pstl", seed=1) / "cost.json").write_text("{")
    spoilt = made.root / made.run("umurl", seed=1)
    next(spoilt.glob("eval-*.json")).write_text("[]")
    next(spoilt.glob("eval-*.npz")).unlink()
    (made.root / made.run("amr", seed=1) / "run.json").write_text("{}")
    return made


def told(root, caplog):
    """The frame, as it can be compared, and what was said to be left out."""
    warn_once.cache_clear()
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        rows = frame(ResultStore(root).read())
    return {name: (str(rows[name].dtype), repr(rows[name].tolist())) for name in rows}, sorted(caplog.messages)


def fresh(root, caplog, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(cache, "LEAST", 10**6)
        return told(root, caplog)


def named(made, title):
    return next(path for path in sorted(made.root.iterdir()) if path.name.startswith(title))


def linear(folder):
    """Record and predictions of the linear evaluation."""
    path = next(path for path in sorted(folder.glob("eval-*.json")) if '"linear"' in path.read_text())
    return path, path.with_suffix(".npz")


def evaluate_again(made):
    record, arrays = linear(named(made, "mamp"))
    np.savez(arrays, ids=np.arange(40), labels=np.ones(40, int), predicted=np.arange(40) % 2)
    record.write_text(record.read_text().replace('"accuracy": 0.', '"accuracy": 0.1'))


def replace_secretly(made):
    """Other bytes, as many, under the old time."""
    _, arrays = linear(named(made, "untrained"))
    was = arrays.stat()
    with np.load(arrays) as file:
        found = dict(file)
    np.savez(arrays, **found | {"predicted": 1 - found["predicted"]})
    os.utime(arrays, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert arrays.stat().st_size == was.st_size


def add_partner(made):
    folder = named(made, "slim")
    record = read_json(linear(folder)[0])
    other = RunDir(named(made, "dino")).spec.id
    streams = {"streams": ("joint", "bone"), "fusion": "scores", "partners": (f"{other}@50",)}
    spec = EvalSpec.model_validate({**record["spec"], **streams})
    record |= {"id": spec.id, "spec": spec.model_dump(mode="json"), "standard": False}
    (folder / f"eval-{spec.id}.json").write_text(json.dumps(record))


CHANGES = {
    "a run is added": lambda made: made.run("skeletonclr", 0.9, seed=0),
    "a control is added": lambda made: made.run("untrained", 0.3, encoder_config={"dim": 32, "cls": True}),
    "a run is evaluated again": evaluate_again,
    "a run has a partner": add_partner,
    "a run is tagged": lambda made: RunDir(named(made, "slim")).update(tags=["good"]),
    "predictions of a control are others": replace_secretly,
    "predictions are damaged": lambda made: linear(named(made, "cmd"))[1].write_bytes(b"PK"),
    "a record is damaged": lambda made: linear(named(made, "gfp"))[0].write_text("{"),
    "a log is damaged": lambda made: (named(made, "dino") / "metrics.jsonl").write_text("{"),
    "a cost is gone": lambda made: (named(made, "untrained") / "cost.json").unlink(),
    "a run is renamed": lambda made: named(made, "mamp").rename(made.root / "other-name"),
    "a run is copied": lambda made: shutil.copytree(named(made, "slim"), made.root / "a-copy"),
    "a run.json is damaged": lambda made: (named(made, "slim") / "run.json").write_text("{"),
    "a control is removed": lambda made: shutil.rmtree(named(made, "raw")),
}


def test_what_is_kept_is_what_the_files_say_after_every_change(made, cache_folder, caplog, monkeypatch):
    for change in (lambda made: None, *CHANGES.values()):
        change(made)
        expected = fresh(made.root, caplog, monkeypatch)
        for _ in range(2):  # made anew in part, and kept
            assert told(made.root, caplog) == expected
    assert len(expected[1]) > 5 and len(list(cache_folder.iterdir())) >= 2


@pytest.fixture
def whole(tmp_path):
    made = Fabricated(tmp_path / "results")
    for seed in range(3):
        made.run("slim", 0.8, seed=seed)
        made.run("untrained", 0.5, seed=seed)
    return made


@pytest.fixture
def counted(monkeypatch):
    """How often facts of a run and paired tests were made."""
    count = {"_facts": 0, "paired_outcomes": 0}

    def watch(name):
        function = getattr(frames, name)

        def call(*args, **named):
            count[name] += 1
            return function(*args, **named)

        monkeypatch.setattr(frames, name, call)

    for name in count:
        watch(name)
    return count


def test_only_what_changed_is_read_again(whole, cache_folder, caplog, counted, monkeypatch):
    told(whole.root, caplog)
    assert counted == {"_facts": 6, "paired_outcomes": 6}
    whole.run("mamp", 0.7)
    told(whole.root, caplog)
    assert counted == {"_facts": 7, "paired_outcomes": 8}  # linear and knn against the untrained encoder
    first = told(whole.root, caplog)
    monkeypatch.setattr("skelbench.records.run_dir.read_json", None)
    monkeypatch.setattr(frames, "_rows", None)
    assert told(whole.root, caplog) == first and counted == {"_facts": 7, "paired_outcomes": 8}


@pytest.mark.parametrize("damage", [b"", b"{}\n{}", b"\xff", None])
def test_a_file_that_cannot_be_used_is_made_anew(whole, cache_folder, caplog, counted, damage):
    first = told(whole.root, caplog)
    files = sorted(cache_folder.iterdir())
    sizes = [file.stat().st_size for file in files]
    assert len(files) == 3
    for file in files:
        file.write_bytes(file.read_bytes().replace(b"slim", b"spam") if damage is None else damage)
    assert told(whole.root, caplog) == first and counted["_facts"] == 12
    assert [file.stat().st_size for file in sorted(cache_folder.iterdir())] == sizes


def test_other_code_keeps_for_itself(whole, cache_folder, caplog, counted, monkeypatch):
    told(whole.root, caplog)
    monkeypatch.setattr(cache, "hash_of_code", lambda folder: "edited")
    told(whole.root, caplog)
    assert counted["_facts"] == 12


def test_where_nothing_can_be_written_everything_is_read(whole, cache_folder, caplog, counted):
    cache_folder.parent.write_text("a file")
    assert told(whole.root, caplog) == told(whole.root, caplog) and counted["_facts"] == 12


def test_a_file_that_has_just_changed_is_not_trusted(whole, cache_folder, caplog, counted, monkeypatch):
    monkeypatch.setattr(cache, "SETTLED_NS", 60_000_000_000)
    told(whole.root, caplog)
    told(whole.root, caplog)
    assert counted["_facts"] == 12 and not cache_folder.exists()


def test_few_runs_are_read_and_reading_writes_nothing_beside_them(whole, cache_folder, caplog, monkeypatch):
    before = {path: path.stat().st_mtime_ns for path in whole.root.rglob("*")}
    told(whole.root, caplog)
    assert {path: path.stat().st_mtime_ns for path in whole.root.rglob("*")} == before
    shutil.rmtree(cache_folder)
    monkeypatch.setattr(cache, "LEAST", 7)
    told(whole.root, caplog)
    assert not cache_folder.exists()


def test_a_list_and_a_table_of_kept_runs_are_those_of_read_ones(made, cache_folder, capsys, monkeypatch):
    def printed(*command):
        warn_once.cache_clear()
        assert main([*command, "--results", str(made.root)]) == 0
        said = capsys.readouterr()
        return said.out, sorted(said.err.splitlines())

    commands = [("runs", "list", "--json"), ("runs", "list", "--protocol", "linear"), ("compare", "--all")]
    with monkeypatch.context() as patch:
        patch.setattr(cache, "LEAST", 10**6)
        expected = [printed(*command) for command in commands]
    for _ in range(2):
        assert [printed(*command) for command in commands] == expected


def test_old_results_directories_are_forgotten(cache_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "STORES", 2)
    for name in "abc":
        Fabricated(tmp_path / name).run("slim")
        ResultStore(tmp_path / name).read()
    assert len(list(cache_folder.glob("results-*-runs.kept"))) == 2
