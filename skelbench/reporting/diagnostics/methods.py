"""``compare --table diagnostics``: the stored records of ``skelbench diagnose`` as one table over methods."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skelbench.core.files import read_json
from skelbench.core.hashing import digest
from skelbench.plugin import TableSpec, hookimpl
from skelbench.records.errors import Damaged, if_whole
from skelbench.records.run_dir import ReadRun
from skelbench.reporting.builder import RUN, SEEDS, Layout, Measure, build, over_seeds, setting
from skelbench.reporting.controls import Controls
from skelbench.reporting.diagnostics.record import VERSION
from skelbench.reporting.seeds import OLDER, newest, seeds_of, spread
from skelbench.reporting.table import Column, Table

if TYPE_CHECKING:
    from pandas import DataFrame

    from skelbench.reporting.inputs import TableInputs

NAME = "diagnostics"
KINDS = ("order", "invariance")
_OWN = ("pretrain_id", "checkpoint", "data")
"""Settings of a record that belong to the run, not to the diagnosis."""
_BLOCK = ("dataset", "split", "data", "setting", "encoder", "preset", "changed", "checkpoint", "tokens")
"""Columns that are equal in all rows that are ranked together, besides the settings of the diagnosis."""
_SETTINGS = (*_BLOCK, "hardware", "order_by", "invariance_by")
_OF_FRAME = ["tokens", "setting", "encoder", "preset", "changed", "hardware", "seed", "training", "finished"]


def _figure(key: str, header: str, form: str, **more: Any) -> Measure:
    return Measure(Column(key, header, form, **more), lambda group: spread(group[key].tolist()))


FIGURES = {
    "order": (_figure("order", "Order, %", ".1f", best="max"), _figure("order_over", "Over untrained", "+.1f")),
    "invariance": (
        _figure("yaw", "Yaw: own", ".3f"),
        _figure("yaw_others", "Yaw: other", ".3f"),
        _figure("yaw_found", "Yaw: retrieved, %", ".1f", best="max"),
        _figure("size", "Size: own", ".3f"),
        _figure("size_others", "Size: other", ".3f"),
        _figure("size_found", "Size: retrieved, %", ".1f", best="max"),
        _figure("found_over", "Retrieved over untrained", "+.1f"),
    ),
}
"""Columns that each diagnosis fills."""
LAYOUT = Layout(
    "Diagnostics: time order, yaw and body size",
    "no run was diagnosed yet: `skelbench diagnose order RUN` and `skelbench diagnose invariance RUN` store their "
    "records next to the run, for its untrained encoder too",
    (
        Column("method", "Method", leads=True),
        *(setting(key, leads=True) for key in _SETTINGS),
        SEEDS,
        *FIGURES["order"],
        *FIGURES["invariance"],
        Measure(Column("run", "Run", shown=False), RUN.cell),
    ),
    (*_BLOCK, "order_by", "invariance_by"),
    (
        "Order: percent of clips and reversals that a linear probe classifies correctly; chance is 50. Yaw, size: mean "
        "cosine of a changed clip with its own original, and with others; retrieved: percent whose own is nearest. "
        "Over untrained: minus the same encoder before training, in points; retrieved: mean over yaw and size. "
        "±: 95 % t interval over seeds.",
    ),
    order=lambda row: (*(row[key] for key in _BLOCK), row["method"] == "untrained", row["method"]),
)


@hookimpl
def skelbench_tables() -> list[TableSpec]:
    summary = "results of `diagnose order` and `diagnose invariance` for all methods and the untrained encoder"
    return [TableSpec(name=NAME, target=":table", summary=summary, reference=True)]


def table(inputs: TableInputs) -> Table:
    """One row per method, grid and settings of the diagnoses, over seeds."""
    older: list[str] = []
    keys = ["method", *_SETTINGS, "imported"]
    newer = [newest(rows, older) for _, rows in _records(inputs).groupby(keys, sort=False)]
    rows = over_seeds(LAYOUT.columns, (seeds for group in newer if group is not None for seeds in seeds_of(group, [])))
    built = build(LAYOUT, rows, notes=[f"{OLDER[0].upper()}{OLDER[1:]} {', '.join(older)}."] if older else [])
    for kind in KINDS:  # the settings of the other diagnosis may differ
        built = built.ranked(within=[*_BLOCK, f"{kind}_by"], keys=[column.key for column in FIGURES[kind]])
    return built


def _records(inputs: TableInputs) -> DataFrame:
    """A row per run, checkpoint and settings of its diagnoses."""
    import pandas

    described = {row["run"]: row for _, row in inputs.frame.drop_duplicates("run").iterrows()}
    finished = [run for run in inputs.runs if run.outcome == "done"]
    records, controls, rows = {run.name: _read_all(run) for run in finished}, Controls(inputs.runs), []
    for run in finished:
        if run.name not in described:
            continue
        data, row = run.spec.data, described[run.name]  # the row of the frame may belong to other data
        facts = {key: row[key] for key in _OF_FRAME} | {"method": run.title, "run": run.name, "group": row["training"]}
        facts |= {"dataset": data.title, "split": data.split, "data": data.fingerprint[:12]}
        facts |= {"imported": run.spec.imported or "", "order_by": "", "invariance_by": ""}
        baseline = controls.of("untrained", run.spec)
        baseline_records = records.get(baseline.name, []) if baseline else []
        rows += [facts | values | _over(values, baseline_records) for values in _paired(records[run.name])]
    keys = [column.key for columns in FIGURES.values() for column in columns]
    columns = dict.fromkeys([*_OF_FRAME, "method", "run", "group", *_SETTINGS, "imported", *keys])
    return pandas.DataFrame(rows, columns=[*columns])


def _paired(records: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The records of a run at each checkpoint, one of each kind together."""
    for checkpoint in sorted({record["checkpoint"] for record in records}):
        of_checkpoint = [record for record in records if record["checkpoint"] == checkpoint]
        for pair in zip_longest(*([record for record in of_checkpoint if f"{kind}_by" in record] for kind in KINDS)):
            yield {key: value for record in pair if record for key, value in record.items()}


def _read_all(run: ReadRun) -> list[dict[str, Any]]:
    """The records of ``run`` by the current version of a diagnosis, the oldest first."""
    paths = [path for kind in KINDS for path in sorted(run.path.glob(f"diagnose-{kind}-*.json"))]
    records = [record for path in paths if (record := if_whole(partial(_read, path)))]
    return sorted(records, key=lambda record: record.pop("at"))


def _read(path: Path) -> dict[str, Any] | None:
    """Return the numbers of a record, None for an older version; :class:`Damaged` if it cannot be used."""
    try:
        record = read_json(path)
        kind, spec = record["diagnosis"], record["spec"]
        figures = {"order": 100 * float(record["accuracy"])} if kind == "order" else _invariance(record)
        figures["at"] = float(record["finished"])
        if not all(map(math.isfinite, figures.values())):
            raise ValueError("a number is not finite")
        own = {key: value for key, value in spec.items() if key not in _OWN}
        clips = record["test_clips"] if kind == "order" else record["clips"]
        by = f"{clips} clips, settings {digest(own, 6)}"
        current = spec["version"] == VERSION[kind]
        return {**figures, "checkpoint": str(spec["checkpoint"]), f"{kind}_by": by} if current else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise Damaged(f"{path} cannot be used; diagnose the run again with --force") from error


def _invariance(record: Mapping[str, Any]) -> dict[str, float]:
    """Means over the changed values of yaw and size."""
    figures: dict[str, float] = {}
    for change, curve in record["curves"].items():
        if changed := [point for point in curve if point["value"] not in (0, 360, 1.0)]:
            for name, key, scale in (("", "similarity", 1), ("_others", "others", 1), ("_found", "retrieved", 100)):
                figures[f"{change}{name}"] = scale * sum(point[key] for point in changed) / len(changed)
    return figures


def _over(own: Mapping[str, Any], baselines: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Leads over the untrained encoder that was diagnosed with the same settings."""
    over = dict[str, float]()
    for kind, name, keys in (
        ("order", "order_over", ["order"]),
        ("invariance", "found_over", ["yaw_found", "size_found"]),
    ):
        for baseline in baselines:
            if f"{kind}_by" in own and baseline.get(f"{kind}_by") == own[f"{kind}_by"]:
                leads = [own[key] - baseline[key] for key in keys if key in own and key in baseline]
                over |= {name: sum(leads) / len(leads)} if leads else {}
    return over
