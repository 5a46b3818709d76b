"""Detect collapse and shortcuts from the lines of metrics.jsonl alone (torch-free).

The limits were measured on the synthetic data with preset ``quick``, 16 clips a step; docs/monitoring.md lists them.
Healthy methods stay above a rank of 2.5 at masked tokens, and above 0.43 of the information about the clip. Readouts
may share an offset that a probe ignores. Of 10 prototypes, Sinkhorn keeps 9 in use; without centering 2 are used.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

RANK = 1.5
READOUT_RANK = 1.25
PROTOTYPES = 2.5
ASSIGNMENTS = 1.02
"""Least number of different teacher distributions: exp(entropy of the mean distribution) / exp(mean entropy)."""
PATIENCE = 3
"""Number of consecutive diagnostic steps beyond a limit that make a collapse; one may be chance."""
MIN_CLIPS = 8
"""Smallest batch that is checked: the rank of fewer rows is low anyway."""

CLIP_FRACTION = 0.25
"""Smallest fraction of the teacher's information that is about the clip, over ``WINDOW`` diagnostic steps."""
WINDOW = 5
CLIP_INFORMATION = "share of information about the clip"
_INFORMATION_ABOUT = ("place", "view", "slot", "clip")

UNMOVED = "the probed encoder has its initial weights: no gradient and no moving average reached it"
"""Reason that run.json records as ``unmoved`` after a whole training in one attempt."""

Judged = tuple[str, str, float, bool]
"""Name, measure and value of a metric, and whether it is beyond its limit."""
Anomaly = dict[str, Any]
"""``{"what": "masked", "measure": "effective rank", "value": 1.12, "step": 300, "epoch": 2.4}``: the value that decided
it; step and epoch of the first value beyond the limit; ``until``: the step at which it ended, if it did."""

_NAMES = {
    "masked": "features at masked tokens",
    "cls": "class tokens",
    "pooled": "pooled features",
    "mfp": "masked tokens",
    "cl": "class tokens",
}
_TEXTS = {
    "effective rank": "{name} point nearly all in one direction (effective rank {value:.3g})",
    "prototypes used": "the teacher uses only {value:.3g} prototypes for {name}",
    "different assignments": "the teacher gives nearly all {name} the same prototypes ({value:.3g} distinct)",
    CLIP_INFORMATION: "only {value:.0%} of the information in the prototypes of {name} is about the clip; the rest is "
    "about place, view and body slot",
}
_ROTATION = "{name} are about as sensitive to rotation as at the start of training (ratio {value:.3g})"
"""Text for the only other measure in shipped records, which is no longer logged."""
ADVICE = {
    "collapse": "If the accuracy is no better than untrained, try a lower train.lr or a larger batch.",
    "shortcut": "Features may not distinguish clips; try other augmentations or masks.",
}


class AnomalyDetector:
    """Follow the metrics of a run line by line; ``found`` is recorded in run.json.

    ``clips``: clips behind each metric.
    """

    patience = PATIENCE
    """Consecutive bad values that make an anomaly."""

    def __init__(self, clips: int) -> None:
        self.clips = clips
        self.found: list[Anomaly] = []
        self._bad: dict[tuple[str, str], list[Anomaly]] = {}
        """Consecutive values beyond the limit, by name and measure."""

    def check(self, line: Mapping[str, Any]) -> list[Anomaly]:
        """Read the next line; return the anomalies that begin or end with it."""
        if self.clips < MIN_CLIPS:
            return []
        changed = []
        finite = {name: value for name, value in line.items() if value is not None}
        for kind, measure, value, is_bad in self.judge(finite):
            bad = self._bad.setdefault((kind, measure), [])
            if is_bad:
                bad.append({"what": kind, "measure": measure, "step": line["step"], "epoch": line["epoch"]})
                if len(bad) == self.patience:
                    bad[0]["value"] = round(value, 4)
                    self.found.append(bad[0])
                    changed.append(bad[0])
            else:
                if len(bad) >= self.patience:
                    bad[0]["until"] = line["step"]
                    changed.append(bad[0])
                bad.clear()
        return changed

    def judge(self, line: Mapping[str, Any]) -> Iterator[Judged]:
        """Compare the metrics of a line with their limits."""
        raise NotImplementedError


class Collapse(AnomalyDetector):
    """Detect collapsed features and prototypes."""

    def judge(self, line: Mapping[str, Any]) -> Iterator[Judged]:
        for key, value in line.items():
            if key.startswith("rank_"):
                name = key.removeprefix("rank_")
                limit = READOUT_RANK if name in ("cls", "pooled") else RANK
                yield name, "effective rank", value, value < limit
            elif key.startswith("prototypes_used_"):
                name = key.removeprefix("prototypes_used_")
                yield name, "prototypes used", value, value < PROTOTYPES
                entropy = max(min(line.get(f"teacher_entropy_{name}", math.nan), 700.0), 0.0)  # exp(710) overflows
                different = value / math.exp(entropy)
                yield name, "different assignments", different, different < ASSIGNMENTS


class Shortcut(AnomalyDetector):
    """Detect prototypes that carry little information about the clip, over ``WINDOW`` diagnostic steps."""

    patience = 1

    def __init__(self, clips: int) -> None:
        super().__init__(clips)
        self._information: dict[str, deque[dict[str, float]]] = {}
        """Information of the last diagnostic steps, by the name of the prototypes."""

    def judge(self, line: Mapping[str, Any]) -> Iterator[Judged]:
        for key in line:
            if not key.startswith("clip_information_"):
                continue
            name = key.removeprefix("clip_information_")
            parts = {about: line.get(f"{about}_information_{name}", math.nan) for about in _INFORMATION_ABOUT}
            parts = {about: value for about, value in parts.items() if math.isfinite(value)}
            window = self._information.setdefault(name, deque(maxlen=WINDOW))
            window.append(parts)
            total = sum(sum(step.values()) for step in window)
            if len(window) == WINDOW and total > WINDOW * math.log(ASSIGNMENTS):
                fraction = sum(step.get("clip", 0.0) for step in window) / total
                yield name, CLIP_INFORMATION, fraction, fraction < CLIP_FRACTION


def describe(anomaly: Anomaly) -> str:
    """Clause for an anomaly: ``class tokens point nearly all in one direction (effective rank 1.12) since step 3``."""
    name = _NAMES.get(anomaly["what"], f"features {anomaly['what']}")
    until = f" until step {anomaly['until']}" if "until" in anomaly else ""
    text = _TEXTS.get(anomaly["measure"], _ROTATION).format(name=name, value=anomaly["value"])
    return f"{text} since step {anomaly['step']}{until}"
