"""What the results say, in sentences: what there is, who leads and whether that is shown, what went wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from skelbench.core.text import plain
from skelbench.records.run_dir import ReadRun
from skelbench.reporting.controls import CONTROLS
from skelbench.reporting.linear import BLOCK
from skelbench.reporting.seeds import block_of
from skelbench.reporting.significance import ALPHA
from skelbench.reporting.table import Cell, Table
from skelbench.training.anomalies import describe

USUAL = {"setting": "shared", "encoder": "vit", "protocol": "linear", "stream": "joint"}
"""What need not be said."""
APART = {"hardware": "", "trained_on": "trained on "}
"""What a method's name says where rows of a block differ in it, and how."""
PAPER = "paper"
_OUTCOMES = {"running": "still running or stopped without notice", "new": "not begun"}


class Sentence(NamedTuple):
    """One thing to know."""

    text: str
    kind: str = "fact"
    """fact, lead, doubt (not shown to be so), wrong (failed, collapsed, left out)."""
    runs: tuple[str, ...] = ()
    """Names of the runs that it is about."""


def sentences(
    runs: Sequence[ReadRun],
    linear: Table | None,
    damaged: int,
    left_out: int,
    also_shown: Mapping[str, int] | None = None,
) -> list[Sentence]:
    """The summary; ``linear`` is the table of that name with significance, ``damaged`` counts folders that could not be
    read, ``left_out`` runs that the tables leave out as settings were changed, and ``also_shown`` those of them
    that a table shows nevertheless."""
    said = [*_what_there_is(runs), *(_leaders(linear) if linear else ()), *_wrong(runs), *_presets(runs)]
    if left_out:
        runs_are = "1 run was made or evaluated" if left_out == 1 else f"{left_out} runs were made or evaluated"
        but = "".join(f", but for {count} in table {plain(name)}" for name, count in (also_shown or {}).items())
        text = f"{runs_are} with changed settings and left out of the tables{but}; --all adds."
        said.append(Sentence(text))
    if damaged:
        folders = "1 folder has" if damaged == 1 else f"{damaged} folders have"
        said.append(Sentence(f"{folders} files that are damaged or not of this version, and were left out.", "wrong"))
    return said


def _what_there_is(runs: Sequence[ReadRun]) -> Iterator[Sentence]:
    outcomes = Counter(run.outcome for run in runs)
    compared = [run for run in runs if run.spec.method not in CONTROLS]
    methods, controls = {run.title for run in compared}, len(runs) - len(compared)
    data = {run.spec.data.title for run in runs}
    evaluations = sum(len(run.records()) for run in runs)
    seeds = {run.spec.seed for run in runs}
    rest = [f"{count} {_OUTCOMES.get(name, name)}" for name, count in outcomes.most_common() if name != "done"]
    text = f"{_count(len(compared), 'run')} of {_count(len(methods), 'method or variant', 'methods and variants')}"
    text += f" and {controls} of controls" if controls else ""
    text += f", on {_count(len(data), 'data set')} ({_names(data)}), {_count(len(seeds), 'seed')}: "
    text += f"{outcomes['done']} done{''.join(f', {one}' for one in rest)}; {_count(evaluations, 'evaluation')}."
    yield Sentence(text)


def _leaders(table: Table) -> Iterator[Sentence]:
    """Of every block of the table the highest accuracy, and what may be concluded from it; of finished trainings
    first."""
    blocks: dict[tuple[str, ...], list[Mapping[str, Cell]]] = {}
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
            controls = [row for row in ranked if row not in methods]
            yield _leader(_place(block, several), methods, controls)


def _leader(where: str, methods: Sequence[Mapping[str, Cell]], controls: Sequence[Mapping[str, Cell]]) -> Sentence:
    first = methods[0]
    apart = [key for key in APART if len({row[key].value for row in methods}) > 1]
    name, accuracy = _name(first, apart), _number(first["accuracy"])
    runs = tuple(str(first["run"].value).split(", "))
    if len(methods) == 1:
        text, kind = f"{where}: {name} reaches {accuracy:.1f} %, alone in its block", "fact"
    else:
        second = methods[1]
        behind = f"{_name(second, apart)} with {_number(second['accuracy']):.1f} %"
        text = f"{where}: {name} leads with {accuracy:.1f} %, before {behind}"
        kind = "lead" if (shown := _apart(first, second)) else "doubt"
        text += {
            True: "; paired tests tell the two apart",
            False: "; paired tests do not tell the two apart",
            None: "; the two were not tested against each other",
        }[shown]
    seeds = first["seeds"].value
    text += f" ({_count(seeds, 'seed')})" if isinstance(seeds, int) else ""
    text, kind = _against_untrained(first, controls, text, kind)
    ahead = [row for row in controls if _number(row["accuracy"]) >= accuracy]
    if ahead:
        text += f". The control {_name(ahead[0])} is ahead of all methods with {_number(ahead[0]['accuracy']):.1f} %"
        kind = "doubt"
    nearest = [(_number(row["knn"]), _name(row)) for row in controls if row["knn"].value is not None]
    own = [_number(row["knn"]) for row in methods if row["knn"].value is not None]
    if nearest and own and max(nearest)[0] > max(own):
        text += f". By the nearest neighbour alone the control {max(nearest)[1]} is ahead, with {max(nearest)[0]:.1f} %"
    return Sentence(f"{text}.", kind, runs)


def _against_untrained(
    row: Mapping[str, Cell], controls: Sequence[Mapping[str, Cell]], text: str, kind: str
) -> tuple[str, str]:
    over, p = row["difference"].value, row["p_value"].value
    if not isinstance(over, int | float):
        some = isinstance(row["seeds"].value, int) and row["seeds"].value > 1
        lacking = "no untrained encoder to compare it with"
        if some and any(control["method"].value == "untrained" for control in controls):
            lacking = "not an untrained encoder of every seed to compare it with"
        return f"{text}; there is {lacking}", "doubt"
    text += f"; {over:+.1f} points over the untrained encoder".replace("-", "−")
    if not isinstance(p, int | float):
        return text, kind
    shown = p <= ALPHA and over > 0
    text += f", p = {p:.2g} after adjustment" + ("" if shown else ": not shown to be better")
    return text, kind if shown else "doubt"


def _apart(first: Mapping[str, Cell], second: Mapping[str, Cell]) -> bool | None:
    """Whether two rows share no letter of the significance table; None where either has none, or they were not tested
    against each other."""
    letters = [str(row["letters"].value or "") if "letters" in row else "" for row in (first, second)]
    if "untested" in first and second["run"].value in str(first["untested"].value or "").split("; "):
        return None
    return not set(letters[0]) & set(letters[1]) if all(letters) else None


def _wrong(runs: Sequence[ReadRun]) -> Iterator[Sentence]:
    for run in runs:
        who = plain(f"{run.title} (seed {run.spec.seed})")
        if found := run.info.get("collapse"):
            yield Sentence(f"{who} collapsed: {plain('; '.join(map(describe, found)))}.", "wrong", (run.name,))
        if found := run.info.get("shortcut"):
            what = "; ".join(
                f"{one['what']}, {one['measure']} {one['value']:.3g} at step {one['step']}" for one in found
            )
            yield Sentence(f"{who} seems to learn a shortcut: {plain(what)}.", "wrong", (run.name,))
        if run.outcome in ("failed", "diverged", "interrupted"):
            why = plain(run.reason).rstrip(".")
            text = f"{who} {'was ' if run.outcome == 'interrupted' else ''}{run.outcome}"
            yield Sentence(f"{text}{f': {why}' if why else ''}.", "wrong", (run.name,))


def _presets(runs: Sequence[ReadRun]) -> Iterator[Sentence]:
    """A small preset shows that everything works; its figures are no reproduction of anybody's."""
    trained = [run for run in runs if run.spec.method not in CONTROLS and run.outcome == "done"]
    presets = Counter(run.info["preset"] for run in trained)
    small = {name: count for name, count in presets.items() if name not in (PAPER, "release")}
    if small:
        said = ", ".join(f"{count} of preset {plain(name)}" for name, count in sorted(small.items()))
        text = f"Not the paper's training: {said}. Such a figure compares methods under its own small budget; it is "
        yield Sentence(f"{text}never the paper's, and does not say what a method reaches with the paper's.", "doubt")
    if any(run.spec.data.name.startswith("synthetic") for run in trained):
        yield Sentence(
            "Synthetic data are made by a program: accuracies on them say nothing of recorded people.", "doubt"
        )


def _place(block: Mapping[str, str], versions: bool) -> str:
    """What the rows of a block have in common; ``versions``: there are several of some data."""
    first = f"{block['dataset']} {block['split']}" + (f" (data {block['data']})" if versions else "")
    rest = [block[key] for key, usual in USUAL.items() if block[key] not in (usual, "")]
    epoch = [] if block["checkpoint"] == "last" else [f"snapshot at epoch {block['checkpoint']}"]
    return plain(", ".join([first, f"preset {block['preset']}", *rest, *epoch]))


def _name(row: Mapping[str, Cell], apart: Sequence[str] = ()) -> str:
    """A method with its tokens, changed settings and what else tells it from others: ``gfp (8x25, train.epochs=9)``."""
    told = [f"{APART.get(key, '')}{row[key].value}" for key in ("tokens", "changed", *apart) if row[key].value]
    return plain(f"{row['method'].value} ({', '.join(told)})")


def _number(cell: Cell) -> float:
    return float(cell.value) if isinstance(cell.value, int | float) else float("-inf")


def _count(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _names(names: set[str], most: int = 4) -> str:
    found = sorted(map(plain, names))
    return ", ".join(found[:most]) + (f" and {len(found) - most} more" if len(found) > most else "")
