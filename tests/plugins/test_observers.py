"""The observers that ship write what was logged where their programs find it, once per step."""

import csv
import json

import pytest

from skelbench.cli.main import main
from skelbench.pipeline.observe import named_observers


@pytest.fixture
def observer(host, tmp_path):
    """``observer("csv")``: a new one of the run in this test's directory, told that it starts."""

    def make(name):
        (spec,) = named_observers(host, [name])
        found = host.load(spec)(tmp_path / "run" / name)
        found.folder.parent.mkdir(exist_ok=True)
        run = {"id": "0123456789ab", "name": "a-run", "directory": str(tmp_path / "run")}
        found.run_started(run | {"spec": {"method": "slim", "data": {"name": "small", "split": "half"}, "seed": 0}})
        (tmp_path / "run" / "metrics.jsonl").touch()
        return found

    return make


def test_csv(observer):
    first = observer("csv")
    first.log(1, {"step": 1, "loss": 2.0})
    first.log(5, {"step": 5, "loss": 1.5, "rank_pooled": 3.0})
    first.run_finished("interrupted")
    again = observer("csv")
    again.log(5, {"step": 5, "loss": 1.25})
    again.run_finished("done")
    with open(again.path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["step"], row["loss"]) for row in rows] == [("1", "2.0"), ("5", "1.25")]


def test_tensorboard(observer, tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    first = observer("tensorboard")
    for step, loss in ((1, 2.0), (5, 1.5)):
        first.log(step, {"step": step, "loss": loss})
    first.run_finished("interrupted")
    again = observer("tensorboard")
    again.log(5, {"step": 5, "loss": 1.25})
    again.run_finished("done")
    found = EventAccumulator(str(again.folder)).Reload()
    assert [(event.step, event.value) for event in found.Scalars("loss")] == [(1, 2.0), (5, 1.25)]
    assert "spec/text_summary" in found.Tags()["tensors"]


def test_mlflow(observer, tmp_path, monkeypatch):
    """In a folder, as a database takes MLflow ten seconds to make."""
    for name in ("mlflow", "sqlalchemy", "alembic"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "all").as_uri())
    first = observer("mlflow")
    first.log(1, {"step": 1, "loss": 2.0})
    first.run_finished("interrupted")
    again = observer("mlflow")
    again.log(5, {"step": 5, "loss": 1.25})
    again.run_finished("done")
    assert again.id == first.id
    run = again.client.get_run(again.id)
    assert run.info.status == "FINISHED" and run.data.params["data.split"] == "half"
    history = again.client.get_metric_history(again.id, "loss")
    assert [(metric.step, metric.value) for metric in history] == [(1, 2.0), (5, 1.25)]
    (tmp_path / "run" / "metrics.jsonl").unlink()  # begun anew with --force
    assert observer("mlflow").id != first.id


def test_by_the_command(data_root, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("SKELBENCH_OBSERVE", "csv")
    small = ["--set", "encoder.dim=16", "--set", "encoder.depth=1", "--set", "encoder.heads=2"]
    shape = ["--dataset", "small", "--clip-length", "32", "--patch", "8", "--epochs", "1", "--batch-size", "4"]
    where = ["--results", str(tmp_path / "results"), "--data-root", str(data_root), "--probe", "none"]
    command = ["run", "skeletonmae", *shape, *small, "--set", "decoder_dim=16", "--set", "decoder_heads=2", *where]
    assert main([*command, "--observe", "csvv"]) == 2
    said = capsys.readouterr()
    assert "did you mean 'csv'" in said.err and not said.out and not (tmp_path / "results").exists()
    assert main(command) == 0
    (found,) = (tmp_path / "results").glob("*/csv/metrics.csv")
    with open(found, newline="") as file:
        steps = [row["step"] for row in csv.DictReader(file)]
    lines = (found.parents[1] / "metrics.jsonl").read_text().splitlines()
    assert steps == [str(json.loads(line)["step"]) for line in lines]
