"""Errors that are known before the first step come before it."""

import pytest
from small import write_small_store

from skelbench.cli.main import main
from skelbench.core.errors import SkelbenchError
from skelbench.pipeline.controls import check_protocols
from skelbench.pipeline.evaluate import protocol_class


def test_a_probe_that_cannot_evaluate_is_rejected_before_training(tmp_path, capsys):
    write_small_store(tmp_path)
    places = ["--data-root", str(tmp_path), "--results", str(tmp_path / "results"), "--dataset", "small"]
    assert main(["run", "slim", "--preset", "quick", "--tokens", "8", "--probe", "knn@20", *places]) == 2
    message = "k = 20 neighbors were requested but the gallery has 12 clips"
    assert message in capsys.readouterr().err.replace("\n", " ")
    assert not list((tmp_path / "results").glob("*/run.json"))


def test_a_dataset_with_one_class_is_rejected(resolved, session, monkeypatch):
    check_protocols(session, resolved("slim"), ["knn", "knn@5", "linear", "finetune"])
    for name in ("knn", "linear", "linear-swept", "finetune"):
        with pytest.raises(SkelbenchError, match="at least 2 classes"):
            protocol_class(session.host, name)().check(12, 12, 1)


def test_a_queue_of_many_times_the_clips_is_a_warning_with_the_number(resolved):
    assert not [note for note in resolved("skeletonclr", **{"method.queue": 8}).notes if "queue" in note]
    large = resolved("skeletonclr", epochs=8, **{"method.queue": 60})
    (note,) = [note for note in large.notes if "queue" in note]
    assert "the queue of 60 keys is 5.0 times the 12 training clips, so about 5 negatives of each clip" in note
