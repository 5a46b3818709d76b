"""Summary of ``skelbench run --seeds``: means over pre-training seeds."""

from __future__ import annotations

from collections.abc import Sequence

from skelbench.core.console import out
from skelbench.pipeline.controls import Conclusion
from skelbench.plugin.host import get_host
from skelbench.records.store import ResultStore
from skelbench.reporting.columns import ColumnTable, measured
from skelbench.reporting.inputs import TableInputs
from skelbench.reporting.terminal import Terminal


def print_seeds(found: Sequence[Conclusion], store: ResultStore) -> None:
    """Print table ``linear`` of the runs and their controls; without a linear probe, a column per protocol."""
    names = {run.name for conclusion in found for run, _ in conclusion.pairs}
    inputs = TableInputs(get_host(), store, exact_only=False, only=names)
    table = inputs.table("linear")
    if not table.rows:
        columns = [measured(protocol, protocol, (protocol,)) for protocol in found[0].pairs[0][1]]
        table = ColumnTable("seeds", "Accuracy in percent", lambda frame: columns, "")(inputs)
    out.print(f"\nMean over {len(found)} pre-training seeds:")
    out.print(Terminal(table))
