"""Checks of evaluation protocols, on made features (or clips and an encoder) whose right answer is known.

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

from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import DataSpec, EvalSpec, validated
from skelbench.evaluation.downstream import EncoderProtocol
from skelbench.evaluation.protocol import Features, Protocol, ProtocolResult, result_problem
from skelbench.evaluation.stats.paired import wilson
from skelbench.plugin.descriptors import Descriptor, ProtocolSpec
from skelbench.plugin.host import Host
from skelbench.testing.check import Check, Failed
from skelbench.testing.downstream import Postures
from skelbench.testing.settings import check_fields, check_presets, check_settings

CLASSES, WIDTH, TRAIN, TEST = 4, 192, 400, 200
CONFIDENCE = 0.9999
"""Confidence of the interval around chance; draws are fixed, so a protocol fails always or never."""


def made_features(separation: float = 1.0, seed: int = 0) -> Features:
    """Features around one corner of a hypercube per class; with ``separation`` 0 features say nothing of classes."""
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

    A protocol that asks for the encoder gets clips of postures: only ids and labels of its ``Features`` count.
    """

    host: Host
    descriptor: Descriptor
    settings: Mapping[str, Any] = field(default_factory=dict)
    calls: list[tuple[int, int]] = field(default_factory=list)
    """Arguments of the calls of ``progress`` by :attr:`result`."""

    @cached_property
    def cls(self) -> Any:
        """Class that the target names."""
        return self.host.load(self.descriptor)

    @cached_property
    def protocol(self) -> Any:
        """Protocol with :attr:`settings`."""
        return validated(self.cls, self.settings, self.descriptor.name)

    @property
    def on_encoder(self) -> bool:
        """Whether it asks for the encoder itself."""
        return isinstance(self.cls, type) and issubclass(self.cls, EncoderProtocol)

    @cached_property
    def _folder(self) -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory(prefix="skelbench-check-")

    @cached_property
    def postures(self) -> Postures:
        """Clips and an encoder."""
        return Postures(Path(self._folder.name), self.descriptor)

    def make(self, separable: bool = True) -> Features:
        """Features (or clips) whose classes are far apart, or unrelated to them."""
        if self.on_encoder:
            return self.postures.sides(separable)
        return made_features() if separable else made_features(separation=0.0, seed=2)

    @cached_property
    def features(self) -> Features:
        """Features whose classes are far apart; no check changes them."""
        return self.make()

    @cached_property
    def result(self) -> ProtocolResult:
        """Result for :attr:`features`."""
        return self.run(self.features, progress=lambda done, total: self.calls.append((done, total)))

    @cached_property
    def noise(self) -> ProtocolResult:
        """Result for features that are unrelated to classes, where any influence changes predictions."""
        return self.run(self.make(separable=False))

    def run(self, features: Features, seed: int = 0, device: str = "cpu", **more: Any) -> ProtocolResult:
        """Evaluate."""
        if self.on_encoder:
            return self.protocol.evaluate_encoder(self.postures.task(features, device), seed, device, **more)
        return self.protocol.evaluate(features, seed, device, **more)

    def predicted(self, features: Features, global_seed: int = 0) -> np.ndarray:
        """Predictions with another state of PyTorch's global generator."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(global_seed)
            return self.run(features).predictions["predicted"]


def form(subject: ProtocolSubject) -> None:
    check_fields(subject.descriptor, {"summary": "which `skelbench plugins list` shows"})
    cls, descriptor = subject.cls, subject.descriptor
    if not (isinstance(cls, type) and issubclass(cls, Protocol)):
        raise Failed("a subclass of skelbench.evaluation.protocol.Protocol", f"{cls!r}", "target of its ProtocolSpec")
    assert isinstance(descriptor, ProtocolSpec)
    data = DataSpec(name="moves", split="half", fingerprint="0" * 64)
    values = {"pretrain_id": "0" * 12, "data": data, "protocol": descriptor.name, **descriptor.defaults}
    try:
        validated(EvalSpec, values, "an evaluation")
    except SkelbenchError as error:
        raise Failed("defaults that an evaluation takes", str(error), "defaults of its ProtocolSpec") from error
    check_presets(cls, descriptor.presets, "presets of its ProtocolSpec")
    check_settings(cls, dict(subject.settings), descriptor.name)


def result(subject: ProtocolSubject) -> None:
    """Metrics, predictions and progress of a result have the form that an evaluation takes."""
    for made in (subject.result, subject.noise):
        if not isinstance(made, ProtocolResult):
            raise Failed("a ProtocolResult", f"a {type(made).__name__}", "the end of evaluate")
        if problem := result_problem(made, len(subject.features.test_ids)):
            raise Failed("a result that an evaluation takes", f"evaluate {problem}", "ProtocolResult")
        for name, value in made.metrics.items():
            if not math.isfinite(value) or ("accuracy" in name and not 0 <= value <= 1):
                raise Failed("finite metrics, accuracies in [0, 1]", f"{name} is {value}", "metrics of the result")
        correct = float((made.predictions["predicted"] == made.predictions["labels"]).mean())
        if abs(correct - made.metrics["accuracy"]) > 1e-9:
            look = "predictions, which must be those of the headline and not of another checkpoint"
            raise Failed("accuracy of the predictions", f"{made.metrics['accuracy']}, of them {correct}", look)
    predictions, features = subject.result.predictions, subject.features
    for name, expected in (("ids", features.test_ids), ("labels", features.test_y)):
        if not np.array_equal(predictions[name], expected):
            look = "skelbench.evaluation.protocol.prediction_arrays, which keeps the order of features.test_ids"
            raise Failed(f"{name} of the predictions in the order of the test clips", "another order", look)
    done = [done for done, _ in subject.calls]
    if subject.calls and (done != sorted(done) or done[-1] != subject.calls[-1][1]):
        raise Failed("progress that never goes back and ends complete", f"{subject.calls[-3:]}", "calls of progress")


def separable(subject: ProtocolSubject) -> None:
    features = subject.features
    present = features.test_y != CLASSES - 1  # one class has no test clip
    for what, made in (
        ("", subject.result),
        (" and one has no test clip", subject.run(_only_test(features, present))),
    ):
        accuracy, values = made.metrics["accuracy"], list(made.metrics.values())
        if accuracy < 1 or not all(map(math.isfinite, values)):
            look = "whether clips and labels stay together, training length, and means over classes"
            seen = f"accuracy {accuracy:.3f}, metrics {values}"
            raise Failed(f"accuracy 1 and finite metrics where classes are far apart{what}", seen, look)


def no_signal(subject: ProtocolSubject) -> None:
    features = subject.features
    permuted = replace(features, test_y=np.random.default_rng(5).permutation(features.test_y))
    for what, made in (
        ("where features say nothing of classes", subject.noise),
        ("where labels of test clips are permuted", subject.run(permuted)),
    ):
        accuracy, clips = made.metrics["accuracy"], len(made.predictions["ids"])
        low, high = wilson(round(clips * accuracy), clips, CONFIDENCE)
        if not low <= 1 / CLASSES <= high:
            look = "labels of test clips, or ids, that predictions depend on"
            raise Failed(f"accuracy near {1 / CLASSES:g}, chance, {what}", f"{accuracy:.3f}", look)


def repeatable(subject: ProtocolSubject) -> None:
    look = "random numbers of a global generator: make a generator from seed"
    look += "; for modules that draw (dropout), torch.manual_seed within torch.random.fork_rng"
    features, noise = subject.make(), subject.make(separable=False)
    for expected, again in ((subject.result, features), (subject.noise, noise)):
        if changed := int((subject.predicted(again, 1) != expected.predictions["predicted"]).sum()):
            raise Failed("the same predictions from the same seed", f"{changed} differ", look)
    for side in ("train_x", "train_y", "test_x", "test_y"):
        if not np.array_equal(getattr(features, side), getattr(subject.make(), side)):
            look = "operations in place on torch.from_numpy, which shares memory"
            raise Failed("features as they were", f"evaluate changed features.{side}", look)


def labels_unseen(subject: ProtocolSubject) -> None:
    untold = subject.make(separable=False)
    relabeled = replace(untold, test_y=np.random.default_rng(6).permutation(untold.test_y))
    before, after = subject.predicted(untold), subject.predicted(relabeled)
    if (before != after).any():
        where = "task.store.labels" if subject.on_encoder else "features.test_y"
        raise Failed(
            "predictions that do not depend on the labels of test clips",
            f"{(before != after).sum()} of {before.size} change when labels are permuted",
            f"every use of {where}: it may measure, never choose (a checkpoint, a setting)",
        )


def _only_test(features: Features, chosen: np.ndarray) -> Features:
    """``features`` with these test clips only, in this order (a mask, or rows)."""
    test = {"test_x": features.test_x, "test_y": features.test_y, "test_ids": features.test_ids}
    return replace(features, **{name: values[chosen] for name, values in test.items()})


def test_apart(subject: ProtocolSubject) -> None:
    look = "test clips that are learned from: normalize and fit with the training clips only"
    untold = subject.make(separable=False)
    expected = subject.predicted(untold)
    order = np.random.default_rng(7).permutation(len(untold.test_ids))
    for what, chosen in (("order of test clips", order), ("other test clips", np.arange(0, len(order), 2))):
        features = _only_test(untold, chosen)
        if changed := int((subject.predicted(features) != expected[..., chosen]).sum()):
            raise Failed("a prediction that depends on its own clip", f"{changed} depend on the {what}", look)


def kit(kind: str, host: Host, descriptor: Descriptor) -> tuple[ProtocolSubject, Sequence[Check[ProtocolSubject]]]:
    """Subject of the checks of a protocol, and the checks."""
    return ProtocolSubject(host, descriptor), CHECKS


CHECKS: tuple[Check[ProtocolSubject], ...] = (
    Check("form", "it derives from Protocol, its settings survive a record, an evaluation takes its defaults", form),
    Check("result", "metrics, predictions and progress have the form that an evaluation takes", result),
    Check("separable", "classes that are far apart are all recognized", separable),
    Check("no-signal", "features that say nothing, or permuted labels, give chance", no_signal),
    Check("labels-unseen", "labels of test clips change no prediction", labels_unseen),
    Check("test-apart", "a test clip is judged by itself", test_apart),
    Check("repeatable", "the same seed gives the same result, and the features stay as they are", repeatable),
)
