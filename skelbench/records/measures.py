"""Metrics of a protocol besides accuracy: their names and formats (torch-free)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

OTHERS = ("accuracy", "accuracy_selected", "accuracy_best_on_test", "accuracy_sd", "n_test", "n_train")
"""Metrics with columns of their own, and counts."""


@dataclass(frozen=True)
class Measure:
    """Format of one metric of a protocol."""

    label: str = ""
    """Heading; "" = the metric's name."""
    share: bool = False
    """Whether it is a fraction in [0, 1], printed in percent; any other metric is a plain number."""

    def text(self, value: float) -> str:
        return f"{value:.1%}" if self.share else f"{value:.4g}"


STANDARD = {
    "macro_accuracy": Measure("mean class accuracy", share=True),
    "top5_accuracy": Measure("top-5 accuracy", share=True),
    "train_accuracy": Measure("training accuracy", share=True),
}
"""Metrics of :mod:`skelbench.evaluation.protocol`."""
TRAINING = frozenset({"train_accuracy", "train_loss", "train_loss_fall", "steps", "selected_step"})
"""Metrics of the training of a probe."""


def measured(record: Mapping[str, Any]) -> dict[str, tuple[float, Measure]]:
    """All further metrics of an evaluation record by name: value and format."""
    formats, measures = record.get("measures", {}), {}
    for name, value in record["metrics"].items():
        if name not in OTHERS and isinstance(value, Real):
            standard = STANDARD.get(name, Measure(share=name.startswith("accuracy_")))
            measure = Measure(**formats[name]) if name in formats else standard
            measures[name] = float(value), Measure(measure.label or name, measure.share)
    return measures


def own(record: Mapping[str, Any]) -> dict[str, tuple[float, Measure]]:
    """Further metrics that only this protocol has."""
    formats = record.get("measures", {})
    return {
        name: figure
        for name, figure in measured(record).items()
        if name in formats or not (name in STANDARD.keys() | TRAINING or name.startswith("accuracy_"))
    }


def sentence(figures: Iterable[tuple[float, Measure]]) -> str:
    """``mAP 45.2%, spread 0.31``."""
    return ", ".join(f"{measure.label} {measure.text(value)}" for value, measure in figures)
