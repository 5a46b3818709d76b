"""Rows over seeds: the evaluated runs of a row, their means and intervals as cells, and settings that rows share.

± is half a 95 % t interval over seeds, or over draws if there is one seed. Brackets are intervals over test clips or
over subjects, whichever is wider. Every cell names its unit (``plus_minus_over``, ``interval_over``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from skelbench.evaluation.stats.bootstrap import TRUSTED, of_subjects
from skelbench.evaluation.stats.paired import SeedsTest, accuracy_interval, holm, t_half_width
from skelbench.reporting.frame import DEFAULTS
from skelbench.reporting.table import Cell

if TYPE_CHECKING:
    from pandas import DataFrame

RAW = "not significantly better than raw coordinates: paired p > 0.05 for at least one seed"
"""Footnote ``raw`` of the cells of :func:`over_raw`."""
INTERVALS = "±: 95 % over seeds; (a, b): two seeds; [a, b]: 95 % over test clips or subjects."

OLDER = "skipped, because later runs of the same rows differ in more than the seed:"
"""Note on runs that :func:`newest` skips."""

_WORDS = {"timed": "timed on", "memory_how": "memory is", "data": "data version", "place": "data"}
_TRAINED = ("tokens", "seeds")
"""Columns that do not apply to ``raw``: it has neither encoder nor preset."""
_UNUSUAL = ("setting", "encoder", "stream")
_EVALUATION = ["run", "dataset", "split", "stream", "checkpoint"]


def seeds_of(frame: DataFrame, keys: Sequence[str]) -> Iterator[DataFrame]:
    """Runs of one row: equal in ``keys`` and ``group``, one per seed. If a seed occurs twice, another setting differs,
    and every evaluation gets its own row."""
    keys = [*keys, *(["group"] if "group" in frame else [])]
    for _, group in frame.groupby(keys, dropna=False, sort=False):
        if group["seed"].duplicated().any():
            yield from (group.iloc[[i]] for i in range(len(group)))
        else:
            yield group.sort_values("seed")


def hardware(frame: DataFrame) -> str:
    """Names of the hardware on which runs were trained."""
    return ", ".join(sorted(frame["hardware"].unique()))


def ways_of(frame: DataFrame, keys: Sequence[str] = ()) -> Iterator[DataFrame]:
    """Evaluations along each training with snapshots, from the runs that were evaluated at every checkpoint: with other
    seeds at the end, the mean would seem to rise or fall. Without such runs, every run by itself."""
    for _, rows in frame.groupby([*keys, "group"], dropna=False, sort=False):
        if (rows["checkpoint"] == "last").all():
            continue
        evaluated = rows.groupby("run")["checkpoint"].nunique()
        complete = rows[rows["run"].isin(evaluated.index[evaluated == rows["checkpoint"].nunique()])]
        if len(complete) and not complete.duplicated(["checkpoint", "seed"]).any():
            yield complete
        else:
            yield from (own for _, own in rows.groupby("run") if (own["checkpoint"] != "last").any())


def newest(fitting: DataFrame, older: list[str]) -> DataFrame | None:
    """All seeds of a row, None without a run. If runs differ in something else (a method's version), the ones that
    finished last count, and the names of the others are added to ``older``."""
    groups = [group.sort_values("seed") for _, group in fitting.groupby("group", sort=False)]
    groups.sort(key=lambda group: group["finished"].astype(float).max())
    older.extend(name for group in groups[:-1] for name in group["run"])
    return groups[-1] if groups else None


def accuracy(group: DataFrame) -> Cell:
    """Mean accuracy in percent with its t interval over seeds, or over draws if there is one seed; the bracket is the
    wider of Wilson's 95 % interval on ``n_test`` clips and a bootstrap over subjects."""
    by_subject = group["by_subject"].tolist() if "by_subject" in group else ()
    interval, over = accuracy_interval(
        float(group["accuracy"].mean()), int(group["n_test"].iloc[0]), of_subjects(by_subject)
    )
    cell = percent(group["accuracy"])
    notes = list[str]()
    draws, first = int(group["draws"].fillna(1).max()) if "draws" in group else 1, group.iloc[0]
    sd = first["accuracy_sd"] if len(group) == 1 and draws > 1 else None
    if sd is not None and sd == sd:
        half, noun = 100 * t_half_width(float(sd), draws), first["drawn"] or "draws"
        cell = replace(cell, plus_minus=half, plus_minus_over=f"{draws} {noun}")
        notes = [f"over {noun}"]
    low, high = interval
    return replace(cell, interval=(100 * low, 100 * high), interval_over=over, footnotes=tuple(notes))


def footnotes(frame: DataFrame) -> dict[str, str]:
    """Footnotes of the cells of this module."""
    drawn = sorted({noun or "draws" for noun in frame["drawn"]})
    over = {f"over {noun}": f"one seed: ± is a 95 % t interval over its {noun}" for noun in drawn}
    return {"raw": RAW, **over}


def percent(shares: Iterable[float]) -> Cell:
    """Mean over all seeds in percent and its t interval, empty unless every seed has the value."""
    return spread([math.nan if value is None else 100 * value for value in shares])


def spread(values: Sequence[float]) -> Cell:
    """Mean of a value over seeds, with a t interval for several seeds; empty unless every seed has it."""
    if not all(map(math.isfinite, values)):
        return Cell()
    several = len(values) > 1
    half = t_half_width(stdev(values), len(values)) if several else None
    return Cell(mean(values), half, plus_minus_over=f"{len(values)} seeds" if several else "")


def difference(test: SeedsTest) -> Cell:
    """A difference in points: its t interval over seeds, and the wider interval over clips or subjects."""
    return points(test.difference, test.half_width, test.interval, test.seeds, test.over)


def points(share: float, half: float | None, interval: tuple[float, float], seeds: int, over: str) -> Cell:
    """A difference of accuracies as a cell in points; ``half`` the t interval over ``seeds``."""
    low, high = interval
    return Cell(
        100 * share,
        None if half is None else 100 * half,
        (100 * low, 100 * high),
        plus_minus_over="" if half is None else f"{seeds} seeds",
        interval_over=over,
    )


def unusual_of(setting: str, encoder: str, stream: str) -> list[str]:
    """Part of a heading that names an unusual setting, encoder or stream: ``stream bone``."""
    return alike([{"setting": setting.replace("shared", ""), "encoder": encoder, "stream": stream}], _UNUSUAL)[1]


def block_of(keys: Sequence[str], row: Mapping[str, Any]) -> tuple[str, ...]:
    """Values of a row's block ("" for a column that it lacks); presets without the changes in their names."""
    values = (getattr(cell := row.get(key), "value", cell) for key in keys)
    return tuple(str(value or "").removesuffix("+") for value in values)


def adjust(rows: Sequence[dict[str, Any]], within: Callable[[Mapping[str, Any]], Any] = lambda row: None) -> None:
    """Replace ``p_value`` of the rows that have one by Holm's, adjusted over the rows that agree in ``within``."""
    blocks: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        if row.get("p_value") is not None:
            blocks.setdefault(within(row), []).append(row)
    for block in blocks.values():
        for row, p in zip(block, holm([row["p_value"] for row in block]), strict=True):
            row["p_value"] = float(p)


def subjects_note(frame: DataFrame) -> Iterator[str]:
    """Note on the number of subjects of each dataset and split, and where it is too small."""
    notes = []
    for (dataset, split), group in frame.groupby(["dataset", "split"], sort=False):
        subjects = group["subjects"].dropna()
        if subjects.empty:
            notes.append(f"one or unknown for {dataset} / {split}, so over clips only")
            continue
        count = int(subjects.max())
        few = f", too few to trust an interval over them, and p is {2.0 ** (1 - count):.2g} at least"
        notes.append(f"{count} of {dataset} / {split}" + (few if count < TRUSTED else ""))
    yield f"Subjects: {'; '.join(notes)}."


def every_seed(group: DataFrame) -> float | None:
    """The largest p over seeds; 1 if their differences have opposite signs, None if a seed has no p."""
    if group["p_value"].isna().any():
        return None
    differences = group["accuracy"] - group["control_accuracy"]
    return 1.0 if differences.min() < 0 < differences.max() else float(group["p_value"].max())


def over_raw(group: DataFrame) -> Cell:
    """Points above the control ``raw`` on the same clips, empty unless every seed has the value."""
    over = percent(group["raw_difference"])
    unshown = group["raw_difference"].le(0) | group["raw_p_value"].gt(0.05)
    return replace(over, footnotes=("raw",)) if over.value is not None and unshown.any() else over


def with_other_protocols(frame: DataFrame) -> DataFrame:
    """``frame`` with what other protocols measured for the same run, data, stream and checkpoint. Adds the column
    ``knn`` (1-NN accuracy, NaN if there is none) and the metrics of other protocols to ``measures``. Evaluations
    with changed settings (k = 5) and metrics of several evaluations do not count."""
    announced = frame[frame["probe"] == ""]
    knn = announced[announced["protocol"] == "knn"].drop_duplicates(_EVALUATION, keep=False)
    accuracies = dict(zip(_places(knn), knn["accuracy"]))
    by_place: dict[tuple[Any, ...], dict[str, Any]] = {}
    for place, measures in zip(_places(announced), announced["measures"]):
        merged = by_place.setdefault(place, {})
        merged |= {name: None if name in merged else value for name, value in measures.items()}
    others = [{name: value for name, value in by_place.get(place, {}).items() if value} for place in _places(frame)]
    measures = [other | own for other, own in zip(others, frame["measures"])]
    return frame.assign(knn=[accuracies.get(place, math.nan) for place in _places(frame)], measures=measures)


def _places(frame: DataFrame) -> Iterator[tuple[Any, ...]]:
    """Keys that evaluations of one run by several protocols share."""
    return zip(*(frame[name] for name in _EVALUATION))


def metric(group: DataFrame, name: str) -> Cell:
    """Mean over seeds of the metric ``name``, in percent if it is a fraction; empty unless every seed has it."""
    if not all(name in measures for measures in group["measures"]):
        return Cell()
    return spread([measures[name][0] * (100 if measures[name][1].share else 1) for measures in group["measures"]])


def alike(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> tuple[set[str], list[str]]:
    """Return the ``keys`` in which ``rows`` differ, and the values that all rows share (``preset small``).

    Versions of the data count only within one dataset and split. Changes of a preset do not count.
    """
    if not rows:
        return set(), []
    plain = [{key: getattr(cell, "value", cell) for key, cell in row.items()} for row in rows]
    trained = [row for row in plain if row.get("method") != "raw"] or plain
    values = {key: [row[key] for row in (trained if key in _TRAINED else plain) if key in row] for key in keys}
    texts = {key: [str(value).removesuffix("+") for value in column] for key, column in values.items()}
    varying = {key for key in keys if key != "data" and len(set(texts[key])) > 1}
    if "data" in keys:
        versions = {(row["dataset"], row["split"], row.get("data")) for row in plain}
        varying |= {"data"} if len(versions) > len({place[:2] for place in versions}) else set()
    return varying, [
        f"{word(key)} {texts[key][0]}"
        for key in keys
        if key not in varying | {"data"} and values[key] and values[key][0] not in (None, "", DEFAULTS.get(key))
    ]


def word(key: str) -> str:
    """Name of the column ``key`` in a text: ``timed on``."""
    return _WORDS.get(key, key.replace("_", " "))


def chance(frame: DataFrame) -> str:
    """Chance level: ``chance 3.1 %``; one for each dataset if they differ."""
    classes = frame.dropna(subset="classes").groupby("dataset", sort=False)["classes"].max()
    texts = {str(dataset): f"{100 / count:.1f} %" for dataset, count in classes.items()}
    if len(set(texts.values())) == 1:
        return f"chance {texts.popitem()[1]}"
    return f"chance {', '.join(map(' '.join, texts.items()))}" if texts else ""
