"""Each check of protocols fails a protocol that is broken in that one respect, and says what to mend."""

import re
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
import torch
from small import MIXED_DEVICES

from skelbench.evaluation.downstream import EncoderProtocol
from skelbench.evaluation.knn import Knn
from skelbench.evaluation.protocol import ProtocolResult, accuracy_metrics, prediction_arrays
from skelbench.plugin import ProtocolSpec
from skelbench.testing.protocol import CHECKS

SERIAL = count()


class Changed(Knn):
    """Something done to what the nearest neighbours say."""

    def evaluate(self, features, seed, device, progress=None):
        result = super().evaluate(features, seed, device, progress)
        return self.result(features, self.predicted(features, result.predictions["predicted"]), result)

    def predicted(self, features, predicted):
        return predicted

    def result(self, features, predicted, result):
        return replace(
            result, metrics=accuracy_metrics(features, predicted), predictions=prediction_arrays(features, predicted)
        )


class Off(Changed):
    def predicted(self, features, predicted):
        return (predicted + 1) % features.num_classes


class Peeks(Changed):
    def predicted(self, features, predicted):
        return features.test_y


class Transduces(Changed):
    def predicted(self, features, predicted):
        return np.where(np.arange(len(predicted)) < 9, 0, predicted)


class Chooses(Knn):
    """The number of neighbours that is best on test clips, whose features have the mean of test clips taken off."""

    def evaluate(self, features, seed, device, progress=None):
        sides = {f"{side}_x": getattr(features, f"{side}_x") for side in ("train", "test")}
        features = replace(features, **{name: x - x.mean(0) for name, x in sides.items()})
        found = [Knn(k=k).evaluate(features, seed, device, progress) for k in (1, 3, 5, 9, 20)]
        return max(found, key=lambda result: result.metrics["accuracy"])


class Throws(Changed):
    def predicted(self, features, predicted):
        return np.roll(predicted, next(SERIAL))


class Sorted(Changed):
    def result(self, features, predicted, result):
        order = np.argsort(features.test_ids)
        return replace(result, predictions={name: x[order] for name, x in result.predictions.items()})


class Percent(Changed):
    def result(self, features, predicted, result):
        return replace(result, metrics={name: 100 * value for name, value in result.metrics.items()})


class ById(Changed):
    def predicted(self, features, predicted):
        return predicted if len(set(features.train_ids)) == len(features.train_ids) else 0 * predicted


class EveryClass(Changed):
    def result(self, features, predicted, result):
        clips = np.bincount(features.test_y, minlength=features.num_classes)
        with np.errstate(invalid="ignore"):
            hits = np.bincount(features.test_y, weights=predicted == features.test_y, minlength=features.num_classes)
            return replace(result, metrics=result.metrics | {"macro_accuracy": float((hits / clips).mean())})


class Augments(Changed):
    def predicted(self, features, predicted):
        from skelbench.views.crops import Free
        from skelbench.views.keyed import Keyed

        x_nD = features.again(Keyed(0, 0), Free(), ())
        return predicted if len(x_nD) else predicted + 1


class Backwards(Knn):
    def evaluate(self, features, seed, device, progress=None):
        if progress:
            progress(2, 3)
            progress(1, 3)
        return super().evaluate(features, seed, device)


class Greedy(Knn):
    def evaluate(self, features, seed, device, progress=None):
        features.train_x[:] /= np.linalg.norm(features.train_x, axis=1, keepdims=True)
        return super().evaluate(features, seed, device, progress)


class Unfused(Knn):
    def fuse(self, sets, seed, device, progress, weights, summed):
        result = super().fuse(sets, seed, device, progress, weights, summed)
        return result if len(sets) == 1 else replace(result, metrics=result.metrics | {"accuracy": 0.25})


class Mixed(Knn):
    def evaluate(self, features, seed, device, progress=None):
        torch.from_numpy(features.train_x).to(device) @ torch.zeros(features.train_x.shape[1], 1)
        return super().evaluate(features, seed, device, progress)


class Tosses(Knn):
    """Neighbours in a random half of the dimensions, drawn from torch's own generator."""

    def evaluate(self, features, seed, device, progress=None):
        half = torch.randperm(features.train_x.shape[1]).numpy()[::2]
        sides = {f"{side}_x": getattr(features, f"{side}_x")[:, half] for side in ("train", "test")}
        return super().evaluate(replace(features, **sides), seed, device, progress)


class Loose(Knn):
    model_config = Knn.model_config | {"extra": "ignore"}


BROKEN = {
    "announcement": (Knn, "a summary, which .* seen: summary is empty"),
    "form": (Knn, "fields of an evaluation: .* seen: reedout"),
    "settings": (Loose, "no_such_setting=1 was taken"),
    "separable": (Off, "accuracy 1 where classes lie far apart; seen: accuracy 0.000"),
    "no-signal": (Peeks, "accuracy near 0.25, chance, of features that tell nothing; seen: 1.000"),
    "permuted-labels": (Peeks, "when labels of the test clips are permuted; seen: 1.000"),
    "labels-unseen": (Peeks, "of 400 change when these are permuted; look at every use of features.test_y"),
    "test-apart": (Transduces, "predictions hang on the order of test clips"),
    "repeatable": (Throws, "random numbers from a global generator"),
    "in-order": (Sorted, "ids of the predictions in the order of the test clips; seen: another order"),
    "metrics": (Percent, "shares in .*; seen: accuracy is 100.0"),
    "repeated-clips": (ById, "accuracy 1 with every training clip twice; seen: 0"),
    "missing-class": (EveryClass, "macro_accuracy is nan; look at means over classes"),
    "damaged": (Augments, "check it with np.isfinite"),
    "progress": (Backwards, "progress that never goes back; seen: 1 after 2"),
    "no-trace": (Greedy, "evaluate changed features.train_x"),
    "devices": (Mixed, MIXED_DEVICES + r".*; look at .*test_broken_protocols.py, line \d+ \(evaluate\)"),
    "fusion": (Unfused, "two streams that both tell classes apart; seen: accuracy 0.250"),
}


@pytest.mark.parametrize(("name", "cls", "said"), [(name, *case) for name, case in BROKEN.items()], ids=BROKEN)
def test_what_is_broken_is_found_and_said(name, cls, said, checked):
    target = f"{cls.__module__}:{cls.__name__}"
    defaults = {"reedout": "joints"} if name == "form" else {}
    result = checked("protocols", ProtocolSpec(name="broken", target=target, defaults=defaults), name)
    assert result.state == "failed" and re.search(said, result.sentence), result


@pytest.mark.parametrize(
    ("cls", "name", "said"),
    [
        ("Chooses", "labels-unseen", "change when these are permuted; look at every use of features.test_y"),
        ("Chooses", "test-apart", "predictions hang on the other test clips; look at test clips that are learnt from"),
        ("Tosses", "repeatable", "random numbers from a global generator"),
    ],
)
def test_what_changes_nothing_where_classes_lie_far_apart_is_found_too(cls, name, said, checked):
    result = checked("protocols", ProtocolSpec(name="broken", target=f"{__name__}:{cls}"), name)
    assert result.state == "failed" and re.search(said, result.sentence), result


def test_what_is_drawn_is_not_blamed_on_labels(checked):
    result = checked("protocols", ProtocolSpec(name="broken", target=f"{__name__}:Tosses"), "labels-unseen")
    assert result.state == "passed", result.sentence


def test_values_of_defaults_are_what_an_evaluation_takes(checked):
    spec = ProtocolSpec(name="broken", target="skelbench.evaluation.knn:Knn", defaults={"share": 3})
    result = checked("protocols", spec, "form")
    assert result.state == "failed" and re.search("defaults that an evaluation takes; seen: .*share=3", result.sentence)


class Bare(Knn):
    def evaluate(self, features, seed, device, progress=None):
        result = super().evaluate(features, seed, device, progress)
        return replace(result, metrics={"accuracy": result.metrics["accuracy"]})


class Counted(Knn):
    def evaluate(self, features, seed, device, progress=None):
        result = super().evaluate(features, seed, device, progress)
        return replace(result, metrics=result.metrics | {"n_test": len(features.test_y), "episodes": 3})


def test_metrics_are_what_an_evaluation_takes(checked):
    """It wants ``n_test``, and takes whole numbers."""
    bare, counted = (
        checked("protocols", ProtocolSpec(name="made", target=f"{__name__}:{cls.__name__}"), "metrics")
        for cls in (Bare, Counted)
    )
    assert bare.state == "failed" and "returned no metric 'n_test'; accuracy_metrics" in bare.sentence
    assert counted.state == "passed", counted.sentence


def test_there_is_a_broken_protocol_for_every_check():
    assert set(BROKEN) == {check.name for check in CHECKS}


# ------------------------------------------------------------------------------- protocols that ask for the encoder
class Nearest(EncoderProtocol):
    """The most similar training clip by frozen features: right where nothing is done to what it says."""

    def evaluate_encoder(self, task, seed, device, progress=None):
        features = task.features(task.encoder(), progress)
        unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (features.train_x, features.test_x)]
        nearest = features.train_y[(unit[1] @ unit[0].T).argmax(1)]
        return self.result(task, np.eye(task.num_classes)[self.predicted(task, nearest)])

    def predicted(self, task, predicted):
        return predicted

    def result(self, task, scores_nC):
        return ProtocolResult(*task.score(scores_nC))


class NearestOff(Nearest):
    def predicted(self, task, predicted):
        return (predicted + 1) % task.num_classes


class NearestPeeks(Nearest):
    def predicted(self, task, predicted):
        return task.store.labels[task.test_ids]


class NearestThrows(Nearest):
    def predicted(self, task, predicted):
        return np.roll(predicted, next(SERIAL))


class NearestTransduces(Nearest):
    def predicted(self, task, predicted):
        return np.where(np.arange(len(predicted)) < 9, 0, predicted)


class NearestSorted(Nearest):
    def result(self, task, scores_nC):
        metrics, predictions = task.score(scores_nC)
        return ProtocolResult(metrics, {name: x[::-1] for name, x in predictions.items()})


class NearestById(Nearest):
    def predicted(self, task, predicted):
        return predicted if len(set(task.train_ids)) == len(task.train_ids) else 0 * predicted


class NearestPercent(Nearest):
    def result(self, task, scores_nC):
        metrics, predictions = task.score(scores_nC)
        return ProtocolResult({name: 100 * value for name, value in metrics.items()}, dict(predictions))


class NearestUnfinished(Nearest):
    def evaluate_encoder(self, task, seed, device, progress=None):
        if progress:
            progress(1, 3)
        return super().evaluate_encoder(task, seed, device)


class NearestGreedy(Nearest):
    def evaluate_encoder(self, task, seed, device, progress=None):
        torch.use_deterministic_algorithms(not torch.are_deterministic_algorithms_enabled())
        return super().evaluate_encoder(task, seed, device, progress)


BROKEN_ON_ENCODERS = {
    "separable": (NearestOff, "accuracy 1 where classes lie far apart"),
    "no-signal": (NearestPeeks, "where labels have nothing to do with clips; seen: 1.000"),
    "permuted-labels": (NearestPeeks, "when labels of the test clips are permuted; seen: 1.000"),
    "labels-unseen": (NearestPeeks, "look at every use of task.store.labels"),
    "test-apart": (NearestTransduces, "predictions hang on the order of test clips"),
    "repeatable": (NearestThrows, "torch.manual_seed within torch.random.fork_rng"),
    "in-order": (NearestSorted, "ids of the predictions in the order of the test clips; seen: another order"),
    "metrics": (NearestPercent, "shares in .*; seen: accuracy is 100.0"),
    "repeated-clips": (NearestById, "accuracy 1 with every training clip twice; seen: 0"),
    "progress": (NearestUnfinished, "progress that ends complete; seen: 1 of 3"),
    "no-trace": (NearestGreedy, "evaluate changed deterministic mode"),
}


@pytest.fixture
def deterministic_mode():
    before = torch.are_deterministic_algorithms_enabled()
    yield
    torch.use_deterministic_algorithms(before)


@pytest.mark.usefixtures("deterministic_mode")
@pytest.mark.parametrize(
    ("name", "cls", "said"), [(name, *case) for name, case in BROKEN_ON_ENCODERS.items()], ids=BROKEN_ON_ENCODERS
)
def test_what_is_broken_on_encoders_is_found_and_said(name, cls, said, checked):
    target = f"{cls.__module__}:{cls.__name__}"
    result = checked("protocols", ProtocolSpec(name="broken", target=target), name)
    assert result.state == "failed" and re.search(said, result.sentence), result


@pytest.mark.parametrize("name", [check.name for check in CHECKS])
def test_a_protocol_on_the_encoder_passes(name, checked):
    spec = ProtocolSpec(name="nearest", target=f"{__name__}:Nearest", summary="nearest training clip")
    result = checked("protocols", spec, name)
    assert result.state == ("skipped" if name in ("damaged", "fusion") else "passed"), result
