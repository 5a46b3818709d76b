"""The observers that ship write what was logged where their programs find it, once per step."""

import csv

import pytest

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


def test_tensorboard(observer):
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
    (tmp_path / "run" / "metrics.jsonl").unlink()  # started again with --force
    assert observer("mlflow").id != first.id
