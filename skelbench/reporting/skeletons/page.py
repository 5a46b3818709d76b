"""A clip as one HTML page that can be played, stopped and turned; it is self-contained."""

from __future__ import annotations

import base64
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from skelbench.core.files import write_whole
from skelbench.reporting.skeletons.scene import COLORS, Scene, middle


def save_page(scene: Scene, path: Path) -> None:
    """Write the page."""
    template = files("skelbench.reporting.skeletons").joinpath("page.html").read_text(encoding="utf-8")
    # A "<" in a title could end the script element.
    data = json.dumps(page_data(scene)).replace("<", "\\u003c")
    write_whole(path, lambda file: file.write(template.replace("/*SCENE*/", data).encode()))


def page_data(scene: Scene) -> dict[str, Any]:
    """Data that the page's script draws; coordinates are 16-bit multiples of ``unit`` meters.

    Coordinates farther than eight times the scene's size from the middle are clipped, so that the rest is not coarse.
    """
    panel, reach = scene.panels[0], 8 * scene.size
    x_MTJC = np.clip(panel.x_MTJC - middle(panel), -reach, reach)
    unit = max(float(np.abs(x_MTJC).max()), 1e-6) / 32767
    yaw, pitch = scene.angles
    return {
        "title": scene.title,
        "fps": scene.fps,
        "flat": scene.flat,
        "size": scene.size,
        "floor": scene.floor - float(middle(panel)[1]),
        "yaw": yaw,
        "pitch": pitch,
        "parents": scene.topology.parents,
        "sides": scene.sides,
        "heads": [j for j, name in enumerate(scene.topology.joints) if name == "head"],
        "colors": COLORS,
        "bodies": len(x_MTJC),
        "there": np.flatnonzero(panel.there_MTJ.any(axis=(1, 2))).tolist(),
        "frames": panel.frames,
        "unit": unit,
        "x": _text(np.round(x_MTJC / unit).astype("<i2")),
        "drawn": _text(panel.there_MTJ.astype(np.uint8)),
    }


def _text(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
