"""Semantic Tube Masking (paper, section C and Algorithm 1): all rows of all views grow their tubes in one loop.

R rows, P temporal tokens, J joints, N = P * J tokens, S spans, G parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from skelbench.core.errors import SkelbenchError
from skelbench.views.bounds import Fraction
from skelbench.views.keyed import Keyed, pick
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

    joints_SJ: Tensor
    """float32 [S, J], 1 where the joint belongs to the span."""
    first_GW: Tensor
    count_GW: Tensor
    size_G: Tensor
    """int64 [G], joints of each part."""


@cache
def spans(topology: Topology, kind: str) -> Spans:
    """``kind`` "connected": all connected subsets of each part; "ordered": all slices of its joint list."""
    sizes = [len(part) for part in topology.parts.values()]
    first, count = (torch.zeros(len(sizes), max(sizes) + 1, dtype=torch.int64) for _ in range(2))
    rows: list[list[int]] = []
    for g, (name, part) in enumerate(topology.parts.items()):
        layers = {width: [part[i : i + width] for i in range(len(part) - width + 1)] for width in range(1, len(part))}
        layers[len(part)] = [part]
        if kind == "connected":
            layers = _connected(topology.part_graphs[name])
        for width, subsets in layers.items():
            first[g, width], count[g, width] = len(rows), len(subsets)
            rows.extend(sorted(subset) for subset in subsets)
    joints_SJ = torch.zeros(len(rows), topology.num_joints)
    for s, row in enumerate(rows):
        joints_SJ[s, row] = 1.0
    return Spans(joints_SJ, first, count, torch.tensor(sizes))


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

    keys: Tensor
    view: Tensor
    times: Tensor
    budget: Tensor
    a_min: Tensor
    a_max: Tensor
    printed: Tensor
    clip: Tensor

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
        areas_2R = torch.tensor([a_min, a_max], dtype=torch.float64)[:, None].expand(2, rows)
        times_R, printed_R, clip_R = (
            torch.full((rows,), v) for v in (times, tube.stop == "printed", tube.stop == "clip")
        )
        return cls(request.keys_R, request.view_R, times_R, hidden, areas_2R[0], areas_2R[1], printed_R, clip_R)

    def take(self, index: Tensor) -> _Rows:
        return _Rows(*(value[index] for value in vars(self).values()))


def _grow(groups: list[_Rows], table: Spans, keyed: Keyed) -> Tensor:
    """Algorithm 1 for all rows at once; bool [R, max P, J]."""
    rows = _Rows(*(torch.cat(columns) for columns in zip(*(vars(group).values() for group in groups))))
    full_RPJ = torch.zeros(len(rows.keys), int(rows.times.max()), table.joints_SJ.shape[1])
    alive = (rows.budget > 0).nonzero()[:, 0]
    rows = rows.take(alive)
    mask_RPJ, covered, failed = full_RPJ[alive], torch.zeros_like(alive), torch.zeros_like(alive)
    turn = 0
    while len(alive):
        u_RCD = keyed.uniform(rows.keys, CHUNK * DRAWS, view=rows.view, op=TUBES, start=turn * CHUNK * DRAWS)
        u_RCD = u_RCD.double().unflatten(1, (CHUNK, DRAWS))
        going = torch.ones_like(alive, dtype=torch.bool)
        for c in range(CHUNK):
            going &= (covered < rows.budget) & (failed < PATIENCE)
            added, fits = _propose(mask_RPJ, rows, covered, going, u_RCD[:, c], table)
            covered += added
            failed = torch.where(fits, 0, failed + 1)
        going &= (covered < rows.budget) & (failed < PATIENCE)
        full_RPJ[alive] = mask_RPJ
        rest = going.nonzero()[:, 0]
        alive, rows, mask_RPJ = alive[rest], rows.take(rest), mask_RPJ[rest]
        covered, failed = covered[rest], failed[rest]
        turn += 1
    return full_RPJ > 0


def _propose(
    mask_RPJ: Tensor, rows: _Rows, covered: Tensor, going: Tensor, u_R5: Tensor, table: Spans
) -> tuple[Tensor, Tensor]:
    """One proposal per row, written into ``mask_RPJ`` where accepted; clears ``going`` if the printed rule stops.

    Returns the number of new tokens (0 if rejected) and whether the proposal was accepted.
    """
    most = torch.minimum((rows.budget - covered).double(), rows.a_max)
    going &= ~(rows.printed & (most < rows.a_min))
    part = pick(u_R5[:, 0], len(table.size_G))
    width = 1 + pick(u_R5[:, 1], table.size_G[part])
    span_RJ = table.joints_SJ[table.first_GW[part, width] + pick(u_R5[:, 2], table.count_GW[part, width])]
    least = torch.where(rows.clip, torch.minimum(rows.a_min, most), rows.a_min)
    area = least + u_R5[:, 3] * (most - least)
    height = torch.round(area / width).long().clamp(min=1).minimum(rows.times)
    begin = pick(u_R5[:, 4], rows.times - height + 1)[:, None]
    time_P = torch.arange(mask_RPJ.shape[1])
    window_RP = ((time_P >= begin) & (time_P < begin + height[:, None])).float()
    hidden_RP = torch.bmm(mask_RPJ, span_RJ[:, :, None])[..., 0]
    added = (window_RP * (width[:, None] - hidden_RP)).sum(1).long()
    fits = going & (added > 0) & (covered + added <= rows.budget)
    accepted = fits.nonzero()[:, 0]
    tube_KPJ = window_RP[accepted, :, None] * span_RJ[accepted, None, :]
    mask_RPJ[accepted] = torch.maximum(mask_RPJ[accepted], tube_KPJ)
    return torch.where(fits, added, 0), fits
