"""``compare --table finetune``, ``semi``, ``robustness``, ``missing-representation``, ``retrieval``, ``transfer``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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

KINDS = ("missing", "parent-fill", "zero-fill", "noise")
"""Degradations, in the order in which they are shown."""
USUAL = ("missing_0.12", "missing_0.2", "missing_0.32")
DEGRADED = (
    "The probe was trained on clean clips only. Percent: fraction of the joints, 12, 20 and 32 % are 3, 5 and 8 of 25; "
    "noise: standard deviation in mean bone lengths."
)
TRANSFER_HOW = (
    "no results yet: `skelbench eval RUN --protocol transfer --dataset NAME` measures a finished run, and its "
    "controls, on another dataset; `skelbench study transfer` trains the paper's encoders that are here"
)
TRANSFER_NOTE = (
    "A column is one protocol: a frozen encoder and one that was fine-tuned on the target are never compared. "
    "Over untrained: minus the same encoder as initialized, measured the same way."
)


@hookimpl
def skelbench_tables() -> list[TableSpec]:
    summaries = {
        "finetune": "fine-tuning with all labels, compared with training from initial weights",
        "semi": "fine-tuning with 1 and 10 % of the labels; published results",
        "robustness": "linear accuracy with missing joints and with noise; published results",
        "missing-representation": "linear accuracy with missing joints marked or filled in; published results",
        "transfer": "evaluations on other data than the training data: source, target, one column per protocol",
        "retrieval": "1-NN accuracy, mean average precision and recall; published results",
    }
    return [
        TableSpec(name=name, target=f":{name.upper().replace('-', '_')}", summary=summary, needs_runs=False)
        for name, summary in summaries.items()
    ]


def fine_tuned(frame: DataFrame) -> list[Measure]:
    """``supervised``, ``finetune`` and every recipe of another source."""
    protocols = sorted(name for name in set(frame["protocol"]) if name.startswith("finetune@"))
    return [measured(name, name, (name,)) for name in ("supervised", "finetune", *protocols)]


def few_labels(frame: DataFrame) -> list[Measure]:
    """1 and 10 %, and every recipe of another source behind them."""
    protocols = {name for name in frame["protocol"] if name.startswith("semi@")} | {"semi@1", "semi@10"}

    def order(name: str) -> tuple[str, int]:
        share, _, source = name.removeprefix("semi@").partition("@")
        return source, int(share) if share.isdigit() else 0

    def header(name: str) -> str:
        share, _, source = name.removeprefix("semi@").partition("@")
        return f"{share} %" + (f", {source}" if source else "")

    return [measured(name, header(name), (name,)) for name in sorted(protocols, key=order)]


def conditions(*protocols: str, usual: Sequence[str] = ()) -> Callable[[DataFrame], list[Measure]]:
    """Clean clips, the ``usual`` conditions, and every other condition that one of ``protocols`` was measured under."""

    def columns(frame: DataFrame) -> list[Measure]:
        names = {*usual, *_names(frame[frame["protocol"].isin(protocols)])}
        return [
            measured("clean", "Clean", protocols),
            *(
                measured(name, _header(name), protocols, f"accuracy_{name}", f"predicted_{name}")
                for name in sorted(names, key=_order)
            ),
        ]

    return columns


def _names(frame: DataFrame) -> Iterator[str]:
    for measures in frame["measures"]:
        for metric in measures:
            name = metric.removeprefix("accuracy_")
            if name != metric and name.partition("_")[0] in KINDS and not name.endswith("_sd"):
                yield name


def _order(name: str) -> tuple[int, float]:
    kind, _, amount = name.partition("_")
    return KINDS.index(kind), float(amount)


def _header(name: str) -> str:
    kind, _, amount = name.partition("_")
    return f"{kind.capitalize()} {amount if kind == 'noise' else f'{100 * float(amount):g} %'}"


def neighbors(frame: DataFrame) -> list[Measure]:
    """1-NN accuracy by either protocol, and the rest by ``retrieval`` and ``transfer``."""
    further = {"map": "mAP", **{f"recall_at_{k}": f"Recall@{k}" for k in (1, 5, 10)}}
    return [
        measured("accuracy", "1-NN", ("retrieval", "knn")),
        *(measured(name, header, ("retrieval",), name) for name, header in further.items()),
    ]


NOISE = ("noise_0.01", "noise_0.03", "noise_0.05")
FILLED = tuple(f"{kind}_{share}" for kind in KINDS[:3] for share in ("0.12", "0.2", "0.32"))

FINETUNE = ColumnTable(
    "finetune",
    "Fine-tuned on all labels: accuracy in percent",
    fine_tuned,
    "no run was fine-tuned yet: `skelbench eval RUN --protocol finetune,supervised`",
    notes=("supervised: the same recipe from the encoder's initial weights.",),
)
SEMI = ColumnTable(
    "semi",
    "Fine-tuned on few labels: accuracy in percent",
    few_labels,
    "no run was fine-tuned on few labels yet: `skelbench study semi`, or of a run `skelbench eval RUN --protocol "
    "semi@1,semi@10`",
    notes=("Columns with a name: recipe of that source's code.",),
)
ROBUSTNESS = ColumnTable(
    "robustness",
    "Missing joints and noise in test clips: accuracy in percent",
    conditions("robustness", usual=(*USUAL, *NOISE)),
    "no run was measured on degraded clips yet: `skelbench study robustness`, or of a run `skelbench eval RUN "
    "--protocol robustness`",
    notes=(DEGRADED,),
)
MISSING_REPRESENTATION = ColumnTable(
    "missing-representation",
    "Missing joints declared or filled in: accuracy in percent",
    conditions("missing-representation", usual=FILLED),
    "no run was measured on such clips yet: `skelbench study missing-representation`, or of a run `skelbench eval RUN "
    "--protocol missing-representation`",
    notes=(DEGRADED,),
)
RETRIEVAL = ColumnTable(
    "retrieval",
    "Nearest neighbors of test clips among training clips, in percent",
    neighbors,
    "no run was measured by nearest neighbors yet: `skelbench study retrieval`, or of a run `skelbench eval RUN "
    "--protocol retrieval`",
)


class Transfer(ColumnTable):
    """Rows by source and target of the transfer."""

    def evaluations(self, inputs: TableInputs) -> DataFrame:
        """Evaluations by the protocols that measure on other data; ``dataset`` is the target."""
        frame = inputs.compared
        elsewhere = {spec.name for spec in inputs.host.all("protocols") if getattr(spec, "elsewhere", False)}
        frame = frame[frame["protocol"].isin(elsewhere) & (frame["source"] != "")]
        targets = [text.removesuffix(f" (from {source})") for text, source in zip(frame["dataset"], frame["source"])]
        return frame.assign(dataset=targets)

    def published_at(self, row: Row, figure: published.Figure) -> tuple[str, Mapping[str, str]]:
        """The ``variant`` of a published result is ``from DATASET SPLIT``."""
        source = figure["variant"].removeprefix("from ")
        return f"paper {figure['protocol']}", {"source": source, "dataset": figure["dataset"], "split": figure["split"]}


def transferred(frame: DataFrame) -> list[Measure]:
    """Accuracy and lead over the untrained encoder of every protocol; published results by how they were measured."""
    columns: list[Measure] = []
    for name in sorted(set(frame["protocol"])):
        accuracy, lead = measured(name, name, (name,)), Column(f"{name}, over untrained", "Over untrained", "+.1f")
        columns += [accuracy, replace(accuracy, column=lead, cell=_over_untrained, predicted="")]
    papers = {"paper linear": "Paper, frozen", "paper finetune": "Paper, fine-tuned"}
    return [*columns, *(measured(key, header, ()) for key, header in papers.items())]


def _over_untrained(group: DataFrame) -> Cell:
    return Cell() if group["title"].iloc[0] in CONTROLS else OVER_UNTRAINED.cell(group)


TRANSFER = Transfer(
    "transfer",
    "Transfer to another dataset: accuracy in percent",
    transferred,
    TRANSFER_HOW,
    notes=(TRANSFER_NOTE,),
    block=("source", *BLOCK),
    place=(Column("source", "Trained on", leads=True), *PLACE),
)
