"""View builder: from a ragged batch of clips to the batched views of a method.

Random draws, intervals, matrices and masks are made on the host, where all sizes are then known. The device does two
row gathers, one linear interpolation and, for the rows that need them, one [J, J] and one [3, 3] product, with
coordinates channel first (X [3, T, J] per row), because products are cheapest in this layout.

B clips, M body slots, V views of one kind per clip, R = V times the bodies used (rows), T frames, J joints, N tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from skelbench.core.spec import Bodies, EvaluationResize, Origin
from skelbench.plugin.plugin_errors import plugin_code, wrong
from skelbench.views.augmentations import draw_transform
from skelbench.views.clips import ClipBatch
from skelbench.views.crops import Center, Crop, Cut, Interval
from skelbench.views.keyed import Keyed, pick
from skelbench.views.masks import Mask, MaskRows, TokenMask
from skelbench.views.reading import Reading, read_confidence, read_coordinates, read_missing, read_origins
from skelbench.views.sampling import Frames, extended_length, frame_positions
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import Topology
from skelbench.views.spec import ViewSpec, checked_counts
from skelbench.views.transfer import send
from skelbench.views.transform import Transform, compose
from skelbench.views.view import VIEW_KEY, View

BODY = 5
"""``op`` of the draw that chooses a body (view 0)."""


def evaluation_spec(grid: Grid, share: float = 0.95, resize: EvaluationResize = "ends") -> ViewSpec:
    """Return the deterministic view for feature extraction: the central ``share`` of the clip, otherwise unchanged."""
    return ViewSpec(frames=grid.frames, crop=Center(share=share), resize=resize)


@dataclass(frozen=True)
class _Rows:
    """The bodies that a batch trains on, the same for every view; int64 on the host."""

    clip_R: Tensor
    """Index of the clip in the batch."""
    slot_R: Tensor
    present_R: Tensor
    """bool: False for the empty slots of ``bodies="all-slots"``."""
    keys_R: Tensor
    """One per clip and slot."""
    length_R: Tensor
    """Frames of the clip."""
    base_R: Tensor
    """Row of the first x coordinate of the body in the slot; of any body if the slot is empty."""
    origin_R3: Tensor | None = None
    """Result of :func:`~.reading.read_origins`, on the device, if bodies are centered."""


@dataclass(frozen=True)
class _Drawn:
    """Draws of one kind of view, all V instances, view-major; kept for the views cut from it."""

    interval: Interval
    frames: Frames
    timing_V: Tensor
    """View number that keys the draws of interval and frames (the parent's for Same)."""


class ViewBuilder:
    """Builds the views ``specs`` (name -> :class:`ViewSpec`, parents first) of a batch.

    ``patch`` is P_T, frames per temporal token, for masks. ``bodies`` says which bodies of a clip become rows;
    ``center`` "body" or "body-in-training" puts each body's center joint, in the first frame that shows it, at the
    origin before all other steps; frames without the body stay 0.
    ``dimensions`` 2 keeps flat poses (z = 0) flat, see :func:`~skelbench.views.augmentations.draw_transform`.
    Returned tensors are on ``device``; the work is done where ``batch.frames_FJ`` is. Draws are keyed by clip id (and
    body slot), so the same clip under the same :class:`Keyed` gives the same view in every batch; a clip that occurs
    twice in a batch gives the same view twice. Raises :class:`SkelbenchError` for views that cannot be built.

    The instances of a view cut from another are ordered by parent instance: the first ``spec.count`` chunks belong to
    the parent's first view.
    """

    def __init__(
        self,
        specs: Mapping[str, ViewSpec],
        topology: Topology,
        patch: int,
        bodies: Bodies = "valid",
        device: torch.device | str = "cpu",
        center: Origin = "clip",
        dimensions: Literal[2, 3] = 3,
    ) -> None:
        self.specs, self.topology, self.patch, self.bodies = dict(specs), topology, patch, bodies
        self.center, self.dimensions = center, dimensions
        self.device = torch.device(device)
        self.counts = checked_counts(self.specs, patch, bodies)
        for name, spec in self.specs.items():  # parents come first
            if spec.parent is not None:
                parent = self.specs[spec.parent]
                extension = {"extend": parent.extend, "extend_below": parent.extend_below}
                self.specs[name] = spec.model_copy(update=extension)
        ranks = {name: rank for rank, name in enumerate(sorted(self.specs))}
        self._numbers = {name: 256 * (1 + ranks[name]) + torch.arange(count) for name, count in self.counts.items()}

    def __call__(self, batch: ClipBatch, keyed: Keyed) -> dict[str, View]:
        """One :class:`View` per spec, by name."""
        rows = self._rows(batch, keyed)
        drawn: dict[str, _Drawn] = {}
        for name, spec in self.specs.items():
            drawn[name] = self._draw(name, spec, drawn.get(spec.parent or ""), batch, rows, keyed)
        transforms = self._transforms(batch, rows, keyed)
        masks = self._masks(rows, keyed)
        if self.center != "clip":
            rows = replace(rows, origin_R3=read_origins(batch, rows.base_R, rows.length_R, self.topology.center))
        return {
            name: self._view(name, drawn[name].frames, transforms[name], batch, rows, keyed, masks.get(name))
            for name in self.specs
        }

    def _rows(self, batch: ClipBatch, keyed: Keyed) -> _Rows:
        ids_B, present_B, slots = _int64(batch.ids), _int64(batch.bodies), batch.max_bodies
        if self.bodies in ("valid", "all-slots"):
            used_B = present_B if self.bodies == "valid" else torch.full_like(present_B, slots)
            clip_R, slot_R = (torch.arange(slots) < used_B[:, None]).nonzero().unbind(1)
        else:
            clip_R, slot_R = torch.arange(len(ids_B)), torch.zeros(len(ids_B), dtype=torch.int64)
            if self.bodies == "random-valid":
                slot_R = pick(keyed.uniform(ids_B * slots, 1, op=BODY)[:, 0], present_B)
        keys_R, length_R = ids_B[clip_R] * slots + slot_R, _int64(batch.length)[clip_R]
        stored_B = present_B if batch.stored is None else _int64(batch.stored)
        stored_R = torch.minimum(slot_R, stored_B[clip_R] - 1)
        base_R = _int64(batch.offset)[clip_R] + stored_R * 3 * length_R
        return _Rows(clip_R, slot_R, slot_R < present_B[clip_R], keys_R, length_R, base_R)

    def _draw(
        self, name: str, spec: ViewSpec, parent: _Drawn | None, batch: ClipBatch, rows: _Rows, keyed: Keyed
    ) -> _Drawn:
        """Interval and frame positions of every instance of one kind of view."""
        clips, number_V = len(batch.ids), self._numbers[name]
        ids = _int64(batch.ids) * (spec.draws == "clip")
        count = len(number_V)
        length_B = _int64(batch.length).repeat(count)
        keys_B = (ids * batch.max_bodies).repeat(count)
        timing_V, inherited, parent_V = number_V, None, torch.arange(count) // spec.count
        if parent is not None:
            inherited = parent.interval.take(_instances(parent_V, clips))
            if spec.crop.parents_frames:
                timing_V = parent.timing_V[parent_V]
        view_B = timing_V.repeat_interleave(clips)
        whole_B = extended_length(length_B, spec.extend, spec.extend_below)
        interval = _cut(spec.crop, Cut(whole_B, spec.resize, keyed, keys_B, view_B, inherited, spec.frames))
        frames = frame_positions(interval, spec.frames, spec.resize, length_B, keyed, keys_B, view_B)
        return _Drawn(interval, frames, timing_V)

    def _transforms(self, batch: ClipBatch, rows: _Rows, keyed: Keyed) -> dict[str, Transform]:
        """The transform of every view; all views with the same augmentations are drawn together."""
        size, alike = len(rows.clip_R), dict[Any, list[str]]()
        for name, spec in self.specs.items():
            alike.setdefault((spec.augment, spec.draws), []).append(name)
        transforms: dict[str, Transform] = dict.fromkeys(self.specs, ())
        for (augment, draws), names in alike.items():
            view_R = torch.cat([self._numbers[name] for name in names]).repeat_interleave(size)
            ids_R = (_int64(batch.ids)[rows.clip_R] * (draws == "clip")).repeat(len(view_R) // size)
            clip_keys_R = ids_R * batch.max_bodies
            body_keys_R = clip_keys_R + rows.slot_R.repeat(len(view_R) // size)
            steps = draw_transform(augment, self.topology, keyed, clip_keys_R, body_keys_R, view_R, self.dimensions)
            index_R = torch.arange(len(view_R)).split([self.counts[name] * size for name in names])
            transforms |= {name: tuple(step.take(own_R) for step in steps) for name, own_R in zip(names, index_R)}
        for name, spec in self.specs.items():  # parents come first
            if spec.inherit and spec.parent is not None:
                index_R = _instances(torch.arange(self.counts[name]) // spec.count, size)
                inherited = tuple(step.take(index_R) for step in transforms[spec.parent])
                transforms[name] = compose(inherited + transforms[name])
        return transforms

    def _masks(self, rows: _Rows, keyed: Keyed) -> dict[str, TokenMask]:
        """The mask of every masked view, on the host; all views with one kind of mask are drawn together."""
        requests: dict[type[Mask], dict[str, MaskRows]] = {}
        for name, spec in self.specs.items():
            if spec.mask is not None:
                keys_R = rows.keys_R.repeat(self.counts[name])
                view_R = self._numbers[name].repeat_interleave(len(rows.keys_R))
                grid = Grid(spec.frames, self.patch, self.topology.num_joints)
                requests.setdefault(type(spec.mask), {})[name] = MaskRows(spec.mask, grid, keys_R, view_R)
        masks: dict[str, TokenMask] = {}
        for kind, rows_wanted in requests.items():
            masks |= zip(rows_wanted, drawn_masks(kind, list(rows_wanted.values()), self.topology, keyed))
        return masks

    def _view(
        self,
        name: str,
        frames: Frames,
        transform: Transform,
        batch: ClipBatch,
        rows: _Rows,
        keyed: Keyed,
        mask: TokenMask | None,
    ) -> View:
        spec, count, clips, slots = self.specs[name], self.counts[name], len(batch.ids), batch.max_bodies
        in_frames_R = (torch.arange(count)[:, None] * clips + rows.clip_R).flatten()
        frames = frames.take(in_frames_R)
        base_R, length_R, present_R = (tensor.repeat(count) for tensor in (rows.base_R, rows.length_R, rows.present_R))
        origin_R3 = lost_RJ = None
        if rows.origin_R3 is not None:
            origin_R3 = rows.origin_R3.repeat(count, 1)
            if batch.missing_BJ is not None:
                lost_RJ = send(batch.missing_BJ[rows.clip_R], batch.frames_FJ.device).repeat(count, 1)
        reading = Reading(base_R, length_R, present_R, frames, transform, origin_R3, lost_RJ)
        x_RTJC = read_coordinates(batch, reading, spec, self.topology, keyed).permute(0, 2, 3, 1)
        confidence_RTJ = read_confidence(batch, reading, spec, self.topology)
        missing_RJ = read_missing(batch, transform, rows.clip_R.repeat(count), spec, self.topology)

        real_RT = None if frames.real_BT is None else send(frames.real_BT, batch.frames_FJ.device)
        for value in (x_RTJC, confidence_RTJ):
            if value is not None and real_RT is not None:
                value.masked_fill_(~real_RT.view(*real_RT.shape, *[1] * (value.ndim - 2)), 0.0)

        flat_R = rows.clip_R * slots + rows.slot_R
        rows_R = (torch.arange(count)[:, None] * (clips * slots) + flat_R).flatten()
        mask_RN, keep_RK = (mask.mask_RN, mask.keep_RK) if mask else (None, None)
        masked_I = None if mask_RN is None else mask_RN.flatten().nonzero()[:, 0]
        keys_R = ((torch.arange(count) << VIEW_KEY)[:, None] + rows.keys_R).flatten()
        host = {"rows_R": rows_R, "keys_R": keys_R, "mask_RN": mask_RN, "masked_I": masked_I, "keep_RK": keep_RK}
        host |= {"missing_RJ": missing_RJ}
        tensors = {"x_RTJC": x_RTJC, "confidence_RTJ": confidence_RTJ, "real_RT": real_RT}
        fields: dict[str, Any] = {key: send(value, self.device) for key, value in host.items() if value is not None}
        fields |= {key: value.to(self.device) for key, value in tensors.items() if value is not None}
        return View(clips=clips, bodies=slots, count=count, stream=spec.stream, **fields)


def _cut(crop: Crop, cut: Cut) -> Interval:
    """Cut the interval of a crop and check what a plugin's crop returns."""
    with plugin_code(crop.cut, "(cut)"):
        interval: Any = crop.cut(cut)
    if not isinstance(interval, Interval):
        raise wrong(crop.cut, f"returned {interval!r:.60}; return cut.interval(start_B, duration_B)")
    for name in ("start_B", "duration_B"):
        if (shape := list(getattr(interval, name).shape)) != [len(cut.length_B)]:
            raise wrong(crop.cut, f"returned {name} of shape {shape}, not {[len(cut.length_B)]}: one for every clip")
    return interval


def drawn_masks(kind: type[Mask], requests: list[MaskRows], topology: Topology, keyed: Keyed) -> list[TokenMask]:
    """Draw the masks of one kind and check what a plugin's mask returns."""
    draw = kind.draw
    with plugin_code(draw, "(request, topology, keyed)"):
        masks = kind.draw_all(requests, topology, keyed)
    for request, mask in zip(requests, masks):
        if not isinstance(mask, TokenMask):
            raise wrong(draw, f"returned {mask!r:.60}; return TokenMask(mask_RN)")
        right = [len(request.keys_R), request.grid.tokens]
        if list(mask.mask_RN.shape) != right or mask.mask_RN.dtype != torch.bool:
            form = f"{mask.mask_RN.dtype} {list(mask.mask_RN.shape)}"
            raise wrong(draw, f"returned mask_RN of {form}, not torch.bool {right}: rows and tokens")
    return masks


def _instances(parent_V: Tensor, size: int) -> Tensor:
    """Return places of the ``size`` entries of each parent instance in the parent's view-major list."""
    return (parent_V[:, None] * size + torch.arange(size)).flatten()


def _int64(values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.asarray(values).astype(np.int64))
