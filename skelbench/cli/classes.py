"""What ``skelbench runs show --classes`` says."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from skelbench.console import out
from skelbench.diagnose.per_class import evaluation
from skelbench.plugin.host import get_host
from skelbench.report import confusion
from skelbench.report.frame import predictions
from skelbench.report.render import Terminal
from skelbench.results.store import RunDir, default_root
from skelbench.spec import DataSpec


def print_classes(run: RunDir, checkpoint: str, protocol: str, top: int, data_root: Path | None) -> None:
    """Which classes one evaluation of a run finds hard, and which it confuses."""
    host = get_host()
    host.get("protocols", protocol)
    record = evaluation(run, protocol, checkpoint)
    found, data = predictions(run, record), DataSpec.model_validate(record["spec"]["data"])
    names = confusion.classes_of(found, data.name, host, data_root)
    counts_KK = confusion.matrix(found, len(names))
    draws = len(np.atleast_2d(found["predicted"]))
    title = f"{run.title} by {protocol} on {data.title} / {data.split}: class by class"
    out.print(Terminal(confusion.classes(counts_KK, names, title, top, draws)))
    out.print()
    out.print(Terminal(confusion.pairs(counts_KK, names)))
    where = "" if run.path.parent == default_root() else f" --results {run.path.parent}"
    how = "" if protocol == "linear" else f" --protocol {protocol}"
    out.print(
        f"The whole matrix as a picture: skelbench plot confusion --run {run.spec.id}{how}{where}", soft_wrap=True
    )
