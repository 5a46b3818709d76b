"""Views of one clip by a method: every view after crop, augmentation and mask, as panels of a scene."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch

from skelbench.core.spec import Origin, RunSpec
from skelbench.data.store.clip_store import ClipStore
from skelbench.reporting.skeletons.scene import Panel, Scene, clip_scene
from skelbench.training.build import training_clips, view_specs
from skelbench.views.builder import ViewBuilder, evaluation_spec
from skelbench.views.clips import ClipBatch
from skelbench.views.keyed import Keyed
from skelbench.views.skeleton.grid import Grid
from skelbench.views.spec import ViewSpec
from skelbench.views.view import View

log = logging.getLogger(__name__)


def view_scene(store: ClipStore, clip: int, spec: RunSpec, step: int = 0) -> Scene:
    """The stored clip and the views that run ``spec`` makes of it at training step ``step``.

    For a method that does not train, the views of evaluation are shown. Bones and motions are shown as the joints they
    are made of. A mask that depends on the other clips of its step is drawn as if there were none.
    """
    scene = clip_scene(store, clip)
    grid = Grid(spec.grid.frames, spec.grid.patch, store.topology.num_joints)
    declared = view_specs(spec)
    specs = declared or {"evaluation": evaluation_spec(grid)}
    specs = {name: view.model_copy(update={"stream": "joint"}) for name, view in specs.items()}
    batch = training_clips(spec, store, "cpu", resident=False).gather(np.array([clip]))
    keyed = Keyed(spec.seed, step)

    def build(specs: Mapping[str, ViewSpec], batch: ClipBatch, center: Origin) -> dict[str, View]:
        builder = ViewBuilder(
            specs, store.topology, grid.patch, spec.train.bodies, center=center, dimensions=spec.data.dimensions
        )
        return builder(batch, keyed)

    views = build(specs, batch, spec.train.center)
    # In a clip whose coordinates are its frame numbers, every view shows the frames that it was cut from.
    plain = {
        name: view.model_copy(update={"augment": (), "inherit": False, "mask": None}) for name, view in specs.items()
    }
    length, joints = int(batch.length[0]), store.topology.num_joints
    number_FJ = torch.arange(length).float().repeat(len(batch.frames_FJ) // length)[:, None].expand(-1, joints)
    looked = build(plain, replace(batch, frames_FJ=number_FJ.contiguous()), "clip")

    panels = [replace(scene.panels[0], title="as stored", note=f"{length} frames")]
    for name, view in views.items():
        for k in range(view.count):
            number = f" ({k + 1} of {view.count})" if view.count > 1 else ""
            at_T = looked[name].chunk(looked[name].x_RTJC)[k][0, :, 0, 0]
            panels.append(_panel(name + number, store, view, k, at_T, declared.get(name)))
    return replace(scene, title=f"What {spec.method} sees of {scene.title}", panels=tuple(panels))


def _panel(title: str, store: ClipStore, view: View, k: int, at_T: torch.Tensor, spec: ViewSpec | None) -> Panel:
    """Instance ``k`` of one kind of view."""
    x_MTJC = view.chunk(view.x_RTJC)[k].numpy()
    drawn_MTJ, hidden_MPJ = np.ones(x_MTJC.shape[:3], dtype=bool), None
    if view.real_RT is not None:
        real_MT = view.chunk(view.real_RT)[k].numpy()
        drawn_MTJ &= real_MT[:, :, None]
        at_T = at_T[torch.from_numpy(real_MT[0])]
    if view.confidence_RTJ is not None:
        drawn_MTJ &= view.chunk(view.confidence_RTJ)[k].numpy() > 0
    notes = [f"frames {at_T.min():.0f}\N{EN DASH}{at_T.max():.0f} as {x_MTJC.shape[1]}"]
    if view.mask_RN is not None:
        mask_MN = view.chunk(view.mask_RN)[k].numpy()
        hidden_MPJ = mask_MN.reshape(len(mask_MN), -1, store.topology.num_joints)
        notes.append(f"{mask_MN.mean():.0%} hidden" if mask_MN.any() else "not masked")
    if spec is not None and spec.stream != "joint":
        notes.append(f"{spec.stream} stream")
    return Panel(title, x_MTJC, "\n".join(notes), hidden_MPJ, drawn_MTJ)
