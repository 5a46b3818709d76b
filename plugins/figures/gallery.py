"""``plot gallery``: one clip after each mask and augmentation of a method, and in its whole views, frame by frame."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Literal

from matplotlib.figure import Figure
from pydantic import Field

from skelbench.core.component import Spec
from skelbench.core.errors import SkelbenchError
from skelbench.plugin import FigureSpec, hookimpl
from skelbench.reporting.figures import NothingToDraw
from skelbench.reporting.figures.base import styled
from skelbench.reporting.skeletons.draw import film_strip
from skelbench.reporting.skeletons.scene import Panel, Scene, find_clip

if TYPE_CHECKING:
    from skelbench.core.spec import RunSpec
    from skelbench.pipeline.resolve import Resolved
    from skelbench.reporting.inputs import TableInputs

ASK = "this figure shows a method's views; name one, or two to compare: skelbench plot gallery --method NAME,NAME"
MOST = 40
"""Rows of one figure."""
CAPTION = (
    "Columns: evenly spaced frames of each row, from its first to its last. Hollow, gray: masked joints. Rows with one "
    "name: one mask or augmentation on the whole clip, with probability 1. Views are drawn as at training step {step} "
    "with seed {seed}. Masks that a method draws within its training step are not shown."
)


class Gallery(Spec):
    """Settings of the figure."""

    method: str = ""
    """METHOD or METHOD:VARIANT; several, to be compared, with commas."""
    dataset: str | None = None
    """Dataset of the clip; None = synthetic."""
    clip: int | str = 0
    """Number of the clip, or its name."""
    tokens: int | None = None
    """Temporal tokens; None = the method's."""
    frames: int = Field(6, ge=2, le=16)
    """Columns."""
    show: Literal["parts,views", "parts", "views"] = "parts,views"
    """``parts``: every mask and augmentation alone; ``views``: the views of the method."""
    step: int = Field(0, ge=0)
    """Training step, which seeds the random draws."""
    seed: int = Field(0, ge=0)
    """Seed of the draws."""

    @property
    def methods(self) -> list[str]:
        """The names in ``method``."""
        return list(dict.fromkeys(name.strip() for name in self.method.split(",") if name.strip()))


@hookimpl
def skelbench_figures() -> list[FigureSpec]:
    summary = "masks, augmentations and views of methods on one clip, frame by frame (--method NAME --set clip=N)"
    return [FigureSpec(name="gallery", target=":draw", config=":Gallery", summary=summary, needs_runs=False)]


@styled
def draw(inputs: TableInputs) -> Figure:
    """A row of poses for the clip as stored, each mask and augmentation by itself, and each kind of view.

    Raises:
        NothingToDraw: no method was named.
        SkelbenchError: there is no such method, dataset or clip.
    """
    settings = inputs.settings_as(Gallery)
    if not settings.methods:
        raise NothingToDraw(ASK)
    scenes = [_scene(inputs, settings, name) for name in settings.methods]
    count = sum(len(scene.panels) - 1 for scene in scenes) + 1
    if count > MOST:
        raise SkelbenchError(
            f"{count} rows are too many for one figure, which shows at most {MOST}; name fewer methods, or give --set "
            "show=parts or --set show=views"
        )
    first = scenes[0]
    clip = first.title.partition(" sees of ")[2]
    every = replace(first, panels=tuple(chain(first.panels[:1], *(scene.panels[1:] for scene in scenes))))
    named = zip(settings.methods if len(scenes) > 1 else [""], scenes)
    groups = [("", first.panels[:1]), *((name, scene.panels[1:]) for name, scene in named)]
    rows = [(name, [(panel, panel.evenly(settings.frames)) for panel in panels]) for name, panels in groups]
    title = f"Views of {' and '.join(settings.methods)}: {clip}"
    return film_strip(title, every, rows, CAPTION.format(step=settings.step, seed=settings.seed))


def _scene(inputs: TableInputs, settings: Gallery, method: str) -> Scene:
    from skelbench.pipeline.request import Request
    from skelbench.pipeline.resolve import resolve
    from skelbench.reporting.skeletons.views import view_scene

    tokens, dataset, seed = settings.tokens, settings.dataset, settings.seed
    request = Request(method=method, preset="small", tokens=tokens, dataset=dataset, seed=seed)
    resolved = resolve(request, inputs.host, inputs.data_place, "cpu")
    clip = find_clip(resolved.store, str(settings.clip))
    panels: list[Panel] = []
    parts = _parts(resolved) if "parts" in settings.show else None
    if parts is not None and parts.views:
        scene = view_scene(resolved.store, clip, parts, settings.step)
        # A part shows the whole clip, so only its mask needs a note.
        panels += [replace(panel, note=panel.note.partition("\n")[2]) for panel in scene.panels[1:]]
    run_scene = view_scene(resolved.store, clip, resolved.spec, settings.step)
    if "views" in settings.show:
        # Of several views of one kind, only the first is shown.
        panels += [panel for panel in run_scene.panels[1:] if " (" not in panel.title or " (1 of " in panel.title]
    return replace(run_scene, panels=(run_scene.panels[0], *panels))


def _parts(resolved: Resolved) -> RunSpec:
    """The run whose views are the single masks and augmentations of the method's views, on the whole clip."""
    from skelbench.training.build import view_specs
    from skelbench.views.crops import Free
    from skelbench.views.spec import ViewSpec

    spec = resolved.spec
    views: dict[str, ViewSpec] = {}
    for view in view_specs(spec).values():
        plain = ViewSpec(frames=spec.grid.frames, crop=Free(lo=1.0, hi=1.0), resize="ends")
        for augmentation in view.augment:
            certain = augmentation.model_copy(update={"p": 1.0})
            name = f"{augmentation.kind} alone"
            views.setdefault(name, plain.model_copy(update={"augment": (certain,)}))
        if view.mask is not None:
            mask = view.mask.model_copy(update={"p": 1.0})
            views.setdefault(f"{view.mask.kind} alone", plain.model_copy(update={"mask": mask}))
    dumped = {name: view.model_dump(mode="json") for name, view in views.items()}
    return spec.model_copy(update={"views": dumped})
