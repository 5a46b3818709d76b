"""Descriptions of evaluations with settings, on other data, and of snapshots."""

import json

import pytest

from skelbench.core.spec import EvalSpec
from skelbench.reporting.frame import frame

METRICS = [
    {"step": step, "epoch": step / 10, "clips_seen": 32 * step, "loss": 1.0, "seconds": 0.1 * step}
    for step in (1, 500, 1000)
]


def rows(made):
    return frame(made.store.read())


def evaluate_again(made, name, **changes):
    """The linear evaluation of a run as it would be with other settings."""
    folder = made.root / name
    path = next(path for path in folder.glob("eval-*.json") if "linear" in path.read_text())
    record = json.loads(path.read_text())
    spec = EvalSpec.model_validate({**record["spec"], **changes})
    arrays = f"eval-{spec.id}.npz"
    (folder / arrays).write_bytes((folder / record["predictions"]).read_bytes())
    record |= {"id": spec.id, "spec": spec.model_dump(mode="json"), "standard": False, "predictions": arrays}
    (folder / f"eval-{spec.id}.json").write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"readout": "mean"}, "probe.readout=mean"),
        ({"protocol_config": {"lr": 0.5}, "bodies": "first"}, "probe.lr=0.5, probe.bodies=first"),
        ({"seed": 3}, "probe.seed=3"),
        ({"streams": ("bone",)}, ""),
        ({"checkpoint": "50"}, ""),
        ({"data": {"name": "steps", "split": "odd", "fingerprint": "a"}}, ""),
    ],
)
def test_settings_of_a_probe_are_named(made, changes, said):
    name = made.run("slim", knn=None)
    evaluate_again(made, name, **changes)
    found = rows(made)
    assert found["changed"].tolist().count(said) >= 1 and sorted(set(found["changed"])) == sorted({"", said})
    dataset = {"steps (from moves cross-view)"} if "data" in changes else {"moves"}
    assert set(found["dataset"]) == {"moves"} | dataset


def test_settings_are_named_without_a_default_evaluation(made):
    made.run("slim", knn=None, standard=False)
    assert rows(made)["changed"].tolist() == ["settings of the probe"]
    made.run("mamp", knn=None)  # another run's plain evaluation has the same settings: what differs is not known
    assert sorted(rows(made)["changed"]) == ["", "settings of the probe"]


def test_a_snapshot_has_its_own_clips_and_minutes(made):
    made.run("slim", checkpoint="50", metrics=METRICS, epochs=100)
    made.run("mamp", checkpoint="25", epochs=100)
    found = rows(made).drop_duplicates("title").set_index("title")
    assert found.loc["slim", "clips_seen"] == 16_000 and found.loc["slim", "train_seconds"] == pytest.approx(50)
    assert found.loc["mamp", "clips_seen"] == 10_000 and found.loc["mamp", "train_seconds"] == 30
    made.run("gfp", metrics=METRICS)
    assert set(rows(made).query("title == 'gfp'")["clips_seen"]) == {40_000}
