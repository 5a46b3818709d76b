"""A few fixed training clips, plain and rotated about the vertical axis: sensitivity to rotation and to the body slot.

n clips, R rows (bodies), D feature width.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from skelbench.core.hashing import derive_seed
from skelbench.core.spec import RunSpec, evaluation_defaults
from skelbench.data.store.source import ClipSource
from skelbench.models.encoder import Encoder, evaluating
from skelbench.training.build import grid_of, rotates_bodies
from skelbench.views.augmentations import rotation
from skelbench.views.builder import ViewBuilder, evaluation_spec
from skelbench.views.keyed import Keyed
from skelbench.views.transfer import fetch, send
from skelbench.views.view import View

CLIPS, TWO_BODIES, FEWEST = 24, 6, 8
"""Clips; how many of them have a second body; fewest clips that are measured."""
LOOKS = 3
"""Measurements of a run that trains on rotated bodies; other runs have one, at the end."""


class FixedClips:
    """Fixed clips among the training clips ``ids`` of a run; chosen by the data and rotated by the seed alone.

    ``often``: measured after the first step and in the middle too, as the run trains on rotated bodies.
    """

    def __init__(self, spec: RunSpec, source: ClipSource, ids: np.ndarray) -> None:
        store, self.often = source.store, rotates_bodies(spec)
        two = _evenly(ids[store.present[ids] > 1], TWO_BODIES)
        chosen = np.union1d(two, _evenly(np.setdiff1d(ids, two), CLIPS - len(two)))
        plain = evaluation_spec(grid_of(spec, store.topology))
        plain = plain.model_copy(update={"stream": evaluation_defaults(spec)["streams"][0]})
        build = ViewBuilder(
            {"eval": plain},
            store.topology,
            spec.grid.patch,
            device=source.device,
            centre=spec.train.centre,
            dimensions=spec.data.dimensions,
        )
        self.view = build(source.gather(chosen), Keyed(0, 0))["eval"]
        self.turned = None
        if spec.data.dimensions == 3:  # a pose of the image plane has no vertical axis to be turned about
            angle_n = Keyed(derive_seed(spec.seed, "turns"), 0).uniform(chosen, 1)[:, 0].double() * 2 * math.pi
            turn_n33 = rotation(torch.stack([0 * angle_n, angle_n, 0 * angle_n], 1))
            turn_R33 = send(turn_n33, source.device)[self.view.clip_R]
            self.turned = self.view.with_x(torch.einsum("rtjc,rdc->rtjd", self.view.x_RTJC, turn_R33))
        self.precision = spec.train.precision

    def figures(self, encoder: Encoder) -> dict[str, float]:
        """``rotation_<readout>`` and ``slot_share_<readout>``, if these clips suffice."""
        if self.view.clips < FEWEST:
            return {}
        plain, turned = self._readouts(encoder, self.view), self._readouts(encoder, self.turned)
        rows_R = fetch(self.view.rows_R)
        found: dict[str, float | None] = {}
        for name, x_RD in plain.items():
            by_body = len(x_RD) == len(rows_R)  # else one row per clip
            first = (rows_R % self.view.bodies == 0) if by_body else slice(None)
            if name in turned:
                found[f"rotation_{name}"] = sensitivity(x_RD[first], turned[name][first])
            if by_body:
                found[f"slot_share_{name}"] = slot_share(x_RD, rows_R, self.view.bodies)
        return {name: value for name, value in found.items() if value is not None and math.isfinite(value)}

    def _readouts(self, encoder: Encoder, view: View | None) -> dict[str, Tensor]:
        if view is None:
            return {}
        autocast = torch.autocast(view.x_RTJC.device.type, torch.bfloat16, enabled=self.precision == "bf16")
        with evaluating(encoder), autocast:
            readouts = encoder(view).readouts
        return {name: fetch(x_RD) for name, x_RD in readouts.items()}  # they are few: figures are made on the host


def _evenly(ids: np.ndarray, most: int) -> np.ndarray:
    return ids[np.linspace(0, len(ids) - 1, min(most, len(ids))).round().astype(np.int64)]


def sensitivity(plain_nD: Tensor, turned_nD: Tensor) -> float | None:
    """Mean squared change of a clip's feature / mean squared distance between features of different clips.

    0: rotation changes nothing; 1: as much as another clip. None if all clips have the same feature.
    """
    x_nD, n = plain_nD.double(), len(plain_nD)
    apart = 2 * (x_nD - x_nD.mean(0)).square().sum() / max(n - 1, 1)
    changed = (turned_nD.double() - x_nD).square().sum(1).mean()
    return float(changed / apart) if _told_apart(x_nD, apart) else None


def slot_share(x_RD: Tensor, rows_R: Tensor, bodies: int) -> float | None:
    """Fraction of the variance of features that the body slot explains, in clips with two bodies; None with fewer than
    two such clips."""
    slot_R, clip_R = rows_R % bodies, torch.div(rows_R, bodies, rounding_mode="floor")
    first_R, second_R = slot_R == 0, slot_R == 1
    both_R = torch.isin(clip_R, clip_R[second_R])
    if int(second_R.sum()) < 2:
        return None
    first_mD, second_mD = (x_RD[slot & both_R].double() for slot in (first_R, second_R))
    x = torch.cat([first_mD, second_mD])
    whole = (x - x.mean(0)).square().sum(1).mean()
    between = ((first_mD.mean(0) - second_mD.mean(0)) / 2).square().sum()
    return float(between / whole) if _told_apart(x, whole) else None


def _told_apart(x: Tensor, spread: Tensor) -> bool:
    """Whether features differ by more than rounding."""
    return bool(spread > 1e-10 * x.square().sum(1).mean())
