"""``compare --table diagnostics``: the stored records of ``skelbench diagnose`` as one table over methods."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skelbench.core.files import read_json
from skelbench.core.hashing import digest
from skelbench.plugin import TableSpec, hookimpl
from skelbench.records.errors import Damaged, if_whole
from skelbench.records.run_dir import ReadRun
from skelbench.reporting.controls import Controls
from skelbench.reporting.diagnostics.record import VERSION
from skelbench.reporting.seeds import OLDER, alike, spread
from skelbench.reporting.table import Column, Table

if TYPE_CHECKING:
    from skelbench.reporting.inputs import TableInputs

NAME = "diagnostics"
TITLE = "Diagnostics: time order, yaw and body size"
HOW = (
    "no run was diagnosed yet: `skelbench diagnose order RUN` and `skelbench diagnose invariance RUN` keep what they "
    "find beside the run, for its untrained encoder too"
)
KINDS = ("order", "invariance")
_OWN = ("pretrain_id", "checkpoint", "data")
"""Settings of a record that belong to the run, not to the diagnosis."""
_FIGURES = {
    "order": ("order", "order_over"),
    "invariance": ("yaw", "yaw_others", "yaw_found", "size", "size_others", "size_found", "found_over"),
}
"""Columns that a diagnosis fills."""
_SHOWN = {
    "dataset": "Data set", "split": "Split", "preset": "Preset", "changed": "Changed settings", "setting": "Setting",
    "encoder": "Encoder", "hardware": "Hardware", "checkpoint": "Checkpoint", "order_by": "Order by",
    "invariance_by": "Invariance by", "data": "Data version",
}  # fmt: skip
_OF_FRAME = ("tokens", "preset", "changed", "setting", "encoder", "hardware")
_BLOCK = ["dataset", "split", "data", "setting", "encoder", "preset", "changed", "checkpoint", "tokens"]
"""Columns that are equal in all rows that are ranked together, besides the settings of the diagnosis."""


@hookimpl
def skelbench_tables() -> list[TableSpec]:
    summary = "what `diagnose order` and `diagnose invariance` found, over methods, with the untrained encoder beside"
    return [TableSpec(name=NAME, target=":table", summary=summary)]


@dataclass(frozen=True)
class Found:
    """One record: ``how`` describes the settings of the diagnosis."""

    checkpoint: str
    how: str
    version: int
    """Version of the diagnosis."""
    figures: Mapping[str, float]


def table(inputs: TableInputs) -> Table:
    """One row per method, grid and settings of the diagnoses, over seeds. Rows of other settings never compete."""
    every = inputs.every
    described = {row["run"]: row for _, row in every.drop_duplicates("run").iterrows()}
    allowed = set(inputs.frame["run"])
    runs = [run for run in inputs.runs if run.outcome == "done" and run.name in allowed]
    controls = Controls(inputs.runs)
    found = {run.name: of_run(run) for run in inputs.runs if run.outcome == "done"}
    singles = [row for run in runs for row in _rows(run, described[run.name], found, controls)]
    older = dict[str, None]()
    if not singles:
        return Table(TITLE, _columns(set()), notes=(HOW,))
    rows = list(_over_seeds(singles, older))
    rows.sort(key=lambda row: (*(row[key] for key in _BLOCK), row["method"] == "untrained", row["method"]))
    varying, constant = alike(rows, [key for key in _SHOWN if any(row[key] for row in rows)])
    said = [f"All rows: {', '.join(constant).replace('_by ', ' by ')}."] if constant else []
    said += [f"{OLDER[0].upper()}{OLDER[1:]} {', '.join(older)}."] if older else []
    built = Table(TITLE, _columns(varying), tuple(rows), (*said, *NOTES))
    for kind in KINDS:  # best and second best, among the rows with the same settings of the diagnosis
        built = built.ranked(within=[*_BLOCK, f"{kind}_by"], keys=_FIGURES[kind])
    return built


NOTES = (
    "Order: percent of clips and their reversals that a linear probe of the frozen features tells apart; chance is 50. "
    "Yaw, size: mean cosine of a changed clip's feature with its own original, over all values but the unchanged one; "
    "other: with other clips' originals, what chance gives; found: percent whose own original is nearest. A feature "
    "that throws identity away is near its own original and near others: read the three together.",
    "Over untrained: minus the same encoder as initialised, diagnosed alike; found over untrained: the mean of this "
    "over yaw and size, in points. ±: 95 % t interval over seeds. Only rows that were diagnosed with the same "
    "settings, on the same data, are ranked against each other.",
)


def of_run(run: ReadRun) -> dict[str, list[Found]]:
    """The diagnoses of ``run`` by kind, the newest of each settings; older versions of a diagnosis do not count."""
    by_kind: dict[str, list[Found]] = {}
    for kind in KINDS:
        paths = sorted(run.path.glob(f"diagnose-{kind}-*.json"))
        records = filter(None, (if_whole(partial(_record, path)) for path in paths))
        current = sorted((one for one in records if one.version == VERSION[kind]), key=lambda one: one.figures["at"])
        by_kind[kind] = list({(one.checkpoint, one.how): one for one in current}.values())
    return by_kind


def _record(path: Path) -> Found:
    """Read a record; :class:`Damaged` if it cannot be used."""
    try:
        record = read_json(path)
        what, spec = record["diagnosis"], record["spec"]
        figures = {"order": 100 * float(record["accuracy"])} if what == "order" else _invariance(record)
        figures["at"] = float(record["finished"])
        if not all(math.isfinite(value) for value in figures.values()):
            raise ValueError("a figure is not finite")
        own = {key: value for key, value in spec.items() if key not in _OWN}
        clips = f"{record['test_clips'] if what == 'order' else record['clips']} clips"
        how = f"{clips}, settings {digest(own, 6)}"
        return Found(str(spec["checkpoint"]), how, int(spec["version"]), figures)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise Damaged(f"{path} cannot be used; diagnose the run again with --force") from error


def _invariance(record: Mapping[str, Any]) -> dict[str, float]:
    figures: dict[str, float] = {}
    for change, curve in record["curves"].items():
        changed = [point for point in curve if point["value"] not in (0, 360, 1.0)]
        if not changed:
            continue
        for name, key, scale in (("", "similarity", 1), ("_others", "others", 1), ("_found", "retrieved", 100)):
            figures[f"{change}{name}"] = scale * sum(point[key] for point in changed) / len(changed)
    return figures


def _rows(
    run: ReadRun, row: Mapping[str, Any], found: Mapping[str, Mapping[str, Sequence[Found]]], controls: Controls
) -> Iterator[dict[str, Any]]:
    """The rows of one run: one for each snapshot and each further settings of a diagnosis."""
    baseline = controls.of("untrained", run.spec)
    beside = found.get(baseline.name, {}) if baseline else {}
    mine = found[run.name]
    for checkpoint in sorted({one.checkpoint for records in mine.values() for one in records}):
        each = [[one for one in mine[what] if one.checkpoint == checkpoint] for what in KINDS]
        for pair in zip_longest(*each):
            made: dict[str, Any] = {
                "method": run.title,
                "seed": run.spec.seed,
                "checkpoint": checkpoint,
                "run": run.name,
            }
            made |= {key: str(row[key]) for key in _OF_FRAME} | {key: row[key] for key in ("training", "finished")}
            data = run.spec.data  # a row of the frame is of one evaluation, whose data may be others
            made |= {"dataset": data.title, "split": data.split, "data": data.fingerprint[:12]}
            made["imported"] = run.spec.imported or ""
            for what, one in zip(KINDS, pair, strict=True):
                made[f"{what}_by"] = one.how if one else ""
                if one:
                    made |= {key: value for key, value in one.figures.items() if key != "at"}
                    made |= _over(what, one, beside.get(what, ()))
            yield made


def _over(what: str, mine: Found, theirs: Iterable[Found]) -> dict[str, float]:
    """Leads over the untrained encoder that was diagnosed with the same settings."""
    other = next((one for one in theirs if one.how == mine.how), None)
    if other is None:
        return {}
    if what == "order":
        return {"order_over": mine.figures["order"] - other.figures["order"]}
    keys = [key for key in ("yaw_found", "size_found") if key in mine.figures and key in other.figures]
    return {"found_over": sum(mine.figures[key] - other.figures[key] for key in keys) / len(keys)} if keys else {}


def _over_seeds(rows: Sequence[Mapping[str, Any]], older: dict[str, None]) -> Iterator[dict[str, Any]]:
    """Rows that differ in nothing but the seed as one; a seed that occurs twice is a row of its own. Of several
    versions of a method the one whose run finished last counts, runs of the others are named in ``older``."""
    names = ("method", "tokens", *_SHOWN, "imported")
    latest = {tuple(row.get(name, "") for name in names): row for row in sorted(rows, key=lambda row: row["finished"])}
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    seen: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        key = tuple(row.get(name, "") for name in names)
        if row["training"] != latest[key]["training"]:
            older[row["run"]] = None
            continue
        groups.setdefault((*key, seen[*key, row["seed"]]), []).append(row)
        seen[*key, row["seed"]] += 1
    for key, group in groups.items():
        figures = {
            name: spread([row[name] for row in group])
            for name in (*_FIGURES["order"], *_FIGURES["invariance"])
            if all(name in row for row in group)
        }
        runs = ", ".join(str(row["run"]) for row in group)
        said = dict(zip(names[:-1], key, strict=False))
        yield {**said, **figures, "seeds": len(group), "run": runs}


def _columns(varying: set[str]) -> tuple[Column, ...]:
    return (
        Column("method", "Method", leads=True),
        Column("tokens", "Tokens", leads=True),
        *(Column(key, header, shown=key in varying) for key, header in _SHOWN.items()),
        Column("seeds", "Seeds", "d"),
        Column("order", "Order, %", ".1f", best="max"),
        Column("order_over", "Over untrained", "+.1f"),
        Column("yaw", "Yaw: own", ".3f"),
        Column("yaw_others", "Yaw: other", ".3f"),
        Column("yaw_found", "Yaw: found, %", ".1f", best="max"),
        Column("size", "Size: own", ".3f"),
        Column("size_others", "Size: other", ".3f"),
        Column("size_found", "Size: found, %", ".1f", best="max"),
        Column("found_over", "Found over untrained", "+.1f"),
        Column("run", "Run", shown=False),
    )
