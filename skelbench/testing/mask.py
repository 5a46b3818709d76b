"""Checks of masks: which tokens are hidden, and how many.

R rows, N tokens, K visible tokens of a row.
"""

from __future__ import annotations

import torch

from skelbench.core.errors import SkelbenchError
from skelbench.testing.check import Check, Failed, rests_on
from skelbench.testing.clips import SKELETONS, twice
from skelbench.testing.component import ComponentSubject, component_checks, component_kit
from skelbench.views.keyed import Keyed
from skelbench.views.masks import Mask, MaskRows, TokenMask
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25, Topology

ROWS = 48
KEYED = Keyed(11, 5)
PATCHES = (1, 4, 8, 15)
"""Patches of frames of the grids."""
OFF = 0.15
"""Share of all tokens by which the mean number of hidden ones may miss what it should be."""


def drawn(
    mask: Mask,
    times: int = 8,
    topology: Topology = NTU25,
    keyed: Keyed = KEYED,
    rows: int = ROWS,
    view: int = 256,
) -> TokenMask:
    """Masks of ``rows`` rows of a grid of ``times`` patches, all of one ``view`` of their clips."""
    grid, keys_R = Grid(4 * times, 4, topology.num_joints), torch.arange(rows) + 7
    (token_mask,) = type(mask).draw_all([MaskRows(mask, grid, keys_R, torch.full((rows,), view))], topology, keyed)
    return token_mask


def counts(subject: ComponentSubject) -> None:
    mask = subject.make()
    for topology in SKELETONS:
        for times in PATCHES:
            tokens = times * topology.num_joints
            mask.check("view 'x'", tokens)
            _check_counts(mask, drawn(mask, times, topology), tokens)


def _check_counts(mask: Mask, found: TokenMask, tokens: int) -> None:
    mask_RN = found.mask_RN
    if mask_RN.dtype != torch.bool or tuple(mask_RN.shape) != (ROWS, tokens):
        look = "mask_RN of the TokenMask that draw returns"
        raise Failed(f"torch.bool [{ROWS}, {tokens}]", f"{mask_RN.dtype} {list(mask_RN.shape)}", look)
    hidden = float(mask_RN.sum(1).double().mean())
    if hidden > (mask.hi + OFF) * tokens:
        seen = f"{hidden:.1f} of {tokens}"
        raise Failed(f"a share of hi={mask.hi:g} of the tokens hidden at most, in the mean over rows", seen, "draw")
    expected, visible = mask.expected(tokens)
    if abs(hidden - expected) > max(1.0, OFF * tokens):
        seen = f"{hidden:.1f} of {tokens}"
        raise Failed(
            f"about {expected} hidden tokens, as expected() says", seen, "expected, from which cost is counted"
        )
    if (found.keep_RK is None) != (visible is None):
        look = "expected: both say that every row keeps as many, or neither does"
        seen = f"keep_RK is {'None' if found.keep_RK is None else 'there'}, expected() says {visible}"
        raise Failed("keep_RK where expected() states visible tokens", seen, look)
    if found.keep_RK is None or visible is None:
        return
    keep_RK = found.keep_RK
    if tuple(keep_RK.shape) != (ROWS, visible) or keep_RK.dtype != torch.int64:
        look = "keep_RK and expected"
        raise Failed(f"torch.int64 [{ROWS}, {visible}]", f"{keep_RK.dtype} {list(keep_RK.shape)}", look)
    if not torch.equal(torch.ones_like(mask_RN).scatter(1, keep_RK, False), mask_RN):
        raise Failed("keep_RK holds exactly the tokens that are not hidden", "it does not", "keep_RK")
    if (keep_RK.diff(dim=1) <= 0).any():
        raise Failed("keep_RK in ascending order", "it is not", "keep_RK: sort it by row")


def chance(subject: ComponentSubject) -> None:
    if drawn(subject.make(p=0.0)).mask_RN.any():
        raise Failed("nothing hidden with p=0", "tokens are", "p: skelbench.views.masks.hidden_tokens takes care of it")
    bare_R = ~drawn(subject.make(p=1.0)).mask_RN.any(1)
    if bare_R.any():
        raise Failed("something hidden in every row with p=1", f"nothing in {int(bare_R.sum())} of {ROWS}", "draw")
    half_R = drawn(subject.make(p=0.5)).mask_RN.any(1)
    if half_R.all() or not half_R.any():
        raise Failed("some rows hidden and others not with p=0.5", "all alike", "p, drawn by row")


def keyed(subject: ComponentSubject) -> None:
    passes = twice(lambda: drawn(subject.make()).mask_RN)
    if not torch.equal(*passes):
        look = "random numbers: keyed.uniform(request.keys_R, n, view=request.view_R, op=...), never torch.rand"
        raise Failed("the same mask from the same key", "another one", look)


def other(subject: ComponentSubject) -> None:
    mask = subject.make(p=1.0)
    first = drawn(mask).mask_RN
    if torch.equal(first, drawn(mask, keyed=Keyed(12, 5)).mask_RN):
        raise Failed("another mask from another seed", "the same", "keyed, which every draw must come from")
    if torch.equal(first, drawn(mask, view=257).mask_RN):
        raise Failed("another mask in another view of the clips", "the same", "view=request.view_R of every draw")
    if (first == first[:1]).all():
        raise Failed("a mask of its own for each row", "all rows are alike", "request.keys_R")


def rows_apart(subject: ComponentSubject) -> None:
    rests_on(keyed, subject, "keyed")
    mask = subject.make()
    whole = drawn(mask).mask_RN
    for rows in (1, 5):
        if not torch.equal(drawn(mask, rows=rows).mask_RN, whole[:rows]):
            raise Failed("a row is masked alike alone and among others", "otherwise", "draws by row: of its key alone")


def refused(subject: ComponentSubject) -> None:
    for wrong in ({"p": 1.5}, {"lo": -0.5}, {"lo": 0.9, "hi": 0.1}):
        try:
            subject.make(**wrong).check("view 'x'", 200)
        except SkelbenchError:
            continue
        said = ", ".join(f"{name}={value}" for name, value in wrong.items())
        raise Failed("shares that are none are refused", f"{said} was taken", "check, which must call super().check")


CHECKS = component_checks(
    Mask,
    Check("refused", "shares that are none are refused", refused),
    Check("counts", "it hides as many tokens as it may and expects to, on every grid and skeleton", counts),
    Check("chance", "with p=0 nothing is hidden, with p=1 something in every row", chance),
    Check("keyed", "the key alone decides what is drawn", keyed),
    Check("drawn", "another seed, another view and another row draw something else", other),
    Check("rows-apart", "a row is masked alike alone and in a batch", rows_apart),
)
kit = component_kit(Mask, CHECKS)
