"""A protocol that needs the encoder gets a new copy each time, with clips as views and without test labels."""

import numpy as np
import pytest

from skelbench.core.errors import SkelbenchError
from skelbench.evaluation.outcomes import predictions
from skelbench.pipeline.evaluate import eval_spec, evaluate
from skelbench.pipeline.pretrain import pretrain
from skelbench.plugin.host import Host

PROTOCOL = """
import numpy as np
import torch
from skelbench.evaluation.downstream import EncoderProtocol
from skelbench.evaluation.protocol import ProtocolResult
from skelbench.plugin import ProtocolSpec, hookimpl

class Centroids(EncoderProtocol):
    draws: int = 1
    wrong: bool = False
    order: str = "as given"

    def evaluate_encoder(self, task, seed, device, progress=None):
        first, encoder = task.encoder(True), task.encoder(True)
        with torch.no_grad():
            for p in first.parameters():
                p.zero_()
        source, builder = task.source(), task.builder()
        with torch.no_grad():
            x, test = (task.clip_features(encoder, task.views(source, builder, ids)).numpy()
                       for ids in (task.train_ids, task.test_ids))
        means = np.stack([x[task.train_y == c].mean(0) for c in range(task.num_classes)])
        scores = -((test[:, None] - means) ** 2).sum(2)
        frozen = task.features(encoder)
        assert np.allclose(frozen.train_x, x, atol=1e-5) and np.allclose(frozen.test_x, test, atol=1e-5)
        task.state.write_bytes(b"half of it")
        if self.draws > 1:
            scores = np.stack([np.roll(scores, d, axis=1) for d in range(self.draws)])
        metrics, predictions = task.score(scores)
        if self.order == "reversed":
            predictions = {name: x[..., ::-1] for name, x in predictions.items()}
        if self.order == "others":
            predictions = {**predictions, "ids": predictions["ids"] + 1}
        return ProtocolResult({} if self.wrong else metrics, predictions)

@hookimpl
def skelbench_protocols():
    return [ProtocolSpec(name="centroids", target=":Centroids")]
"""


@pytest.fixture
def host(tmp_path):
    (tmp_path / "centroids.py").write_text(PROTOCOL)
    return Host([tmp_path / "centroids.py"])


@pytest.fixture
def measured(session, resolved, host):
    """``measured(**settings)``: run and record by the protocol with these settings."""
    made = resolved("dino", epochs=1)
    run = pretrain(session, made)

    def measure(**config):
        return run, evaluate(session, run, eval_spec(host, made, "centroids", config=config))

    return measure


def test_every_evaluation_gets_a_new_encoder_and_is_recorded(measured):
    run, record = measured()
    assert record["metrics"]["n_test"] == record["clips"]["test"] > 0
    found = predictions(run, record)
    assert found["correct"].mean() == record["metrics"]["accuracy"]
    assert found["subjects"].shape == found["ids"].shape
    assert not list(run.path.glob("*.state"))


def test_subjects_are_those_of_the_clips_in_the_order_of_the_predictions(measured):
    run, record = measured()
    _, reversed_record = measured(order="reversed")
    first, second = predictions(run, record), predictions(run, reversed_record)
    assert np.array_equal(first["subjects"], second["subjects"][::-1]) and len(set(first["subjects"])) > 1
    with pytest.raises(SkelbenchError, match="predictions of other clips than the test clips"):
        measured(order="others")


def test_wrong_results_of_a_protocol_are_errors(measured):
    with pytest.raises(SkelbenchError, match="evaluate_encoder: .*no metric 'accuracy'"):
        measured(wrong=True)


def test_labels_of_test_clips_do_not_affect_results(session, resolved, host, monkeypatch):
    """The same clips are training clips of the same classes, whatever the labels of the test side."""
    made = resolved("dino", epochs=1)
    run = pretrain(session, made)
    store, spec = made.store, eval_spec(host, made, "centroids")
    before = predictions(run, evaluate(session, run, spec))
    labels = store.labels.copy()
    labels[before["ids"]] = (labels[before["ids"]] + 1) % store.num_classes
    store.__dict__["labels"] = labels  # a cached property
    monkeypatch.setattr("skelbench.pipeline.evaluate.clips_of", lambda *_: store)
    changed = predictions(run, evaluate(session, run, spec, force=True))
    assert np.array_equal(before["predicted"], changed["predicted"])
    assert not np.array_equal(before["labels"], changed["labels"])
