"""What is known before the first step is said before it."""

import numpy as np
import pytest
from small import write_small_store

from skelbench.cli.main import main
from skelbench.core.errors import SkelbenchError
from skelbench.data.store.splits import FieldRule
from skelbench.data.store.writer import StoreWriter
from skelbench.pipeline.controls import check_protocols
from skelbench.views.skeleton.topology import NTU25


@pytest.mark.parametrize(
    "probe,one_class,message",
    [
        ("knn@20", False, "k = 20 neighbors were requested but the gallery has 12 clips"),
        ("linear", True, "at least 2 classes"),
    ],
)
def test_a_probe_that_cannot_evaluate_is_rejected_before_training(tmp_path, capsys, probe, one_class, message):
    if one_class:
        splits = {"half": FieldRule(field="subject", train="odd")}
        facts = dict(classes=["only"], splits=splits, default_split="half", lineage="made")
        with StoreWriter(tmp_path / "small", topology=NTU25, **facts) as writer:
            for subject in range(4):
                writer.add(np.random.default_rng(subject).normal(size=(1, 20, 25, 3)), 0, subject=subject)
    else:
        write_small_store(tmp_path)
    places = ["--data-root", str(tmp_path), "--results", str(tmp_path / "results")]
    code = main(["run", "slim", "--preset", "quick", "--tokens", "8", "--dataset", "small", "--probe", probe, *places])
    assert code == 2 and message in capsys.readouterr().err.replace("\n", " ")
    assert not list((tmp_path / "results").glob("*/run.json"))


def test_probes_that_can_evaluate_pass(resolved, session):
    check_protocols(session, resolved("slim"), ["knn", "knn@5", "linear", "finetune"])
    with pytest.raises(SkelbenchError, match="gallery has 12 clips"):
        check_protocols(session, resolved("slim"), ["knn", "knn@20"])


def test_a_queue_of_many_times_the_clips_is_a_warning_with_the_number(resolved):
    assert not [note for note in resolved("skeletonclr", **{"method.queue": 8}).notes if "queue" in note]
    large = resolved("skeletonclr", epochs=8, **{"method.queue": 60})
    (note,) = [note for note in large.notes if "queue" in note]
    assert "the queue of 60 keys is 5.0 times the 12 training clips, so about 5 negatives of each clip" in note
