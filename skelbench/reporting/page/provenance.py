"""Where a number comes from: the runs behind it, their evaluations, and which recorded figure it is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from skelbench.evaluation.cost import BODIES
from skelbench.evaluation.cost.count import passes
from skelbench.records.errors import if_whole
from skelbench.records.provenance import added
from skelbench.records.run_dir import ReadRun
from skelbench.reporting.table import Cell

_RUN_FACTS = ("setting", "modified", "reason", "created", "finished", "steps", "clips_seen", "train_seconds",
              "collapse", "shortcut", "imported", "tags", "note", "suites", "budget")  # fmt: skip

COMPUTED = {"seeds", "rank", "p_value", "trials", "failed", "tasks"}
"""Columns that the table counted or computed, whatever figure has the same value."""


class Provenance:
    """What is known of the runs, by name, and of the figures that their files hold."""

    def __init__(self, runs: Sequence[ReadRun]) -> None:
        self.names = [run.name for run in runs]
        self._place = {name: place for place, name in enumerate(self.names)}
        self.runs = [_run(run) for run in runs]
        self._figures = [list(_figures(one)) for one in self.runs]

    def places(self, text: object) -> list[int]:
        """The runs that a cell of a column ``run`` names, several with commas between."""
        return [self._place[name] for name in str(text or "").split(", ") if name in self._place]

    def origin(self, places: Sequence[int], key: str, cell: Cell) -> str:
        """Which recorded figure of the runs ``places`` a cell of column ``key`` is, over several the mean: found by its
        value, so that what is said is true; "" where the table computed something else from them."""
        value = cell.value
        if key in COMPUTED or key.endswith("_p"):
            return ""
        if not places or cell.published or isinstance(value, bool) or not isinstance(value, int | float):
            return ""
        each = [self._figures[place] for place in places]
        fits = []
        for name, scale, how, own in each[0]:
            others = [[one[3] for one in figures if one[0] == name] for figures in each[1:]]
            if not all(others):
                continue
            mean = scale * fmean([own, *(found[0] for found in others)])
            if math.isclose(mean, value, rel_tol=1e-9, abs_tol=1e-12) or value == round(mean) == mean:
                fits.append((key.split("_")[0] not in name, name, how))
        if not fits:
            return ""
        _, name, how = min(fits, key=lambda fit: fit[0])
        over = f", mean over {len(places)} runs" if len(places) > 1 else ""
        return f"{name}{f' ({how})' if how else ''}{over}"


def _figures(run: Mapping[str, Any]) -> Iterator[tuple[str, float, str, float]]:
    """(name, factor with which tables show it, that in words, value) of every figure on disk."""
    for one in run["evaluations"]:
        where = f"{one['protocol']}{'' if one['checkpoint'] == 'last' else '@' + one['checkpoint']}"
        for name, value in one["metrics"].items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                share = name.startswith(("accuracy", "macro", "top5", "map", "recall"))
                yield f"{where} {name}", 100 if share else 1, "in percent" if share else "", value
    if run["clips_seen"] is not None:
        yield "clips_seen of run.json", 1, "", run["clips_seen"]
    if run["train_seconds"] is not None:
        yield "train_seconds of run.json", 1 / 60, "in minutes", run["train_seconds"]
    if run["macs"] is not None:
        for bodies, words in ((1, "one body"), (BODIES, "two bodies")):
            often = passes(bodies, run["bodies_read"])
            yield "encoder macs of cost.json", 2e-9 * often, f"2 FLOPs each, in G, {words}", run["macs"]
    if run["step_flops"] is not None:
        yield "flops_per_clip of a step, cost.json", 1e-9, "in G, half of two bodies", run["step_flops"]
        yield "flops_per_clip of a step, cost.json", 2e-9, "in G, two bodies", run["step_flops"]


def _run(run: ReadRun) -> dict[str, Any]:
    info = run.info
    cost, origin = if_whole(run.cost), added(info)
    return {
        "name": run.name,
        "id": run.spec.id,
        "title": run.title,
        "outcome": run.outcome,
        "added": origin.sentence if origin else "",
        "preset": info["preset"] + ("+" if info["modified"] else ""),
        "seed": run.spec.seed,
        "hardware": run.hardware,
        "data": f"{run.spec.data.title} {run.spec.data.split}",
        "fingerprint": run.spec.data.fingerprint,
        "command": info.get("environment", {}).get("command", ""),
        "environment": info.get("environment", {}),
        "spec": info["spec"],
        **{key: info.get(key) for key in _RUN_FACTS},
        "macs": cost["encoder"]["macs"] if cost else None,
        "bodies_read": cost["encoder"].get("bodies", 1) if cost else None,
        "step_flops": cost["step"]["flops_per_clip"] if cost and cost["step"] else None,
        "evaluations": [_evaluation(record) for record in run.records()],
    }


def _evaluation(record: Mapping[str, Any]) -> dict[str, Any]:
    spec = record["spec"]
    return {
        "id": record["id"],
        "protocol": spec["protocol"],
        "checkpoint": spec["checkpoint"],
        "data": f"{spec['data']['name']} {spec['data']['split']}",
        "fingerprint": spec["data"].get("fingerprint", ""),
        "standard": record["standard"],
        "metrics": record["metrics"],
        "notes": record.get("notes", []),
        "command": record.get("environment", {}).get("command", ""),
        "finished": record["finished"],
        "spec": spec,
    }
