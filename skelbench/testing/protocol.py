"""Checks of evaluation protocols, on features, or clips and an encoder, made so that the right answer is known.

n clips, D width, C classes.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch

from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import DataSpec, EvalSpec, validated
from skelbench.evaluation.downstream import EncoderProtocol
from skelbench.evaluation.protocol import Features, Protocol, ProtocolResult, result_problem
from skelbench.evaluation.stats.paired import wilson
from skelbench.plugin.descriptors import Descriptor
from skelbench.plugin.host import Host
from skelbench.plugin.plugin_errors import Mistake
from skelbench.testing.announcement import announcement
from skelbench.testing.check import Check, Failed, Skipped
from skelbench.testing.downstream import Postures
from skelbench.testing.fake_cuda import DEVICE, fake_cuda
from skelbench.testing.settings import check_presets, check_settings

CLASSES, WIDTH, TRAIN, TEST = 4, 192, 400, 200
CONFIDENCE = 0.9999
"""Of the interval around chance: the draws are fixed, so a protocol that fails does so every time."""
CHANCE = 1 / CLASSES


def made_features(separation: float = 1.0, seed: int = 0, asked: list[int] | None = None) -> Features:
    """Features around corners of a hypercube, one of each class, all alike often; ``separation`` 0: nothing tells
    classes apart. ``asked`` gets an entry for each augmented pass."""
    rng = np.random.default_rng(seed)
    centre_CD = separation * rng.choice((-1.0, 1.0), (CLASSES, WIDTH))
    y = np.concatenate([rng.permutation(np.arange(count) % CLASSES) for count in (TRAIN, TEST)])
    x = (centre_CD[y] + 0.1 * rng.normal(size=(len(y), WIDTH))).astype(np.float32)
    ids = 10 + rng.permutation(4 * len(y))[: len(y)]

    def again(
        keyed: Any, crop: Any, augment: Any, dropout: float = 0.0, progress: Any = None, noisy: bool = False
    ) -> np.ndarray:
        """The training features a little moved by clip, as augmentation moves them."""
        if asked is not None:
            asked.append(1)
        if progress:
            progress(TRAIN // 2, TRAIN)
            progress(TRAIN, TRAIN)
        return (x[:TRAIN] + 0.05 * keyed.normal(ids[:TRAIN], WIDTH).numpy()).astype(np.float32)

    sides = x[:TRAIN], y[:TRAIN], x[TRAIN:], y[TRAIN:], ids[:TRAIN], ids[TRAIN:]
    return Features(*sides, num_classes=CLASSES, again=again)


@dataclass
class ProtocolSubject:
    """A protocol with its own settings, and what it made of features whose classes lie far apart.

    One that asks for the encoder gets clips of postures in their place: of its ``Features`` ids and labels count.
    """

    host: Host
    descriptor: Descriptor
    settings: Mapping[str, Any] = field(default_factory=dict)
    asked: list[int] = field(default_factory=list)
    """One entry for each augmented pass that it took."""
    told: list[tuple[int, int]] = field(default_factory=list)
    """What :attr:`result` said of its progress."""
    strict: bool = False
    """Whether on a GPU it may wait only where it says so (:func:`skelbench.views.transfer.waiting`)."""

    @cached_property
    def cls(self) -> Any:
        """What the target names."""
        return self.host.load(self.descriptor)

    @cached_property
    def protocol(self) -> Protocol:
        """With ``settings``."""
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
        """Clips, and an encoder, of a protocol that asks for it; they lie in a folder that goes with this subject."""
        return Postures(Path(self._folder.name), self.descriptor)

    @cached_property
    def features(self) -> Features:
        """Classes that lie far apart."""
        return self.postures.sides() if self.on_encoder else made_features(asked=self.asked)

    @cached_property
    def result(self) -> ProtocolResult:
        """Of :attr:`features`."""
        return self.run(self.features, progress=lambda done, total: self.told.append((done, total)))

    @cached_property
    def again(self) -> tuple[ProtocolResult, list[str]]:
        """The same with another global seed, and what that left changed."""
        copies = [self.postures.sides() if self.on_encoder else made_features() for _ in range(2)]
        (features, copy), before = copies, _global_state()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            result = self.run(features)
        sides = ("train_x", "train_y", "test_x", "test_y")
        changed = [f"features.{side}" for side in sides if (getattr(features, side) != getattr(copy, side)).any()]
        return result, changed + [name for name, value in _global_state().items() if value != before[name]]

    @cached_property
    def permuted(self) -> ProtocolResult:
        """Of the same clips, the labels of test clips permuted."""
        labels = np.random.default_rng(5).permutation(self.features.test_y)
        return self.run(replace(self.features, test_y=labels))

    @cached_property
    def untold(self) -> Features:
        """What tells nothing of its classes: there every choice is another prediction."""
        return self.postures.sides(told=False) if self.on_encoder else made_features(separation=0.0, seed=2)

    @cached_property
    def noise(self) -> ProtocolResult:
        """Of :attr:`untold`."""
        return self.run(self.untold)

    @cached_property
    def relabelled(self) -> np.ndarray:
        """Predictions of :attr:`untold`, the labels of its test clips permuted, with another global seed."""
        labels = np.random.default_rng(6).permutation(self.untold.test_y)
        return self._elsewhere(replace(self.untold, test_y=labels))

    @cached_property
    def draws(self) -> bool:
        """Whether predictions of :attr:`untold` depend on a global generator."""
        ours = self.noise.predictions["predicted"].ravel()
        return not np.array_equal(ours, self.relabelled) and not np.array_equal(ours, self._elsewhere(self.untold))

    def _elsewhere(self, features: Features) -> np.ndarray:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            return self.run(features).predictions["predicted"].ravel()

    def run(self, features: Features, seed: int = 0, device: str = "cpu", **more: Any) -> ProtocolResult:
        """Evaluate."""
        protocol: Any = self.protocol
        if self.on_encoder:
            result = protocol.evaluate_encoder(self.postures.task(features, device), seed, device, **more)
        else:
            result = protocol.evaluate(features, seed, device, **more)
        if not isinstance(result, ProtocolResult):
            name = "evaluate_encoder" if self.on_encoder else "evaluate"
            raise Failed(f"{name} returns a ProtocolResult", f"a {type(result).__name__}", f"the end of {name}")
        if "accuracy" not in result.metrics:
            raise Failed("metrics with accuracy, the headline", f"{sorted(result.metrics)}", "metrics of the result")
        if missing := {"ids", "labels", "predicted"} - result.predictions.keys():
            look = "skelbench.evaluation.protocol.prediction_arrays"
            raise Failed("predictions with ids, labels and predicted", f"no {sorted(missing)[0]}", look)
        return result


def form(subject: ProtocolSubject) -> None:
    cls = subject.cls
    if not (isinstance(cls, type) and issubclass(cls, Protocol)):
        raise Failed("a subclass of skelbench.evaluation.protocol.Protocol", f"{cls!r}", "target of its ProtocolSpec")
    for name in getattr(subject.descriptor, "defaults", {}):
        if name not in EvalSpec.model_fields:
            near = ", ".join(EvalSpec.model_fields)
            raise Failed(f"defaults that are fields of an evaluation: {near}", name, "defaults of its ProtocolSpec")
    try:
        data = DataSpec(name="moves", split="half", fingerprint="0" * 64)
        own = {"pretrain_id": "0" * 12, "data": data, "protocol": subject.descriptor.name}
        validated(EvalSpec, own | dict(getattr(subject.descriptor, "defaults", {})), "an evaluation")
    except SkelbenchError as error:
        raise Failed("defaults that an evaluation takes", str(error), "defaults of its ProtocolSpec") from error
    check_presets(cls, getattr(subject.descriptor, "presets", {}), "presets of its ProtocolSpec")


def settings(subject: ProtocolSubject) -> None:
    check_settings(subject.cls, dict(subject.settings), subject.descriptor.name)


def separable(subject: ProtocolSubject) -> None:
    accuracy = subject.result.metrics["accuracy"]
    if accuracy < 1:
        wrong = f"accuracy {accuracy:.3f}"
        look = "whether clips and labels stay together, and whether the probe is trained long enough"
        raise Failed("accuracy 1 where classes lie far apart", wrong, look)


def _at_chance(result: ProtocolResult, what: str, look: str) -> None:
    accuracy, clips = result.metrics["accuracy"], len(result.predictions["ids"])
    low, high = wilson(round(clips * accuracy), clips, CONFIDENCE)
    if not low <= CHANCE <= high:
        raise Failed(f"accuracy near {CHANCE:g}, chance, {what}", f"{accuracy:.3f}", look)


def no_signal(subject: ProtocolSubject) -> None:
    what = "where labels have nothing to do with clips" if subject.on_encoder else "of features that tell nothing"
    _at_chance(subject.noise, what, "what else the probe may look at: ids?")


def permuted_labels(subject: ProtocolSubject) -> None:
    what = "when labels of the test clips are permuted"
    _at_chance(subject.permuted, what, "whether accuracy is of test clips by id")


def labels_unseen(subject: ProtocolSubject) -> None:
    ours, theirs, untold = (
        result.predictions["predicted"].ravel() for result in (subject.result, subject.permuted, subject.noise)
    )
    changed = np.concatenate([ours != theirs, (untold != subject.relabelled) & (not subject.draws)])
    if changed.any():
        where = "task.store.labels" if subject.on_encoder else "features.test_y"
        raise Failed(
            "predictions that do not depend on the labels of test clips",
            f"{changed.sum()} of {changed.size} change when these are permuted",
            f"every use of {where}: it may measure, never choose (a checkpoint, a setting)",
        )


def repeatable(subject: ProtocolSubject) -> None:
    first, (again, _) = subject.result, subject.again
    look = "random numbers from a global generator: make one of your own from seed"
    if subject.on_encoder:
        look += "; with modules that draw (dropout), torch.manual_seed within torch.random.fork_rng"
    for name, value in first.metrics.items():
        if again.metrics.get(name) != value:
            raise Failed("the same metrics from the same seed", f"{name}: {value} and {again.metrics.get(name)}", look)
    if not np.array_equal(first.predictions["predicted"], again.predictions["predicted"]) or subject.draws:
        raise Failed("the same predictions from the same seed", "they differ", look)


def in_order(subject: ProtocolSubject) -> None:
    features, predictions = subject.features, subject.result.predictions
    for name, expected in (("ids", features.test_ids), ("labels", features.test_y)):
        if not np.array_equal(predictions[name], expected):
            look = "skelbench.evaluation.protocol.prediction_arrays, which keeps the order of features.test_ids"
            raise Failed(f"{name} of the predictions in the order of the test clips", "another order", look)
    predicted = np.asarray(predictions["predicted"])
    clips = len(features.test_ids)
    if predicted.dtype != np.int64 or predicted.ndim > 2 or predicted.shape[-1:] != (clips,):
        seen = f"{predicted.dtype} {list(predicted.shape)}"
        wanted = f"predicted classes as int64 [{clips}], or [draws, {clips}]"
        raise Failed(wanted, seen, "predictions of the result")
    if ((predicted < 0) | (predicted >= features.num_classes)).any():
        raise Failed(f"classes 0 to {CLASSES - 1}", f"{predicted.min()} to {predicted.max()}", "predicted")


def metrics(subject: ProtocolSubject) -> None:
    for result in (subject.result, subject.noise):
        for name, value in result.metrics.items():
            if not isinstance(value, Real) or not math.isfinite(value):
                raise Failed("metrics that are finite numbers", f"{name} is {value!r}", "metrics of the result")
            if "accuracy" in name and not 0 <= value <= 1:
                raise Failed("accuracies that are shares in [0, 1]", f"{name} is {value}", "metrics of the result")
        if problem := result_problem(result, len(subject.features.test_ids)):
            raise Failed("a result that an evaluation takes", f"evaluate {problem}", "ProtocolResult")
        right = float((result.predictions["predicted"] == result.predictions["labels"]).mean())
        if abs(right - result.metrics["accuracy"]) > 1e-9:
            look = "predictions, which must be those of the headline and not of another checkpoint"
            raise Failed("accuracy of the predictions", f"{result.metrics['accuracy']}, of them {right}", look)


def _of_test_clips(features: Features, chosen: np.ndarray) -> Features:
    """With these test clips alone, in this order (a mask, or their rows)."""
    test = {"test_x": features.test_x, "test_y": features.test_y, "test_ids": features.test_ids}
    return replace(features, **{name: values[chosen] for name, values in test.items()})


def shuffled(subject: ProtocolSubject) -> None:
    features = subject.features
    order = np.random.default_rng(7).permutation(len(features.test_ids))
    predicted = subject.run(_of_test_clips(features, order)).predictions["predicted"]
    changed = int((predicted != subject.result.predictions["predicted"][..., order]).sum())
    look = "test clips that are learnt from: normalise, and fit, by the training clips alone"
    if changed:
        raise Failed("a test clip is judged by itself", f"{changed} predictions hang on the order of test clips", look)
    alike = features.test_y == 0
    predicted = subject.run(_of_test_clips(features, alike)).predictions["predicted"]
    if changed := int((predicted != subject.result.predictions["predicted"][..., alike]).sum()):
        raise Failed("a test clip is judged by itself", f"{changed} predictions hang on the other test clips", look)
    if subject.on_encoder:
        return
    # Where nothing is told of classes a little of the others moves many predictions.
    untold, generator = subject.untold, np.random.default_rng(8)
    test_x, others = untold.test_x.copy(), np.arange(len(untold.test_x)) % 2 == 1
    test_x[others] *= generator.uniform(1, 100, (1, test_x.shape[1])).astype(np.float32)
    predicted = subject.run(replace(untold, test_x=test_x)).predictions["predicted"]
    if changed := int((predicted != subject.noise.predictions["predicted"])[..., ~others].sum()):
        raise Failed("a test clip is judged by itself", f"{changed} predictions hang on the other test clips", look)


def repeated_clips(subject: ProtocolSubject) -> None:
    features = subject.features
    twice: dict[str, Any] = {
        f"train_{name}": np.concatenate([getattr(features, f"train_{name}")] * 2) for name in ("x", "y", "ids")
    }

    def both(*arguments: Any, **options: Any) -> np.ndarray:
        assert features.again is not None  # as all made features have it
        return np.concatenate([features.again(*arguments, **options)] * 2)

    accuracy = subject.run(replace(features, **twice, again=both)).metrics["accuracy"]
    if accuracy < 1:
        raise Failed(
            "accuracy 1 with every training clip twice", f"{accuracy:.3f}", "how clips are found: by row, not id"
        )


def missing_class(subject: ProtocolSubject) -> None:
    features = subject.features
    kept = features.test_y != CLASSES - 1
    result = subject.run(_of_test_clips(features, kept))
    for name, value in result.metrics.items():
        if not math.isfinite(value):
            look = "means over classes: only over those that occur"
            raise Failed("finite metrics where a class has no test clip", f"{name} is {value}", look)
    if result.metrics["accuracy"] < 1:
        seen = f"accuracy {result.metrics['accuracy']:.3f}"
        raise Failed("accuracy 1 where classes lie far apart and one has no test clip", seen, "how labels are numbered")


def damaged(subject: ProtocolSubject) -> None:
    assert subject.result  # which took them
    if subject.on_encoder:
        raise Skipped("clips are compared with their checksums when they are read")
    if not subject.asked:
        raise Skipped("it makes no augmented passes; finished features that are nan never reach a protocol")

    def broken(*arguments: Any, **options: Any) -> np.ndarray:
        return np.full((TRAIN, WIDTH), np.nan, dtype=np.float32)

    try:
        subject.run(replace(subject.features, again=broken))
    except SkelbenchError:
        return
    look = "what features.again returns: check it with np.isfinite, or derive from NativeLinear"
    raise Failed("features of an augmented pass that are nan are refused in a sentence", "a result", look)


def progress(subject: ProtocolSubject) -> None:
    assert subject.result  # whose progress it is
    last = 0.0
    for done, total in subject.told:
        if not 0 <= done <= total:
            raise Failed("progress(done, total) with done in 0..total", f"{done} of {total}", "calls of progress")
        if done < last:
            raise Failed(
                "progress that never goes back", f"{done} after {last:g}", "share() of skelbench.evaluation.protocol"
            )
        last = done
    if subject.told and subject.told[-1][0] != subject.told[-1][1]:
        raise Failed("progress that ends complete", "{} of {}".format(*subject.told[-1]), "the last call of progress")


def no_trace(subject: ProtocolSubject) -> None:
    if changed := subject.again[1]:
        look = "operations in place on what torch.from_numpy gives, which shares its memory; torch.set_..."
        raise Failed("features and process as they were", f"evaluate changed {', '.join(changed)}", look)


def _global_state() -> dict[str, Any]:
    return {
        "the number of threads": torch.get_num_threads(),
        "torch's default dtype": torch.get_default_dtype(),
        "grad mode": torch.is_grad_enabled(),
        "deterministic mode": torch.are_deterministic_algorithms_enabled(),
    }


def fusion(subject: ProtocolSubject) -> None:
    if subject.on_encoder:
        raise Skipped("protocols that ask for the encoder look at one stream")
    features = subject.features
    sets = {"joint": features, "bone": replace(features, train_x=-features.train_x, test_x=-features.test_x)}
    again = features.again
    assert again is not None
    sets["bone"] = replace(sets["bone"], again=lambda *arguments, **options: -again(*arguments, **options))
    try:
        result = subject.protocol.fuse(sets, 0, "cpu", None, (1.0, 1.0), "scores")
    except Mistake:
        raise
    except SkelbenchError as error:
        raise Skipped(f"it refuses to sum scores: {error}") from None
    if result.metrics["accuracy"] < 1 or not np.array_equal(result.predictions["ids"], features.test_ids):
        seen = f"accuracy {result.metrics['accuracy']:.3f}"
        raise Failed("accuracy 1 of two streams that both tell classes apart", seen, "scores of the result")


def devices(subject: ProtocolSubject) -> None:
    assert subject.result  # it can be run at all
    brief = {name: 1 for name in ("epochs", "min_steps", "draws") if name in subject.cls.model_fields}
    brief = {name: 1 for name, value in brief.items() if isinstance(getattr(subject.protocol, name), int)}
    few = replace(subject, settings={**subject.settings, **brief})
    with fake_cuda(subject.strict):
        few.run(subject.features, device=str(DEVICE))


CHECKS: tuple[Check[ProtocolSubject], ...] = (
    announcement(summary="which `skelbench plugins list` shows"),
    Check("form", "it derives from Protocol, and its defaults are fields of an evaluation", form),
    Check("settings", "its settings survive a record, and unknown ones are refused", settings),
    Check("separable", "classes that lie far apart are all recognised", separable),
    Check("no-signal", "features that tell nothing give chance", no_signal),
    Check("permuted-labels", "permuted labels of test clips give chance", permuted_labels),
    Check("labels-unseen", "labels of test clips change no prediction", labels_unseen),
    Check("test-apart", "a test clip is judged by itself", shuffled),
    Check("repeatable", "the same seed gives the same result", repeatable),
    Check("in-order", "predictions stand in the order of the test clips", in_order),
    Check("metrics", "metrics are finite, accuracies shares, and accuracy is that of the predictions", metrics),
    Check("repeated-clips", "training clips may occur twice", repeated_clips),
    Check("missing-class", "a class may have no test clip", missing_class),
    Check("damaged", "augmented passes that are nan are refused", damaged),
    Check("progress", "progress never goes back and ends complete", progress),
    Check("no-trace", "it leaves the features and the process as they are", no_trace),
    Check("devices", "on a GPU it mixes no devices", devices),
    Check("fusion", "summed scores of two streams recognise what both do", fusion),
)


def kit(
    host: Host, descriptor: Descriptor, settings: Mapping[str, Any] | None = None
) -> tuple[ProtocolSubject, Sequence[Check[ProtocolSubject]]]:
    """What is checked of a protocol, and its checks. ``settings``: its own, where the defaults take long."""
    return ProtocolSubject(host, descriptor, settings or {}), CHECKS
