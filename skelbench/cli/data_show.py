"""``skelbench data show``: a picture of one clip, or of what a method sees of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skelbench.cli.data_info import Name, open_store
from skelbench.cli.options import DataRoot, check_place
from skelbench.core.errors import SkelbenchError

KINDS = (".gif", ".png", ".html")
OUTPUT = "Animation (.gif), film strip (.png) or page to play and turn (.html)."
VIEW = "Draw the views of METHOD at preset small, after crop, augmentation and mask, as a film strip (.png)."
SETTING = "With --view: change a setting, as for `skelbench run`. Repeatable."


def show_clip(
    dataset: Name,
    clip: Annotated[str, typer.Option(help="Number or name of the clip.")] = "0",
    output: Annotated[Path | None, typer.Option("-o", "--output", help=OUTPUT, show_default="NAME-CLIP.gif")] = None,
    view: Annotated[str | None, typer.Option("--view", metavar="METHOD", help=VIEW)] = None,
    tokens: Annotated[int | None, typer.Option(help="With --view: 8, 15 or 30.", show_default="the method's")] = None,
    seed: Annotated[int, typer.Option(min=0, help="With --view: random seed.")] = 0,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help=SETTING)] = None,
    data_root: DataRoot = None,
) -> None:
    """Draw a clip of a dataset as an animation, a film strip or a page."""
    from skelbench.core.console import out, progress
    from skelbench.reporting.skeletons.scene import clip_scene, find_clip

    if output is not None and output.suffix.lower() not in KINDS:
        raise SkelbenchError(f"-o {output}: end the name in .gif, .png or .html, which says what kind of picture it is")
    if view is not None and output is not None and output.suffix.lower() != ".png":
        raise SkelbenchError(f"-o {output}: --view METHOD is drawn as a film strip; end the name in .png")
    if view is None and (tokens is not None or set_ or seed):
        raise SkelbenchError("--tokens, --seed and --set say what a method sees; name it with --view METHOD")
    if view is None:
        store = open_store(dataset, data_root)
        number = find_clip(store, clip)
        scene = clip_scene(store, number)
    else:
        from skelbench.data.store import roots
        from skelbench.pipeline.request import Request, parse_sets
        from skelbench.pipeline.resolve import resolve
        from skelbench.plugin.host import get_host
        from skelbench.reporting.skeletons.views import view_scene

        # Preset quick has fewer views, and the default depends on the machine.
        sets = parse_sets(set_ or [])
        request = Request(method=view, dataset=dataset, preset="small", tokens=tokens, seed=seed, sets=sets)
        resolved = resolve(request, get_host(), data_root or roots.data_root(), "cpu")
        number = find_clip(resolved.store, clip)
        scene = view_scene(resolved.store, number, resolved.spec)
    output = output or Path(f"{dataset}-{number}-{view}.png" if view else f"{dataset}-{number}.gif")
    check_place(output)
    kind = output.suffix.lower()
    if kind == ".html":
        from skelbench.reporting.skeletons.page import save_page

        save_page(scene, output)
    else:
        from skelbench.reporting.skeletons.draw import animation_frames, save_animation, save_strip

        if kind == ".png":
            save_strip(scene, output)
        else:
            with progress(animation_frames(scene), "drawing", "frames") as report:
                save_animation(scene, output, report)
    out.print(f"{scene.title}\nwritten to {output}")
