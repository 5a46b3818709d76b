"""``plot coverage``: fraction of a view's tokens that the masks of a method hide."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from skelbench.core.component import Spec
from skelbench.core.errors import SkelbenchError
from skelbench.plugin import FigureSpec, hookimpl
from skelbench.reporting import published
from skelbench.reporting.figures import NothingToDraw
from skelbench.reporting.figures.base import COLORS, INK, finish, panel_grid, styled
from skelbench.reporting.published import slug

if TYPE_CHECKING:
    from skelbench.reporting.inputs import TableInputs
    from skelbench.views.masks import Mask

COLUMNS = 2
BINS = np.linspace(0, 1, 51)
ASK = "this figure shows a method that masks views; name one: skelbench plot coverage --method NAME"
CAPTION = (
    "Fraction of a view's tokens that a mask covers, over {masks:,} masks drawn with seed {seed}; views that the draw "
    "left unmasked are not included. Shaded: the target ratios that masks are drawn with."
)


class Coverage(Spec):
    """Settings of the figure."""

    method: str = ""
    """METHOD or METHOD:VARIANT whose views are masked."""
    tokens: int | None = None
    """Temporal tokens; None = the method's."""
    dataset: str | None = None
    """Dataset with the skeleton that is masked; None = synthetic."""
    masks: int = Field(11_520, ge=1, le=1_000_000)
    """Number of masks of each kind; the paper's number."""
    seed: int = Field(0, ge=0)
    """Seed of the masks."""


@hookimpl
def skelbench_figures() -> list[FigureSpec]:
    summary = "histogram of the fraction of tokens that a method's masks cover (--method NAME)"
    return [FigureSpec(name="coverage", target=":draw", config=":Coverage", summary=summary, needs_runs=False)]


class Kind(NamedTuple):
    """Views that are masked the same way."""

    names: str
    note: str
    lo: float
    hi: float
    """Target ratios."""
    grid: str
    """``8x25``."""
    share_R: np.ndarray
    """Fraction of tokens that each mask covers, in masked views."""


@styled
def draw(inputs: TableInputs) -> Figure:
    """Return a histogram for every kind of view that the method masks.

    Raises:
        NothingToDraw: no method was named.
        SkelbenchError: the method masks no views.
    """
    settings = inputs.settings_as(Coverage)
    if not settings.method:
        raise NothingToDraw(ASK)
    if "," in settings.method:
        raise SkelbenchError(f"figure coverage shows one method, not {settings.method}; name one of them")
    kinds = list(_kinds(inputs, settings))
    if not kinds:
        raise SkelbenchError(
            f"method {settings.method} has no masked views: it masks nothing, or masks tokens within its training "
            "step; name another one by --method NAME"
        )
    caption = [CAPTION.format(masks=settings.masks, seed=settings.seed)]
    # A paper's masks apply to whole views, the first that a method declares.
    paper = _printed(inputs, settings.method).get(kinds[0].grid)
    if paper is not None:
        mean, std, source = paper
        spread = "" if std is None else f" ± {std:.3f}"
        caption.append(f"Published: {mean:.3f}{spread} ({source}), not measured here.")
    figure, grid = panel_grid([(kind.names, kind.note) for kind in kinds], COLUMNS, height=1.5)
    for kind, axes in zip(kinds, grid):
        _panel(axes, kind)
    if paper is not None:
        grid[0].axvline(paper[0], color=COLORS[0], linestyle="--", linewidth=1.2, zorder=5, label="published mean")
    for axes in grid[::COLUMNS]:
        axes.set_ylabel("Masks, %")
    return finish(figure, f"Coverage of the masks of {inputs.host.spelling(settings.method)}", caption)


# ------------------------------------------------------------------------------------------------ data
def _kinds(inputs: TableInputs, settings: Coverage) -> Iterator[Kind]:
    import torch

    from skelbench.pipeline.request import Request
    from skelbench.pipeline.resolve import resolve
    from skelbench.training.build import view_specs
    from skelbench.views.builder import drawn_masks
    from skelbench.views.keyed import Keyed
    from skelbench.views.masks import MaskRows
    from skelbench.views.skeleton.grid import Grid

    request = Request(method=settings.method, preset="small", tokens=settings.tokens, dataset=settings.dataset)
    resolved = resolve(request, inputs.host, inputs.data_place, "cpu")
    topology, patch = resolved.store.topology, resolved.spec.grid.patch
    views: dict[tuple[Mask, int], list[str]] = {}
    for name, view in view_specs(resolved.spec).items():
        if view.mask is not None:
            views.setdefault((view.mask, view.frames), []).append(name)
    for (mask, frames), names in views.items():
        grid, keys_R = Grid(frames, patch, topology.num_joints), torch.arange(settings.masks)
        rows = MaskRows(mask, grid, keys_R, torch.zeros_like(keys_R))
        (drawn,) = drawn_masks(type(mask), [rows], topology, Keyed(settings.seed, 0))
        share_R = drawn.mask_RN.double().mean(1).numpy()
        masked = float((share_R > 0).mean())
        share_R, size = share_R[share_R > 0], f"{grid.times}x{grid.joints}"
        ratios = f"{mask.lo:g}" if mask.lo == mask.hi else f"{mask.lo:g} to {mask.hi:g}"
        summary = "no view was masked"
        if len(share_R):
            summary = f"{share_R.mean():.3f} ± {share_R.std():.3f}, from {share_R.min():.3f} to {share_R.max():.3f}"
            summary += "" if masked == 1 else f"; {masked:.0%} of the views are masked"
        note = f"{mask.kind}, ratio {ratios}, {size} tokens: {summary}"
        yield Kind(", ".join(names), note, mask.lo, mask.hi, size, share_R)


def _printed(inputs: TableInputs, method: str) -> dict[str, tuple[float, float | None, str]]:
    """Published mean and standard deviation of the coverage of ``method``, and the source, by token grid."""
    rows = [row for table in published.tables(inputs.host).values() for row in table if row["metric"] == "coverage"]
    own = [row for row in rows if slug(row["method"]) == slug(method)]
    return {row["variant"]: (row["value"], row["std"], row["source"].partition(" (")[0]) for row in own}


# ------------------------------------------------------------------------------------------------ drawing
def _panel(axes: Axes, kind: Kind) -> None:
    middle, half = (kind.lo + kind.hi) / 2, max(kind.hi - kind.lo, 0.004) / 2
    axes.axvspan(
        middle - half, middle + half, color=COLORS[3], alpha=0.22, linewidth=0, zorder=0, label="target ratios"
    )
    if len(kind.share_R):
        weights = np.full(len(kind.share_R), 100 / len(kind.share_R))
        # Coverages are whole numbers of tokens: one at an edge belongs to the bin above it whatever the rounding.
        axes.hist(kind.share_R + 1e-9, BINS.tolist(), weights=weights, color=COLORS[1], zorder=2)
        axes.axvline(float(kind.share_R.mean()), color=INK, linewidth=1.4, zorder=4, label="mean")
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100"])
    axes.set_xlabel("Masked tokens, %")
