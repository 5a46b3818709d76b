"""Checks of crops: where a view begins and how long it is, in clips of any length.

B entries (views times clips).
"""

from __future__ import annotations

from typing import Any, get_args

import torch
from torch import Tensor

from skelbench.testing.check import Check, Failed, Skipped, rests_on
from skelbench.testing.clips import clip_batch, differs, twice
from skelbench.testing.component import PARENT, ComponentSubject, component_checks, component_kit
from skelbench.views.builder import ViewBuilder
from skelbench.views.crops import PADDED, Center, Crop, Cut, Free, Interval, Resize
from skelbench.views.keyed import Keyed
from skelbench.views.skeleton.topology import NTU25
from skelbench.views.spec import ViewSpec

CLIPS = torch.tensor([1, 2, 3, 10, 16, 64, 65, 300, 1, 40, 40, 40])
"""Frames."""
KEYED = Keyed(11, 5)
EDGE = 1e-6
"""Frames by which rounding may leave the clip."""


def cut(crop: Crop, which: Tensor, keyed: Keyed = KEYED, resize: Resize = "ends") -> Interval:
    """The intervals of the clips ``which`` of :data:`CLIPS`; of a crop with a parent, in intervals of theirs."""
    length_B, view_B = CLIPS[which], torch.full_like(which, 256)
    inner = Interval(0.1 * (length_B - 1).double(), 0.8 * (length_B - 1).double())
    if resize in (*PADDED, "bins"):
        inner = Interval(inner.start_B.floor(), inner.duration_B.floor())
    within = inner if hasattr(crop, "parent") else None
    return crop.cut(Cut(length_B, resize, keyed, 2 * which + 6, view_B, within))


def everywhere(subject: ComponentSubject) -> None:
    crop = subject.make()
    crop.check("view 'x'")
    for resize in get_args(Resize):
        for step in range(20):
            interval = cut(crop, torch.arange(len(CLIPS)), Keyed(11, step), resize)
            _inside(crop, interval, resize)


def _inside(crop: Crop, interval: Interval, resize: str) -> None:
    start_B, end_B = interval.start_B, interval.start_B + interval.duration_B
    for name, x in (("start_B", interval.start_B), ("duration_B", interval.duration_B)):
        if x.shape != CLIPS.shape or x.dtype != torch.float64 or not torch.isfinite(x).all():
            seen = f"{x.dtype} {list(x.shape)}{'' if torch.isfinite(x).all() else ', not finite'}"
            raise Failed(f"{name} as finite torch.float64 [B]", seen, "the Interval that cut returns")
    last_B = (CLIPS - 1).double()
    over_B = last_B if crop.reflects else torch.zeros_like(last_B)
    wrong_B = (start_B < -over_B - EDGE) | (end_B > last_B + over_B + EDGE) | (interval.duration_B < -EDGE)
    if wrong_B.any():
        clip = int(wrong_B.nonzero()[0])
        raise Failed(
            "an interval inside the clip, from 0 to its last frame",
            f"{start_B[clip]:.2f} to {end_B[clip]:.2f} of a clip of {CLIPS[clip]} frames (resize={resize!r})",
            "cut; a crop whose ends are to be played backwards says so by reflects = True",
        )
    if resize in (*PADDED, "bins") and ((start_B % 1).any() or (end_B % 1).any()):
        look = "cut, which returns cut.interval(start, duration)"
        raise Failed(f"whole frames for resize={resize!r}", "parts of frames", look)


def keyed(subject: ComponentSubject) -> None:
    one, two = twice(lambda: cut(subject.make(), torch.arange(len(CLIPS))))
    if differs(_numbers(one), _numbers(two), 0):
        look = "random numbers: cut.uniform, never torch.rand"
        raise Failed("the same interval from the same key", "another one", look)


def drawn(subject: ComponentSubject) -> None:
    which = torch.arange(len(CLIPS))
    found = [cut(subject.make(), which, Keyed(seed, 0)) for seed in range(6)]
    draws = [_numbers(interval) for interval in found]
    asked = _asks(subject.make(), which)
    if not asked:
        raise Skipped("it draws nothing")
    if not any(differs(other, draws[0], 1e-9) for other in draws[1:]):
        raise Failed("another interval from another seed", "the same in 6", "what cut.uniform is used for")
    if len(set(map(tuple, draws[0][-3:].tolist()))) == 1:  # clips of one length
        look = "one draw for all clips: cut.uniform has a row for each"
        raise Failed("draws of its own for each clip", "the same for clips of one length", look)


def _numbers(interval: Interval) -> Tensor:
    """float64 [B, 2], or [B, 3] of one that says how many frames it is shown as."""
    shown = [] if interval.frames_B is None else [interval.frames_B]
    return torch.stack([interval.start_B, interval.duration_B, *shown], 1)


def _asks(crop: Crop, which: Tensor) -> bool:
    """Whether the crop draws anything."""
    calls: list[int] = []

    class Counting(Keyed):
        def uniform(self, *arguments: Any, **options: Any) -> Tensor:
            calls.append(1)
            return super().uniform(*arguments, **options)

    cut(crop, which, Counting(11, 5))
    return bool(calls)


def clips_apart(subject: ComponentSubject) -> None:
    rests_on(keyed, subject, "keyed")
    whole = cut(subject.make(), torch.arange(len(CLIPS)))
    for clip in range(len(CLIPS)):
        alone = cut(subject.make(), torch.tensor([clip]))
        if not torch.allclose(alone.start_B, whole.start_B[[clip]]):
            seen = f"start {alone.start_B[0]:.2f} and {whole.start_B[clip]:.2f} of clip {clip}"
            raise Failed("the same interval alone and in a batch", seen, "statistics over the clips in cut")


def built(subject: ComponentSubject) -> None:
    crop, batch = subject.make(), clip_batch(NTU25)
    parents = {PARENT: ViewSpec(frames=16, crop=Free())} if hasattr(crop, "parent") else {}
    specs = parents | {"cut": ViewSpec(frames=16, crop=crop, count=2), "plain": ViewSpec(frames=16, crop=Center())}
    views = ViewBuilder(specs, NTU25, 4)(batch, KEYED)
    shape = (2 * int(batch.bodies.sum()), 16, NTU25.num_joints, 3)
    x_RTJC = views["cut"].x_RTJC
    if tuple(x_RTJC.shape) != shape or not torch.isfinite(x_RTJC).all():
        raise Failed(f"finite coordinates {list(shape)}", str(list(x_RTJC.shape)), "the Interval that cut returns")


CHECKS = component_checks(
    Crop,
    Check("inside", "intervals lie inside clips of one frame, of two, short and long", everywhere),
    Check("keyed", "the key alone decides what is drawn", keyed),
    Check("drawn", "another seed and another clip draw something else", drawn),
    Check("clips-apart", "a clip is cut alike alone and in a batch", clips_apart),
    Check("built", "views are built from it", built),
)
kit = component_kit(Crop, CHECKS)
