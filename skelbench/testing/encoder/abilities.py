"""What an encoder can do if it says so."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from skelbench.models.encoder import Encoded, Encoder, lines
from skelbench.testing.check import Failed, Skipped, rests_on
from skelbench.testing.clips import differs
from skelbench.testing.encoder.always import check_shapes, deterministic
from skelbench.testing.encoder.subject import GRANULARITIES, GRID, GRIDS, ROUNDING, EncoderSubject, check_same, run
from skelbench.views.streams import SINGLE
from skelbench.views.view import View


def drop_tokens(subject: EncoderSubject) -> None:
    rests_on(deterministic, subject, "deterministic")
    encoder, view = subject.needs("drop-tokens"), subject.view
    keep_RK = torch.stack([torch.arange(row, GRID.tokens, 4) for row in range(view.rows)])
    _check_dropping(encoder, view, keep_RK, keep_RK, torch.arange(GRID.tokens).expand(view.rows, -1))


def drop_lines(subject: EncoderSubject) -> None:
    rests_on(deterministic, subject, "deterministic")
    encoder, view, rows = subject.needs("drop-lines"), subject.view, subject.view.rows
    patches_RP = torch.tensor([[0, 2], [1, 3], [2, 3], [0, 1]])[:rows]
    joints_RJ = torch.stack([torch.arange(row % 3, GRID.joints, 3)[:8] for row in range(rows)])
    keep_RPJ = lines(patches_RP, joints_RJ, GRID.joints)
    every_RPJ = lines(
        torch.arange(GRID.times).expand(rows, -1), torch.arange(GRID.joints).expand(rows, -1), GRID.joints
    )
    _check_dropping(encoder, view, keep_RPJ, keep_RPJ.flatten(1), every_RPJ)


def _check_dropping(encoder: Encoder, view: View, keep: Tensor, keep_RK: Tensor, every: Tensor) -> None:
    part = run(encoder, view, keep_RK=keep)
    if "tokens" in encoder.abilities and part.tokens_RND.shape[1] != keep_RK.shape[1]:
        raise Failed(
            f"{keep_RK.shape[1]} tokens, the visible ones", str(part.tokens_RND.shape[1]), "keep_RK in forward"
        )
    look = "where keep_RK is applied: before anything mixes tokens"
    unseen = run(encoder, _elsewhere(view, keep_RK, hidden=False), keep_RK=keep)
    check_same(unseen, part, "tokens that are left out have no effect", look)
    _depends(run(encoder, _elsewhere(view, keep_RK, hidden=True), keep_RK=keep), part, "tokens that stay", look)
    check_same(run(encoder, view, keep_RK=every), run(encoder, view), "to keep every token is to leave none out", look)


def replace_tokens(subject: EncoderSubject) -> None:
    rests_on(deterministic, subject, "deterministic")
    encoder, view = subject.needs("replace-tokens"), subject.view
    for parameter in encoder.parameters():  # a mask token of zeros could not be told from content that is dropped
        if parameter.requires_grad and not parameter.any():
            torch.nn.init.constant_(parameter, 0.1)
    mask_RN = torch.zeros(view.rows, GRID.tokens, dtype=torch.bool)
    mask_RN[:, ::3] = True
    hidden_RK = mask_RN.nonzero()[:, 1].view(view.rows, -1)
    part = run(encoder, view, mask_RN=mask_RN)
    look = "where mask_RN is applied: on the projected patches, before anything mixes tokens"
    if "tokens" in encoder.abilities and part.tokens_RND.shape[1] != GRID.tokens:
        raise Failed(f"all {GRID.tokens} tokens, hidden ones too", str(part.tokens_RND.shape[1]), look)
    unseen = run(encoder, _elsewhere(view, hidden_RK, hidden=True), mask_RN=mask_RN)
    check_same(unseen, part, "what stands at hidden tokens has no effect", look)
    _depends(run(encoder, view), part, "the mask", look)
    plain = run(encoder, view, mask_RN=torch.zeros_like(mask_RN))
    check_same(plain, run(encoder, view), "a mask that hides nothing changes nothing", look)


def _elsewhere(view: View, tokens_RK: Tensor, hidden: bool) -> View:
    """``view`` with other coordinates at ``tokens_RK`` (``hidden``), or at all others."""
    there_RN = torch.zeros(view.rows, GRID.tokens, dtype=torch.bool).scatter(1, tokens_RK, True)
    there_RPJ = (there_RN if hidden else ~there_RN).unflatten(1, (GRID.times, GRID.joints))
    there_RTJ1 = there_RPJ.repeat_interleave(GRID.patch, 1)[..., None]
    return view.with_x(torch.where(there_RTJ1, view.x_RTJC.flip(1, 3) + 0.5, view.x_RTJC))


def _depends(other: Encoded, encoded: Encoded, on: str, look: str) -> None:
    if not differs(other.pooled_RD, encoded.pooled_RD, 1e-7):
        raise Failed(f"features that depend on {on}", "they are the same whatever it is", look)


def tokens(subject: EncoderSubject) -> None:
    subject.needs("tokens")
    for grid in GRIDS:
        encoder, view = subject.make(grid), subject.make_view(grid)
        if (found := run(encoder, view).tokens_RND.shape[1]) != grid.tokens:
            what = (
                f"{grid.times} x {grid.joints} = {grid.tokens} tokens of {grid.frames} frames, patches of {grid.patch}"
            )
            raise Failed(what, f"{found}", "tokens_RND: no class token, a token per joint and patch of frames")


def cells(subject: EncoderSubject) -> None:
    encoded = run(subject.needs("cells"), subject.view)
    if (found := encoded.tokens_RND.shape[1]) % GRID.joints or not found:
        raise Failed(f"stretches of frames times {GRID.joints} joints", f"{found} tokens", "tokens_RND")
    if "tokens" in subject.encoder.abilities:  # which has a readout of its own
        return
    if apart := differs(encoded.pooled_RD, encoded.tokens_RND.mean(1), ROUNDING):
        raise Failed("pooled_RD, the mean of the cells", f"they differ by {apart:.1%}", "pooled_RD")


def time_and_space(subject: EncoderSubject) -> None:
    encoder = subject.needs("time-and-space")
    encoded = run(encoder, subject.view)
    time_RD, space_RD = encoded.time_and_space(GRID.joints)
    shape = (encoded.pooled_RD.shape[0], encoder.width)
    for name, x in (("time", time_RD), ("space", space_RD)):
        if tuple(x.shape) != shape or not torch.isfinite(x).all():
            look = "levels 'time' and 'space', or tokens by patch and joint"
            raise Failed(f"a finite feature over {name} of {list(shape)}", str(list(x.shape)), look)
    if not differs(time_RD, space_RD):
        raise Failed("features over time apart from those over joints", "they are the same", "levels of Encoded")


def granularities(subject: EncoderSubject) -> None:
    encoder = subject.needs("granularities")
    encoded = run(encoder, subject.view)
    rows, count = encoded.pooled_RD.shape[0], encoder.granularities or GRANULARITIES
    for name, x in zip(("time", "space"), encoded.granularities(GRID.joints, count)):
        if tuple(x.shape) != (rows, count, encoder.width) or not torch.isfinite(x).all():
            expected = f"finite features over {name} of {[rows, count, encoder.width]}"
            raise Failed(expected, str(list(x.shape)), "levels 'times' and 'spaces', or tokens by patch and joint")
        if not differs(x[:, 0], x[:, 1]):
            raise Failed(
                f"finer features over {name} apart from coarser ones", "they are the same", "levels of Encoded"
            )


def steps(subject: EncoderSubject) -> None:
    encoder = subject.needs("steps")
    encoded = run(encoder, subject.view)
    wanted = GRID.frames if encoded.by_frame else GRID.times
    if (found := encoded.steps(GRID.joints).shape[1]) != wanted:
        raise Failed(f"features at {wanted} steps of {GRID.frames} frames", f"{found}", "tokens_RND, by_frame")


def short_views(subject: EncoderSubject) -> None:
    encoder = subject.needs("short-views")
    for frames in range(GRID.patch, GRID.frames, GRID.patch):
        view = subject.make_view(GRID.at(frames))
        encoded = run(encoder, view)
        check_shapes(encoder, view, encoded)
        if "tokens" in encoder.abilities and encoded.tokens_RND.shape[1] != GRID.at(frames).tokens:
            seen = str(encoded.tokens_RND.shape[1])
            raise Failed(f"{GRID.at(frames).tokens} tokens of a view of {frames} frames", seen, "tokens_RND")


def summary(subject: EncoderSubject) -> None:
    if not subject.encoder.summarises:
        raise Skipped("it makes no summary alone")
    views = [subject.view]
    if "short-views" in subject.encoder.abilities:
        views.append(subject.make_view(GRID.at(GRID.patch)))
    for view in views:
        whole, brief = (run(subject.encoder, view, **how) for how in ({}, {"summary": True}))
        if apart := differs(whole.summary_RD, brief.summary_RD, ROUNDING):
            raise Failed("the summary of the whole pass", f"it differs by {apart:.1%}", "forward(..., summary=True)")


def fuse_streams(subject: EncoderSubject) -> None:
    encoder = subject.needs("fuse-streams")
    for stream in ("fused", *SINGLE):
        view = replace(subject.view, stream=stream)
        check_shapes(encoder, view, run(encoder, view))
