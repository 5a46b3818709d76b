"""Ways to run the parts of each family, and the shapes and ranges that their results must have.

R rows, N tokens, T frames, J joints, D width.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, get_args

import torch
from pydantic import Field
from torch import Tensor, nn

from skelbench.core.spec import validated
from skelbench.methods.contract import Context, Step
from skelbench.methods.self_distillation import PrototypeSettings
from skelbench.methods.target import Hidden, MaskedTarget
from skelbench.models.optim.optimizers import Optimizer
from skelbench.models.optim.schedules import Schedule
from skelbench.models.vit import ViT, ViTConfig
from skelbench.testing.check import Failed
from skelbench.testing.clips import SKELETONS, clip_batch, differs, part_of, view_of
from skelbench.views.augmentations import Augment
from skelbench.views.builder import ViewBuilder
from skelbench.views.clips import ClipBatch
from skelbench.views.crops import WHOLE_FRAMES, Center, Crop, Cut, Interval, Resize, Same
from skelbench.views.degradations import Degrade, degraded
from skelbench.views.keyed import Keyed
from skelbench.views.masks import Mask, MaskRows, TokenMask
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25, Topology
from skelbench.views.spec import ViewSpec
from skelbench.views.view import View

PARENT = "whole"
"""Parent view for crops with a ``parent``."""
KEYED = Keyed(11, 5)


@dataclass(frozen=True)
class Family:
    """Check of the parts of one kind."""

    base: type
    contract: Callable[[Any], None]
    """Check of shapes, ranges and effects; it gets the subject and builds parts with ``subject.make(**settings)``."""
    build: Callable[[Any, Mapping[str, Any], str], Any] = validated
    """``build(cls, settings, name)``: a part."""
    rows: Callable[[Any, Sequence[int]], list[Tensor]] | None = None
    """``rows(part, which)``: result for each of the rows ``which``; None if parts draw nothing."""
    count: int = 1
    """Number of rows."""
    draws_by: str = ""
    """Functions that draw random numbers."""


# ------------------------------------------------------------------------------------------------ crops
LENGTHS = torch.tensor([1, 2, 3, 10, 16, 64, 65, 300, 40, 40])
"""Numbers of frames of clips that are cropped."""


def _cut(part: Crop, which: Sequence[int], resize: Resize = "ends") -> Interval:
    rows = torch.as_tensor(list(which))
    length_B = LENGTHS[rows]
    parent = Interval((0.1 * (length_B - 1).double()).floor(), (0.8 * (length_B - 1).double()).floor())
    within = parent if hasattr(part, "parent") else None
    return part.cut(Cut(length_B, resize, KEYED, 2 * rows + 6, torch.full_like(rows, 256), within))


def _crop_rows(part: Crop, which: Sequence[int]) -> list[Tensor]:
    interval = _cut(part, which)
    frames = [] if interval.frames_B is None else [interval.frames_B]
    return list(torch.stack([interval.start_B, interval.duration_B, *frames], 1))


def crop(subject: Any) -> None:
    """Check that intervals lie inside clips of one frame, of two, short and long."""
    part = subject.make()
    last_B = (LENGTHS - 1).double()
    beyond_B = last_B if part.reflects else torch.zeros_like(last_B)
    for resize in get_args(Resize):
        interval = _cut(part, range(len(LENGTHS)), resize)
        start_B, end_B = interval.start_B, interval.start_B + interval.duration_B
        inside_B = (start_B >= -beyond_B - 1e-6) & (end_B <= last_B + beyond_B + 1e-6) & (end_B >= start_B - 1e-6)
        for clip in (~inside_B).nonzero()[:, 0].tolist():
            text = f"{start_B[clip]:.2f} to {end_B[clip]:.2f} of a clip of {LENGTHS[clip]} frames (resize={resize!r})"
            raise Failed("an interval inside the clip, from 0 to its last frame", text, "cut, or reflects = True")
        if resize in WHOLE_FRAMES and ((start_B % 1).any() or (end_B % 1).any()):
            raise Failed(f"whole frames for resize={resize!r}", "parts of frames", "cut.interval(start, duration)")


# ------------------------------------------------------------------------------------------------ augmentations
def _views(*augment: Augment, batch: ClipBatch, keyed: Keyed = KEYED, topology: Topology = NTU25) -> dict[str, View]:
    """Views changed by ``augment``, and two views that inherit its draws."""
    specs = {
        PARENT: ViewSpec(frames=16, crop=Center(share=1.0), augment=augment),
        "child": ViewSpec(frames=16, crop=Same(parent=PARENT), inherit=True, count=2),
    }
    return ViewBuilder(specs, topology, 4)(batch, keyed)


def _augment_rows(part: Augment, which: Sequence[int]) -> list[Tensor]:
    batch = part_of(clip_batch(NTU25), list(which))
    return list(_views(part, batch=batch)[PARENT].x_RTJC.split(batch.bodies.tolist()))


def augmentation(subject: Any) -> None:
    """With p=0 nothing changes, with p=1 finite coordinates do, and a view that inherits draws is equal."""
    for topology in SKELETONS:
        batch = clip_batch(topology)
        plain, never = (_views(*x, batch=batch, topology=topology)[PARENT].x_RTJC for x in ((), (subject.make(p=0.0),)))
        if error := differs(never, plain, 0):
            raise Failed("no change with p=0", f"coordinates differ by {error:.1%}", "draws.rows_K, the active rows")
        views = [_views(subject.make(p=1.0), batch=batch, topology=topology, keyed=Keyed(11, i)) for i in range(4)]
        if any(v[PARENT].x_RTJC.shape != plain.shape or not torch.isfinite(v[PARENT].x_RTJC).all() for v in views):
            raise Failed("finite coordinates of the same shape", f"others of {topology.name}", "clips of one frame")
        if not any(differs(v[PARENT].x_RTJC, plain, 1e-6) for v in views):
            raise Failed("some change with p=1", "none in 4 steps", "draw, and p, which must reach draws.active_R")
        view = _views(subject.make(p=0.5), batch=batch, topology=topology)
        if differs(view["child"].x_RTJC, view[PARENT].x_RTJC.repeat(2, 1, 1, 1), 1e-5):
            raise Failed("the same change in a view that inherits it", "another change", "take, and draws in apply")


# ------------------------------------------------------------------------------------------------ masks
def _mask(part: Mask, which: Sequence[int], times: int = 8, topology: Topology = NTU25) -> TokenMask:
    grid, keys_R = Grid(4 * times, 4, topology.num_joints), torch.as_tensor(list(which)) + 7
    (mask,) = type(part).draw_all([MaskRows(part, grid, keys_R, torch.full_like(keys_R, 256))], topology, KEYED)
    return mask


def _mask_rows(part: Mask, which: Sequence[int]) -> list[Tensor]:
    return list(_mask(part, which).mask_RN.double())


def mask(subject: Any) -> None:
    """Check that it masks as many tokens as it declares, on all grids and skeletons, in a fraction ``p`` of rows."""
    part = subject.make()
    for topology, times in ((topology, times) for topology in SKELETONS for times in (1, 15)):
        tokens = times * topology.num_joints
        mask = _mask(part, range(48), times, topology)
        mask_RN, keep_RK, (expected, visible) = mask.mask_RN, mask.keep_RK, part.expected(tokens)
        masked = float(mask_RN.sum(1).double().mean())
        if abs(masked - expected) > max(1.0, 0.15 * tokens) or masked > (part.hi + 0.15) * tokens:
            raise Failed(f"about {expected} masked tokens", f"{masked:.1f} of {tokens}", "expected, which cost is from")
        kept_RN = mask_RN if keep_RK is None else torch.ones_like(mask_RN).scatter(1, keep_RK, False)
        if (keep_RK is None) != (visible is None) or not torch.equal(kept_RN, mask_RN):
            raise Failed("keep_RK: visible tokens of each row, if expected() states their number", "others", "draw")
    count = [int(_mask(subject.make(p=p), range(48)).mask_RN.any(1).sum()) for p in (0.0, 0.5, 1.0)]
    if not (count[0] == 0 < count[1] < 48 == count[2]):
        raise Failed("masks in none, some and all of 48 rows with p = 0, 0.5 and 1", f"{count}", "p, drawn by row")


# ------------------------------------------------------------------------------------------------ degradations
def _degrade_rows(part: Degrade, which: Sequence[int]) -> list[Tensor]:
    batch = part_of(clip_batch(NTU25), list(which))
    frames_FJ = degraded(batch, [part], NTU25, 3, 0).frames_FJ
    return list(frames_FJ.split((3 * batch.length * batch.bodies).tolist()))


def degradation(subject: Any) -> None:
    """Check that it changes copies of clips, declares removed joints, and keeps 2-D poses flat."""
    for topology in SKELETONS:
        batch = clip_batch(topology)
        before = batch.frames_FJ.clone()
        after = degraded(batch, [subject.make()], topology, 3, 0)
        if not torch.isfinite(after.frames_FJ).all():
            raise Failed("finite coordinates", f"others of {topology.name}", "clips of one frame")
        if differs(batch.frames_FJ, before, 0) or not differs(after.frames_FJ, before, 1e-6):
            raise Failed("changed copies of clips", "no change, or changed clips", "operations in place on poses.x_F3J")
        declares = after.missing_BJ is not None and bool(after.missing_BJ.any())
        if declares != subject.cls.declares:
            raise Failed(f"declares = {subject.cls.declares}", f"joints declared missing: {declares}", "poses.declare")
    flat = degraded(clip_batch(NTU25, [9], flat=True), [subject.make()], NTU25, 2, 0).frames_FJ.view(3, 9, -1)
    if flat[2].any():
        raise Failed("z = 0 of 2-D poses", f"up to {flat[2].abs().max():.2g}", "poses.dimensions, which is 2")


# ------------------------------------------------------------------------------------------------ optimizers, schedules
def optimizer(subject: Any) -> None:
    """Check that steps reduce the loss at the rate of their group, and a resumed run repeats them."""
    parameters = [nn.Parameter(torch.ones(5)) for _ in range(2)]
    first, second = (subject.make().build([{"params": [x]}], 1e-2, 0.0) for x in parameters)

    def norms(step: torch.optim.Optimizer, x: Tensor, lr: float = 1e-2, steps: int = 20) -> list[float]:
        series = []
        for _ in range(steps):
            step.param_groups[0]["lr"] = lr
            x.grad = x.detach().clone()
            step.step()
            series.append(float(x.detach().norm()))
        return series

    fixed, moving = norms(first, parameters[0], lr=0.0), norms(first, parameters[0])
    if fixed[0] != fixed[-1] or not moving[-1] < fixed[-1]:
        look = 'group["lr"], and the sign of a step'
        raise Failed("a smaller norm down the slope, and no move at rate 0", f"{fixed[-1]:.4g}, {moving[-1]:.4g}", look)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    parameters[1].data.copy_(parameters[0])
    if norms(first, parameters[0]) != norms(second, parameters[1]):
        raise Failed("a resumed run that is the same, bit by bit", "parameters differ", "self.state, param_groups")


def schedule(subject: Any) -> None:
    """Check that rates are in range, warm up linearly, and depend on nothing but the fraction of the schedule."""
    rates = {total: [subject.make().lr(1.0, step, total) for step in range(total)] for total in (1, 2, 7, 100, 1000)}
    for total, lrs in rates.items():
        if not all(math.isfinite(lr) and 0 <= lr <= 1 + 1e-9 for lr in lrs) or not any(lrs):
            raise Failed("learning rates from 0 to 1", f"{min(lrs):.4g} to {max(lrs):.4g} in {total} steps", "after")
    warm = subject.make(warmup=0.25).lr(1.0, 9, 400)
    if abs(warm - 0.1) > 1e-8:
        raise Failed("the linear warm-up that is set", f"{warm:.4g}, not 0.1", "lr: leave it to Schedule, write after")
    near = sum(abs(rate - rates[1000][10 * step + 5]) <= 0.05 for step, rate in enumerate(rates[100]))
    if near < 90:  # it may jump
        look = "after: durations are fractions, step / total"
        raise Failed("the same shape for 100 steps and for 1000", f"{near} of 100 points agree", look)


# ------------------------------------------------------------------------------------------------ targets
GRID, WIDTH = Grid(32, 8, NTU25.num_joints), 16


class TargetSettings(PrototypeSettings):
    """Smallest settings of a method that takes targets."""

    prototypes: int = 16
    head_hidden: int = 16
    bottleneck: int = 8
    decoder_dim: int = Field(16, ge=1)
    decoder_depth: int = Field(1, ge=1)
    decoder_heads: int = Field(2, ge=1)


def _target(cls: Any, values: Mapping[str, Any], name: str) -> MaskedTarget:
    make_encoder = partial(ViT, ViTConfig(dim=WIDTH, depth=1, heads=2), NTU25, GRID)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        context = Context(NTU25, GRID, make_encoder)
        return cls(TargetSettings(), context, validated(cls.Config, dict(values), name)).train()


def _hidden(share: float = 0.5, rows: Sequence[int] = (0, 1, 2, 3)) -> Hidden:
    """Return a step of a method with ``share`` of the tokens of these of four rows masked."""
    generator = torch.Generator().manual_seed(0)
    mask_RN = (torch.rand(4, GRID.tokens, generator=generator) < share)[list(rows)]
    student_RND, teacher_RND = torch.randn(2, 4, GRID.tokens, WIDTH, generator=generator)[:, list(rows)]
    x_R1TJC = view_of(NTU25, GRID, ((1, 1), (1, 1))).x_RTJC[list(rows)][:, None]
    masked_I = mask_RN.flatten().nonzero()[:, 0]
    view = replace(View.of(x_R1TJC), mask_RN=mask_RN, masked_I=masked_I, keys_R=torch.as_tensor(rows))
    uniform = lambda keys_R, n, op=0: KEYED.uniform(keys_R, n, op=op)  # noqa: E731
    step = Step(0, 10, 0.0, torch.Generator().manual_seed(0), uniform)
    return Hidden(view, student_RND.requires_grad_(), teacher_RND, 0.07, step)


def _loss(target: MaskedTarget, hidden: Hidden) -> Tensor:
    loss = target(hidden)
    if not isinstance(loss, Tensor) or loss.dim() or not torch.isfinite(loss):
        raise Failed("a finite scalar", f"{loss}"[:80], "forward, which returns a sum over masked tokens")
    return loss


def target(subject: Any) -> None:
    """Check that it returns a finite sum over masked tokens that trains student and modules."""
    part, hidden = subject.make(), _hidden()
    single, double = (float(_loss(subject.make(), _hidden(rows=rows)).detach()) for rows in (range(4), [*range(4)] * 2))
    if not abs(double - 2 * single) <= 0.05 * abs(2 * single):
        raise Failed("twice the loss for every row twice", f"{double:.4g}, not {2 * single:.4g}", "the sum over rows")
    for share in (0.0, 0.01, 1.0):
        loss = _loss(subject.make(), _hidden(share))
        if not loss.requires_grad or (share == 0 and loss.detach() != 0):
            look = "an early return: sum over no tokens instead"
            raise Failed(f"a loss with a gradient with {share:.0%} of the tokens masked", f"{loss}", look)
    _loss(part, hidden).backward()
    trained = {"student_RND": hidden.student_RND} | {n: p for n, p in part.named_parameters() if p.requires_grad}
    if without := [name for name, p in trained.items() if p.grad is None]:
        raise Failed("a gradient for the student's tokens and every parameter", f"none in {without[0]}", "a detach")
    part.after_step(hidden.step, 0.5)


# ------------------------------------------------------------------------------------------------ skeletons
def topology(subject: Any) -> None:
    """Check that left and right joints are connected the same way."""
    skeleton = subject.cls
    for joint, parent in enumerate(skeleton.parents):
        if skeleton.parents[skeleton.swap[joint]] != (skeleton.swap[parent] if parent >= 0 else -1):
            text = f"parents of {skeleton.joints[joint]!r} and its mirror image differ"
            raise Failed("left and right that are connected the same way", text, "parents and pairs")


FAMILIES: Mapping[str, Family] = {
    "crops": Family(Crop, crop, rows=_crop_rows, count=len(LENGTHS), draws_by="cut.uniform"),
    "augmentations": Family(Augment, augmentation, rows=_augment_rows, count=8, draws_by="draws.per_clip, draws.keyed"),
    "masks": Family(Mask, mask, rows=_mask_rows, count=16, draws_by="keyed.uniform(request.keys_R, ...)"),
    "degradations": Family(Degrade, degradation, rows=_degrade_rows, count=8, draws_by="poses.lost, poses.normal"),
    "optimizers": Family(Optimizer, optimizer),
    "schedules": Family(Schedule, schedule),
    "targets": Family(
        MaskedTarget,
        target,
        build=_target,
        rows=lambda part, which: [_loss(part, _hidden()).detach()],
        draws_by="hidden.step.uniform, hidden.step.generator",
    ),
    "topologies": Family(Topology, topology, build=lambda cls, values, name: cls),
}
"""Kind -> family."""
