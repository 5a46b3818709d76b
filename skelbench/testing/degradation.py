"""Checks of degradations, through the function that applies them.

B clips, F frames of all bodies, J joints.
"""

from __future__ import annotations

from typing import Any

import torch

from skelbench.testing.check import Check, Failed, rests_on
from skelbench.testing.clips import LENGTHS, SKELETONS, clip_batch, differs, part_of, twice
from skelbench.testing.component import ComponentSubject, component_checks, component_kit
from skelbench.views.clips import ClipBatch
from skelbench.views.degradations import Degrade, degraded
from skelbench.views.skeleton.topology import NTU25, Topology


def done(subject: ComponentSubject, batch: ClipBatch, topology: Topology = NTU25, **how: Any) -> ClipBatch:
    """``batch`` degraded."""
    return degraded(batch, [subject.make()], topology, how.get("dimensions", 3), how.get("seed", 0))


def kept(subject: ComponentSubject) -> None:
    for topology in SKELETONS:
        batch = clip_batch(topology)
        before = batch.frames_FJ.clone()
        if not torch.isfinite(done(subject, batch, topology).frames_FJ).all():
            look = "clips of one frame, and joints that lie on each other"
            raise Failed("finite coordinates", f"some of {topology.name} are not", look)
        if differs(batch.frames_FJ, before, 0):
            look = "operations in place on poses.x_F3J; make a new tensor and return poses.with_x(...)"
            raise Failed("the clips themselves stay as they are", "they change", look)


def changes(subject: ComponentSubject) -> None:
    batch = clip_batch(NTU25)
    if not differs(done(subject, batch).frames_FJ, batch.frames_FJ, 1e-6):
        raise Failed("some change", "none", "what degrade returns: poses.with_x(...) or poses.declare(...)")


def keyed(subject: ComponentSubject) -> None:
    passes = twice(lambda: done(subject, clip_batch(NTU25)).frames_FJ)
    if apart := differs(*passes, 0):
        look = "random numbers: poses.lost, poses.normal or poses.keyed, never torch.rand"
        raise Failed("the same clips from the same seed", f"coordinates differ by {apart:.1%}", look)


def clips_apart(subject: ComponentSubject) -> None:
    rests_on(keyed, subject, "keyed")
    batch = clip_batch(NTU25)
    whole = done(subject, batch)
    ends = [*whole.offset[1:], len(whole.frames_FJ)]
    for clip, (start, end) in enumerate(zip(whole.offset, ends)):
        alone = done(subject, part_of(batch, [clip])).frames_FJ
        if apart := differs(alone, whole.frames_FJ[start:end], 0):
            raise Failed(
                "a clip is degraded alike alone and among others, to the last bit",
                f"clip {clip} of {LENGTHS[clip]} frames differs by {apart:.1%}",
                "draws and statistics: of each clip's own id and coordinates alone",
            )


def flat(subject: ComponentSubject) -> None:
    batch = done(subject, clip_batch(NTU25, flat=True), dimensions=2)
    for start, length, bodies in zip(batch.offset, batch.length, batch.bodies):
        rows = batch.frames_FJ[start : start + 3 * length * bodies].unflatten(0, (int(bodies), 3, int(length)))
        if rows[:, 2].any():
            look = "poses.dimensions: with 2 nothing may leave the image plane"
            raise Failed("z = 0 of 2-D poses", f"up to {rows[:, 2].abs().max():.2g}", look)


def declared(subject: ComponentSubject) -> None:
    missing_BJ = done(subject, clip_batch(NTU25)).missing_BJ
    some = missing_BJ is not None and bool(missing_BJ.any())
    if some != subject.cls.declares:
        seen = "some are" if some else "none is"
        raise Failed(
            f"joints declared missing: declares = {subject.cls.declares}", seen, "declares, poses.declare(...)"
        )


CHECKS = component_checks(
    Degrade,
    Check("kept", "coordinates are finite, for clips of any length and other skeletons, and the clips stay", kept),
    Check("changes", "something changes", changes),
    Check("keyed", "seed and clip alone decide what is drawn", keyed),
    Check("clips-apart", "a clip is degraded alike alone and in a batch", clips_apart),
    Check("flat", "2-D poses stay in their plane", flat),
    Check("declared", "it declares joints missing if it says so", declared),
)
kit = component_kit(Degrade, CHECKS)
