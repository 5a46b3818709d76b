"""When a method has learnt a shortcut instead of clips, told from the lines of metrics.jsonl alone (torch-free).

Only what the objective asks for is judged:

* **Prototypes** tell apart what is matched or predicted. Of what those of the teacher tell of the samples, on the last
  ``LOOKS`` looks together, less than ``CLIP`` is about the clip: the rest says which place in the token grid, which
  view, which body slot. One look does not do: in a batch of 16 clips few have a second body. If nothing at all is told,
  that is a collapse. Measured at preset ``quick``, looks of every 25th step: SLiM with ``mfp_weight`` 1, class tokens
  0.7 untrained, 0.2 at step 200 of 500, 0.07 at 375, masked tokens never under 0.5; DINO never under 0.43.
* **Turns** of the body about the vertical axis change the features of a method that matches prototypes across views
  turned that way, but after the last step as much as those of the untrained encoder: more than ``ROTATION`` of it, and
  ``APART`` of what another clip would, else a run that goes on from a good encoder would be blamed. Measured there:
  0.64 untrained, this SLiM 0.82 at step 350, DINO 0.26 at the end. Methods that match no views, or views that are not
  turned, are not judged: what they are asked to predict may turn with the body.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from skelbench.training.collapse import ASSIGNMENTS, Sign

CLIP = 0.25
LOOKS = 5
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
        self._told: dict[str, deque[dict[str, float]]] = {}
        """What prototypes told on the last looks, by their name."""

    def judged(self, line: Mapping[str, Any]) -> Iterator[tuple[str, str, float, bool, int]]:
        matched = False
        for key in line:
            if key.startswith("clip_information_"):
                name = key.removeprefix("clip_information_")
                told = {part: line.get(f"{part}_information_{name}", math.nan) for part in _PARTS}
                told = {part: value for part, value in told.items() if math.isfinite(value)}
                matched = matched or ("view" in told and "place" not in told)
                looks = self._told.setdefault(name, deque(maxlen=LOOKS))
                looks.append(told)
                whole = sum(sum(told.values()) for told in looks)
                if len(looks) == LOOKS and whole > LOOKS * math.log(ASSIGNMENTS):
                    share = sum(told.get("clip", 0.0) for told in looks) / whole
                    yield name, ABOUT_CLIPS, share, share < CLIP, 1
        name = "cls" if "rotation_cls" in line else "pooled"
        rotation = line.get(f"rotation_{name}", math.nan)
        if line["step"] == 1:
            self._untrained = rotation
        elif line["step"] == self.total and matched and self.turned and self._untrained > 0:
            kept = rotation / self._untrained
            yield name, TURNED, kept, kept > ROTATION and rotation > APART, 1
