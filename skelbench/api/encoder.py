"""Frozen encoders: clips in, features out.

Shapes: B clips, M body slots, T' frames of a clip, T frames of the grid, J joints, N tokens, D width of a token,
F width of a clip's feature.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from skelbench.api.datasets import ClipBatch, ClipDataset
from skelbench.core.errors import SkelbenchError
from skelbench.data.importers.bodies import center
from skelbench.data.store.clip_store import ClipStore
from skelbench.data.store.memory import store_of
from skelbench.evaluation.features import PreparedClips, pool_bodies, read_out
from skelbench.evaluation.preprocessing import Preprocessing
from skelbench.models.encoder import Encoder
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import Topology
from skelbench.views.view import View

Clips = ClipStore | ClipDataset | ClipBatch | np.ndarray | Tensor | Sequence[Any]
"""A dataset, a batch of one, or coordinates in meters: [B, T', J, 3], [B, M, T', J, 3], or a list of [T', J, 3] or
[M, T', J, 3] of different lengths. Bodies that are 0 throughout and come after all other bodies are absent."""


class FrozenEncoder:
    """An encoder with its weights and its preprocessing of clips: the features that probes see.

    ``skelbench.load_encoder`` makes it. It is in eval mode; :attr:`module` is the network itself.
    """

    def __init__(
        self,
        module: Encoder,
        name: str,
        preprocessing: Preprocessing,
        precision: Literal["fp32", "bf16"] = "fp32",
        device: torch.device | str = "cpu",
        title: str = "",
    ) -> None:
        self.module = module.to(device).eval()
        self.name = name
        """Kind of the encoder: ``vit``."""
        self.preprocessing = preprocessing
        self.precision = precision
        """Autocast type of the forward pass, the run's."""
        self.device = torch.device(device)
        self.title = title
        """Origin of the encoder, for people."""

    @property
    def topology(self) -> Topology:
        """Skeleton of its input."""
        return self.module.topology

    @property
    def grid(self) -> Grid:
        """Token grid: T frames in patches, times J joints."""
        return self.module.grid

    def __repr__(self) -> str:
        grid, look = self.grid, self.preprocessing
        shape = f"{grid.frames} frames x {grid.joints} joints ({self.topology.name}), stream {look.stream}"
        return f"FrozenEncoder({self.name} of {self.title}: {shape}, on {self.device})"

    def embed(
        self,
        clips: Clips,
        *,
        ids: Sequence[int] | np.ndarray | None = None,
        batch_size: int = 256,
        subtract_origin: bool = False,
    ) -> np.ndarray:
        """Features of clips, float32 [B, F], as a probe sees them: row i belongs to clip i (to ``ids[i]``).

        Clips are cut to their central part, resampled to the grid's frames and read out as the run is evaluated
        (:attr:`preprocessing`).

        Args:
            clips: see :data:`Clips`; coordinates in meters with Y up, as in the clip stores of skelbench.
            ids: the clips to embed; None = all. For a part of a dataset some of its ``ids``, else places in ``clips``.
                A boolean for each clip works too.
            batch_size: changes nothing but rounding.
            subtract_origin: first put the center joint of the first body, in the first frame that shows it, at the
                origin, as the NTU pipeline does; for camera coordinates. Frames without a body stay 0.

        Raises:
            SkelbenchError: the clips have other joints or dimensions, are not finite, or have more bodies than the
                encoder reads; or no clip is chosen.
        """
        prepared, chosen = self._prepared(clips, ids, subtract_origin)
        return prepared.features(self.module, chosen, batch_size=batch_size)

    def views(
        self,
        clips: Clips,
        *,
        ids: Sequence[int] | np.ndarray | None = None,
        batch_size: int = 256,
        subtract_origin: bool = False,
    ) -> Iterator[View]:
        """Yield the network's input for ``clips``, batch by batch: coordinates of T frames, on the device."""
        prepared, chosen = self._prepared(clips, ids, subtract_origin)
        yield from prepared.views(chosen, batch_size)

    def prepare(self, clips: Clips, **options: Any) -> tuple[np.ndarray, np.ndarray]:
        """Inputs of the exported ONNX model: float32 [B, M, T, J, 3], zeros where there is no body, and bool [B, M],
        which bodies are there. M is the encoder's number of slots, if it has one; options as in :meth:`views`.

        Raises:
            SkelbenchError: a clip has more bodies than slots.
        """
        parts = []
        for view in self.views(clips, **options):
            slots = self.preprocessing.slots or view.bodies
            if view.valid_BM[:, slots:].any():
                raise SkelbenchError(f"a clip has {view.bodies} bodies, the encoder was made with {slots} body slots")
            spare = max(0, slots - view.bodies)
            x_BMTJC = torch.nn.functional.pad(view.x_BMTJC, (0, 0) * 3 + (0, spare))
            valid_BM = torch.nn.functional.pad(view.valid_BM, (0, spare))
            parts.append((x_BMTJC[:, :slots].cpu(), valid_BM[:, :slots].cpu()))
        xs, valids = zip(*parts, strict=True)
        return torch.cat(xs).numpy(), torch.cat(valids).numpy()

    def features(self, view: View) -> Tensor:
        """Features of one batch of views (:meth:`views`), float32 [B, F], with gradient if gradients are enabled."""
        encoded = read_out(self.module(view), self.preprocessing.readout, self.grid)
        return pool_bodies(encoded, view, self.preprocessing.bodies_pool)

    def _prepared(
        self, clips: Clips, ids: Sequence[int] | np.ndarray | None, subtract_origin: bool
    ) -> tuple[PreparedClips, np.ndarray]:
        """The clips as the encoder reads them, and the ids of the chosen ones."""
        look = self.preprocessing
        if isinstance(clips, ClipDataset | ClipStore):
            if subtract_origin:
                raise SkelbenchError("subtract_origin is for coordinates; clips of a dataset are centered already")
            store = clips.store if isinstance(clips, ClipDataset) else clips
            every = clips.ids if isinstance(clips, ClipDataset) else np.arange(len(store))
            dimensions = store.meta.dimensions
        else:
            coordinates = _coordinates(clips)
            if subtract_origin:
                joint = self.topology.center
                coordinates = [center(x.reshape(-1, *x.shape[-3:]), joint)[0].reshape(x.shape) for x in coordinates]
            store = store_of(coordinates, self.topology, look.slots or 1)
            every, dimensions = np.arange(len(store)), max(store.meta.dimensions, look.dimensions)  # 3-D may be flat
        if (store.topology.name, dimensions) != (self.topology.name, look.dimensions):
            raise SkelbenchError(
                f"the clips are {dimensions}-D poses of skeleton {store.topology.name}, the encoder was trained on "
                f"{look.dimensions}-D poses of {self.topology.name}; choose clips or an encoder of the same kind"
            )
        chosen = every if ids is None else _chosen(ids, every)
        if not len(chosen):
            raise SkelbenchError("no clip was chosen; give one at least")
        return PreparedClips(store, look, self.grid, self.device, self.precision), chosen


def _coordinates(clips: Any) -> list[np.ndarray]:
    """Return the clips as arrays [T', J, 3] or [M, T', J, 3]; SkelbenchError if they are no clips."""
    if isinstance(clips, ClipBatch):  # without padding frames
        clips = [clip[..., :frames, :, :] for clip, frames in zip(clips.clips, clips.frames.tolist())]
    if isinstance(clips, np.ndarray | Tensor) and clips.ndim not in (4, 5):
        raise SkelbenchError(
            f"clips have shape {list(clips.shape)}; [clips, frames, joints, 3] or [clips, bodies, frames, joints, 3] "
            "is expected, for one clip clip[None]"
        )
    return [_array(clip) for clip in clips]


def _array(clip: Any) -> np.ndarray:
    if isinstance(clip, Tensor):  # numpy has no bfloat16
        return (clip.float() if clip.is_floating_point() else clip).detach().cpu().numpy()
    return np.asarray(clip)


def _chosen(ids: Sequence[int] | np.ndarray, every: np.ndarray) -> np.ndarray:
    """Return the chosen ids among the clips ``every``, int64."""
    wanted_ids = np.asarray(ids)
    if wanted_ids.dtype == bool and wanted_ids.shape == every.shape:
        return every[wanted_ids]
    if len(unknown := wanted_ids[~np.isin(wanted_ids, every)]):
        raise SkelbenchError(
            f"clip {unknown[0]} is none of the {len(every)} that are given, {every.min()} to {every.max()}; for a part "
            "of a dataset give its ids"
        )
    return wanted_ids.astype(np.int64)
