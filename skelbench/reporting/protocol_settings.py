"""Settings of an evaluation besides its protocol, and the cost of its encoder up to the checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from skelbench.records.run_dir import ReadRun, RunDir
from skelbench.reporting.controls import CONTROLS

UNKNOWN = "settings of the probe"
"""Placeholder if there is no default-settings evaluation to compare with."""
_OF_THE_RUN = {"bodies", "centre", "align"}
"""Settings that an evaluation takes from its run unless told otherwise."""
_SETTINGS = ("readout", "bodies_pool", "share", "resize", "min_confidence", "bodies", "centre", "align")
"""Others that decide a result have columns of their own: data, stream, checkpoint, seed."""


class UsualSettings:
    """The first evaluation with default settings by each protocol: of a run itself, of its preset, or of any run."""

    def __init__(self, runs: Iterable[ReadRun]) -> None:
        self._found: dict[tuple[str, str], Mapping[str, Any]] = {}
        for run in runs:
            for record in run.records() if run.about["method"] not in CONTROLS else ():
                for place in (run.name, f"preset {run.preset}", "") if record["standard"] else ():
                    self._found.setdefault((record["spec"]["protocol"], place), record["spec"])

    def changed(self, run: ReadRun, record: Mapping[str, Any]) -> str:
        """``probe.lr=0.1, probe.readout=mean``: settings of an evaluation that are not the usual ones.

        "" for none, and for an evaluation that only columns of their own describe: data, checkpoint, streams.
        """
        if record["standard"]:
            return ""
        evaluated, changed = record["spec"], list[str]()
        places = ((evaluated["protocol"], place) for place in (run.name, f"preset {run.preset}", ""))
        place = next((place for place in places if place in self._found), None)
        if place is not None:
            usual, apart = _settings(self._found[place]), () if place[1] == run.name else _OF_THE_RUN
            own = {name: value for name, value in _settings(evaluated).items() if name not in apart}
            changed += [f"probe.{name}={value}" for name, value in own.items() if value != usual.get(name)]
        changed += [f"probe.seed={evaluated['seed']}"] if evaluated["seed"] != run.spec.seed else []
        return ", ".join(changed) or ("" if _elsewhere(run, evaluated) else UNKNOWN)


def _elsewhere(run: RunDir, evaluated: Mapping[str, Any]) -> bool:
    """Whether columns of their own say what is special about an evaluation: data, checkpoint, streams."""
    data = run.spec.data.model_dump(mode="json")
    if evaluated["checkpoint"] != "last" or evaluated["fusion"] != "none" or evaluated["streams"] != ["joint"]:
        return True
    return any(evaluated["data"].get(name) != data.get(name) for name in ("name", "split", "second_body", "min_frames"))


def _settings(evaluated: Mapping[str, Any]) -> dict[str, Any]:
    own = {name: evaluated[name] for name in _SETTINGS if name in evaluated}
    return {**evaluated["protocol_config"], **own}


def spent(run: ReadRun, checkpoint: str) -> dict[str, float | None]:
    """``clips_seen`` and ``train_seconds`` of a run; of a snapshot its share of the schedule."""
    epochs = run.spec.train.epochs
    share = 1.0 if checkpoint == "last" else min(1.0, float(checkpoint) / epochs) if epochs else 0.0
    whole = {name: run.info.get(name) for name in ("clips_seen", "train_seconds")}
    return {name: value if value is None or checkpoint == "last" else share * value for name, value in whole.items()}
