"""The contract of an evaluation protocol: features and labels in, metrics and per-clip predictions out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from skelbench.core.component import Spec
from skelbench.core.errors import SkelbenchError
from skelbench.plugin.plugin_errors import lacking
from skelbench.records.measures import Measure as Measure

if TYPE_CHECKING:
    import torch

Progress = Callable[[int, int], None]
"""``progress(done, total)`` in the protocol's own units; ``total`` may grow."""


def share(progress: Progress | None, part: int, parts: int) -> Progress | None:
    """``progress`` of part number ``part``, from 0, of ``parts`` equally large parts of the work."""
    return progress and (lambda step, total: progress(part * total + step, parts * total))


def advances(report: Callable[..., Any], with_total: bool = False) -> Progress:
    """Function that reports ``(done, total)`` of successive pieces of work as advances of one progress report.

    ``with_total``: there is one piece only, and its total, which may grow, is the report's.
    """
    last = 0

    def progress(step: int, total: int) -> None:
        nonlocal last
        advance = step - last if step >= last else step
        last = 0 if step == total and not with_total else step
        report(advance, **({"total": total} if with_total else {}))

    return progress


Again = Callable[..., np.ndarray]
"""``again(keyed, crop, augment, dropout=0.0, progress=None, noisy=False)``: features like ``train_x`` of another pass
of the frozen encoder over the training clips, cropped and augmented with the draws of ``keyed`` (by clip).

``dropout``: probability of dropout on tokens before they are averaged. ``noisy``: the encoder's own dropout and
stochastic depth stay on. ``progress`` counts clips.
"""


@dataclass(frozen=True)
class Features:
    """Frozen features of one split. Row i of ``*_x`` belongs to ``*_y[i]`` and ``*_ids[i]``.

    Raises :class:`SkelbenchError` for wrong shapes, an empty side, non-finite values, labels out of range, repeated
    test clips, and clips on both sides of the split.

    >>> x, y, ids = np.eye(4, dtype=np.float32), np.array([0, 1, 0, 1]), np.arange(4)
    >>> features = Features(x, y, x[:2], y[:2], ids, ids[:2] + 4, num_classes=2)
    >>> features.train_x.shape, features.test_y
    ((4, 4), array([0, 1]))
    """

    train_x: np.ndarray
    """float32 [n_train, D]."""
    train_y: np.ndarray
    """int64 [n_train], in 0..num_classes-1."""
    test_x: np.ndarray
    """float32 [n_test, D]."""
    test_y: np.ndarray
    """int64 [n_test]."""
    train_ids: np.ndarray
    """int64 [n_train], clip ids in the store."""
    test_ids: np.ndarray
    """int64 [n_test]."""
    num_classes: int
    again: Again | None = None
    """Function for protocols that augment during training; ``None`` = only these features exist."""
    train_subjects: np.ndarray | None = None
    """int64 [n_train], subject of each clip, for protocols that hold whole subjects out; ``None`` = not known."""

    def __post_init__(self) -> None:
        check_classes(self.num_classes)
        for side in ("train", "test"):
            x, y, ids = (np.asarray(getattr(self, f"{side}_{name}")) for name in ("x", "y", "ids"))
            if x.ndim != 2 or y.shape != x.shape[:1] or ids.shape != x.shape[:1]:
                raise SkelbenchError(
                    f"the {side} features must be [n, D] with one label and one clip id per row, "
                    f"but have shapes {x.shape}, {y.shape} and {ids.shape}"
                )
            if not len(x):
                raise SkelbenchError(f"the {side} side of the split is empty; choose another split or dataset")
            finite = np.isfinite(x).all(1)
            if not finite.all():
                raise SkelbenchError(
                    f"{(~finite).sum()} of {len(x)} {side} features are not finite, the first of clip "
                    f"{ids[~finite][0]}; check that clip's data and whether the encoder's training diverged"
                )
            wrong = (y < 0) | (y >= self.num_classes)
            if wrong.any():
                raise SkelbenchError(
                    f"clip {ids[wrong][0]} of the {side} split has label {y[wrong][0]}, outside "
                    f"0..{self.num_classes - 1}; correct the label or the dataset's number of classes"
                )
            for name, array, kind in (("x", x, np.float32), ("y", y, np.int64), ("ids", ids, np.int64)):
                object.__setattr__(self, f"{side}_{name}", np.require(array, kind, ["C", "W"]))
        if self.train_subjects is not None:
            object.__setattr__(self, "train_subjects", np.require(self.train_subjects, np.int64, ["C", "W"]))
        if len(np.unique(self.test_ids)) != len(self.test_ids):
            raise SkelbenchError("some clips occur twice in the test split; list each clip once")
        shared = np.intersect1d(self.train_ids, self.test_ids)
        if len(shared):
            raise SkelbenchError(
                f"{len(shared)} clips are in both the train and the test split, the first is clip {shared[0]}; "
                f"nothing may be trained on test clips, correct the split"
            )


def check_classes(number: int) -> None:
    """Raise SkelbenchError for fewer than two classes."""
    if number < 2:
        raise SkelbenchError(f"a probe needs at least 2 classes, the dataset has {number}")


@dataclass(frozen=True)
class ProtocolResult:
    """Metrics, predictions and notes of one evaluation."""

    metrics: dict[str, float]
    """``accuracy`` is the headline; accuracies are fractions in [0, 1]. Further metrics: see ``Protocol.measures``."""
    predictions: dict[str, np.ndarray]
    """``ids``, ``labels``, ``predicted`` (int64 [n_test]) of the headline, in the order of ``Features.test_ids``. With
    several draws (label subsets, corruptions) ``predicted`` is [draws, n_test] and ``accuracy`` the mean over them."""
    curve: list[dict[str, Any]] = field(default_factory=list)
    """One row per checkpoint of the probe's training; empty where nothing is trained."""
    notes: list[str] = field(default_factory=list)
    """Notes for readers of the metrics."""
    scores: np.ndarray | None = None
    """[n_test, C], probabilities: summed by score fusion."""
    logits: np.ndarray | None = None
    """[n_test, C], in the probe's own scale."""
    details: dict[str, Any] = field(default_factory=dict)
    """Further JSON data of the record, such as hashes of label lists."""


def result_problem(result: Any, clips: int) -> str:
    """Problem of the ``result`` that a protocol returned for ``clips`` test clips; "" = none."""
    if not isinstance(result, ProtocolResult):
        return f"returned {result!r:.60}, not a ProtocolResult(metrics, predictions)"
    if bad := next((name for name, value in result.metrics.items() if not isinstance(value, Real)), ""):
        return f"returned {result.metrics[bad]!r:.60} as metric {bad!r}; metrics are numbers by name"
    for name in ("accuracy", "n_test"):
        if name not in result.metrics:
            return f"returned no metric {name!r}; classified(features, predicted) has what every table needs"
    if not 0 <= result.metrics["accuracy"] <= 1:
        return f"returned an accuracy of {result.metrics['accuracy']:g}; accuracies are in [0, 1]"
    for name in ("ids", "labels", "predicted"):
        shape = np.shape(result.predictions.get(name, ()))
        if shape != (clips,) and not (name == "predicted" and len(shape) == 2 and shape[0] and shape[1] == clips):
            return f"returned predictions[{name!r}] of shape {list(shape)}, not {[clips]}: one for every test clip"
    try:
        json.dumps([result.curve, result.notes, result.details], default=lambda value: value.item())  # numbers of numpy
    except (TypeError, ValueError, AttributeError) as error:
        return f"returned a curve, notes or details that cannot be written as JSON: {error}"
    return ""


class Protocol(Spec):
    """Base class of protocols; the settings of a protocol are its fields.

    >>> class Constant(Protocol):
    ...     label: int = 0
    ...
    ...     def evaluate(self, features, seed, device, progress=None):
    ...         scores_nC = np.eye(features.num_classes)[np.full(len(features.test_y), self.label)]
    ...         return ProtocolResult(*headline(features, scores_nC), scores=scores_nC)
    >>> x, y, ids = np.eye(4, dtype=np.float32), np.array([0, 1, 0, 1]), np.arange(4)
    >>> features = Features(x, y, x[:2], y[:2], ids, ids[:2] + 4, num_classes=2)
    >>> Constant(label=1).evaluate(features, seed=0, device="cpu").metrics["accuracy"]
    0.5
    """

    unit: ClassVar[str] = "steps"
    """Unit of ``progress``."""
    measures: ClassVar[Mapping[str, Measure]] = {}
    """Labels of the protocol's own metrics in tables: ``{"map": Measure("mAP", share=True)}``."""
    drawn: ClassVar[str] = "draws"
    """Name of several draws in tables, such as ``label subsets``."""

    def check(self, train: int, test: int, classes: int) -> None:
        """Reject, before pretraining, numbers of clips and classes that :meth:`evaluate` would reject."""
        check_classes(classes)

    def evaluate(
        self, features: Features, seed: int, device: torch.device | str, progress: Progress | None = None
    ) -> ProtocolResult:
        """Measure ``features``. The same arguments give the same result on the same device and thread count."""
        raise lacking(self, "evaluate(self, features, seed, device, progress=None)")

    def fuse(
        self,
        sets: Mapping[str, Features],
        seed: int,
        device: torch.device | str,
        progress: Progress | None,
        weights: Sequence[float],
        summed: Literal["scores", "logits"],
    ) -> ProtocolResult:
        """Measure each feature set, and the weighted sum of their scores.

        ``accuracy_NAME`` is the accuracy of one set; rows of the curve name their set. "scores" are probabilities,
        because logits of different probes differ in scale; AimCLR's ``ensemble_ntu_cs.py`` sums "logits".
        """
        results: dict[str, ProtocolResult] = {}
        for i, (name, features) in enumerate(sets.items()):
            results[name] = self.evaluate(features, seed, device, share(progress, i, len(sets)))
        terms = [(w, x) for w, r in zip(weights, results.values()) if (x := getattr(r, summed)) is not None]
        if len(terms) < len(results):
            raise SkelbenchError(f"this protocol has no {summed} that could be summed; use --fusion features")
        metrics, predictions = headline(features, np.sum([weight * x_nC for weight, x_nC in terms], axis=0))
        metrics |= {f"accuracy_{name}": result.metrics["accuracy"] for name, result in results.items()}
        curve = [{"set": name, **row} for name, result in results.items() for row in result.curve]
        notes = list(dict.fromkeys(note for result in results.values() for note in result.notes))
        return ProtocolResult(metrics, predictions, curve, notes)


def headline(features: Features, scores_nC: np.ndarray) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Metrics and predictions of ``scores_nC`` of the test clips; ``top5_accuracy`` with 10 or more classes.

    Raises :class:`SkelbenchError` for scores that are not finite.
    """
    sides = features.test_y, features.test_ids, features.num_classes, len(features.train_y)
    return headline_of(scores_nC, *sides)


def headline_of(
    scores: np.ndarray, labels_n: np.ndarray, ids_n: np.ndarray, num_classes: int, n_train: int
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """:func:`headline` of scores [n, C] of the test clips ``ids_n``, or of several draws [draws, n, C]."""
    if scores.shape[-2:] != (len(labels_n), num_classes):
        raise ValueError(
            f"the scores have shape {list(scores.shape)}; a row for each of the {len(labels_n)} test clips and a "
            f"column for each of the {num_classes} classes are expected"
        )
    if not (finite := np.isfinite(scores).reshape(-1, len(labels_n), num_classes).all((0, 2))).all():
        raise SkelbenchError(
            f"the scores of {(~finite).sum()} of {len(finite)} test clips are not finite, the first of clip "
            f"{ids_n[~finite][0]}; lower the learning rate of the probe (--set lr=...), or look for a division by 0"
        )
    predicted = scores.argmax(-1).astype(np.int64)
    metrics = {**accuracies(labels_n, predicted), "n_test": float(len(labels_n)), "n_train": float(n_train)}
    if num_classes >= 10:
        top5 = np.argsort(-scores, axis=-1, kind="stable")[..., :5]
        metrics["top5_accuracy"] = float((top5 == labels_n[:, None]).any(-1).mean(-1).mean())
    return metrics, {"ids": ids_n, "labels": labels_n, "predicted": predicted}


def classified(features: Features, predicted: np.ndarray) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Metrics and predictions of a result, from the ``predicted`` class of every test clip."""
    metrics = accuracies(features.test_y, predicted)
    metrics |= {"n_test": float(len(features.test_y)), "n_train": float(len(features.train_y))}
    return metrics, {"ids": features.test_ids, "labels": features.test_y, "predicted": predicted.astype(np.int64)}


def accuracies(labels_n: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """``accuracy`` and ``macro_accuracy`` (mean over the classes that occur) of ``predicted`` [n] or [draws, n].

    With several draws both are means, and ``accuracy_sd`` is the sample standard deviation.
    """
    right_Dn = np.atleast_2d(predicted == labels_n)
    clips = np.bincount(labels_n)
    present = clips > 0
    macro_D = [(np.bincount(labels_n, weights=right_n)[present] / clips[present]).mean() for right_n in right_Dn]
    metrics = {"accuracy": float(right_Dn.mean(1).mean()), "macro_accuracy": float(np.mean(macro_D))}
    if len(right_Dn) > 1:
        metrics["accuracy_sd"] = float(right_Dn.mean(1).std(ddof=1))
    return metrics


def coverage_notes(features: Features) -> list[str]:
    """A warning when classes of the test split never occur in training."""
    unseen = np.setdiff1d(features.test_y, features.train_y)
    if not len(unseen):
        return []
    share = np.isin(features.test_y, unseen).mean()
    return [f"{len(unseen)} test classes ({share:.1%} of the test clips) have no training clip and cannot be right"]
