"""``plot map``: where features of test clips lie, on the plane of their largest variance or as neighbours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from pydantic import Field

from skelbench.core.component import Spec
from skelbench.core.errors import SkelbenchError
from skelbench.core.text import plain
from skelbench.plugin import FigureSpec, hookimpl
from skelbench.reporting.confusion import short
from skelbench.reporting.figures.of_runs import asked, facts_of, features_of, title_of
from skelbench.reporting.figures.panels import Heading, panel_grid
from skelbench.reporting.figures.style import COLOURS, GUIDE, MARKERS, house

if TYPE_CHECKING:
    from skelbench.data.store.clip_store import ClipStore
    from skelbench.reporting.inputs import TableInputs

MOST, COLUMNS = 4, 2
"""Maps in one figure, and on a line."""
PROJECTIONS = {
    "pca": "Principal components of the features shown; the axes have one scale.",
    "tsne": "t-SNE, perplexity {perplexity}, seed {seed}: who is near whom; distances between groups, their sizes and "
    "the axes mean nothing.",
    "umap": "UMAP, seed {seed}: who is near whom; distances between groups, their sizes and the axes mean nothing.",
}


class FeatureMap(Spec):
    """Settings of the figure."""

    colour: Literal["class", "subject", "camera"] = "class"
    """What points are coloured by."""
    by: Literal["pca", "tsne", "umap"] = "pca"
    """The projection; tsne needs scikit-learn, umap umap-learn."""
    groups: int = Field(8, ge=1, le=len(COLOURS))
    """Coloured are so many, those with the most clips; the rest is grey."""
    clips: int = Field(2000, ge=10, le=50_000)
    """Test clips shown, evenly over the classes."""
    seed: int = Field(0, ge=0)
    """Of t-SNE and UMAP."""


@hookimpl
def skelbench_figures() -> list[FigureSpec]:
    summary = "features of test clips on a plane, coloured by class, subject or camera (--run, --set colour=subject)"
    return [FigureSpec(name="map", target=":draw", config=":FeatureMap", summary=summary, snapshots=True)]


@dataclass(frozen=True)
class Panel:
    """The features of one run."""

    heading: Heading
    place_C2: np.ndarray
    """Of each clip."""
    group_C: np.ndarray
    """int: class, subject or camera of each clip."""
    axes: tuple[str, str]


def draw(inputs: TableInputs) -> Figure:
    """A map per run of the features of the same test clips.

    Raises:
        NothingToDraw: there is no trained run, or so many that they have to be named.
        SkelbenchError: the runs are of different data, which says nothing of that kind, or a package is missing.
    """
    settings = inputs.settings_as(FeatureMap)
    runs = asked(inputs, MOST)
    first = runs[0][0].spec.data
    if other := next((run for run, _ in runs if run.spec.data != first), None):
        raise SkelbenchError(
            f"{runs[0][0].name} and {other.name} are of different data or splits; name runs of the same: "
            "skelbench plot map --run RUN"
        )
    project = _PROJECTORS[settings.by]
    panels = []
    for run, checkpoint in runs:
        features, store = features_of(inputs, run, checkpoint)
        ids, shown = features.test_ids, _evenly(features.test_y, settings.clips)
        place_C2, axes = project(features.test_x[shown], settings.seed)
        count = f"{len(shown):,} of {len(ids):,} test clips" if len(shown) < len(ids) else f"{len(ids):,} test clips"
        note = f"{run.spec.data.title}, {run.spec.data.split}; {count}, {facts_of(run)}"
        panels.append(
            Panel(
                Heading(title_of(inputs, run, checkpoint), note), place_C2, _groups(store, ids[shown], settings), axes
            )
        )
    with house():
        return _figure(panels, settings, _names(store, settings.colour))


# ------------------------------------------------------------------------------------------------ what is drawn
def _evenly(labels: np.ndarray, most: int) -> np.ndarray:
    """Places of at most ``most`` clips, evenly spread over the classes, ascending."""
    by_class = np.argsort(labels, kind="stable")
    return np.sort(by_class[np.linspace(0, len(labels) - 1, min(most, len(labels))).round().astype(np.int64)])


def _groups(store: ClipStore, ids: np.ndarray, settings: FeatureMap) -> np.ndarray:
    """int64 [C] of the clips ``ids``; SkelbenchError where the data set does not tell them apart."""
    if settings.colour == "class":
        return np.asarray(store.labels[ids])
    group_C = np.asarray(store.index[settings.colour][ids])
    if len(np.unique(group_C)) < 2:
        raise SkelbenchError(
            f"data set {store.meta.name} does not tell {settings.colour}s apart in these test clips; colour by "
            "another: --set colour=class"
        )
    return group_C


def _names(store: ClipStore, colour: str) -> Callable[[int], str]:
    if colour == "class":
        return lambda group: short(plain(store.classes[group]))
    return lambda group: f"{colour} {group}"


def pca(x_CD: np.ndarray, seed: int = 0) -> tuple[np.ndarray, tuple[str, str]]:
    """[C, 2] on the first two principal components, and what the axes say: the share of the variance of each.

    Signs are settled, as either is as good: the component's largest weight is positive.
    """
    centred_CD = x_CD.astype(np.float64) - x_CD.mean(0, dtype=np.float64)
    _, scale_K, weight_KD = np.linalg.svd(centred_CD, full_matrices=False)
    weight_2D = np.zeros((2, x_CD.shape[1]))
    weight_2D[: len(weight_KD[:2])] = weight_KD[:2]
    sign_2 = np.sign(weight_2D[np.arange(2), np.abs(weight_2D).argmax(1)])
    total = float((scale_K**2).sum())
    shares = [float(scale**2) / total if total else 0.0 for scale in [*scale_K, 0.0, 0.0][:2]]
    labels = tuple(f"PC {k}, {share:.0%} of the variance" for k, share in enumerate(shares, 1))
    return centred_CD @ (weight_2D * sign_2[:, None]).T, (labels[0], labels[1])


def _tsne(x_CD: np.ndarray, seed: int) -> tuple[np.ndarray, tuple[str, str]]:
    try:
        from sklearn.manifold import TSNE
    except ImportError as error:
        raise SkelbenchError(
            "by=tsne needs scikit-learn, which is not installed: pip install 'skelbench[sklearn]', or leave out --set "
            "by=tsne"
        ) from error
    place_C2 = TSNE(init="pca", perplexity=_perplexity(len(x_CD)), random_state=seed).fit_transform(x_CD)
    return np.asarray(place_C2), ("t-SNE 1", "t-SNE 2")


def _perplexity(clips: int) -> float:
    """The usual 30, less for few clips."""
    return min(30.0, (clips - 1) / 3)


def _umap(x_CD: np.ndarray, seed: int) -> tuple[np.ndarray, tuple[str, str]]:
    try:
        from umap import UMAP
    except ImportError as error:
        raise SkelbenchError(
            "by=umap needs umap-learn, which is not installed: pip install umap-learn, or leave out --set by=umap"
        ) from error
    return np.asarray(UMAP(random_state=seed, n_jobs=1).fit_transform(x_CD)), ("UMAP 1", "UMAP 2")


_PROJECTORS: dict[str, Callable[[np.ndarray, int], tuple[np.ndarray, tuple[str, str]]]] = {
    "pca": pca,
    "tsne": _tsne,
    "umap": _umap,
}


# ------------------------------------------------------------------------------------------------ drawing
def _figure(panels: Sequence[Panel], settings: FeatureMap, name: Callable[[int], str]) -> Figure:
    group_C = np.concatenate([panel.group_C for panel in panels])
    groups, counts = np.unique(group_C, return_counts=True)
    coloured = groups[np.argsort(-counts, kind="stable")][: settings.groups].tolist()
    looks: dict[int, dict[str, Any]] = {
        group: {"color": COLOURS[place], "marker": MARKERS[place]} for place, group in enumerate(sorted(coloured))
    }
    dots: dict[str, Any] = {"linestyle": "", "markersize": 4.5, "markeredgewidth": 0}
    legend = [(Line2D([], [], **look, **dots), name(group)) for group, look in looks.items()]
    rest = len(groups) - len(coloured)
    if rest:
        legend.append((Line2D([], [], color=GUIDE, marker=".", **dots), f"{rest} others"))
    clips = len(panels[0].group_C)
    how = PROJECTIONS[settings.by].format(seed=settings.seed, perplexity=f"{_perplexity(clips):g}")
    caption = f"A point is a test clip, in colour and shape its {settings.colour}. {how}"
    if rest:
        caption += f" Coloured: the {len(coloured)} with the most clips."
    headings = [panel.heading for panel in panels]
    figure, grid = panel_grid("Map of features", headings, COLUMNS, legend, [caption], height=2.6)
    for panel, axes in zip(panels, grid):
        _panel(axes, panel, looks, settings.by)
    return figure


def _panel(axes: Axes, panel: Panel, looks: Mapping[int, dict[str, Any]], by: str) -> None:
    size = float(np.clip(60 / np.sqrt(max(1, len(panel.group_C))), 2, 4))
    others = ~np.isin(panel.group_C, list(looks))
    axes.plot(*panel.place_C2[others].T, ".", color=GUIDE, markersize=size, zorder=2, label="_others")
    for group, look in looks.items():
        own = panel.group_C == group
        axes.plot(
            *panel.place_C2[own].T, **look, linestyle="", markersize=size, markeredgewidth=0, alpha=0.75, zorder=3,
            label=str(group),
        )  # fmt: skip
    axes.set(xlabel=panel.axes[0], ylabel=panel.axes[1])
    axes.tick_params(labelbottom=False, labelleft=False, length=0)
    if by == "pca":
        axes.set_aspect("equal", adjustable="datalim")
