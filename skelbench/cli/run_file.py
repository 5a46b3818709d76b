"""``skelbench run --save-toml``: a run as a file to use again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from skelbench.core.files import naming
from skelbench.pipeline.request import CHOICES
from skelbench.pipeline.resolve import Resolved
from skelbench.pipeline.studies.files import literal
from skelbench.plugin.host import get_host


def write_run(resolved: Resolved, path: Path) -> None:
    """Write all that differs from the preset, data and seed as a TOML file for ``skelbench run METHOD --config``."""
    spec, budget = resolved.spec, resolved.length and resolved.length.budget
    top: dict[str, Any] = {"preset": resolved.preset, "native": resolved.setting == "native", "seed": spec.seed}
    top |= {"dataset": spec.data.name, "split": spec.data.split, "budget": str(budget or "")}
    top |= {"plugins": [str(Path(item.source).resolve()) for item in get_host().plugins if item.requested]}
    sections: dict[str, dict[str, Any]] = {
        "encoder": {"kind": spec.encoder},
        "grid": spec.grid.model_dump(),
        "data": {"second_body": spec.data.second_body, "min_frames": spec.data.min_frames},
    }
    for key, value in resolved.modified.items():
        section, _, name = key.partition(".")
        if name or section in CHOICES:
            sections.setdefault(section, {})[name or "kind"] = value
    start = f" --init-from {spec.init_from}" if spec.init_from else ""
    lines = [f"# skelbench run {resolved.title}{start} --config {path.name}"]
    lines += [f"{key} = {literal(value)}" for key, value in top.items() if value not in ("", False, [])]
    for section, values in sections.items():
        lines += ["", f"[{section}]", *(f"{key} = {literal(value)}" for key, value in values.items())]
    with naming(path):
        path.write_text("\n".join(lines) + "\n")
