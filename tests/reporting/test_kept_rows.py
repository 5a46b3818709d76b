"""Cached runs and rows are the same as those read from the files, after every change."""

import logging
import shutil

import numpy as np
import pytest
from fabricated import Fabricated

from skelbench.cli.main import main
from skelbench.records import cache
from skelbench.records.errors import warn_once
from skelbench.records.run_dir import RunDir
from skelbench.records.store import ResultStore
from skelbench.reporting import frame as frames
from skelbench.reporting.frame import frame


@pytest.fixture
def cache_folder(tmp_path, monkeypatch):
    """An own cache folder, used from the first run on."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "LEAST", 1)
    return tmp_path / "cache" / "skelbench"


@pytest.fixture
def made(tmp_path):
    """Runs of several methods and seeds with controls, and damaged runs."""
    made = Fabricated(tmp_path / "results")
    for seed in range(2):
        made.run("slim:glcl-only", 0.8, seed=seed)
        made.run("mamp", 0.7, seed=seed, encoder_config={"dim": 32, "cls": True})
        made.run("untrained", 0.5, seed=seed)
    made.run("gfp", 0.6, standard=False, knn=None, costed=False)
    made.run("ibot", outcome="interrupted")
    (made.root / made.run("pstl", seed=1) / "cost.json").write_text("{")
    (made.root / made.run("amr", seed=1) / "run.json").write_text("{}")
    return made


def read(root, caplog):
    """The frame, ready to compare, and the warnings."""
    warn_once.cache_clear()
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        rows = frame(ResultStore(root).read())
    return {name: (str(rows[name].dtype), repr(rows[name].tolist())) for name in rows}, sorted(caplog.messages)


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


CHANGES = (
    lambda made: None,
    lambda made: made.run("skeletonclr", 0.9, seed=0),
    evaluate_again,
    lambda made: RunDir(named(made, "slim")).update(tags=["good"]),
    lambda made: linear(named(made, "mamp"))[1].write_bytes(b"PK"),
    lambda made: linear(named(made, "gfp"))[0].write_text("{"),
    lambda made: (named(made, "untrained") / "cost.json").unlink(),
    lambda made: (named(made, "slim") / "run.json").write_text("{"),
    lambda made: shutil.rmtree(named(made, "untrained")),
)


def test_the_cache_gives_what_the_files_hold_after_every_change(made, cache_folder, caplog, monkeypatch):
    for change in CHANGES:
        change(made)
        with monkeypatch.context() as patch:
            patch.setattr(cache, "LEAST", 10**6)
            expected = read(made.root, caplog)
        for _ in range(2):  # computed in part, and from the cache
            assert read(made.root, caplog) == expected


@pytest.mark.parametrize("damage", [b"", b"{}", b"\xff"])
def test_only_changed_runs_are_read_again(tmp_path, cache_folder, caplog, monkeypatch, damage):
    made, count, facts = Fabricated(tmp_path / "results"), [], frames._facts
    monkeypatch.setattr(frames, "_facts", lambda *args, **named: count.append(1) or facts(*args, **named))
    for seed in range(3):
        made.run("slim", 0.8, seed=seed)
        made.run("untrained", 0.5, seed=seed)
    first = read(made.root, caplog)
    assert read(made.root, caplog) == first and len(count) == 6
    next(cache_folder.glob("results-*.json")).write_bytes(damage)
    assert read(made.root, caplog) == first and len(count) == 12
    made.run("mamp", 0.7)
    read(made.root, caplog)
    assert len(count) == 13


def test_lists_and_tables_are_the_same_with_a_cache(made, cache_folder, capsys, monkeypatch):
    def printed(*command):
        warn_once.cache_clear()
        assert main([*command, "--results", str(made.root)]) == 0
        out, err = capsys.readouterr()
        return out, sorted(err.splitlines())

    commands = [("runs", "list", "--json"), ("compare", "--all")]
    with monkeypatch.context() as patch:
        patch.setattr(cache, "LEAST", 10**6)
        expected = [printed(*command) for command in commands]
    for _ in range(2):
        assert [printed(*command) for command in commands] == expected
