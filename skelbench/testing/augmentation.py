"""Checks of augmentations, through the builder that applies them in training.

R rows (bodies of view instances), T frames, J joints, C = 3.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from skelbench.core.errors import SkelbenchError
from skelbench.testing.check import Check, Failed, rests_on
from skelbench.testing.clips import LENGTHS, SKELETONS, clip_batch, differs, part_of, twice
from skelbench.testing.component import PARENT, ComponentSubject, component_checks, component_kit
from skelbench.views.augmentations import Augment
from skelbench.views.builder import ViewBuilder
from skelbench.views.clips import ClipBatch
from skelbench.views.crops import Center, Same
from skelbench.views.keyed import Keyed
from skelbench.views.skeleton.topology import NTU25, Topology
from skelbench.views.spec import ViewSpec
from skelbench.views.view import View

FRAMES = 16
KEYED = Keyed(11, 5)
DRAWS = 8
"""Steps over which draws must differ, of what changes a clip in half of all cases."""


def built(
    *augment: Augment,
    batch: ClipBatch | None = None,
    keyed: Keyed = KEYED,
    topology: Topology = NTU25,
    child: bool = False,
    **how: Any,
) -> dict[str, View]:
    """Views of ``batch`` that are changed by ``augment``; with ``child`` also two that inherit what was drawn."""
    specs = {PARENT: ViewSpec(frames=FRAMES, crop=Center(share=1.0), augment=augment)}
    if child:
        specs["child"] = ViewSpec(frames=FRAMES, crop=Same(parent=PARENT), inherit=True, count=2)
    return ViewBuilder(specs, topology, 4, **how)(batch or clip_batch(topology), keyed)


def changed(*augment: Augment, **how: Any) -> Tensor:
    """float32 [R, T, J, 3], the coordinates of such a view."""
    return built(*augment, **how)[PARENT].x_RTJC


def kept(subject: ComponentSubject) -> None:
    for topology in SKELETONS:
        plain = changed(topology=topology)
        x_RTJC = changed(subject.make(p=1.0), topology=topology)
        if x_RTJC.shape != plain.shape or x_RTJC.dtype != plain.dtype:
            seen = f"{x_RTJC.dtype} {list(x_RTJC.shape)} of {topology.name}"
            look = "apply of the Change that draw returns"
            raise Failed(f"{plain.dtype} {list(plain.shape)}, as before", seen, look)
        if not torch.isfinite(x_RTJC).all():
            look = "clips of one frame, and joints that lie on each other"
            raise Failed("finite coordinates", f"some of {topology.name} are not", look)


def never(subject: ComponentSubject) -> None:
    if apart := differs(changed(subject.make(p=0.0)), changed(), 0):
        look = "rows that are not active: change draws.rows_K only"
        raise Failed("no change with p=0", f"coordinates differ by {apart:.1%}", look)


def always(subject: ComponentSubject) -> None:
    augment = subject.make(p=1.0)
    plain = changed()
    if not any(differs(changed(augment, keyed=Keyed(11, step)), plain, 1e-6) for step in range(DRAWS)):
        raise Failed("some change with p=1", f"none in {DRAWS} steps", "draw, and p, which must reach draws.active_R")


def keyed(subject: ComponentSubject) -> None:
    augment = subject.make()
    passes = twice(lambda: changed(augment))
    if apart := differs(*passes, 0):
        look = "random numbers: draws.per_clip, draws.per_body or draws.keyed, never torch.rand"
        raise Failed("the same draws from the same key", f"coordinates differ by {apart:.1%}", look)


def drawn(subject: ComponentSubject) -> None:
    augment = subject.make(p=0.5)
    batch = clip_batch(NTU25, [30] * 12)
    first = changed(augment, batch=batch)
    if not any(differs(changed(augment, batch=batch, keyed=Keyed(12, step)), first, 1e-6) for step in range(DRAWS)):
        look = "draws that ignore the key, or p that is not used"
        raise Failed("other draws from another seed", f"the same in {DRAWS} steps", look)


def clips_apart(subject: ComponentSubject) -> None:
    rests_on(keyed, subject, "keyed")
    augment = subject.make()
    batch = clip_batch(NTU25)
    x_RTJC = changed(augment, batch=batch)
    rows = torch.arange(len(LENGTHS)).repeat_interleave(torch.as_tensor(batch.bodies))
    for clip in range(len(LENGTHS)):
        alone = changed(augment, batch=part_of(batch, [clip]))
        if apart := differs(alone, x_RTJC[rows == clip], 1e-5):
            raise Failed(
                "a clip is changed alike alone and among others",
                f"clip {clip} of {LENGTHS[clip]} frames differs by {apart:.1%}",
                "draws and statistics: of a row's own key and coordinates alone",
            )


def inherited(subject: ComponentSubject) -> None:
    rests_on(keyed, subject, "keyed")
    views = built(subject.make(p=0.5), child=True)
    heirs = views["child"].chunk(views["child"].x_RTJC)
    if apart := max(differs(heir, views[PARENT].x_RTJC, 1e-5) for heir in heirs):
        look = "take(index) of the Change that draw returns, and draws that are made in apply"
        raise Failed("a view that inherits the transform is the same", f"it differs by {apart:.1%}", look)


def flat(subject: ComponentSubject) -> None:
    batch = clip_batch(NTU25, flat=True)
    z_RTJ = changed(subject.make(p=1.0), batch=batch, dimensions=2)[..., 2]
    if z_RTJ.any():
        look = "draws.dimensions: with 2 nothing may leave the image plane"
        raise Failed("z = 0 of 2-D poses", f"up to {z_RTJ.abs().max():.2g}", look)


def refused(subject: ComponentSubject) -> None:
    for p in (-0.1, 1.5):
        try:
            subject.make(p=p).check("view 'x'")
        except SkelbenchError:
            continue
        raise Failed("a chance p outside [0, 1] is refused", f"p={p} was taken", "check, which must call super().check")


CHECKS = component_checks(
    Augment,
    Check("refused", "a chance that is none is refused", refused),
    Check("kept", "shapes stay and coordinates are finite, for clips of any length and other skeletons", kept),
    Check("never", "with p=0 nothing changes", never),
    Check("always", "with p=1 something changes", always),
    Check("keyed", "the key alone decides what is drawn", keyed),
    Check("drawn", "another seed draws something else", drawn),
    Check("clips-apart", "a clip is changed alike alone and in a batch", clips_apart),
    Check("inherited", "a view that inherits what was drawn is changed alike", inherited),
    Check("flat", "2-D poses stay in their plane", flat),
)
kit = component_kit(Augment, CHECKS)
