"""Runs are opened, found, listed and locked; damaged files give an error message."""

import errno
import json

import pytest

from skelbench.core.errors import SkelbenchError
from skelbench.core.files import read_json, write_json
from skelbench.core.leases import Busy
from skelbench.core.spec import DataSpec, EvalSpec, RunSpec
from skelbench.records.metrics import read_metrics
from skelbench.records.run_dir import RunDir
from skelbench.records.store import ResultStore

SPEC = RunSpec(method="slim", data=DataSpec(name="synthetic", split="cross-view", fingerprint="f"))


@pytest.fixture
def store(tmp_path):
    store = ResultStore(tmp_path / "results")
    store.prepare()
    return store


def open_run(store, seed=0, preset="quick", modified=(), variant=""):
    facts = {"environment": {"hardware": "test"}}
    return store.open(SPEC.model_copy(update={"seed": seed}), preset, dict(modified), facts, variant=variant)


def test_the_same_spec_is_the_same_directory(store):
    first = open_run(store)
    assert open_run(store).path == first.path != open_run(store, 1).path
    assert len(list(store.runs())) == 2
    assert "-quick+-" in open_run(store, 2, modified={"train.lr": 1e-3}).name


def test_a_listing_reads_each_file_once_and_a_run_the_current_file(store, monkeypatch):
    run = open_run(store)
    for seed in range(2):
        spec = EvalSpec(pretrain_id=SPEC.id, protocol="knn", data=SPEC.data, seed=seed)
        record = {"id": spec.id, "spec": spec.model_dump(mode="json"), "standard": True, "predictions": ""}
        write_json(run.record_path(spec), record | {"finished": 1.0, "metrics": {"accuracy": 0.5, "n_test": 2}})
    opened = []
    for module in ("run_dir", "store"):
        monkeypatch.setattr(
            f"skelbench.records.{module}.read_json", lambda path: opened.append(path.name) or read_json(path)
        )
    (read,) = store.read()
    assert (read.spec, read.title, read.hardware, len(read.records())) == (SPEC, "slim", "test", 2)
    assert len(opened) == len(set(opened)) == 4
    run.update(outcome="done")
    read.update(steps=3)
    assert (run.outcome, run.info["steps"]) == ("done", 3)


def test_a_run_takes_the_name_of_the_preset_and_variant_that_it_equals(store):
    """The first exact name stays; settings typed one by one never replace it."""
    typed = {"method.mfp_weight": 0.0}
    assert open_run(store, preset="small", modified=typed).title == "slim"
    for preset, modified, variant in (
        ("quick", {}, "a"),
        ("small", typed, ""),
        ("quick", typed, "b"),
        ("small", {}, ""),
    ):
        run = open_run(store, preset=preset, modified=modified, variant=variant)
        assert (run.title, run.info["preset"], run.info["modified"]) == ("slim:a", "quick", {})


def test_runs_are_found_by_name_id_title_part_and_snapshot(store):
    runs = {name: open_run(store, seed, variant=name) for seed, name in enumerate(["", "glcl-only", "glcl-only-more"])}
    assert runs["glcl-only"].name.startswith("slim.glcl-only-synthetic-cross-view-8t-quick-s1-")
    for pattern, name in {
        "slim": "",
        "slim:glcl-only": "glcl-only",
        "slim:glcl-only-m": "glcl-only-more",
        "only-more": "glcl-only-more",
        runs[""].name: "",
        SPEC.id: "",
        SPEC.id[:6]: "",
    }.items():
        found, checkpoint = store.find(f"{pattern}@7")
        assert (found.path, checkpoint) == (runs[name].path, "7")
    assert store.find("slim")[1] == "last"
    with pytest.raises(SkelbenchError, match="fits 2 runs"):
        store.find("slim:glcl")
    with pytest.raises(SkelbenchError, match="did you mean 'slim:glcl-only'"):
        store.find("slim:gclc-only")


def test_snapshots_are_listed_by_epoch(store):
    run = open_run(store)
    for name in ("12.5", "100", "1e+03", "x", "nan"):
        (run.path / f"encoder@{name}.safetensors").touch()
    with pytest.raises(SkelbenchError, match=r"kept epochs: 12.5, 100, 1e\+03"):
        run.encoder("7")


@pytest.mark.parametrize(("version", "message"), [(99, "newer than this skelbench"), (1, "by an earlier skelbench")])
def test_a_results_directory_of_another_format_is_an_error(version, message, store):
    write_json(store.root / "skelbench.json", {"format": version})
    for action in (store.prepare, store.read):
        with pytest.raises(SkelbenchError, match=message):
            action()


def test_a_full_disk_is_an_error_before_any_work(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("skelbench.records.store.write_json", full)
    with pytest.raises(SkelbenchError, match="No space left on device"):
        ResultStore(tmp_path / "results").prepare()


@pytest.mark.parametrize("text", ["{ half", "[]"], ids=["half", "another"])
def test_a_damaged_file_is_an_error_that_names_it(store, text):
    run = open_run(store)
    for name in ("run.json", "cost.json", "metrics.jsonl", "eval-0.json"):
        (run.path / name).write_text(text)
    for read, message in (
        (lambda: run.info, "missing or damaged"),
        (lambda: read_metrics(run), "metrics.jsonl is damaged"),
        (lambda: run.record(run.path / "eval-0.json"), "eval-0.json is damaged"),
        (run.cost, "cost.json is damaged"),
    ):
        with pytest.raises(SkelbenchError, match=message):
            read()
    assert run.records() == [] == store.read()


@pytest.mark.parametrize("changed", [{"encoder": ""}, {"seed": 5}, {"encoder_config": {"dim": float("nan")}}], ids=str)
def test_a_spec_that_does_not_match_the_id_is_damage(store, changed):
    run = open_run(store)
    (run.path / "run.json").write_text(json.dumps({**run.info, "spec": run.info["spec"] | changed}))
    with pytest.raises(SkelbenchError, match=r"run.json of .* damaged.*spec does not match its id"):
        open_run(store)
    assert store.read() == []


def test_two_processes_cannot_work_in_one_run(store):
    run = open_run(store)
    with run.lock(), pytest.raises(Busy):
        RunDir(run.path).lock().acquire()
