"""One run on disk: what its files say, and where they are (:mod:`skelbench.records.store` lists them)."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from skelbench.core.errors import SkelbenchError
from skelbench.core.files import read_json, write_json
from skelbench.core.hashing import digest
from skelbench.core.leases import Lease
from skelbench.core.spec import EvalSpec, RunSpec, listed, titled
from skelbench.records.cache import ALL, ResultsCache, Stamps
from skelbench.records.errors import Damaged, Found, if_whole, left_out
from skelbench.records.provenance import FIELD as ADDED
from skelbench.records.schema import CostFacts, RecordFacts, RunFacts, facts_of

PROBES = ".probe.lock"
"""In a run's folder: held by who evaluates it."""


class RunDir:
    """One run on disk. What run.json says is read whenever it is asked for; a :class:`ReadRun` does so once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.held: Lease | None = None
        """The lock, while this process works in the directory."""

    def check_held(self) -> None:
        """SkelbenchError if the lock was lost to another process: two would write one file."""
        if self.held:
            self.held.check()

    def check_done(self) -> None:
        """SkelbenchError if it is not finished."""
        if self.outcome != "done":
            raise SkelbenchError(
                f"run {self.name} is not done but {self.outcome}; issue its command again to finish it"
            )

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def info(self) -> dict[str, Any]:
        """The parsed run.json."""
        return self._read_info()

    def _read_info(self) -> dict[str, Any]:
        try:
            info = read_json(self.path / "run.json")
            if not isinstance(info, dict) or "spec" not in info:
                raise ValueError("it holds no run")
            return info
        except (OSError, ValueError) as error:
            raise self.damaged(error) from error

    def damaged(self, error: Exception) -> Damaged:
        said = f"run.json of {self.path} is missing or damaged; remove that directory and run again"
        return Damaged.because(said, error)

    def checked(self) -> RunDir:
        """Itself; :class:`Damaged` as :meth:`read`."""
        self.read()
        return self

    def read(self) -> ReadRun:
        """The run as it is now; :class:`Damaged` if run.json is not what its readers rely on, or its spec not that of
        its id."""
        run = ReadRun(self.path)
        try:
            facts = facts_of(RunFacts, run.info)
            if run.spec.imported and facts.outcome == "done" and facts.imported is None:
                raise ValueError("it does not say what was imported")
            if run.info.get("id", run.spec.id) != run.spec.id:
                raise ValueError("its spec is not that of its id")
        except ValueError as error:
            raise self.damaged(error) from error
        return run

    @property
    def preset(self) -> str:
        """By which it was asked for."""
        return str(self.info["preset"])

    @property
    def spec(self) -> RunSpec:
        return self._read_spec()

    def _read_spec(self) -> RunSpec:
        try:
            return facts_of(RunSpec, self.info["spec"])
        except ValueError as error:
            raise self.damaged(error) from error

    @property
    def title(self) -> str:
        """``slim``, ``slim:glcl-only``: the method and its variant as they are typed."""
        info = self.info
        return titled(info["spec"]["method"], info.get("variant", ""))

    @property
    def hardware(self) -> str:
        """What the run was made on, "" where that was not written down."""
        return self.info.get("environment", {}).get("hardware", "")

    @property
    def plugin_files(self) -> str:
        """The options by which its command found plugin files, to be typed after others: `` --plugin mine.py``."""
        try:
            words = shlex.split(self.info.get("environment", {}).get("command") or "")
        except ValueError:  # written by hand
            return ""
        files = [word for before, word in zip(words, words[1:]) if before == "--plugin"]
        files += [word.partition("=")[2] for word in words if word.startswith("--plugin=")]
        return "".join(f" --plugin {shlex.quote(file)}" for file in files)

    @property
    def outcome(self) -> str:
        """new, running, interrupted, diverged, failed or done."""
        return self.info.get("outcome", "new")

    @property
    def reason(self) -> str:
        """Why it diverged or failed, in a sentence."""
        return self.info.get("reason", "")

    @property
    def tags(self) -> tuple[str, ...]:
        """Words that a person gave it, by which it can be found."""
        return tuple(self.info.get("tags", ()))

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def checkpoint(self) -> Path:
        return self.path / "last.pt"

    @property
    def cost_path(self) -> Path:
        return self.path / "cost.json"

    def cost(self) -> dict[str, Any] | None:
        """The parsed cost.json; None before the run was costed."""
        try:
            cost = read_json(self.cost_path)
            facts_of(CostFacts, cost)
            return cost
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            said = f"{self.cost_path} is damaged; remove it and issue the run's command again"
            raise Damaged.because(said, error) from error

    def encoder_path(self, checkpoint: str = "last", stream: str = "") -> Path:
        """Where an inference encoder is written: the run's, or the own one of ``stream``; final or of an epoch."""
        name = "encoder" + (f".{stream}" if stream else "") + ("" if checkpoint == "last" else f"@{checkpoint}")
        return self.path / f"{name}.safetensors"

    def encoder(self, checkpoint: str = "last", stream: str = "") -> Path:
        """Weights of the inference encoder that looks at ``stream``, final or at a kept epoch."""
        path = self.encoder_path(checkpoint)
        if checkpoint != "last" and not path.exists():
            kept = ", ".join(self.snapshots()) or "none"
            raise SkelbenchError(f"run {self.name} kept no snapshot at epoch {checkpoint}; kept epochs: {kept}")
        own = self.encoder_path(checkpoint, stream)
        return own if own.exists() else path

    def snapshots(self) -> list[str]:
        """Epochs of the kept encoder snapshots, ascending."""
        names = [path.stem.split("@", 1)[1] for path in self.path.glob("encoder@*.safetensors")]
        return sorted((name for name in names if re.fullmatch(r"\d+(\.\d+)?(e\+\d+)?", name)), key=float)

    def update(self, *gone: str, **fields: Any) -> None:
        """Merge ``fields`` into run.json, and take the fields ``gone`` out; of two processes one after the other."""
        with Lease(self.path / ".run.json.lock", math.inf):
            kept = {key: value for key, value in self._read_info().items() if key not in gone}
            write_json(self.path / "run.json", {**kept, **fields})

    def record_path(self, spec: EvalSpec) -> Path:
        return self.path / f"eval-{spec.id}.json"

    def record(self, path: Path) -> dict[str, Any]:
        """The evaluation record in one of this run's files."""
        try:
            record = read_json(path)
            facts_of(RecordFacts, record)
            facts_of(EvalSpec, record.get("spec"))
            if path.name != f"eval-{record['id']}.json":
                raise ValueError(f"it holds evaluation {record['id']}, the name says another")
            if record["spec"]["pretrain_id"] != self.info.get("id", record["spec"]["pretrain_id"]):
                raise ValueError(f"it is of another run, {record['spec']['pretrain_id']}")
            return record
        except (OSError, ValueError) as error:
            said = f"evaluation record {path} is damaged; remove it and evaluate again"
            raise Damaged.because(said, error) from error

    def records(self) -> list[dict[str, Any]]:
        """All evaluation records, oldest first, but for damaged ones."""
        return ReadRun(self.path).records()

    def lock(self, timeout: float = 0.0) -> Lease:
        """Held while a process works in this directory; a second one is refused, never mixed in, on whatever machine
        it is."""
        return Lease(self.path / ".lock", timeout)


class ReadRun(RunDir):
    """A run as it was when it was first read, for commands that list many runs.

    ``cache`` and ``stamps`` (from before the first file was read) let :meth:`keep` find what was read earlier.
    """

    name = ""

    def __init__(
        self, path: Path, cache: ResultsCache | None = None, stamps: Stamps | None = None, name: str = ""
    ) -> None:
        super().__init__(path)
        self.name = name or path.name
        self.cache, self.stamps = cache, stamps

    info = cached_property(RunDir._read_info)
    spec = cached_property(RunDir._read_spec)

    title = property(lambda self: self.about["title"])
    preset = property(lambda self: self.about["preset"])
    hardware = property(lambda self: self.about["hardware"])
    outcome = property(lambda self: self.about["outcome"])
    reason = property(lambda self: self.about["reason"])
    tags = property(lambda self: tuple(self.about["tags"]))

    @cached_property
    def about(self) -> dict[str, Any]:
        """Summary of run.json as plain data, for lists of runs."""
        info, spec = self.info, self.spec
        return {
            "id": spec.id,
            "method": spec.method,
            "title": titled(spec.method, info.get("variant", "")),
            "dataset": spec.data.name,
            "data": spec.data.title,
            "split": spec.data.split,
            "tokens": spec.tokens,
            "encoder": spec.encoder,
            "preset": info["preset"],
            "modified": bool(info["modified"]),
            "changed": listed(info["modified"]),
            "seed": spec.seed,
            "outcome": info.get("outcome", "new"),
            "reason": info.get("reason", ""),
            "hardware": info.get("environment", {}).get("hardware", ""),
            "tags": list(info.get("tags", ())),
            "note": info.get("note", ""),
            "created": info.get("created", 0.0),
            "finished": info.get("finished"),
            "origin": {ADDED: info[ADDED]} if ADDED in info else {},
        }

    @property
    def evaluations(self) -> list[dict[str, Any]]:
        """What the records say in short, as plain data, the oldest first."""
        return self.keep("evaluations", ReadRun._evaluations)

    def _evaluations(self) -> list[dict[str, Any]]:
        return [
            {
                "protocol": record["spec"]["protocol"],
                "dataset": record["spec"]["data"]["name"],
                "standard": record["standard"],
                "accuracy": record["metrics"]["accuracy"],
            }
            for record in self.records()
        ]

    def records(self) -> list[dict[str, Any]]:
        return list(self._records)

    @cached_property
    def _records(self) -> list[dict[str, Any]]:
        found = (if_whole(partial(self.record, path)) for path in sorted(self.path.glob("eval-*.json")))
        return sorted(filter(None, found), key=lambda record: record["finished"])

    @property
    def mark(self) -> str | None:
        """Mark of the stamps; None without a cache."""
        return self.stamps.mark if self.cache and self.stamps else None

    def is_kept(self, kind: str) -> bool:
        """Whether :meth:`keep` finds an entry in the cache."""
        return bool(self.cache and self.mark and self.cache.get(kind, self.name, self.mark) is not None)

    def keep(self, kind: str, make: Callable[[ReadRun], Found]) -> Found:
        """``make(self)``, plain data that the files of this run decide, or its entry in the cache.

        A run with a damaged file is read again each time, and warned about.
        """
        if self.cache is None or (mark := self.mark) is None:
            return make(self)
        found = self.cache.get(kind, self.name, mark)
        if found is None:
            with left_out() as damaged:
                found = make(ReadRun(self.path))  # this object would not warn about damage again
            if not damaged:
                self.cache.put(kind, self.name, mark, found)
        return found

    def kept_more(self, kind: str) -> None:
        """Say that what :meth:`keep` returned was modified in place."""
        if self.cache is not None:
            self.cache.modified()


def keep_of(runs: Sequence[ReadRun], kind: str, make: Callable[[], Found]) -> Found:
    """``make()``, plain data that the files of all ``runs`` decide, or its entry in the cache."""
    cache = runs[0].cache if runs else None
    marks = [run.mark for run in runs]
    if cache is None or None in marks:
        return make()
    mark = digest([[run.name, mark] for run, mark in zip(runs, marks, strict=True)], 24)
    found = cache.get(kind, ALL, mark)
    if found is None:
        with left_out() as damaged:
            found = make()
        if not damaged:
            cache.put(kind, ALL, mark, found)
            cache.save()
    return found


def shown(runs: Sequence[ReadRun], kind: str, label: str) -> Iterator[ReadRun]:
    """Iterate over ``runs`` with progress while entries of ``kind`` are made (:meth:`ReadRun.keep`); save at the
    end."""
    cache = runs[0].cache if runs else None
    if cache is None:
        yield from runs
        return
    missing = sum(not run.is_kept(kind) for run in runs)
    with cache.filling(len(runs), missing, label) as report:
        for run in runs:
            yield run
            report(1)
