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


def open_run(store, spec=SPEC, preset="quick", modified=(), variant=""):
    return store.open(spec, preset, dict(modified), {"environment": {"hardware": "test"}}, variant=variant)


def test_the_same_spec_is_the_same_directory(store):
    first = open_run(store)
    assert open_run(store).path == first.path
    assert open_run(store, SPEC.model_copy(update={"seed": 1})).path != first.path
    assert len(list(store.runs())) == 2


def test_runs_are_found_by_name_id_part_and_snapshot(store):
    run = open_run(store)
    other = open_run(store, SPEC.model_copy(update={"seed": 1}))
    for pattern in (run.name, SPEC.id, SPEC.id[:6]):
        found, checkpoint = store.find(pattern)
        assert (found.path, checkpoint) == (run.path, "last")
    assert store.find(f"{SPEC.id}@12.5")[1] == "12.5"
    with pytest.raises(SkelbenchError, match="fits 2 runs"):
        store.find("slim")
    with pytest.raises(SkelbenchError, match="did you mean|known"):
        store.find(other.name[:-3] + "zzz")


def test_a_listing_reads_each_run_once_and_a_run_says_what_is_on_disk_now(store, monkeypatch):
    run = open_run(store)
    evaluation = EvalSpec(pretrain_id=SPEC.id, protocol="knn", data=SPEC.data)
    for seed in range(2):
        spec = evaluation.model_copy(update={"seed": seed})
        record = {
            "id": spec.id,
            "spec": spec.model_dump(mode="json"),
            "standard": True,
            "predictions": "",
            "finished": 1.0,
        }
        write_json(run.record_path(spec), {**record, "metrics": {"accuracy": 0.5, "n_test": 2}})
    opened = []
    for module in ("run_dir", "store"):
        told = f"skelbench.records.{module}.read_json"
        monkeypatch.setattr(told, lambda path: opened.append(path.name) or read_json(path))
    (read,) = store.read()
    assert (read.spec, read.title, read.hardware, len(read.records())) == (SPEC, "slim", "test", 2)
    assert opened.count("run.json") == 1 and len(opened) == len(set(opened)) == 4
    (again,) = store.runs()
    run.update(outcome="done")
    read.update(steps=3)
    assert (run.outcome, again.outcome, run.info["steps"]) == ("done", "done", 3)


def test_a_changed_preset_is_marked_in_the_name(store):
    assert "-quick+-" in open_run(store, modified={"train.lr": 1e-3}).name


def test_a_variant_is_named_in_record_directory_and_title(store):
    run = open_run(store, variant="glcl-only")
    assert run.name.startswith("slim.glcl-only-synthetic-cross-view-8t-quick-s0-")
    assert (run.info["variant"], run.title) == ("glcl-only", "slim:glcl-only")
    plain = open_run(store, SPEC.model_copy(update={"seed": 1}))
    assert (plain.info["variant"], plain.title) == ("", "slim")
    info = plain.info
    del info["variant"]  # as written before there were variants
    write_json(plain.path / "run.json", info)
    assert plain.title == "slim"


def test_a_run_takes_the_name_of_the_preset_and_variant_that_it_equals(store):
    """The first exact name stays; settings typed one by one never take it away."""
    typed = {"method.mfp_weight": 0.0}
    assert open_run(store, preset="small", modified=typed).title == "slim"
    run = open_run(store, preset="quick", variant="glcl-only")
    assert (run.title, run.info["preset"], run.info["modified"]) == ("slim:glcl-only", "quick", {})
    for preset, modified, variant in (("small", typed, ""), ("quick", typed, "other"), ("small", {}, "")):
        run = open_run(store, preset=preset, modified=modified, variant=variant)
        assert (run.title, run.info["preset"], run.info["modified"]) == ("slim:glcl-only", "quick", {})
    assert len(list(store.runs())) == 1


def test_a_method_is_found_beside_its_variants(store):
    runs = {
        variant: open_run(store, SPEC.model_copy(update={"seed": seed}), variant=variant)
        for seed, variant in enumerate(["", "glcl-only", "glcl-only-more"])
    }
    for pattern, variant in {
        "slim": "",
        "slim:glcl-only": "glcl-only",
        "slim:glcl-only-more": "glcl-only-more",
        "slim:glcl-only-m": "glcl-only-more",
        "only-more": "glcl-only-more",
    }.items():
        found, checkpoint = store.find(f"{pattern}@7")
        assert (found.path, checkpoint) == (runs[variant].path, "7")
    with pytest.raises(SkelbenchError, match="fits 2 runs"):
        store.find("slim:glcl")
    with pytest.raises(SkelbenchError, match="unknown run 'slim:gclc-only'; did you mean 'slim:glcl-only'"):
        store.find("slim:gclc-only")
    typed = SPEC.model_copy(update={"seed": 9})
    open_run(store, typed, modified={"method.koleo": 1.0})
    taken = open_run(store, typed, variant="kind")  # in the directory of the settings that were typed
    assert store.find("slim:kind")[0].path == taken.path


def test_a_missing_snapshot_names_those_that_exist(store):
    run = open_run(store)
    (run.path / "encoder@2.5.safetensors").write_bytes(b"")
    (run.path / "encoder@10.safetensors").write_bytes(b"")
    with pytest.raises(SkelbenchError, match="kept epochs: 2.5, 10"):
        run.encoder("7")


@pytest.mark.parametrize("version,sentence", [(99, "newer than this skelbench reads"), (1, "by an earlier skelbench")])
def test_a_results_directory_of_another_format_is_refused(version, sentence, store):
    write_json(store.root / "skelbench.json", {"format": version})
    for action in (store.prepare, store.check_readable, lambda: list(store.runs())):
        with pytest.raises(SkelbenchError, match=sentence):
            action()


def test_an_unwritable_results_directory_is_one_sentence(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(SkelbenchError, match="cannot be written"):
        ResultStore(blocked / "results").prepare()


def test_a_full_disk_is_one_sentence_before_any_work(tmp_path, monkeypatch):
    import errno

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("skelbench.records.store.write_json", full)
    with pytest.raises(SkelbenchError, match="No space left on device"):
        ResultStore(tmp_path / "results").prepare()


@pytest.mark.parametrize("text", ["{ half", "[" * 100_000, "[]"], ids=["half", "nested", "another"])
def test_what_is_damaged_in_a_run_is_one_sentence(store, text):
    run = open_run(store)
    for name in ("run.json", "cost.json", "metrics.jsonl", "eval-0.json"):
        (run.path / name).write_text(text)
    with pytest.raises(SkelbenchError, match="missing or damaged"):
        _ = run.info
    with pytest.raises(SkelbenchError, match="metrics.jsonl is damaged"):
        read_metrics(run)
    with pytest.raises(SkelbenchError, match="eval-0.json is damaged"):
        run.record(run.path / "eval-0.json")
    assert run.records() == [], "damaged ones are left out"
    with pytest.raises(SkelbenchError, match="cost.json is damaged"):
        run.cost()


@pytest.mark.parametrize("changed", [{"encoder": ""}, {"seed": 5}, {"encoder_config": {"dim": float("nan")}}], ids=str)
def test_a_spec_that_is_not_the_runs_is_damage(store, changed):
    run = open_run(store)
    text = json.dumps({**run.info, "spec": run.info["spec"] | changed})
    (run.path / "run.json").write_text(text)
    with pytest.raises(SkelbenchError, match="run.json of .* damaged.*spec is not that of its id"):
        open_run(store)
    assert store.read() == [], "nor is it a row of anything"


def test_two_processes_cannot_work_in_one_run(store):
    run = open_run(store)
    with run.lock():
        with pytest.raises(Busy):
            run.lock().acquire()


def test_only_epochs_are_snapshots(tmp_path):
    run = RunDir(tmp_path)
    for name in ("12.5", "100", "1e+03", "x", "nan"):
        (tmp_path / f"encoder@{name}.safetensors").touch()
    assert run.snapshots() == ["12.5", "100", "1e+03"]


def test_json_nested_without_end_is_damaged(tmp_path):
    (tmp_path / "run.json").write_text("[" * 100_000)
    with pytest.raises(SkelbenchError, match="damaged"):
        _ = RunDir(tmp_path).info
