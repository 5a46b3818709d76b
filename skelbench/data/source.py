"""Clips on their way to a device: resident when they fit, else memory map -> pinned -> copied one batch ahead."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from skelbench.data.clips import ClipBatch
from skelbench.data.store import ClipStore


class _Rows(NamedTuple):
    frames_FJ: Tensor
    offset: np.ndarray
    copied: torch.cuda.Event | None


class ClipSource:
    """Feeds the clips of a store to a device; the same bits whichever way they travel.

    ``resident`` True keeps the whole store on the device, False copies each batch's rows, None decides: on the CPU
    the memory map itself is the tensor (no copy), on a GPU the store is resident if it takes less than half of the
    free memory.
    """

    def __init__(self, store: ClipStore, device: torch.device | str = "cpu", resident: bool | None = None) -> None:
        self.store, self.device = store, torch.device(device)
        if resident is None:
            room = torch.cuda.mem_get_info(self.device)[0] if self.device.type == "cuda" else float("inf")
            resident = store.frames_FJ.nbytes < room / 2
        self.resident = resident
        self._map_FJ = torch.from_numpy(store.frames_FJ)
        self._all_FJ = self._map_FJ.to(self.device) if resident else None
        self._rows = 3 * store.lengths * store.bodies
        self._ahead: tuple[bytes, Future[_Rows]] | None = None
        if not resident:
            self._worker = ThreadPoolExecutor(1, thread_name_prefix="clips")
            self._stream = torch.cuda.Stream(self.device) if self.device.type == "cuda" else None

    def prefetch(self, ids: np.ndarray) -> None:
        """Start copying the batch that the next :meth:`gather` will ask for; nothing to do when resident."""
        if not self.resident:
            ids = self._checked(ids)
            self._ahead = ids.tobytes(), self._worker.submit(self._copy, ids)

    def gather(self, ids: np.ndarray) -> ClipBatch:
        """The clips ``ids`` (int [B], repeats allowed) as a ragged batch on the device, in that order."""
        ids, store = self._checked(ids), self.store
        if self._all_FJ is not None:
            frames_FJ, offset = self._all_FJ, store.offsets[ids]
        else:
            ahead, self._ahead = self._ahead, None
            waiting = ahead is not None and ahead[0] == ids.tobytes()
            frames_FJ, offset, copied = ahead[1].result() if waiting else self._copy(ids)
            if copied is not None:
                current = torch.cuda.current_stream(self.device)
                current.wait_event(copied)
                frames_FJ.record_stream(current)  # made on the copying stream: its memory must outlive this one's use
        return ClipBatch(
            ids=ids,
            frames_FJ=frames_FJ,
            offset=offset,
            length=store.lengths[ids],
            bodies=store.bodies[ids],
            max_bodies=store.max_bodies,
        )

    def _checked(self, ids: np.ndarray) -> np.ndarray:
        ids = np.asarray(ids, dtype=np.int64)
        if ids.size and (ids.min() < 0 or ids.max() >= len(self.store)):
            raise IndexError(f"clip ids must lie in 0..{len(self.store) - 1}, got {ids.min()}..{ids.max()}")
        return ids

    def _copy(self, ids: np.ndarray) -> _Rows:
        rows, starts = self._rows[ids], self.store.offsets[ids]
        ends = np.cumsum(rows)
        offset = ends - rows
        host_FJ = torch.empty(int(rows.sum()), self._map_FJ.shape[1], pin_memory=self._stream is not None)
        host = host_FJ.numpy()
        for to, start, count in zip(offset.tolist(), starts.tolist(), rows.tolist(), strict=True):
            host[to : to + count] = self.store.frames_FJ[start : start + count]
        if self._stream is None:
            return _Rows(host_FJ.to(self.device), offset, None)
        with torch.cuda.stream(self._stream):
            frames_FJ = host_FJ.to(self.device, non_blocking=True)
            return _Rows(frames_FJ, offset, self._stream.record_event())
