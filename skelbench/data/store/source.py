"""Transfer of clips to a device: resident if they fit, else memory map -> pinned memory -> a copy of each batch."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from skelbench.core.spec import Align, SecondBody
from skelbench.data.store.alignment import Alignment
from skelbench.data.store.clip_store import ClipStore
from skelbench.views.clips import ClipBatch
from skelbench.views.degradations import Degrade, degraded

PIECE_CLIPS = 256
"""Clips that are aligned at a time when all clips are aligned."""


class ClipSource:
    """Feeds the clips of a store to a device; the bits do not depend on the way.

    ``resident`` True keeps the whole store on the device, False copies each batch's rows, None decides: on the CPU
    the memory map itself is the tensor (no copy), on a GPU the store is resident if it takes less than half of the
    free memory. ``second_body`` "repeat" presents a clip of one body as two equal bodies; a second body that is
    stored empty is absent either way, as in the NTU pipeline. A clip is compared with its checksum when it is first
    read. With ``align`` clips are aligned as they are copied (so on the CPU nothing is resident). ``degrade`` is
    applied after alignment to the gathered clips, with draws keyed by ``seed`` and clip.
    """

    def __init__(
        self,
        store: ClipStore,
        device: torch.device | str = "cpu",
        resident: bool | None = None,
        second_body: SecondBody = "zero",
        align: Align = "none",
        degrade: Sequence[Degrade] = (),
        seed: int = 0,
    ) -> None:
        self.store, self.device = store, torch.device(device)
        self._degrade, self._seed = tuple(degrade), seed
        self._align = None if align == "none" else Alignment(store, align)
        arrays = [array for array in (store.frames_FJ, store.confidence_FJ) if array is not None]
        if resident is None:
            room = torch.cuda.mem_get_info(self.device)[0] if self.device.type == "cuda" else float("inf")
            resident = sum(array.nbytes for array in arrays) < room / 2
            resident &= self._align is None or self.device.type == "cuda"
        self.resident = resident
        self._maps = tuple(torch.from_numpy(array) for array in arrays)
        self._all = tuple(array.to(self.device) for array in self._whole()) if resident else None
        self._shown = store.present
        if second_body == "repeat":
            self._shown = np.where(store.bodies == 1, 2, self._shown)

    def degraded(self, degrade: Sequence[Degrade], seed: int) -> ClipSource:
        """Return a source of the same clips with ``degrade`` in place of its own degradations; memory on the device is
        shared."""
        source = copy.copy(self)
        source._degrade, source._seed = tuple(degrade), seed
        return source

    @property
    def max_bodies(self) -> int:
        """M: largest number of bodies of a clip, as presented, empty ones included."""
        return max(self.store.max_bodies, int(self._shown.max()))

    def gather(self, ids: np.ndarray) -> ClipBatch:
        """The clips ``ids`` (int [B], repeats allowed) as a ragged batch on the device, in that order."""
        ids, store = np.asarray(ids, dtype=np.int64), self.store
        store.check(ids)
        arrays, offset = self._copy(ids) if self._all is None else (self._all, store.offsets[ids])
        batch = ClipBatch(
            ids=ids,
            frames_FJ=arrays[0],
            offset=offset,
            length=store.lengths[ids],
            bodies=self._shown[ids],
            max_bodies=self.max_bodies,
            stored=store.bodies[ids],
            confidence_FJ=arrays[1] if len(arrays) > 1 else None,
        )
        if not self._degrade:
            return batch
        return degraded(batch, self._degrade, store.topology, store.meta.dimensions, self._seed)

    def _whole(self) -> tuple[Tensor, ...]:
        """Every row of the store, aligned."""
        if self._align is None:
            return self._maps
        arrays, store = tuple(array.clone() for array in self._maps), self.store
        ends = store.offsets // 3 + store.lengths * store.bodies
        for first in range(0, len(store), PIECE_CLIPS):
            ids = np.arange(first, min(first + PIECE_CLIPS, len(store)))
            frames = range(store.offsets[ids[0]] // 3, ends[ids[-1]])
            self._aligned([array[rows * frames.start : rows * frames.stop] for array, rows in zip(arrays, (3, 1))], ids)
        return arrays

    def _aligned(self, arrays: Sequence[Tensor], ids: np.ndarray) -> None:
        """Align the clips ``ids``, whose rows ``arrays`` holds, in place."""
        if self._align is not None:
            confidence_FJ = arrays[1] if len(arrays) > 1 else None
            self._align(arrays[0], confidence_FJ, self.store.lengths[ids], self.store.bodies[ids])

    def _copy(self, ids: np.ndarray) -> tuple[tuple[Tensor, ...], np.ndarray]:
        """Coordinates and confidence (if the store has it) on the device; first row of each clip."""
        frames = self.store.lengths[ids] * self.store.bodies[ids]
        starts, ends = self.store.offsets[ids] // 3, np.cumsum(frames)
        firsts = ends - frames
        hosts = []
        for array, rows in zip(self._maps, (3, 1)):  # rows per frame of a body
            host = torch.empty(rows * int(frames.sum()), array.shape[1], pin_memory=self.device.type == "cuda")
            for to, start, count in zip((rows * firsts).tolist(), (rows * starts).tolist(), (rows * frames).tolist()):
                host[to : to + count] = array[start : start + count]
            hosts.append(host)
        self._aligned(hosts, ids)
        return tuple(host.to(self.device, non_blocking=True) for host in hosts), 3 * firsts
