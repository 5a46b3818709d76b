"""Summary of the results in sentences: the runs, the best methods, whether their lead is significant, and problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from skelbench.core.text import counted, trainings
from skelbench.evaluation.stats.bootstrap import SEEDS
from skelbench.records.run_dir import ReadRun
from skelbench.reporting.controls import CONTROLS
from skelbench.reporting.linear import BLOCK
from skelbench.reporting.seeds import block_of
from skelbench.reporting.significance import ALPHA
from skelbench.reporting.table import Cell, Table
from skelbench.training.anomalies import describe

USUAL = {"budget": "", "setting": "shared", "encoder": "vit", "protocol": "linear", "stream": "joint"}
"""Default values, which the summary does not print."""
_OUTCOMES = {"running": "still running or stopped without notice", "new": "not begun"}

Row = Mapping[str, Cell]


class Sentence(NamedTuple):
    """Sentence of the summary.

    ``kind``: fact, lead, doubt (not significant), wrong (failed, collapsed, skipped). ``runs``: names of its runs.
    """

    text: str
    kind: str = "fact"
    runs: tuple[str, ...] = ()


def sentences(runs: Sequence[ReadRun], linear: Table | None, damaged: int, left_out: str) -> list[Sentence]:
    """The summary. ``linear``: the table of that name with significance; ``damaged``: number of folders that cannot be
    read; ``left_out``: what the tables skip because of changed settings."""
    lines = [_contents(runs), *(_leaders(linear) if linear else ()), *_failures(runs), *_presets(runs)]
    if left_out:
        lines.append(Sentence(f"The tables skip {left_out}; add: --all"))
    if damaged:
        lines.append(Sentence(f"{counted(damaged, 'folder')} skipped: files damaged or of another version.", "wrong"))
    return lines


def _contents(runs: Sequence[ReadRun]) -> Sentence:
    compared = [run for run in runs if run.spec.method not in CONTROLS]
    outcomes = Counter(_OUTCOMES.get(run.outcome, run.outcome) for run in runs)
    data = sorted({run.spec.data.title for run in runs})
    names = ", ".join(data[:4]) + (f" and {len(data) - 4} more" if len(data) > 4 else "")
    controls = len(runs) - len(compared)
    return Sentence(
        f"{counted(len(compared), 'run')} of {counted(len({run.title for run in compared}), 'method')} (with variants)"
        f"{f' and {controls} of controls' if controls else ''}, on {counted(len(data), 'dataset')} ({names}), "
        f"{counted(len({run.spec.seed for run in runs}), 'seed')}: "
        f"{', '.join(f'{count} {name}' for name, count in outcomes.most_common())}; "
        f"{counted(sum(len(run.records()) for run in runs), 'evaluation')}."
    )


def _leaders(table: Table) -> Iterator[Sentence]:
    """Yield the leading method of each block and whether its lead is significant; finished trainings first."""
    blocks: dict[tuple[str, ...], list[Row]] = {}
    for row in sorted(table.rows, key=lambda row: -_number(row["accuracy"])):
        if row["accuracy"].value is not None:
            blocks.setdefault(block_of(BLOCK, row), []).append(row)
    named_blocks = [(dict(zip(BLOCK, key)), rows) for key, rows in blocks.items()]
    for block, rows in sorted(named_blocks, key=lambda block: block[0]["checkpoint"] != "last"):
        controls = [row for row in rows if str(row["method"].value) in CONTROLS]
        if methods := [row for row in rows if row not in controls]:
            yield _leader(_place(block), methods, controls)


def _leader(place: str, methods: Sequence[Row], controls: Sequence[Row]) -> Sentence:
    """Sentence on the first of ``methods``; both lists begin with the most accurate row."""
    first, accuracy = methods[0], _number(methods[0]["accuracy"])
    over, p = (first[key].value for key in ("difference", "p_value"))
    different = _different(first, methods[1]) if len(methods) > 1 else None
    doubts = len(methods) > 1 and not different
    if len(methods) > 1:
        text = f"{place}: {_name(first)} leads with {accuracy:.1f} %, before {_name(methods[1])} with "
        text += f"{_number(methods[1]['accuracy']):.1f} %; "
        text += {True: "significantly different", False: "not significantly different", None: "not tested"}[different]
    else:
        text = f"{place}: {_name(first)} reaches {accuracy:.1f} %, the only method in its block"
    fewest = min((row["seeds"].value for row in methods[:2] if isinstance(row["seeds"].value, int)), default=0)
    text += f" ({trainings(fewest)})" if fewest else ""
    if not isinstance(over, int | float):
        text, doubts = f"{text}; no untrained baseline of every seed to compare with", True
    else:
        text += f"; {over:+.1f} points over the untrained baseline".replace("-", "−")
        if isinstance(p, int | float):
            significant = p <= ALPHA and abs(over) > (first["difference"].plus_minus or 0 if fewest >= SEEDS else 0)
            text += f" (adjusted p = {p:.2g}{'' if significant else ', not significant'})"
            doubts |= not significant or over < 0
    if controls and _number(controls[0]["accuracy"]) >= accuracy:
        ahead = _number(controls[0]["accuracy"])
        text, doubts = f"{text}. Control {_name(controls[0])} is ahead of all methods with {ahead:.1f} %", True
    kind = "doubt" if doubts else "lead" if different else "fact"
    return Sentence(f"{text}.", kind, tuple(str(first["run"].value).split(", ")))


def _different(first: Row, second: Row) -> bool | None:
    """Whether two rows share no letter of the significance table; None if the two were not tested."""
    letters = [str(row["letters"].value or "") if "letters" in row else "" for row in (first, second)]
    if "untested" in first and second["run"].value in str(first["untested"].value or "").split("; "):
        return None
    return not set(letters[0]) & set(letters[1]) if all(letters) else None


def _failures(runs: Sequence[ReadRun]) -> Iterator[Sentence]:
    for run in runs:
        name = f"{run.title} (seed {run.spec.seed})"
        for kind, text in (("collapse", "collapsed"), ("shortcut", "may have learned a shortcut")):
            if anomaly := run.info.get(kind):
                more = f"; {len(anomaly) - 1} more in `skelbench runs show`" if len(anomaly) > 1 else ""
                yield Sentence(f"{name} {text}: {describe(anomaly[0])}{more}.", "wrong", (run.name,))
        if run.outcome in ("failed", "diverged", "interrupted"):
            reason = f": {run.reason.rstrip('.')}" if run.reason else ""
            yield Sentence(f"{name}: {run.outcome}{reason}.", "wrong", (run.name,))


def _presets(runs: Sequence[ReadRun]) -> Iterator[Sentence]:
    """Sentences that warn that results of small presets and synthetic data are not results of the paper."""
    trained = [run for run in runs if run.spec.method not in CONTROLS and run.outcome == "done"]
    presets = Counter(run.info["preset"] for run in trained if run.info["preset"] not in ("paper", "release"))
    if presets:
        small = ", ".join(f"{count} of preset {name}" for name, count in sorted(presets.items()))
        text = f"Not the paper's training: {small}. These runs compare methods under a small budget; they do not show "
        yield Sentence(f"{text}what a method reaches with the paper's budget.", "doubt")
    if any(run.spec.data.name.startswith("synthetic") for run in trained):
        yield Sentence("Synthetic data come from a program: accuracies on them do not carry over to people.", "doubt")


def _place(block: Mapping[str, str]) -> str:
    """The settings that the rows of a block share."""
    rest = [block[key] for key, usual in USUAL.items() if block[key] not in (usual, "")]
    epoch = [] if block["checkpoint"] == "last" else [f"snapshot at epoch {block['checkpoint']}"]
    return ", ".join([f"{block['dataset']} {block['split']}", f"preset {block['preset']}", *rest, *epoch])


def _name(row: Row) -> str:
    """A method with its tokens and changed settings: ``gfp (8x25, train.epochs=9)``."""
    return (
        f"{row['method'].value} ({', '.join(str(row[key].value) for key in ('tokens', 'changed') if row[key].value)})"
    )


def _number(cell: Cell) -> float:
    return float(cell.value) if isinstance(cell.value, int | float) else float("-inf")
