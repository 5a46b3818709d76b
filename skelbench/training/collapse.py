"""When what a method learns has collapsed, told from the lines of metrics.jsonl alone (torch-free).

Asked on every look; measured on the synthetic data at preset ``quick``, 16 clips a step:

* **Features** whose effective rank is under ``RANK``: all rows are nearly multiples of one vector. What healthy methods
  predict at hidden tokens stays above 2.5; the branch that the paper calls degenerate ends at 1.12. Readouts of the
  encoder (class token, pooled features) may share an offset that a probe does not mind: GFP's come down to 1.6 with an
  effective rank of 12 around their mean, hence ``READOUT_RANK``.
* **Prototypes** of which the teacher uses fewer than ``PROTOTYPES``: Sinkhorn keeps 9 of 10 in use, no centring 2.
* **Assignments**: the teacher gives the samples fewer than ``ASSIGNMENTS`` different distributions, counted as
  exp(entropy of the mean distribution) / exp(mean entropy): 1 if all have the same one, be that a single prototype or,
  as with a teacher that is too warm, all of them alike (1.00 to 1.02 then; else 1.2 and more but for single looks).

A batch can look so by chance, so a collapse is one only on ``LOOKS`` looks in a row. It may be over later: then it
keeps its place in the record with the step ``until`` which it lasted.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

RANK = 1.5
READOUT_RANK = 1.25
PROTOTYPES = 2.5
ASSIGNMENTS = 1.02
LOOKS = 3
CLIPS = 8
"""With fewer clips per step nothing is concluded: the rank of so few rows is low anyway."""

UNMOVED = "the encoder that is probed has the weights that it began with: no gradient and no average reached it"
"""Of a run that was trained to its end in one sitting, under ``unmoved`` in run.json."""

Found = dict[str, Any]
"""``{"what": "masked", "measure": "effective rank", "value": 1.12, "step": 300, "epoch": 2.4}``: the value on the look
that settled it, step and epoch of the first look below; ``until`` if there was a look above later."""

_NAMES = {
    "masked": "features at masked positions",
    "cls": "class token",
    "pooled": "pooled features",
    "mfp": "the teacher's prototypes of masked tokens",
    "cl": "the teacher's prototypes of class tokens",
}


class Sign(ABC):
    """Follows line by line a run whose figures are of ``clips`` clips a step; ``found`` is what goes into run.json."""

    def __init__(self, clips: int) -> None:
        self.clips = clips
        self.found: list[Found] = []
        self._low: dict[tuple[str, str], list[Found]] = {}
        """Looks in a row below the limit, by name and measure."""

    def see(self, line: Mapping[str, Any]) -> list[Found]:
        """Take in the next line of metrics.jsonl; returns what begins or ends with it, mostly nothing."""
        changed = []
        line = {name: value for name, value in line.items() if value is not None}  # what was not finite
        for what, measure, value, bad, looks in self.judged(line) if self.clips >= CLIPS else ():
            low = self._low.setdefault((what, measure), [])
            if bad:
                low.append({"what": what, "measure": measure, "step": line["step"], "epoch": line["epoch"]})
                if len(low) == looks:
                    low[0]["value"] = round(value, 4)
                    self.found.append(low[0])
                    changed.append(low[0])
            else:
                if len(low) >= looks:
                    low[0]["until"] = line["step"]
                    changed.append(low[0])
                low.clear()
        return changed

    @abstractmethod
    def judged(self, line: Mapping[str, Any]) -> Iterator[tuple[str, str, float, bool, int]]:
        """(name, measure, value, whether it is beyond the limit, on how many looks in a row it must be) of a line."""


class Collapse(Sign):
    """See the module."""

    def judged(self, line: Mapping[str, Any]) -> Iterator[tuple[str, str, float, bool, int]]:
        for key, value in line.items():
            if key.startswith("rank_"):
                name = key.removeprefix("rank_")
                limit = READOUT_RANK if name in ("cls", "pooled") else RANK
                yield name, "effective rank", value, value < limit, LOOKS
            elif key.startswith("prototypes_used_"):
                name = key.removeprefix("prototypes_used_")
                yield name, "prototypes used", value, value < PROTOTYPES, LOOKS
                entropy = max(min(line.get(f"teacher_entropy_{name}", math.nan), 700.0), 0.0)  # else exp overflows
                different = value / math.exp(entropy)
                yield name, "different assignments", different, different < ASSIGNMENTS, LOOKS


def sentence(found: Found) -> str:
    """``features at masked positions, effective rank 1.12 since step 300``."""
    name = _NAMES.get(found["what"], found["what"])
    until = f" until step {found['until']}" if "until" in found else ""
    return f"{name}, {found['measure']} {found['value']:.3g} since step {found['step']}{until}"
