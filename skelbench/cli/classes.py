"""Output of ``skelbench runs show --classes``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from skelbench.cli.summary import named_root
from skelbench.core.console import out
from skelbench.core.spec import EvalSpec
from skelbench.evaluation.outcomes import predictions
from skelbench.plugin.host import get_host
from skelbench.records.run_dir import RunDir
from skelbench.reporting import confusion
from skelbench.reporting.diagnostics.per_class import evaluation
from skelbench.reporting.terminal import Terminal


def print_classes(
    run: RunDir,
    checkpoint: str,
    protocol: str,
    top: int,
    data_root: Path | None,
    dataset: str | None = None,
    split: str | None = None,
    stream: str | None = None,
) -> None:
    """Print the hardest classes of one evaluation, and the classes that it confuses."""
    host = get_host()
    host.get("protocols", protocol)
    record = evaluation(run, protocol, checkpoint, dataset, split, stream)
    spec = EvalSpec.model_validate(record["spec"])
    found, data = predictions(run, record), spec.data
    names = confusion.classes_of(found, data.name, host, data_root)
    counts_KK = confusion.matrix(found, len(names))
    draws = len(np.atleast_2d(found["predicted"]))
    seen = "" if spec.stream_title == "joint" else f", {spec.stream_title}"
    title = f"{run.title}{seen} by {protocol} on {data.title} / {data.split}: class by class"
    out.print(Terminal(confusion.classes(counts_KK, names, title, top, draws)))
    out.print()
    out.print(Terminal(confusion.pairs(counts_KK, names)))
    where = named_root(run.path.parent)
    how = "" if protocol == "linear" else f" --protocol {protocol}"
    name = run.spec.id + ("" if checkpoint == "last" else f"@{checkpoint}")
    out.print(f"The whole matrix as a picture: skelbench plot confusion --run {name}{how}{where}", soft_wrap=True)
