"""What a protocol measured besides accuracy: by which name and how readers see it (torch-free)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

SHOWN = ("accuracy", "accuracy_selected", "accuracy_best_on_test", "accuracy_sd")
"""Figures that have columns of their own everywhere."""
COUNTS = ("n_test", "n_train")


@dataclass(frozen=True)
class Measure:
    """How one metric of a protocol is written."""

    label: str = ""
    """What readers see; "" = the metric's name."""
    share: bool = False
    """Whether it is a share in [0, 1], written in percent; any other is a plain number."""

    def text(self, value: float) -> str:
        """``value`` as readers see it."""
        return f"{value:.1%}" if self.share else f"{value:.4g}"


STANDARD = {
    "macro_accuracy": Measure("mean class accuracy", share=True),
    "top5_accuracy": Measure("top-5 accuracy", share=True),
    "train_accuracy": Measure("training accuracy", share=True),
}
"""Metrics of :mod:`skelbench.evaluation.protocol`."""


TRAINING = frozenset({"train_accuracy", "train_loss", "train_loss_fall", "steps", "selected_step"})
"""How the training of a probe went: not what it measured."""


def measured(record: Mapping[str, Any]) -> dict[str, tuple[float, Measure]]:
    """All further figures of an evaluation record by name, each with how it is written."""
    said, found = record.get("measures", {}), {}
    for name, value in record["metrics"].items():
        if name in (*SHOWN, *COUNTS) or not isinstance(value, Real):
            continue
        known = STANDARD.get(name, Measure(share=name.startswith("accuracy_")))
        own = Measure(**said[name]) if name in said else known
        found[name] = float(value), Measure(own.label or name, own.share)
    return found


def own(record: Mapping[str, Any]) -> dict[str, tuple[float, Measure]]:
    """Those that the protocol brings itself."""
    return {
        name: one
        for name, one in measured(record).items()
        if name in record.get("measures", {})
        or not (name in STANDARD.keys() | TRAINING or name.startswith("accuracy_"))
    }


def sentence(figures: Iterable[tuple[float, Measure]]) -> str:
    """``mAP 45.2%, spread 0.31``."""
    return ", ".join(f"{measure.label} {measure.text(value)}" for value, measure in figures)
