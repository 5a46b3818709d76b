"""``plot coverage``: how much of a view a method's masks really hide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from pydantic import Field

from skelbench.core.component import Spec
from skelbench.core.errors import SkelbenchError
from skelbench.plugin import FigureSpec, hookimpl
from skelbench.reporting import published
from skelbench.reporting.figures import NothingToDraw
from skelbench.reporting.figures.panels import Heading, panel_grid
from skelbench.reporting.figures.style import COLOURS, INK, house
from skelbench.reporting.published import slug

if TYPE_CHECKING:
    from skelbench.reporting.inputs import TableInputs
    from skelbench.views.masks import Mask, MaskRows
    from skelbench.views.skeleton.topology import Topology

COLUMNS = 2
"""Panels on a line."""
BINS = np.linspace(0, 1, 51)
ASK = "this figure is of a method that masks views; name one: skelbench plot coverage --method NAME"
CAPTION = (
    "Share of a view's tokens that a mask hides, over {masks:,} masks drawn with seed {seed}; views that were left "
    "unmasked by chance are not among them. Shaded: the target ratios that masks are drawn with."
)


class Coverage(Spec):
    """Settings of the figure."""

    method: str = ""
    """METHOD or METHOD:VARIANT, whose views are masked."""
    tokens: int | None = None
    """Temporal tokens; None = the method's."""
    dataset: str | None = None
    """Whose skeleton the masks are of; None = synthetic."""
    masks: int = Field(11_520, ge=1, le=1_000_000)
    """How many are drawn of each kind; the paper's number."""
    seed: int = Field(0, ge=0)
    """Of the draws."""


@hookimpl
def skelbench_figures() -> list[FigureSpec]:
    summary = "histogram of the share of tokens that a method's masks hide, per kind of view (--method NAME)"
    return [FigureSpec(name="coverage", target=":draw", config=":Coverage", summary=summary, needs_runs=False)]


@dataclass(frozen=True)
class Kind:
    """Views that are masked alike."""

    names: tuple[str, ...]
    mask: str
    lo: float
    hi: float
    """Target ratios."""
    grid: str
    """``8x25``."""
    share_R: np.ndarray
    """Share of tokens hidden by each mask, of the views that were masked."""
    masked: float
    """Share of views that are masked at all."""


def draw(inputs: TableInputs) -> Figure:
    """A histogram for every kind of view that the method masks.

    Raises:
        NothingToDraw: no method was named.
        SkelbenchError: it masks no views.
    """
    settings = inputs.settings_as(Coverage)
    if not settings.method:
        raise NothingToDraw(ASK)
    if "," in settings.method:
        raise SkelbenchError(f"figure coverage has room for one method, not for {settings.method}; name one of them")
    kinds = list(_kinds(inputs, settings))
    if not kinds:
        raise SkelbenchError(
            f"method {settings.method} asks for no masked views: it hides nothing, or tokens within its step; name "
            "another one by --method NAME"
        )
    with house():
        return _figure(kinds, settings, inputs.host.spelling(settings.method), _printed(inputs, settings.method))


# ------------------------------------------------------------------------------------------------ what is drawn
def _kinds(inputs: TableInputs, settings: Coverage) -> Iterator[Kind]:
    import torch

    from skelbench.pipeline.request import Request
    from skelbench.pipeline.resolve import resolve
    from skelbench.training.build import view_specs
    from skelbench.views.masks import MaskRows
    from skelbench.views.skeleton.grid import Grid

    request = Request(method=settings.method, tokens=settings.tokens, dataset=settings.dataset)
    resolved = resolve(request, inputs.host, inputs.data_place, "cpu")
    topology, patch = resolved.store.topology, resolved.spec.grid.patch
    alike: dict[tuple[Mask, int], list[str]] = {}
    for name, view in view_specs(resolved.spec).items():
        if view.mask is not None:
            alike.setdefault((view.mask, view.frames), []).append(name)
    with inputs.track(total=len(alike) * settings.masks, label="drawing masks", unit="masks") as report:
        for (mask, frames), names in alike.items():
            grid, keys_R = Grid(frames, patch, topology.num_joints), torch.arange(settings.masks)
            share_R = _drawn(MaskRows(mask, grid, keys_R, torch.zeros_like(keys_R)), topology, settings.seed)
            report(settings.masks)
            there = share_R > 0
            size = f"{grid.times}x{grid.joints}"
            yield Kind(tuple(names), mask.kind, mask.lo, mask.hi, size, share_R[there], float(there.mean()))


def _drawn(request: MaskRows, topology: Topology, seed: int) -> np.ndarray:
    """float64 [R]: share of tokens that each mask hides."""
    from skelbench.views.builder import drawn_masks
    from skelbench.views.keyed import Keyed

    (mask,) = drawn_masks(type(request.mask), [request], topology, Keyed(seed, 0))
    return mask.mask_RN.double().mean(1).numpy()


def _printed(inputs: TableInputs, method: str) -> dict[str, tuple[float, float | None, str]]:
    """By token grid, mean and standard deviation of the coverage that a paper prints for ``method``, and the source."""
    rows = [row for table in published.tables(inputs.host).values() for row in table if row["metric"] == "coverage"]
    own = [row for row in rows if slug(row["method"]) == slug(method)]
    return {row["variant"]: (row["value"], row["std"], row["source"].partition(" (")[0]) for row in own}


# ------------------------------------------------------------------------------------------------ drawing
def _figure(
    kinds: Sequence[Kind], settings: Coverage, method: str, papers: dict[str, tuple[float, float | None, str]]
) -> Figure:
    legend: list[tuple[Line2D | Patch, str]] = [
        (Line2D([], [], color=INK, linewidth=1.4), "mean"),
        (Patch(color=COLOURS[3], alpha=0.22, linewidth=0), "target ratios"),
    ]
    captions = [CAPTION.format(masks=settings.masks, seed=settings.seed)]
    # A paper's masks are those of whole views, the first that a method asks for.
    paper = papers.get(kinds[0].grid)
    if paper is not None:
        mean, std, source = paper
        spread = "" if std is None else f" ± {std:.3f}"
        legend.append((Line2D([], [], color=COLOURS[0], linestyle="--"), "published mean"))
        captions.append(f"Published: {mean:.3f}{spread} ({source}), not measured here.")
    headings = [_heading(kind) for kind in kinds]
    figure, grid = panel_grid(f"Coverage of the masks of {method}", headings, COLUMNS, legend, captions, height=1.5)
    for kind, axes in zip(kinds, grid):
        _panel(axes, kind, paper if kind is kinds[0] else None)
    for axes in grid[::COLUMNS]:
        axes.set_ylabel("Masks, %")
    return figure


def _heading(kind: Kind) -> Heading:
    names = ", ".join(kind.names)
    ratios = f"{kind.lo:g}" if kind.lo == kind.hi else f"{kind.lo:g} to {kind.hi:g}"
    some = "" if kind.masked == 1 else f"; {kind.masked:.0%} of the views are masked"
    share_R = kind.share_R
    if not len(share_R):
        return Heading(names, f"{kind.mask}, ratio {ratios}, {kind.grid} tokens: no view was masked")
    facts = f"{share_R.mean():.3f} ± {share_R.std():.3f}, from {share_R.min():.3f} to {share_R.max():.3f}"
    return Heading(names, f"{kind.mask}, ratio {ratios}, {kind.grid} tokens: {facts}{some}")


def _panel(axes: Axes, kind: Kind, paper: tuple[float, float | None, str] | None) -> None:
    width = max(kind.hi - kind.lo, 0.004)
    middle = (kind.lo + kind.hi) / 2
    axes.axvspan(middle - width / 2, middle + width / 2, color=COLOURS[3], alpha=0.22, linewidth=0, zorder=0)
    if len(kind.share_R):
        weights = np.full(len(kind.share_R), 100 / len(kind.share_R))
        # Shares are whole numbers of tokens: those at an edge belong to the bin above it whatever the rounding.
        axes.hist(kind.share_R + 1e-9, BINS.tolist(), weights=weights, color=COLOURS[1], zorder=2)
        axes.axvline(float(kind.share_R.mean()), color=INK, linewidth=1.4, zorder=4, label="mean")
    if paper is not None:
        axes.axvline(paper[0], color=COLOURS[0], linestyle="--", linewidth=1.2, zorder=5, label="published")
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100"])
    axes.set_xlabel("Tokens hidden, %")
