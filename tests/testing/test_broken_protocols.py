"""Each check of protocols fails a protocol that is broken in that one respect, and says what to mend."""

import re
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
import torch

from skelbench.evaluate.knn import Knn
from skelbench.evaluate.protocol import accuracy_metrics, prediction_arrays
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


class Throws(Changed):
    def predicted(self, features, predicted):
        next(SERIAL)
        return np.roll(predicted, int(torch.randint(1, 1000, ())))


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


class Loose(Knn):
    model_config = Knn.model_config | {"extra": "ignore"}


BROKEN = {
    "announcement": (Knn, "a summary, which .* seen: summary is empty"),
    "form": (Knn, "fields of an evaluation: .* seen: reedout"),
    "settings": (Loose, "no_such_setting=1 was taken"),
    "separable": (Off, "accuracy 1 where classes lie far apart; seen: accuracy 0.000"),
    "no-signal": (Peeks, "accuracy near 0.25, chance, of features that tell nothing; seen: 1.000"),
    "permuted-labels": (Peeks, "when labels of the test clips are permuted; seen: 1.000"),
    "labels-unseen": (Peeks, "of 200 change when these are permuted; look at every use of features.test_y"),
    "test-apart": (Transduces, "predictions hang on the order of test clips"),
    "repeatable": (Throws, "random numbers from a global generator"),
    "in-order": (Sorted, "ids of the predictions in the order of the test clips; seen: another order"),
    "metrics": (Percent, "shares in .*; seen: accuracy is 100.0"),
    "repeated-clips": (ById, "accuracy 1 with every training clip twice; seen: 0"),
    "missing-class": (EveryClass, "macro_accuracy is nan; look at means over classes"),
    "damaged": (Augments, "check it with np.isfinite"),
    "progress": (Backwards, "progress that never goes back; seen: 1 after 2"),
    "no-trace": (Greedy, "evaluate changed features.train_x"),
    "fusion": (Unfused, "two streams that both tell classes apart; seen: accuracy 0.250"),
}


@pytest.mark.parametrize(("name", "cls", "said"), [(name, *case) for name, case in BROKEN.items()], ids=BROKEN)
def test_what_is_broken_is_found_and_said(name, cls, said, checked):
    target = f"{cls.__module__}:{cls.__name__}"
    defaults = {"reedout": "joints"} if name == "form" else {}
    result = checked("protocols", ProtocolSpec(name="broken", target=target, defaults=defaults), name)
    assert result.state == "failed" and re.search(said, result.sentence), result


def test_there_is_a_broken_protocol_for_every_check():
    assert set(BROKEN) == {check.name for check in CHECKS}
