"""Semantic Tube Masking (paper, section C and Algorithm 1): all rows of all views grow their tubes in one loop.

The loop is in numpy, whose small operations take a third of the time of torch's.
R rows, P temporal tokens, J joints, N = P * J tokens, S spans, G parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from skelbench.core.errors import SkelbenchError
from skelbench.views.bounds import Fraction
from skelbench.views.keyed import Keyed
from skelbench.views.masks import Mask, MaskRows, TokenMask, hidden_tokens
from skelbench.views.skeleton.topology import Topology

TUBES = 4
"""``op`` of the draws for tube proposals."""
PATIENCE = 10
"""Number of consecutive proposals that add no token before a mask is finished."""
DRAWS = 5
"""Per proposal, in this order: part, span width, span, area, temporal start."""
CHUNK = 8
"""Proposals drawn at a time; finished rows leave the loop between chunks. No influence on the result."""

Area = Annotated[int, Field(ge=1)]


class Tube(Mask):
    """Semantic Tube Masking, per body.

    >>> from skelbench.views.skeleton.grid import Grid
    >>> from skelbench.views.skeleton.topology import NTU25
    >>> rows = MaskRows(Tube(), Grid(64, 8, 25), torch.arange(2), torch.full((2,), 256))
    >>> [masks] = Tube.draw_all([rows], NTU25, Keyed(seed=0, step=0))
    >>> masks.mask_RN.shape
    torch.Size([2, 200])
    """

    kind = "tube"
    lo: Fraction = 0.5
    hi: Fraction = 0.9
    a_min: Area | None = None
    """Smallest proposal area in tokens; None = P of the grid."""
    a_max: Area | None = None
    """Largest proposal area; None = half of the grid's tokens."""
    stop: Literal["clip", "printed", "as-released"] = "clip"
    """Rule for the last tubes, when the remaining budget is below ``a_min``. "clip": the area is drawn from the
    remaining budget. "printed": the mask is finished (Algorithm 1 to the letter). "as-released": the area is drawn
    between the remaining budget and ``a_min`` (KAIST-VICLab/SLiM); tubes that do not fit are rejected."""
    spans: Literal["connected", "ordered"] = "connected"
    """"connected" = width uniform in 1..|G|, then a uniformly drawn connected subset of that width; "ordered" = a
    contiguous slice of the part's joint list."""
    stratified: bool = False
    """Spread the target ratios evenly over the batch of a process instead of drawing them independently."""

    @classmethod
    def draw_all(cls, requests: Sequence[MaskRows], topology: Topology, keyed: Keyed) -> list[TokenMask]:
        """Draw the masks of all requests together, one proposal per row and turn, on the largest grid."""
        masks: list[Tensor] = [torch.empty(0)] * len(requests)
        rows = [_Rows.of(request, topology, keyed) for request in requests]
        for kind in dict.fromkeys(_tube(request).spans for request in requests):
            places = [i for i, request in enumerate(requests) if _tube(request).spans == kind]
            mask_RPJ = _grow([rows[i] for i in places], spans(topology, kind), keyed)
            for i, part in zip(places, mask_RPJ.split([len(requests[i].keys_R) for i in places])):
                masks[i] = part[:, : requests[i].grid.times].flatten(1)
        return [TokenMask(mask_RN) for mask_RN in masks]


def _tube(request: MaskRows) -> Tube:
    assert isinstance(request.mask, Tube)
    return request.mask


@dataclass(frozen=True)
class Spans:
    """Every span of every part. Spans of part g and width w are ``first[g, w] .. first[g, w] + count[g, w] - 1``."""

    joints_SJ: np.ndarray
    """bool [S, J], whether the joint belongs to the span."""
    first_GW: np.ndarray
    count_GW: np.ndarray
    size_G: np.ndarray
    """int64 [G], joints of each part."""


@cache
def spans(topology: Topology, kind: str) -> Spans:
    """``kind`` "connected": all connected subsets of each part; "ordered": all slices of its joint list."""
    sizes = [len(part) for part in topology.parts.values()]
    first, count = (np.zeros((len(sizes), max(sizes) + 1), dtype=np.int64) for _ in range(2))
    rows: list[list[int]] = []
    for g, (name, part) in enumerate(topology.parts.items()):
        layers = {width: [part[i : i + width] for i in range(len(part) - width + 1)] for width in range(1, len(part))}
        layers[len(part)] = [part]
        if kind == "connected":
            layers = _connected(topology.part_graphs[name])
        for width, subsets in layers.items():
            first[g, width], count[g, width] = len(rows), len(subsets)
            rows.extend(sorted(subset) for subset in subsets)
    joints_SJ = np.zeros((len(rows), topology.num_joints), dtype=bool)
    for s, row in enumerate(rows):
        joints_SJ[s, row] = True
    return Spans(joints_SJ, first, count, np.array(sizes))


def _connected(graph: dict[int, tuple[int, ...]]) -> dict[int, list[tuple[int, ...]]]:
    """Connected subsets of the graph's joints by size, each layer in lexicographic order."""
    layers: dict[int, list[tuple[int, ...]]] = {1: sorted((j,) for j in graph)}
    for width in range(2, len(graph) + 1):
        grown = {
            tuple(sorted((*subset, new)))
            for subset in layers[width - 1]
            for joint in subset
            for new in graph[joint]
            if new not in subset
        }
        layers[width] = sorted(grown)
    return layers


@dataclass
class _Rows:
    """Per-row settings of the proposal loop, all [R]; areas float64 in tokens, the rest int64 or bool."""

    keys: np.ndarray
    view: np.ndarray
    times: np.ndarray
    budget: np.ndarray
    a_min: np.ndarray
    a_max: np.ndarray
    printed: np.ndarray
    clip: np.ndarray

    @classmethod
    def of(cls, request: MaskRows, topology: Topology, keyed: Keyed) -> _Rows:
        tube, times, rows = _tube(request), request.grid.times, len(request.keys_R)
        tokens = times * topology.num_joints
        hidden = hidden_tokens(request, keyed, stratified=tube.stratified)
        a_min = times if tube.a_min is None else tube.a_min
        a_max = 0.5 * tokens if tube.a_max is None else tube.a_max
        if a_max < a_min and tube.stop == "printed":  # otherwise the first proposal would end every mask
            raise SkelbenchError(
                f"with stop=printed no tube can have at least a_min={a_min} and at most a_max={a_max:g} tokens "
                f"(a_min is {times} here where it is not said); lower method.a_min or raise method.a_max"
            )
        areas = (np.full(rows, area, dtype=np.float64) for area in (a_min, a_max))
        rules = (np.full(rows, tube.stop == rule) for rule in ("printed", "clip"))
        keys, view, budget = request.keys_R.numpy(), request.view_R.numpy(), hidden.numpy()
        return cls(keys, view, np.full(rows, times), budget, *areas, *rules)

    def take(self, index: np.ndarray) -> _Rows:
        return _Rows(*(value[index] for value in vars(self).values()))


def _grow(groups: list[_Rows], table: Spans, keyed: Keyed) -> Tensor:
    """Algorithm 1 for all rows at once; bool [R, max P, J]."""
    rows = _Rows(*(np.concatenate(columns) for columns in zip(*(vars(group).values() for group in groups))))
    full_RPJ = np.zeros((len(rows.keys), rows.times.max(), table.joints_SJ.shape[1]), dtype=bool)
    alive = np.flatnonzero(rows.budget > 0)
    rows = rows.take(alive)
    mask_RPJ, covered, failed = full_RPJ[alive], np.zeros_like(alive), np.zeros_like(alive)
    turn = 0
    while len(alive):
        view_R, start = torch.from_numpy(rows.view), turn * CHUNK * DRAWS
        u_Rn = keyed.uniform(rows.keys, CHUNK * DRAWS, view=view_R, op=TUBES, start=start)
        u_RCD = u_Rn.double().unflatten(1, (CHUNK, DRAWS)).numpy()
        going = np.ones(len(alive), dtype=bool)
        for c in range(CHUNK):
            going &= (covered < rows.budget) & (failed < PATIENCE)
            added, fits = _propose(mask_RPJ, rows, covered, going, u_RCD[:, c], table)
            covered += added
            failed = np.where(fits, 0, failed + 1)
        going &= (covered < rows.budget) & (failed < PATIENCE)
        full_RPJ[alive] = mask_RPJ
        alive, rows, mask_RPJ = alive[going], rows.take(going), mask_RPJ[going]
        covered, failed = covered[going], failed[going]
        turn += 1
    return torch.from_numpy(full_RPJ)


def _propose(
    mask_RPJ: np.ndarray, rows: _Rows, covered: np.ndarray, going: np.ndarray, u_R5: np.ndarray, table: Spans
) -> tuple[np.ndarray, np.ndarray]:
    """One proposal per row, written into ``mask_RPJ`` where accepted; clears ``going`` if the printed rule stops.

    Returns the number of new tokens (0 if rejected) and whether the proposal was accepted.
    """
    most = np.minimum(rows.budget - covered, rows.a_max)
    going &= ~(rows.printed & (most < rows.a_min))
    part = _pick(u_R5[:, 0], len(table.size_G))
    width = 1 + _pick(u_R5[:, 1], table.size_G[part])
    span_RJ = table.joints_SJ[table.first_GW[part, width] + _pick(u_R5[:, 2], table.count_GW[part, width])]
    least = np.where(rows.clip, np.minimum(rows.a_min, most), rows.a_min)
    area = least + u_R5[:, 3] * (most - least)
    height = np.clip(np.rint(area / width).astype(np.int64), 1, rows.times)
    begin = _pick(u_R5[:, 4], rows.times - height + 1)[:, None]
    time_P = np.arange(mask_RPJ.shape[1])
    window_RP = (time_P >= begin) & (time_P < begin + height[:, None])
    tube_RPJ = window_RP[:, :, None] & span_RJ[:, None, :]
    added = (tube_RPJ & ~mask_RPJ).reshape(len(covered), -1).sum(1)
    fits = going & (added > 0) & (covered + added <= rows.budget)
    mask_RPJ[fits] |= tube_RPJ[fits]
    return np.where(fits, added, 0), fits


def _pick(u_R: np.ndarray, n: np.ndarray | int) -> np.ndarray:
    """:func:`~skelbench.views.keyed.pick` in numpy."""
    return (u_R * n).astype(np.int64)
