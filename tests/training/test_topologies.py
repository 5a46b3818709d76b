"""Other topologies from stored clips to a probe: nothing but the dataset says which skeleton it is."""

import pytest
import torch
from small import shorten, write_small_store

from skelbench.core.spec import DataSpec
from skelbench.pipeline.controls import control, measure_cost
from skelbench.pipeline.evaluate import eval_spec, evaluate, feature_sets
from skelbench.pipeline.pretrain import pretrain
from skelbench.reporting.frame import frame
from skelbench.views.skeleton.topology import topologies


@pytest.mark.parametrize(("name", "flat"), [("kinect20", False), ("coco17", True)])
def test_a_run_is_probed(name, flat, session, data_root, resolved, monkeypatch):
    shorten(monkeypatch)
    write_small_store(data_root, "other", topology=topologies()[name], flat=flat)
    made = resolved("dino", dataset="other")
    assert made.spec.data.dimensions == (2 if flat else 3)
    assert any("2-D" in note for note in made.notes) == flat
    run = pretrain(session, made)
    assert run.outcome == "done" and run.info["clips_seen"] > 0
    for protocol in ("linear", "knn"):
        record = evaluate(session, run, eval_spec(session.host, run, protocol))
        assert 0 <= record["metrics"]["accuracy"] <= 1 and record["spec"]["data"]["dimensions"] == (2 if flat else 3)


def test_training_views_of_flat_poses_are_flat_and_have_their_confidence(data_root, trainer):
    write_small_store(data_root, "flat", topology=topologies()["openpose18"], flat=True)
    for view in trainer("slim", dataset="flat").views(0).values():
        assert not view.x_RTJC[..., 2].any() and view.x_RTJC[..., :2].any()
        assert view.confidence_RTJ.shape == view.x_RTJC.shape[:3] and 0 < view.confidence_RTJ.mean() < 1


# ------------------------------------------------------------------------------------------------ second body
def test_a_repeated_body_is_another_run_and_is_recorded(host, session, resolved):
    zero, repeat = (resolved(**{"data.second_body": value}) for value in ("zero", "repeat"))
    assert zero.spec.id != repeat.spec.id and zero.spec.id == resolved().spec.id
    assert resolved(sets={"second_body": "repeat"}).spec.id == repeat.spec.id
    assert control(repeat, host).spec.data.second_body == "repeat"
    run = pretrain(session, repeat)
    record = evaluate(session, run, eval_spec(session.host, run, "knn"))
    assert run.spec.data.second_body == "repeat" == record["spec"]["data"]["second_body"]
    assert set(frame(session.results.read())["dataset"]) == {"small (second body repeated)"}
    assert DataSpec(name="small").title == "small"
    assert measure_cost(session, run, repeat.store)["bodies_timed"] == 2


def test_a_repeated_body_changes_only_the_mean_over_all_slots(host, session, resolved):
    """Mean of present bodies: f(person) either way. Over all slots: (f(person) + f(zeros)) / 2, or f(person)."""
    features = {}
    for second in ("zero", "repeat"):
        twin = control(resolved(sets={"second_body": second}), host)
        run = pretrain(session, twin)
        for pool, bodies in (("valid-mean", "valid"), ("all-mean", "all-slots")):
            spec = eval_spec(session.host, run, "knn", bodies_pool=pool, bodies=bodies)
            features[second, pool] = torch.from_numpy(feature_sets(session, run, spec)["joint"].train_x)
    torch.testing.assert_close(features["zero", "valid-mean"], features["repeat", "valid-mean"], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(features["zero", "all-mean"], features["repeat", "all-mean"], atol=1e-3)
    torch.testing.assert_close(features["repeat", "all-mean"], features["repeat", "valid-mean"], rtol=1e-4, atol=1e-5)
