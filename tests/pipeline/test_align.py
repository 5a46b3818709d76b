"""A run's alignment decides its id, what it trains on, and how it and its controls are evaluated."""

import numpy as np

from skelbench.core.spec import evaluation_defaults
from skelbench.pipeline.controls import raw_control
from skelbench.pipeline.evaluate import eval_spec, feature_sets
from skelbench.pipeline.pretrain import pretrain


def test_alignment_changes_the_id_and_none_keeps_it(resolved):
    plain, none = resolved("mamp").spec, resolved("mamp", **{"train.align": "none"}).spec
    aligned = resolved("mamp", **{"train.align": "frames"}).spec
    assert plain.id == none.id != aligned.id
    assert "align" not in plain.model_dump()["train"] and '"align"' not in plain.model_dump_json()
    assert evaluation_defaults(aligned)["align"] == "frames" and evaluation_defaults(plain)["align"] == "none"
    assert type(aligned).model_validate(aligned.model_dump(mode="json")) == aligned


def test_features_come_from_aligned_clips(session, resolved):
    """Features of the control without a network are the coordinates: between the shoulders there is no depth."""
    resolution = resolved("mamp", **{"train.align": "frames"})
    run, like = pretrain(session, raw_control(resolution, session.host)), resolution
    plain, aligned = (eval_spec(session.host, run, "knn", like=spec) for spec in (None, like))
    assert plain.id != aligned.id and "align" not in plain.model_dump()
    z = {}
    for name, spec in {"plain": plain, "aligned": aligned}.items():
        x_nTJC = feature_sets(session, run, spec)["joint"].train_x.reshape(-1, run.spec.grid.frames, 25, 3)
        z[name] = np.abs(x_nTJC[:, :, 8, 2] - x_nTJC[:, :, 4, 2]).max()
    assert z["aligned"] < 1e-5 < z["plain"]


def test_training_sees_aligned_clips(trainer):
    view = trainer("mamp", **{"train.align": "frames"}).views(0)["clip"]
    assert view.x_RTJC[:, :, 20].abs().max() < 1e-5
