"""Checks of evaluation protocols on generated features (or clips and an encoder) with known results.

n clips, D width, C classes.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from skelbench.core.spec import DataSpec, EvalSpec, validated
from skelbench.evaluation.downstream import EncoderProtocol
from skelbench.evaluation.protocol import Features, Protocol, ProtocolResult, result_problem
from skelbench.evaluation.stats.paired import wilson
from skelbench.plugin.descriptors import Descriptor, ProtocolSpec
from skelbench.plugin.host import Host
from skelbench.testing.check import Check, Failed
from skelbench.testing.downstream import Postures
from skelbench.testing.settings import check_presets, check_settings, check_summary

CLASSES, WIDTH, TRAIN, TEST = 4, 192, 400, 200
CONFIDENCE = 0.9999
"""Confidence of the interval around chance; draws are fixed, so a protocol fails always or never."""


def made_features(separation: float = 1.0, seed: int = 0) -> Features:
    """Features around one corner of a hypercube per class; with ``separation`` 0 features are unrelated to classes."""
    rng = np.random.default_rng(seed)
    center_CD = separation * rng.choice((-1.0, 1.0), (CLASSES, WIDTH))
    y = np.concatenate([rng.permutation(np.arange(count) % CLASSES) for count in (TRAIN, TEST)])
    x = (center_CD[y] + 0.1 * rng.normal(size=(len(y), WIDTH))).astype(np.float32)
    ids = 10 + rng.permutation(4 * len(y))[: len(y)]

    def again(
        keyed: Any, crop: Any, augment: Any, dropout: float = 0.0, progress: Any = None, noisy: bool = False
    ) -> np.ndarray:
        """Training features of an augmented pass: moved a little by clip."""
        if progress:
            progress(TRAIN, TRAIN)
        return (x[:TRAIN] + 0.05 * keyed.normal(ids[:TRAIN], WIDTH).numpy()).astype(np.float32)

    sides = x[:TRAIN], y[:TRAIN], x[TRAIN:], y[TRAIN:], ids[:TRAIN], ids[TRAIN:]
    return Features(*sides, num_classes=CLASSES, again=again)


@dataclass
class ProtocolSubject:
    """A protocol with its settings, and its results.

    A protocol that needs the encoder gets clips of postures: only ids and labels of its ``Features`` count.
    """

    host: Host
    descriptor: Descriptor
    settings: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def protocol(self) -> Any:
        """Protocol with :attr:`settings`."""
        return validated(self.host.load(self.descriptor), self.settings, self.descriptor.name)

    @property
    def on_encoder(self) -> bool:
        """Whether it needs the encoder itself."""
        return isinstance(self.protocol, EncoderProtocol)

    @cached_property
    def _folder(self) -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory(prefix="skelbench-check-")

    @cached_property
    def postures(self) -> Postures:
        """Clips and an encoder."""
        return Postures(Path(self._folder.name), self.descriptor)

    def make(self, separable: bool = True) -> Features:
        """Return features (or clips) whose classes are far apart, or unrelated to them."""
        if self.on_encoder:
            return self.postures.sides(separable)
        return made_features() if separable else made_features(separation=0.0, seed=2)

    @cached_property
    def result(self) -> ProtocolResult:
        """Result for features whose classes are far apart."""
        return self.run(self.make())

    @cached_property
    def noise(self) -> ProtocolResult:
        """Result for features that are unrelated to classes, where any influence changes predictions."""
        return self.run(self.make(separable=False))

    def run(self, features: Features, device: str = "cpu") -> ProtocolResult:
        """Evaluate."""
        if self.on_encoder:
            return self.protocol.evaluate_encoder(self.postures.task(features), 0, device)
        return self.protocol.evaluate(features, 0, device)

    def predicted(self, features: Features, global_seed: int = 0) -> np.ndarray:
        """Return predictions with another state of PyTorch's global generator."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(global_seed)
            return self.run(features).predictions["predicted"]


def form(subject: ProtocolSubject) -> None:
    descriptor = subject.descriptor
    check_summary(descriptor)
    cls = subject.host.subclass(descriptor, Protocol)
    assert isinstance(descriptor, ProtocolSpec)
    data = DataSpec(name="moves", split="half", fingerprint="0" * 64)
    values = {"pretrain_id": "0" * 12, "data": data, "protocol": descriptor.name, **descriptor.defaults}
    validated(EvalSpec, values, "an evaluation")
    check_presets(cls, descriptor.presets)
    check_settings(cls, dict(subject.settings), descriptor.name)


def result(subject: ProtocolSubject) -> None:
    """Check that metrics and predictions have the form that an evaluation requires."""
    features = subject.make()
    for case in (subject.result, subject.noise):
        if not isinstance(case, ProtocolResult):
            raise Failed("a ProtocolResult", f"a {type(case).__name__}", "the end of evaluate")
        if problem := result_problem(case, len(features.test_ids)):
            raise Failed("a result that an evaluation takes", f"evaluate {problem}", "ProtocolResult")
        for name, value in case.metrics.items():
            if not math.isfinite(value) or ("accuracy" in name and not 0 <= value <= 1):
                raise Failed("finite metrics, accuracies in [0, 1]", f"{name} is {value}", "metrics of the result")
        correct = float((case.predictions["predicted"] == case.predictions["labels"]).mean())
        if abs(correct - case.metrics["accuracy"]) > 1e-9:
            raise Failed("accuracy of the predictions", f"{case.metrics['accuracy']}, of them {correct}", "predictions")
    for name, expected in (("ids", features.test_ids), ("labels", features.test_y)):
        if not np.array_equal(subject.result.predictions[name], expected):
            look = "skelbench.evaluation.protocol.classified"
            raise Failed(f"{name} of the predictions in the order of the test clips", "another order", look)


def separable(subject: ProtocolSubject) -> None:
    accuracy = subject.result.metrics["accuracy"]
    if accuracy < 1:
        look = "whether clips and labels stay together, and training length"
        raise Failed("accuracy 1 where classes are far apart", f"accuracy {accuracy:.3f}", look)


def no_signal(subject: ProtocolSubject) -> None:
    accuracy, clips = subject.noise.metrics["accuracy"], len(subject.noise.predictions["ids"])
    low, high = wilson(round(clips * accuracy), clips, CONFIDENCE)
    if not low <= 1 / CLASSES <= high:
        expected = f"accuracy near {1 / CLASSES:g}, chance, where features say nothing of classes"
        raise Failed(expected, f"{accuracy:.3f}", "labels of test clips, or ids, that predictions depend on")


def repeatable(subject: ProtocolSubject) -> None:
    for is_separable, expected in ((True, subject.result), (False, subject.noise)):
        features, before = subject.make(is_separable), subject.make(is_separable)
        if changed := int((subject.predicted(features, 1) != expected.predictions["predicted"]).sum()):
            look = "random numbers of a global generator: make a generator from seed"
            raise Failed("the same predictions from the same seed", f"{changed} differ", look)
        for side in ("train_x", "train_y", "test_x", "test_y"):
            if not np.array_equal(getattr(features, side), getattr(before, side)):
                raise Failed("features as they were", f"evaluate changed features.{side}", "operations in place")


def labels_unseen(subject: ProtocolSubject) -> None:
    features = subject.make(separable=False)
    relabeled = replace(features, test_y=np.random.default_rng(6).permutation(features.test_y))
    before, after = subject.predicted(features), subject.predicted(relabeled)
    if (before != after).any():
        expected = "predictions that do not depend on the labels of test clips"
        message = f"{(before != after).sum()} of {before.size} change when labels are permuted"
        raise Failed(expected, message, "task.store.labels" if subject.on_encoder else "features.test_y")


def test_apart(subject: ProtocolSubject) -> None:
    features = subject.make(separable=False)
    expected = subject.predicted(features)
    order = np.random.default_rng(7).permutation(len(features.test_ids))
    for change, chosen in (("order of test clips", order), ("other test clips", np.arange(0, len(order), 2))):
        names = "test_x", "test_y", "test_ids"
        part = replace(features, **{name: getattr(features, name)[chosen] for name in names})
        if changed := int((subject.predicted(part) != expected[..., chosen]).sum()):
            message, look = f"{changed} depend on the {change}", "statistics, which are of training clips only"
            raise Failed("a prediction that depends on its own clip", message, look)


def kit(kind: str, host: Host, descriptor: Descriptor) -> tuple[ProtocolSubject, Sequence[Check[ProtocolSubject]]]:
    """Return the subject of the checks of a protocol, and the checks."""
    return ProtocolSubject(host, descriptor), CHECKS


CHECKS: tuple[Check[ProtocolSubject], ...] = (
    Check("form", "it derives from Protocol, its settings survive a record, an evaluation takes its defaults", form),
    Check("result", "metrics and predictions have the form that an evaluation takes", result),
    Check("separable", "classes that are far apart are all recognized", separable),
    Check("no-signal", "features unrelated to classes give chance level", no_signal),
    Check("labels-unseen", "labels of test clips change no prediction", labels_unseen),
    Check("test-apart", "the prediction of a test clip depends on this clip only", test_apart),
    Check("repeatable", "the same seed gives the same result, and the features stay as they are", repeatable),
)
