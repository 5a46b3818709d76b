"""What an evaluation was asked for besides its protocol, and what its encoder had cost by then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skelbench.records.errors import if_whole
from skelbench.records.metrics import logged_lines
from skelbench.records.run_dir import ReadRun, RunDir

UNKNOWN = "settings of the probe"
"""Where no evaluation by the protocol alone is there to compare with."""
_OF_THE_RUN = {"bodies", "centre", "align"}
"""Settings that an evaluation takes from its run unless told otherwise."""
_SETTINGS = ("readout", "bodies_pool", "share", "resize", "min_confidence", "bodies", "centre", "align")
"""Others that decide a result have columns of their own: data, stream, checkpoint, seed."""


def plain(records: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """By protocol the first evaluation that was asked for by protocol alone: what others are told apart from."""
    found: dict[str, Mapping[str, Any]] = {}
    for record in records:
        if record["standard"]:
            found.setdefault(record["spec"]["protocol"], record["spec"])
    return found


class Probe(NamedTuple):
    """What an evaluation of a run was asked for besides its protocol; plain data."""

    settings: Mapping[str, Any]
    seed: int | None
    """Where it is not the run's."""
    elsewhere: bool
    """Of other data, another checkpoint or stream, which tables say in columns of their own."""

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
    """``clips_seen`` and ``train_seconds`` of a run, or of its snapshot: as they were logged round its epoch, or its
    share of the schedule where nothing was logged."""
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
