"""A suite on the small data set, and runs that are rows of it: specs as they are resolved, predictions made up."""

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import numpy as np
import pytest
from small import write_small_store

from skelbench.cli.main import main
from skelbench.pipeline.controls import control, raw_control
from skelbench.pipeline.evaluate import eval_spec
from skelbench.pipeline.request import Request
from skelbench.pipeline.resolve import resolve
from skelbench.plugin.host import get_host, request_files
from skelbench.records.archive import opened
from skelbench.records.pack import pack
from skelbench.records.run_dir import ReadRun
from skelbench.records.store import ResultStore
from skelbench.reporting.suites.suite import read_suite
from skelbench.reporting.suites.verify import Place, verify
from skelbench.training.loop import total_steps

PLAN = """
name = "tiny-v1"
summary = "two probes of two seeds"
seeds = [0, 1]
tokens = [8]
presets = ["quick"]
protocols = ["linear", "knn"]
label_lists = 1

[datasets]
small = ["half"]
"""
PLUGIN = """
from pathlib import Path
from skelbench.plugin import SuiteSpec, hookimpl

@hookimpl
def skelbench_suites():
    return [SuiteSpec(name="tiny-v1", file=str(Path(__file__).with_name("tiny-v1.json")), summary="two probes")]
"""


def write_run(results: Path, made, like=None, **info) -> Path:
    """A run of the resolved request ``made`` with evaluations that nobody measured, as training would have left it."""
    spec, store = made.spec, made.store
    name = f"{spec.method}-{spec.data.name}-{spec.data.split}-{spec.tokens}t-{made.preset}-s{spec.seed}-{spec.id}"
    folder = results / name
    folder.mkdir(parents=True, exist_ok=True)
    clips, steps = store.split(spec.data.split), 0
    if spec.views:
        steps = total_steps(spec, len(clips.train))
        (folder / "metrics.jsonl").write_text(json.dumps({"step": steps, "loss": 0.5}) + "\n")
    facts = {"id": spec.id, "name": name, "preset": made.preset, "variant": "", "setting": "shared", "modified": {}}
    facts |= {"outcome": "done", "steps": steps, "clips_seen": steps * spec.train.batch_size, "train_seconds": 1.0}
    facts |= {"train_clips": len(clips.train), "spec": spec.model_dump(mode="json"), **info}
    (folder / "run.json").write_text(json.dumps(facts))
    labels = store.labels[clips.test]
    for number, protocol in enumerate(("linear", "knn")):
        evaluated = eval_spec(get_host(), made, protocol, like=like)
        predicted = np.where(np.arange(len(labels)) % (2 + spec.seed + number) == 0, labels, (labels + 1) % 4)
        path = folder / f"eval-{evaluated.id}.npz"
        np.savez(path, ids=clips.test, labels=labels, predicted=predicted)
        right = predicted == labels
        macro = np.mean([right[labels == label].mean() for label in np.unique(labels)])
        metrics = {"accuracy": right.mean(), "macro_accuracy": macro, "n_test": float(len(labels))}
        record = {"id": evaluated.id, "standard": True, "spec": evaluated.model_dump(mode="json"), "metrics": metrics}
        record |= {"predictions": path.name, "finished": 1.0}
        path.with_suffix(".json").write_text(json.dumps(record, default=float))
    return folder


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The folder that tests copy: ``data``, ``results``, ``own.py`` with the suite ``tiny-v1``."""
    root = tmp_path_factory.mktemp("suites")
    write_small_store(root / "data")
    (root / "plan.toml").write_text(PLAN)
    (root / "own.py").write_text(PLUGIN)
    words = [str(root / "plan.toml"), "-o", str(root / "tiny-v1.json"), "--data-root", str(root / "data")]
    assert main(["suite", "freeze", *words]) == 0
    ResultStore(root / "results").prepare()
    for seed in (0, 1):
        request = Request("skeletonmae", dataset="small", tokens=8, preset="quick", seed=seed)
        made = resolve(request, get_host(), root / "data", "cpu")
        write_run(root / "results", made)
        write_run(root / "results", control(made, get_host()), like=made)
    write_run(root / "results", raw_control(made, get_host()), like=made)
    return root


@pytest.fixture(scope="module")
def looked(built, tmp_path_factory):
    """``built`` to look at, not to change: ``run``: the folder of a row, ``packed``: the bytes of its file, ``suite``,
    ``checked(data)``: what is found of packed runs without a command."""
    root = tmp_path_factory.mktemp("looked")
    suite = read_suite(built / "tiny-v1.json")
    (run,) = (built / "results").glob("skeletonmae-*-s0-*")
    pack([ReadRun(run)], root / "mine.zip", {"tiny-v1": suite.hash})
    where = Place(get_host(), built / "data", ResultStore(built / "results"), (suite,))

    def checked(data):
        (root / "x.zip").write_bytes(data)
        with opened(root / "x.zip") as packed, TemporaryDirectory(dir=root) as folder:
            return verify(packed, Path(folder), where)

    packed = (root / "mine.zip").read_bytes()
    return SimpleNamespace(root=root, built=built, run=run, packed=packed, suite=suite, checked=checked)


@pytest.fixture
def place(built, tmp_path, monkeypatch, capsys):
    """A copy of it: ``call(*words)`` -> (exit code, stdout, stderr), ``run``: the folder of a row, ``suite``: its file,
    which is put back."""
    root = tmp_path / "place"
    shutil.copytree(built, root, ignore=shutil.ignore_patterns("own.py", "tiny-v1.json"))
    suite = built / "tiny-v1.json"  # at one place: plugins are read once
    frozen = suite.read_text()
    monkeypatch.setenv("SKELBENCH_DATA", str(root / "data"))
    monkeypatch.setenv("SKELBENCH_RESULTS", str(root / "results"))
    monkeypatch.setenv("COLUMNS", "200")

    def call(*words):
        capsys.readouterr()
        code = main([*map(str, words), "--plugin", str(built / "own.py")])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    (run,) = (root / "results").glob("skeletonmae-*-s0-*")
    yield SimpleNamespace(root=root, results=root / "results", call=call, run=run, suite=suite)
    suite.write_text(frozen)
    request_files([])
