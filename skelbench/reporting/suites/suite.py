"""A suite: datasets, presets, protocols and seeds that every row of its table shares (torch-free).

A run id is the hash of everything that decides a run's weights, with the versions of all components. Runs with one id
therefore have one setting, and a suite only has to name the settings.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from skelbench.core.component import Spec
from skelbench.core.errors import SkelbenchError
from skelbench.core.files import read_json
from skelbench.core.spec import RunSpec
from skelbench.pipeline.request import token_grid
from skelbench.plugin.descriptors import SuiteSpec
from skelbench.plugin.host import Host
from skelbench.records.run_dir import ReadRun
from skelbench.records.schema import facts_of


class Suite(Spec):
    """The fields of a suite's JSON file."""

    name: str
    summary: str = ""
    seeds: tuple[int, ...] = Field((0, 1, 2), min_length=1)
    tokens: tuple[int, ...] = Field((8,), min_length=1)
    """Numbers of temporal tokens; the first is the default of `suite run`."""
    encoder: str = "vit"
    protocols: tuple[str, ...] = Field(min_length=1)
    presets: dict[str, tuple[str, ...]] = Field(min_length=1)
    """Preset -> protocols that `suite run` evaluates by default; empty = all protocols of the suite."""
    datasets: dict[str, tuple[str, ...]] = Field(min_length=1)
    """Dataset -> splits of the training."""
    evaluated: dict[str, str] = Field({}, max_length=1)
    """Dataset -> split on which the protocols evaluate the frozen encoders; empty = the run's own data."""

    def mismatch(self, run: ReadRun) -> str:
        """First reason why ``run`` is not a row of the suite; "" if it is a row."""
        info, spec = run.info, run.spec
        grids = [token_grid(tokens) for tokens in self.tokens]
        frames = {grid["grid.frames"] for grid in grids}
        checks = {
            f"it is {info.get('outcome', 'new')}, not done": info.get("outcome") == "done",
            f"it changes the preset: {', '.join(map(str, info['modified']))}": not info["modified"],
            "it has its method's native setting": info.get("setting", "shared") == "shared",
            "it starts from other weights": not (spec.init_from or spec.imported),
            "it trains on filtered clips": spec.data.second_body == "zero" and not spec.data.min_frames,
            f"{spec.data.name} {spec.data.split}": spec.data.split in self.datasets.get(spec.data.name, ()),
        }
        if spec.method == "raw":  # coordinates have no encoder, and one seed is enough
            checks[f"clips of {spec.grid.frames} frames"] = spec.grid.frames in frames
        else:
            checks |= {
                f"preset {info['preset']}": info["preset"] in self.presets,
                f"seed {spec.seed}": spec.seed in self.seeds,
                f"token grid {spec.grid.frames}/{spec.grid.patch}": _grid(spec) in grids,
                f"encoder {spec.encoder}": spec.encoder == self.encoder,
            }
        failed = [reason for reason, holds in checks.items() if not holds]
        return "" if not failed else failed[0] if failed[0].startswith("it ") else f"{failed[0]} is not in the suite"


def _grid(spec: RunSpec) -> dict[str, int]:
    return {"grid.frames": spec.grid.frames, "grid.patch": spec.grid.patch}


def find_suite(host: Host, name: str) -> Suite:
    """Read the suite that a plugin announces as ``name``.

    Raises:
        SkelbenchError: no plugin announces it, or its file holds no suite of this name.
    """
    descriptor = host.get("suites", name)
    assert isinstance(descriptor, SuiteSpec)
    try:
        suite = facts_of(Suite, read_json(Path(descriptor.file)))
    except (OSError, ValueError) as error:
        raise SkelbenchError(f"suite file {descriptor.file} cannot be read: {error}") from error
    if suite.name != name:
        raise SkelbenchError(f"suite file {descriptor.file} is named {suite.name!r}, its plugin says {name!r}")
    return suite
