"""Summary of the results in sentences: what there is, who leads and whether that is significant, what went wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from skelbench.core.text import counted
from skelbench.records.run_dir import ReadRun
from skelbench.reporting.controls import CONTROLS
from skelbench.reporting.linear import BLOCK
from skelbench.reporting.seeds import block_of
from skelbench.reporting.significance import ALPHA
from skelbench.reporting.table import Cell, Table
from skelbench.training.anomalies import describe

USUAL = {"setting": "shared", "encoder": "vit", "protocol": "linear", "stream": "joint"}
"""Values of a block that are not mentioned."""
APART = {"hardware": "", "trained_on": "trained on "}
"""Columns that a method's name mentions where rows of a block differ in them, with the words before the value."""
PAPER = "paper"
_OUTCOMES = {"running": "still running or stopped without notice", "new": "not begun"}

Row = Mapping[str, Cell]


class Sentence(NamedTuple):
    """One sentence of the summary.

    ``kind``: fact, lead, doubt (not significant), wrong (failed, collapsed, skipped). ``runs``: names of its runs.
    """

    text: str
    kind: str = "fact"
    runs: tuple[str, ...] = ()


def sentences(
    runs: Sequence[ReadRun],
    linear: Table | None,
    damaged: int,
    left_out: int,
    also_shown: Mapping[str, int] | None = None,
) -> list[Sentence]:
    """The summary. ``linear``: the table of that name with significance; ``damaged``: number of folders that cannot be
    read; ``left_out``: number of runs that tables skip because of changed settings; ``also_shown``: number of these
    runs that a table shows nevertheless."""
    found = [_contents(runs), *(_leaders(linear) if linear else ()), *_failures(runs), *_presets(runs)]
    if left_out:
        but = "".join(f", except {count} in table {name}" for name, count in (also_shown or {}).items() if count)
        found.append(
            Sentence(f"{counted(left_out, 'run')} with changed settings skipped by the tables{but}; add: --all")
        )
    if damaged:
        found.append(Sentence(f"{counted(damaged, 'folder')} skipped: files damaged or of another version.", "wrong"))
    return found


def _contents(runs: Sequence[ReadRun]) -> Sentence:
    compared = [run for run in runs if run.spec.method not in CONTROLS]
    outcomes = Counter(_OUTCOMES.get(run.outcome, run.outcome) for run in runs)
    data = sorted({run.spec.data.title for run in runs})
    names = ", ".join(data[:4]) + (f" and {len(data) - 4} more" if len(data) > 4 else "")
    controls = len(runs) - len(compared)
    return Sentence(
        f"{counted(len(compared), 'run')} of {counted(len({run.title for run in compared}), 'method')} (with variants)"
        f"{f' and {controls} of controls' if controls else ''}, on {counted(len(data), 'data set')} ({names}), "
        f"{counted(len({run.spec.seed for run in runs}), 'seed')}: "
        f"{', '.join(f'{count} {name}' for name, count in outcomes.most_common())}; "
        f"{counted(sum(len(run.records()) for run in runs), 'evaluation')}."
    )


def _leaders(table: Table) -> Iterator[Sentence]:
    """The most accurate method of every block of the table, and whether its lead is significant; finished trainings
    first."""
    blocks: dict[tuple[str, ...], list[Row]] = {}
    for row in table.rows:
        if row["accuracy"].value is not None:
            blocks.setdefault(block_of(BLOCK, row), []).append(row)
    found = [(dict(zip(BLOCK, key)), rows) for key, rows in blocks.items()]
    versions = {(block["dataset"], block["split"], block["data"]) for block, _ in found}
    several = len(versions) > len({version[:2] for version in versions})
    for block, rows in sorted(found, key=lambda one: one[0]["checkpoint"] != "last"):
        ranked = sorted(rows, key=lambda row: -_number(row["accuracy"]))
        methods = [row for row in ranked if str(row["method"].value) not in CONTROLS]
        if methods:
            yield _leader(_place(block, several), methods, [row for row in ranked if row not in methods])


def _leader(place: str, methods: Sequence[Row], controls: Sequence[Row]) -> Sentence:
    first, kind = methods[0], "fact"
    apart = [key for key in APART if len({row[key].value for row in methods}) > 1]
    accuracy = _number(first["accuracy"])
    parts = [f"{place}: {_name(first, apart)} reaches {accuracy:.1f} %, alone in its block"]
    if len(methods) > 1:
        second = methods[1]
        parts[0] = f"{place}: {_name(first, apart)} leads with {accuracy:.1f} %, before {_name(second, apart)} with "
        parts[0] += f"{_number(second['accuracy']):.1f} %"
        different = _different(first, second)
        kind = "lead" if different else "doubt"
        parts.append(
            {True: "significantly different", False: "not significantly different", None: "not tested"}[different]
        )
    seeds = first["seeds"].value
    parts[-1] += f" ({counted(seeds, 'seed')})" if isinstance(seeds, int) else ""
    over, p = first["difference"].value, first["p_value"].value
    if not isinstance(over, int | float):
        some = any(control["method"].value == "untrained" for control in controls)
        parts.append(f"no untrained baseline{' of every seed' if some else ''} to compare with")
        kind = "doubt"
    else:
        parts.append(f"{over:+.1f} points over the untrained baseline".replace("-", "−"))
        if isinstance(p, int | float):
            better = p <= ALPHA and over > 0
            parts[-1] += f" (adjusted p = {p:.2g}{'' if better else ', not significant'})"
            kind = kind if better else "doubt"
    text = "; ".join(parts)
    ahead = [row for row in controls if _number(row["accuracy"]) >= accuracy]
    if ahead:
        text += f". Control {_name(ahead[0])} is ahead of all methods with {_number(ahead[0]['accuracy']):.1f} %"
        kind = "doubt"
    nearest = [(_number(row["knn"]), _name(row)) for row in controls if row["knn"].value is not None]
    own = [_number(row["knn"]) for row in methods if row["knn"].value is not None]
    if nearest and own and max(nearest)[0] > max(own):
        text += f". By 1-NN accuracy control {max(nearest)[1]} is ahead with {max(nearest)[0]:.1f} %"
    return Sentence(f"{text}.", kind, tuple(str(first["run"].value).split(", ")))


def _different(first: Row, second: Row) -> bool | None:
    """Whether two rows share no letter of the significance table; None where the two were not tested."""
    letters = [str(row["letters"].value or "") if "letters" in row else "" for row in (first, second)]
    if "untested" in first and second["run"].value in str(first["untested"].value or "").split("; "):
        return None
    return not set(letters[0]) & set(letters[1]) if all(letters) else None


def _failures(runs: Sequence[ReadRun]) -> Iterator[Sentence]:
    for run in runs:
        name = f"{run.title} (seed {run.spec.seed})"
        if found := run.info.get("collapse"):
            yield Sentence(f"{name} collapsed: {'; '.join(map(describe, found))}.", "wrong", (run.name,))
        if found := run.info.get("shortcut"):
            signs = "; ".join(
                f"{one['what']}, {one['measure']} {one['value']:.3g} at step {one['step']}" for one in found
            )
            yield Sentence(f"{name} may have learned a shortcut: {signs}.", "wrong", (run.name,))
        if run.outcome in ("failed", "diverged", "interrupted"):
            reason = f": {run.reason.rstrip('.')}" if run.reason else ""
            yield Sentence(f"{name}: {run.outcome}{reason}.", "wrong", (run.name,))


def _presets(runs: Sequence[ReadRun]) -> Iterator[Sentence]:
    """Sentences that keep results of small presets and synthetic data from being taken for the paper's."""
    trained = [run for run in runs if run.spec.method not in CONTROLS and run.outcome == "done"]
    presets = Counter(run.info["preset"] for run in trained if run.info["preset"] not in (PAPER, "release"))
    if presets:
        small = ", ".join(f"{count} of preset {name}" for name, count in sorted(presets.items()))
        text = f"Not the paper's training: {small}. These runs compare methods under a small budget; they do not show "
        yield Sentence(f"{text}what a method reaches with the paper's budget.", "doubt")
    if any(run.spec.data.name.startswith("synthetic") for run in trained):
        yield Sentence("Synthetic data come from a program: accuracies on them do not carry over to people.", "doubt")


def _place(block: Mapping[str, str], versions: bool) -> str:
    """The settings that the rows of a block share; ``versions``: some data set has several versions."""
    first = f"{block['dataset']} {block['split']}" + (f" (data {block['data']})" if versions else "")
    rest = [block[key] for key, usual in USUAL.items() if block[key] not in (usual, "")]
    epoch = [] if block["checkpoint"] == "last" else [f"snapshot at epoch {block['checkpoint']}"]
    return ", ".join([first, f"preset {block['preset']}", *rest, *epoch])


def _name(row: Row, apart: Sequence[str] = ()) -> str:
    """A method with its tokens, changed settings and the columns ``apart``: ``gfp (8x25, train.epochs=9)``."""
    facts = [f"{APART.get(key, '')}{row[key].value}" for key in ("tokens", "changed", *apart) if row[key].value]
    return f"{row['method'].value} ({', '.join(facts)})"


def _number(cell: Cell) -> float:
    return float(cell.value) if isinstance(cell.value, int | float) else float("-inf")
