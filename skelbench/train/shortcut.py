"""When a method has learnt a shortcut instead of clips, told from the lines of metrics.jsonl alone (torch-free).

Only what the objective asks for is judged:

* **Prototypes** tell apart what is matched or predicted. Of what those of the teacher tell of the samples, less than
  ``CLIP`` is about the clip: the rest says which place in the token grid, which view, which body slot. Asked on every
  look, unless they tell nothing at all, which is a collapse; a shortcut on as many looks in a row.
* **Turns** of the body about the vertical axis change the features of a method that matches prototypes across views
  turned that way, but after the last step as much as those of the untrained encoder: more than ``ROTATION`` of it, and
  ``APART`` of what another clip would. Methods that match no views, or views that are not turned, are not judged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from skelbench.train.collapse import ASSIGNMENTS, LOOKS, Sign

CLIP = 0.1
ROTATION = 0.9
APART = 0.5
ABOUT_CLIPS, TURNED = "share of information about the clip", "sensitivity to rotation by that of the first look"
_PARTS = ("place", "view", "slot", "clip")


class Shortcut(Sign):
    """Follows a run of ``total`` steps. ``turned``: its views are turned about the vertical axis by any angle."""

    def __init__(self, clips: int, total: int, turned: bool) -> None:
        super().__init__(clips)
        self.total, self.turned = total, turned
        self._untrained: float = math.nan

    def judged(self, line: Mapping[str, Any]) -> Iterator[tuple[str, str, float, bool, int]]:
        matched = False
        for key in line:
            if key.startswith("clip_information_"):
                name = key.removeprefix("clip_information_")
                told = {part: line.get(f"{part}_information_{name}", math.nan) for part in _PARTS}
                told = {part: value for part, value in told.items() if not math.isnan(value)}
                matched = matched or ("view" in told and "place" not in told)
                if (whole := sum(told.values())) > math.log(ASSIGNMENTS):
                    share = told.get("clip", math.nan) / whole
                    yield name, ABOUT_CLIPS, share, share < CLIP, LOOKS
        name = "cls" if "rotation_cls" in line else "pooled"
        rotation = line.get(f"rotation_{name}", math.nan)
        if line["step"] == 1:
            self._untrained = rotation
        elif line["step"] == self.total and matched and self.turned and self._untrained > 0:
            kept = rotation / self._untrained
            yield name, TURNED, kept, kept > ROTATION and rotation > APART, 1
