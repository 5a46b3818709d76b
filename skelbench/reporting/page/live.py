"""What goes on in a results directory, read as it grows (torch-free): only what is new is read, and only what changed
is told."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any
from uuid import uuid4

import numpy as np

from skelbench.core.files import parsed, read_json, shallow
from skelbench.core.spec import DataSpec, EvalSpec
from skelbench.pipeline.studies.run_status import QUEUE, at_work, outcome_now
from skelbench.records.errors import if_whole
from skelbench.records.metrics import is_figure
from skelbench.records.run_dir import ReadRun, RunDir
from skelbench.records.store import ResultStore
from skelbench.reporting.page.charts import APART, thinned
from skelbench.reporting.page.text import rounded

EVERY_SECONDS = 1.0
"""The directory is looked at no more often, however many ask."""
POINTS = 200
"""Of a line."""
READ = 4 << 20
"""Bytes of a metrics file that are read at a time."""
STREAMS = ("streams", "fusion", "weights", "partners")
"""Of an evaluation what says which streams it looks at."""
TAIL = 64
"""Bytes by which a file is recognised that was cut back and has grown past where it was read to."""


class Growing:
    """A metrics.jsonl, read from where the last look ended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._forget()

    def _forget(self) -> None:
        self._at, self._tail, self._inode = 0, b"", 0
        self.lines: list[dict[str, Any]] = []

    def read(self) -> bool:
        """Whether there is something new. What follows the last line's end is being written and waits; lines that
        cannot be read are left out; a file that was cut back or replaced is read anew."""
        before = self._at, self._inode
        try:
            with open(self.path, "rb") as file:
                found = os.fstat(file.fileno())
                file.seek(max(0, self._at - TAIL))
                if found.st_ino != self._inode or found.st_size < self._at or file.read(len(self._tail)) != self._tail:
                    self._forget()
                    self._inode = found.st_ino
                    file.seek(0)
                while chunk := file.read(READ):
                    self._take(chunk)
                    file.seek(self._at)
                    if len(chunk) < READ:
                        break
        except OSError:
            self._forget()
        return (self._at, self._inode) != before

    def _take(self, chunk: bytes) -> None:
        whole = chunk[: chunk.rfind(b"\n") + 1] or (chunk if len(chunk) == READ else b"")  # an endless line is none
        self._at += len(whole)
        self._tail = (self._tail + whole)[-TAIL:]
        for text in whole.split(b"\n"):
            with suppress(ValueError):
                line = parsed(json.loads, text)
                if isinstance(line, dict) and "clips_seen" in line and all(map(is_figure, line.values())):
                    self.lines.append(line)

    def figures(self) -> dict[str, list[list[float | None]]]:
        """``[clips seen, values]`` of every figure that was logged, at most :data:`POINTS` each."""
        found: dict[str, list[list[float | None]]] = {}
        for name in dict.fromkeys(name for line in self.lines for name in line if name not in APART):
            pairs = [(line["clips_seen"], line[name]) for line in self.lines if line.get(name) is not None]
            kept = thinned(np.array([value for _, value in pairs], float), POINTS) if pairs else ()
            found[name] = [[rounded(pairs[i][0]) for i in kept], [rounded(pairs[i][1], 4) for i in kept]]
        return found


class Watcher:
    """The state of a directory, for any number of readers at once."""

    def __init__(self, store: ResultStore) -> None:
        self.store = store
        self.boot = uuid4().hex
        """Other than that of a server before: its numbers say nothing here."""
        self.tick = 0
        self._lock = Lock()
        self._looked = float("-inf")
        self._growing: dict[str, Growing] = {}
        self._runs: dict[str, tuple[int, str, dict[str, Any]]] = {}
        """Name -> when it changed last, what it looked like, what is told of it."""

    def state(self, boot: str = "", since: int = 0) -> dict[str, Any]:
        """Runs that changed after ``since``, a ``tick`` of this ``boot``; all of them for anybody else."""
        with self._lock:
            self._look_again()
            since = since if boot == self.boot else 0
            changed = [told for when, _, told in self._runs.values() if when > since]
            studies = [*self._studies()]
            return {
                "boot": self.boot,
                "tick": self.tick,
                "names": list(self._runs),
                "runs": changed,
                "studies": studies,
                "at": time.time(),
            }

    def results(self) -> str:
        """Another text whenever a report is another: a run began or ended, was evaluated, diagnosed or tagged."""
        with self._lock:
            self._look_again()
            return repr([(name, mark) for name, (_, mark, _) in self._runs.items()])

    def _look_again(self) -> None:
        if time.monotonic() - self._looked >= EVERY_SECONDS:
            self._look()
            self._looked = time.monotonic()

    def _look(self) -> None:
        self.tick += 1
        found = [path for path in self._folders() if os.path.lexists(path / "run.json")]
        for gone in self._runs.keys() - {path.name for path in found}:
            del self._runs[gone]
            self._growing.pop(gone, None)
        for path in found:
            run = if_whole(partial(self._checked, path))
            if run is None:
                self._runs.pop(path.name, None)
                continue
            growing = self._growing.setdefault(path.name, Growing(run.metrics))
            new = growing.read()
            working = at_work(run)
            mark = repr((run.info.get("outcome"), run.info.get("reason"), working, [*_stamps(path)]))
            if new or path.name not in self._runs or self._runs[path.name][1] != mark:
                self._runs[path.name] = self.tick, mark, _told(run, growing, working)

    def _checked(self, path: Path) -> ReadRun:
        run = RunDir(path).read()
        _ = run.spec
        return run

    def _folders(self) -> list[Path]:
        try:
            return sorted(path for path in self.store.root.iterdir() if path.is_dir())
        except OSError:  # not there yet: the first run makes it
            return []

    def _studies(self) -> Iterator[dict[str, Any]]:
        """Studies with their trials in order, as their runner wrote them down when it began."""
        states = {told["id"]: told for _, _, told in self._runs.values()}
        for path in sorted(self.store.root.glob(f"studies/*/{QUEUE}")):
            with suppress(OSError, ValueError, TypeError, KeyError):
                queue = shallow(read_json(path))
                trials = [
                    {"id": str(one["id"]), "title": str(one["title"]), **_state(states.get(str(one["id"])))}
                    for one in queue["trials"]
                ]
                yield {"name": path.parent.name, "began": float(queue["began"]), "trials": trials}


def _stamps(path: Path) -> Iterator[tuple[str, int]]:
    """The files of a run that hold results, and when they were written last."""
    with suppress(OSError):
        for name in sorted(os.listdir(path)):  # once a second of every run
            if name.endswith(".json") and name.startswith(("run.", "eval-", "diagnose-")):
                yield name, os.stat(path / name).st_mtime_ns


def _state(told: dict[str, Any] | None) -> dict[str, Any]:
    if told is None:
        return {"state": "waiting", "share": 0.0}
    return {"state": told["state"], "share": told["share"], "name": told["name"]}


def _told(run: ReadRun, growing: Growing, working: bool) -> dict[str, Any]:
    """A run as the live page shows it."""
    last = growing.lines[-1] if growing.lines else {}
    epochs, done = run.spec.train.epochs, run.outcome == "done"
    share = 1.0 if done else min(1.0, (last.get("epoch") or 0.0) / epochs) if epochs else 0.0
    clips, rate = last.get("clips_seen") or 0, last.get("clips_per_s")
    left = clips * (1 - share) / share / rate if working and share and rate else None
    state = outcome_now(run, working)
    state = "probing" if done and working else "starting" if state == "new" and working else state
    return {
        "name": run.name,
        "id": run.spec.id,
        "title": run.title,
        "data": f"{run.spec.data.title} {run.spec.data.split}",
        "preset": run.info["preset"] + ("+" if run.info["modified"] else ""),
        "tokens": run.spec.tokens,
        "seed": run.spec.seed,
        "state": state,
        "reason": run.reason,
        "share": rounded(share, 4),
        "clips": clips or run.info.get("clips_seen") or 0,
        "rate": rounded(rate, 4),
        "left": rounded(left, 4),
        "created": run.info.get("created", 0.0),
        "lines": growing.figures(),
        "accuracies": _accuracies(run),
        "command": run.info.get("environment", {}).get("command", ""),
    }


def _accuracies(run: ReadRun) -> dict[str, float | None]:
    """In percent those of the last weights, by what was asked for: ``linear``, ``linear, bone``."""
    records = [record for record in run.records() if record["spec"]["checkpoint"] == "last"]
    standard = {record["spec"]["protocol"]: record["spec"] for record in records if record["standard"]}
    found = {}
    for record in records:
        if name := _asked(record["spec"], standard.get(record["spec"]["protocol"], {}), run.spec.data):
            found[name] = rounded(100 * record["metrics"]["accuracy"], 4)
    return found


def _asked(spec: Mapping[str, Any], standard: Mapping[str, Any], own: DataSpec) -> str:
    """A protocol with the streams and data that are other than the ``standard`` evaluation's and the run's ``own``; ""
    where other settings differ too, which have no short name."""
    changed = {key for key in {*spec, *standard} if spec.get(key) != standard.get(key)}
    if changed - {*STREAMS, "data"}:
        return ""
    made = EvalSpec.model_validate(spec)
    streams = made.stream_title if changed & {*STREAMS} else ""
    data = f"{made.data.title} {made.data.split}" if made.data != own else ""
    return ", ".join(filter(None, [made.protocol, streams, data]))
