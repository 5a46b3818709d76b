"""Clips with few frames are excluded from training on request."""

import pytest
from small import silent_session, tiny_run, write_small_store

from skelbench.pipeline.evaluate import eval_spec, evaluate
from skelbench.pipeline.pretrain import pretrain


@pytest.fixture
def run(tmp_path, host):
    """``run(**settings)``: a tiny run on 24 clips of 20 to 48 frames, twelve of them for training."""
    write_small_store(tmp_path)
    return lambda **settings: tiny_run(tmp_path, host, epochs=1, **settings)


def test_short_clips_are_excluded_from_training_only_and_counted(run, tmp_path, host):
    plain, fewer = run(), run(**{"data.min_frames": 21})
    assert fewer.notes == ("data.min_frames excludes 2 of 12 training clips, and no test clip",)
    assert fewer.spec.data.title == "small (trained from 21 frames)" and fewer.spec.id != plain.spec.id
    session = silent_session(tmp_path, host, tmp_path / "results")
    done = pretrain(session, fewer)
    assert done.info["train_clips"] == 10
    record = evaluate(session, done, eval_spec(host, fewer, "knn"))
    assert record["clips"] == {"train": 10, "test": 12} and record["spec"]["data"]["min_frames"] == 21
