"""Refuses views that cannot be built, naming the view and what to change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from skelbench.component import Spec
from skelbench.errors import SkelbenchError, did_you_mean
from skelbench.skeleton.grid import Grid
from skelbench.skeleton.topology import Topology
from skelbench.views.masks import visible_tokens
from skelbench.views.spec import Alike, Bodies, Center, Noise, RandomTokens, Same, Translate, ViewSpec

MAX_VIEWS = 255
"""Kinds of views per method, and views of one kind per clip: both are numbered in eight bits of a draw's key."""


def checked_counts(specs: Mapping[str, ViewSpec], topology: Topology, patch: int, bodies: Bodies) -> dict[str, int]:
    """Views per clip of each kind (``count`` times the parent's), after checking everything else.

    Raises :class:`SkelbenchError` naming the first view that cannot be built.
    """
    if bodies not in get_args(Bodies):
        raise SkelbenchError(did_you_mean(bodies, get_args(Bodies), "choice of bodies"))
    if len(specs) > MAX_VIEWS:
        raise SkelbenchError(f"{len(specs)} kinds of views are asked for; declare at most {MAX_VIEWS}")
    counts: dict[str, int] = {}
    for name, spec in specs.items():
        where = f"view {name!r}"
        if spec.parent is not None and spec.parent not in counts:
            why = "is declared after it" if spec.parent in specs else "is not among the declared views"
            raise SkelbenchError(f"{where} is cut from {spec.parent!r}, which {why}; declare the parent first")
        if spec.frames < 1 or spec.count < 1:
            raise SkelbenchError(f"{where} has frames={spec.frames} and count={spec.count}; both must be at least 1")
        if spec.inherit and spec.parent is None:
            raise SkelbenchError(f"{where} inherits a transform but has no parent; use a Same, Alike or Inside crop")
        if spec.parent is not None and spec.extend not in (0, specs[spec.parent].extend):
            raise SkelbenchError(f"{where} has extend={spec.extend}, unlike its parent; leave extend out, it follows")
        if spec.extend < 0:
            raise SkelbenchError(f"{where} has extend={spec.extend}; use 0 for none or a number of frames")
        counts[name] = spec.count * counts.get(spec.parent, 1)
        if counts[name] > MAX_VIEWS:
            raise SkelbenchError(f"{where} makes {counts[name]} views of every clip; ask for at most {MAX_VIEWS}")
        _check_crop(spec, where)
        for op in spec.augment:
            _in_unit(op.p, f"{where}: the chance p of {op.kind!r}")
            _ordered(op, f"{where}: {op.kind!r}")
            if isinstance(op, Noise) and op.std < 0:
                raise SkelbenchError(f"{where}: noise std={op.std} is negative; use metres, 0 or more")
            if isinstance(op, Translate) and op.limit < 0:
                raise SkelbenchError(f"{where}: translation limit={op.limit} is negative; use metres, 0 or more")
        if spec.mask is not None:
            _check_mask(spec, where, topology, patch)
    return counts


def _check_crop(spec: ViewSpec, where: str) -> None:
    crop = spec.crop
    if isinstance(crop, Same | Alike):
        return
    if isinstance(crop, Center):
        if not 0 < crop.share <= 1:
            raise SkelbenchError(f"{where}: the central share {crop.share} must be above 0 and at most 1")
        return
    for bound in (crop.lo, crop.hi):
        _in_unit(bound, f"{where}: the crop's share")
    _ordered(crop, f"{where}: crop")


def _check_mask(spec: ViewSpec, where: str, topology: Topology, patch: int) -> None:
    mask = spec.mask
    if spec.frames < patch or spec.frames % patch:
        raise SkelbenchError(
            f"{where} is masked but its {spec.frames} frames cannot be cut into patches of {patch}; "
            "choose a view length that is a multiple of the patch"
        )
    for value in (mask.lo, mask.hi, mask.p):
        _in_unit(value, f"{where}: the mask's ratio or chance")
    _ordered(mask, f"{where}: mask")
    tokens = Grid(spec.frames, patch, topology.num_joints).tokens
    if isinstance(mask, RandomTokens):
        if mask.lo == mask.hi and visible_tokens(tokens, mask.lo, mask.keep) < 1:
            raise SkelbenchError(f"{where}: hiding {mask.lo:g} of {tokens} tokens leaves none visible; lower the ratio")
    elif min(v for v in (mask.a_min, mask.a_max, 1) if v is not None) < 1:
        raise SkelbenchError(f"{where}: tube areas a_min={mask.a_min} and a_max={mask.a_max} must be 1 token or more")


def _ordered(spec: Spec, what: str) -> None:
    lo, hi = getattr(spec, "lo", 0), getattr(spec, "hi", 0)
    if not lo <= hi:
        raise SkelbenchError(f"{what}: lo={lo} is above hi={hi}; swap them")


def _in_unit(value: float, what: str) -> None:
    if not 0 <= value <= 1:
        raise SkelbenchError(f"{what} is {value}; it must lie in [0, 1]")
