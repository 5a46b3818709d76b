"""Settings of an evaluation besides its protocol, and the cost of its encoder up to the checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skelbench.records.errors import if_whole
from skelbench.records.metrics import logged_lines
from skelbench.records.run_dir import ReadRun, RunDir

UNKNOWN = "settings of the probe"
"""Placeholder if there is no default-settings evaluation to compare with."""
_OF_THE_RUN = {"bodies", "centre", "align"}
"""Settings that an evaluation takes from its run unless told otherwise."""
_SETTINGS = ("readout", "bodies_pool", "share", "resize", "min_confidence", "bodies", "centre", "align")
"""Others that decide a result have columns of their own: data, stream, checkpoint, seed."""


def plain(records: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """By protocol the first evaluation with default settings."""
    found: dict[str, Mapping[str, Any]] = {}
    for record in records:
        if record["standard"]:
            found.setdefault(record["spec"]["protocol"], record["spec"])
    return found


class Probe(NamedTuple):
    """Settings of an evaluation besides its protocol; plain data."""

    settings: Mapping[str, Any]
    seed: int | None
    """Seed of the evaluation, if it is not the run's."""
    elsewhere: bool
    """It has other data, another checkpoint or stream, for which tables have columns."""

    @classmethod
    def of(cls, run: RunDir, record: Mapping[str, Any]) -> Probe:
        evaluated = record["spec"]
        seed = evaluated["seed"] if evaluated["seed"] != run.spec.seed else None
        return cls(_settings(evaluated), seed, _elsewhere(run, evaluated))

    def changed(self, plain: Mapping[str, Any] | None, own: bool) -> str:
        """``probe.lr=0.1, probe.readout=mean``: settings in which it differs from the evaluation ``plain`` of the same
        protocol, the run's ``own`` or another one's; "" for none, also of one that is ``elsewhere``."""
        theirs, apart = _settings(plain) if plain is not None else {}, set() if own else _OF_THE_RUN
        mine = self.settings if plain is not None else {}
        names = [name for name in mine if name not in apart and mine[name] != theirs.get(name)]
        changed = [f"probe.{name}={mine[name]}" for name in names]
        changed += [f"probe.seed={self.seed}"] if self.seed is not None else []
        return ", ".join(changed) or ("" if self.elsewhere else UNKNOWN)


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
    """``clips_seen`` and ``train_seconds`` of a run or its snapshot.

    A snapshot's are interpolated in the log, or its share of the schedule if nothing was logged.
    """
    info = run.info
    whole: dict[str, float | None] = {name: info.get(name) for name in ("clips_seen", "train_seconds")}
    if checkpoint == "last":
        return whole
    epoch = float(checkpoint)
    lines = if_whole(partial(logged_lines, run)) or []
    timed = [line for line in lines if line.get("seconds") is not None]
    if timed:
        epochs = [0.0, *(line["epoch"] for line in timed)]
        clips = np.interp(epoch, epochs, [0.0, *(line["clips_seen"] for line in timed)])
        seconds = np.interp(epoch, epochs, [0.0, *(line["seconds"] for line in timed)])
        return {"clips_seen": float(clips), "train_seconds": float(seconds)}
    share = min(1.0, epoch / run.spec.train.epochs) if run.spec.train.epochs else 0.0
    return {name: None if value is None else share * value for name, value in whole.items()}
