"""``compare --table transfer``: runs that were measured on other data than they were trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from skelbench.plugin import TableSpec, hookimpl
from skelbench.reporting import published
from skelbench.reporting.builder import OVER_UNTRAINED, Measure
from skelbench.reporting.columns import BLOCK, PLACE, ColumnTable, measured
from skelbench.reporting.controls import CONTROLS
from skelbench.reporting.study_rows import Row
from skelbench.reporting.table import Cell, Column

if TYPE_CHECKING:
    from pandas import DataFrame

    from skelbench.reporting.inputs import TableInputs

NAME = "transfer"
HOW = (
    "nothing to compare yet: `skelbench eval RUN --protocol transfer --dataset NAME` measures a finished run, and its "
    "controls, on another data set; `skelbench study transfer` trains the paper's encoders that are here"
)
NOTE = (
    "A column is one protocol: a frozen encoder and one that was fine-tuned on the target are never compared. "
    "Over untrained: minus the same encoder as initialised, measured the same way."
)


@hookimpl
def skelbench_tables() -> list[TableSpec]:
    summary = "runs on other data than they were trained on: source, target, a column for each protocol, papers' beside"
    return [TableSpec(name=NAME, target=":TRANSFER", summary=summary, needs_runs=False)]


class Transfer(ColumnTable):
    """Rows by source and target of the transfer."""

    def evaluations(self, inputs: TableInputs) -> DataFrame:
        """Evaluations by the protocols that measure on other data; ``dataset`` is the target."""
        frame = inputs.frame
        elsewhere = {one.name for one in inputs.host.all("protocols") if getattr(one, "elsewhere", False)}
        frame = frame[frame["protocol"].isin(elsewhere) & (frame["source"] != "")]
        targets = [text.removesuffix(f" (from {source})") for text, source in zip(frame["dataset"], frame["source"])]
        return frame.assign(dataset=targets)

    def published_at(self, row: Row, figure: published.Figure) -> tuple[str, Mapping[str, str]]:
        """The ``variant`` of a published figure is ``from DATASET SPLIT``."""
        source = figure["variant"].removeprefix("from ")
        return f"paper {figure['protocol']}", {"source": source, "dataset": figure["dataset"], "split": figure["split"]}


def _columns(frame: DataFrame) -> list[Measure]:
    """Accuracy and lead over the untrained encoder of every protocol; published figures by how they were measured."""
    columns: list[Measure] = []
    for name in sorted(set(frame["protocol"])):
        accuracy, lead = measured(name, name, (name,)), Column(f"{name}, over untrained", "Over untrained", "+.1f")
        columns += [accuracy, replace(accuracy, column=lead, cell=_over_untrained, predicted="")]
    papers = {"paper linear": "Paper, frozen", "paper finetune": "Paper, fine-tuned"}
    return [*columns, *(measured(key, header, ()) for key, header in papers.items())]


def _over_untrained(group: DataFrame) -> Cell:
    return Cell() if group["title"].iloc[0] in CONTROLS else OVER_UNTRAINED.cell(group)


TRANSFER = Transfer(
    NAME,
    "Transfer to another data set: accuracy in percent",
    _columns,
    HOW,
    notes=(NOTE,),
    block=("source", *BLOCK),
    place=(Column("source", "Trained on", leads=True), *PLACE),
)
