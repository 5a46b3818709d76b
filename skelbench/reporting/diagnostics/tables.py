"""Diagnoses as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from skelbench.evaluation.stats.paired import PairedTest, holm
from skelbench.reporting.diagnostics.order import better
from skelbench.reporting.table import Cell, Column, Table

Named = Mapping[str, Mapping[str, Any]]
"""Displayed name -> record of the diagnosis."""

INTERPOLATION = (
    "error: squared error of a masked token over its variance; 1 = no better than the mean. In brackets: 95 % over "
    "masks. Filled in from at most eight visible neighbors in time and space."
)
FEATURES = (
    "features are computed on unmasked clips: the error measures how smooth the targets are, not what a student that "
    "sees masked clips can do."
)


def interpolation(named: Named) -> Table:
    """Error of local interpolation under both kinds of masks."""
    rows = []
    for name, record in named.items():
        for row in record["rows"]:
            random, tube = row["random"]["error"], row["tube"]["error"]
            cells = {"what": name, "ratio": row["ratio"], "coverage": row["coverage"]}
            cells["times"] = tube / random if random else None
            for kind in ("random", "tube"):
                cells[kind] = Cell(row[kind]["error"], interval=tuple(row[kind]["interval"]))
                cells[f"rms_{kind}"] = 100 * row[kind]["rms"] if name == "coordinates" else None
            rows.append(cells)
    columns = (
        Column("what", "Filled in"),
        Column("ratio", "Target ratio", ".2f"),
        Column("coverage", "Hidden", ".3f"),
        Column("random", "Error, independent", ".3f"),
        Column("tube", "Error, tubes", ".3f"),
        Column("times", "Tubes / independent", ".1f"),
        Column("rms_random", "RMS cm, independent", ".1f"),
        Column("rms_tube", "RMS cm, tubes", ".1f"),
    )
    record = next(iter(named.values()))
    counts = f"weights from {record['train_clips']:,} training clips, errors on {record['test_clips']:,} test clips"
    extra = (FEATURES,) if len(named) > 1 else ()
    return Table(
        "Local linear interpolation of masked tokens",
        columns,
        tuple(rows),
        notes=(INTERPOLATION, *extra, f"{counts}, evenly spread over the classes."),
    )


def invariance(named: Named, points: bool = False) -> Table:
    """Means over all values of yaw and of body size for each run; ``points``: a row per value instead."""
    rows = []
    for name, record in named.items():
        for change, curve in record["curves"].items():
            changed = [point for point in curve if point["value"] not in (0, 360, 1.0)]
            least = min(changed, key=lambda point: point["similarity"])
            means = {key: fmean(point[key] for point in changed) for key in ("similarity", "others", "retrieved")}
            means |= {"value": least["value"], "least": least["similarity"]}
            rows += [{"run": name, "change": change, **values} for values in (curve if points else [means])]
    columns = (
        Column("run", "Run"),
        Column("change", "Change"),
        *([Column("value", "Degrees or factor", "g")] if points else []),
        Column("similarity", "Own original", ".3f"),
        Column("others", "Other clips", ".3f"),
        Column("retrieved", "Own is nearest", ".1%"),
        *([] if points else [Column("least", "Least similar", ".3f"), Column("value", "At degrees or factor", "g")]),
    )
    clips = next(iter(named.values()))["clips"]
    how = f"Cosine similarity of pooled features, minus their mean; by chance its own is nearest for {1 / clips:.1%}."
    return Table("Features over yaw and body size", columns, tuple(rows), notes=(how,))


def order(named: Named, baselines: Mapping[str, str]) -> Table:
    """Accuracy of the order probe; ``baselines``: trained run -> its untrained run, if ``named`` holds it."""
    rows, notes = [], []
    for name, record in named.items():
        low, high = record["interval"]
        baseline = named[baselines[name]] if name in baselines else None
        rows.append(
            {
                "run": name,
                "accuracy": Cell(100 * record["accuracy"], interval=(100 * low, 100 * high)),
                "train": 100 * record["train_accuracy"],
                "difference": 100 * (record["accuracy"] - baseline["accuracy"]) if baseline else None,
                "p": better(record["right"], baseline["right"]) if baseline else None,
            }
        )
        notes += [f"{name}: {note}" for note in record["notes"]]
    tested = [row for row in rows if row["p"] is not None]
    for row, adjusted in zip(tested, holm([row["p"] for row in tested])):
        row["p"] = float(adjusted)
    columns = (
        Column("run", "Run"),
        Column("accuracy", "Forward or backward, %", ".1f"),
        Column("train", "On training clips, %", ".1f"),
        Column("difference", "Over untrained", "+.1f"),
        Column("p", "p (sign test, Holm)", ".2g"),
    )
    first = next(iter(named.values()))
    how = (
        f"linear probe on {first['train_clips']:,} training clips and the same backwards, scored on "
        f"{first['test_clips']:,} test clips in both directions; chance is 50 %. p: adjusted over the runs."
    )
    return Table("Order probe: accuracy in percent", columns, tuple(rows), notes=(*notes, how))


def per_class(rows: Sequence[Mapping[str, Any]], overall: PairedTest, classes: Sequence[str]) -> Table:
    """Two runs class by class, the largest loss first, and over all classes; ``rows`` and ``overall``: see
    :func:`skelbench.reporting.diagnostics.per_class.compare`."""
    second, first = overall.names
    cells = []
    for row in rows:
        shares = {key: 100 * row[key] for key in ("first", "second", "difference")}
        counts = {key: row[key] for key in ("clips", "only_first", "only_second", "p", "p_holm")}
        cells.append({"class": classes[row["label"]], **shares, **counts})
    low, high = overall.interval
    every = {"class": "all classes", "clips": overall.clips, "p": overall.p_value}
    every |= {"first": 100 * overall.accuracy_b, "second": 100 * overall.accuracy_a}
    every |= {key: sum(row[key] for row in rows) for key in ("only_first", "only_second")}
    cells.append(every | {"difference": Cell(100 * overall.difference, interval=(100 * low, 100 * high))})
    columns = (
        Column("class", "Class"),
        Column("clips", "Clips", "d"),
        Column("first", first, ".1f"),
        Column("second", second, ".1f"),
        Column("difference", "Difference", "+.1f"),
        Column("only_first", "Only first right", "d"),
        Column("only_second", "Only second right", "d"),
        Column("p", "p", ".2g"),
        Column("p_holm", "p (Holm)", ".2g"),
    )
    different = sum(row["p_holm"] <= 0.05 for row in rows)
    notes = (
        f"{overall.verdict}; one training each.",
        f"{different} of {len(rows)} classes differ at 5 % (exact paired test, the larger p of clips "
        "and subjects, Holm-adjusted over the classes); difference: second minus first, in points.",
    )
    return Table(f"Per class: {first} and {second}, accuracy in percent", columns, tuple(cells), notes=notes)
