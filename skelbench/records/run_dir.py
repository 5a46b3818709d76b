"""One run on disk: the contents of its files, and their paths (:mod:`skelbench.records.store` lists runs)."""

from __future__ import annotations

import math
import re
import shlex
from contextlib import AbstractContextManager
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from skelbench.core.errors import SkelbenchError
from skelbench.core.files import read_json, write_json
from skelbench.core.leases import Lease
from skelbench.core.spec import EvalSpec, RunSpec, listed, titled
from skelbench.core.spelling import american
from skelbench.records.errors import damage, if_whole
from skelbench.records.provenance import FIELD as ADDED
from skelbench.records.schema import CostFacts, RecordFacts, RunFacts, facts_of

PROBES = ".probe.lock"
"""Lock in the folder of a run, held by the process that evaluates it."""


class RunDir:
    """One run on disk. Every property reads run.json again; a :class:`ReadRun` reads it once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.held: Lease | None = None
        """The lock, while this process works in the directory."""

    def check_held(self) -> None:
        """Raise SkelbenchError if another process took the lock over: both would write one file."""
        if self.held:
            self.held.check()

    def check_done(self) -> None:
        """Raise SkelbenchError if the run is not finished."""
        if self.outcome != "done":
            raise SkelbenchError(f"run {self.name} is not done but {self.outcome}; issue its command again to finish")

    @property
    def name(self) -> str:
        return self.path.name

    def damage(self) -> AbstractContextManager[None]:
        """Context in which an error means that run.json is damaged."""
        return damage(f"run.json of {self.path} is missing or damaged; remove that directory and run again")

    @property
    def info(self) -> dict[str, Any]:
        """The parsed run.json."""
        with self.damage():
            info = american(read_json(self.path / "run.json"))
            if not isinstance(info, dict) or "spec" not in info:
                raise ValueError("it holds no run")
        return info

    @property
    def spec(self) -> RunSpec:
        info = self.info
        with self.damage():
            spec = facts_of(RunSpec, info["spec"])
        return spec

    def checked(self) -> RunDir:
        """Return this run; :class:`Damaged` as :meth:`read`."""
        self.read()
        return self

    def read(self) -> ReadRun:
        """Return the run as it is now; :class:`Damaged` if run.json is not valid or its spec belongs to another id."""
        run = ReadRun(self.path)
        with self.damage():
            facts_of(RunFacts, run.info)
            if run.info.get("id", run.spec.id) != run.spec.id:
                raise ValueError("its spec does not match its id")
        return run

    @property
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
            "created": info.get("created", 0.0),
            "finished": info.get("finished"),
            "origin": {ADDED: info[ADDED]} if ADDED in info else {},
        }

    @property
    def preset(self) -> str:
        return str(self.about["preset"])

    @property
    def title(self) -> str:
        """``slim``, ``slim:glcl-only``: the method and its variant as they are typed."""
        return str(self.about["title"])

    @property
    def hardware(self) -> str:
        """Hardware that the run was trained on; "" if it was not recorded."""
        return str(self.about["hardware"])

    @property
    def outcome(self) -> str:
        """new, running, interrupted, diverged, failed or done."""
        return str(self.about["outcome"])

    @property
    def reason(self) -> str:
        """Reason why the run diverged or failed."""
        return str(self.about["reason"])

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags that the user gave the run."""
        return tuple(self.about["tags"])

    @property
    def plugin_files(self) -> str:
        """Options for the plugin files of the run's command, to append to another command: `` --plugin mine.py``."""
        try:
            words = shlex.split(self.info.get("environment", {}).get("command") or "")
        except ValueError:  # written by hand
            return ""
        files = [word for before, word in zip(words, words[1:]) if before == "--plugin"]
        files += [word.partition("=")[2] for word in words if word.startswith("--plugin=")]
        return "".join(f" --plugin {shlex.quote(file)}" for file in files)

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
        """The parsed cost.json; None before the costs were measured."""
        with damage(f"{self.cost_path} is damaged; remove it and issue the run's command again"):
            try:
                cost = read_json(self.cost_path)
            except FileNotFoundError:
                return None
            facts_of(CostFacts, cost)
        return cost

    def encoder_path(self, checkpoint: str = "last", stream: str = "") -> Path:
        """Path of an inference encoder: of the run, or of ``stream`` alone; after the last step or at an epoch."""
        name = "encoder" + (f".{stream}" if stream else "") + ("" if checkpoint == "last" else f"@{checkpoint}")
        return self.path / f"{name}.safetensors"

    def encoder(self, checkpoint: str = "last", stream: str = "") -> Path:
        """Weights of the inference encoder for ``stream``, after the last step or at a kept epoch."""
        path = self.encoder_path(checkpoint)
        if checkpoint != "last" and not path.exists():
            snapshots = ", ".join(self.snapshots()) or "none"
            raise SkelbenchError(f"run {self.name} kept no snapshot at epoch {checkpoint}; kept epochs: {snapshots}")
        own = self.encoder_path(checkpoint, stream)
        return own if own.exists() else path

    def snapshots(self) -> list[str]:
        """Epochs of the kept encoder snapshots, ascending."""
        names = [path.stem.split("@", 1)[1] for path in self.path.glob("encoder@*.safetensors")]
        return sorted((name for name in names if re.fullmatch(r"\d+(\.\d+)?(e\+\d+)?", name)), key=float)

    def update(self, *removed: str, **fields: Any) -> None:
        """Merge ``fields`` into run.json and remove the fields ``removed``; processes take turns."""
        with Lease(self.path / ".run.json.lock", math.inf):
            info = {key: value for key, value in RunDir(self.path).info.items() if key not in removed}
            write_json(self.path / "run.json", {**info, **fields})

    def record_path(self, spec: EvalSpec) -> Path:
        return self.path / f"eval-{spec.id}.json"

    def record(self, path: Path) -> dict[str, Any]:
        """The evaluation record in the file ``path`` of this run."""
        with damage(f"evaluation record {path} is damaged; remove it and evaluate again"):
            record = american(read_json(path))
            facts_of(RecordFacts, record)
            facts_of(EvalSpec, record.get("spec"))
            if path.name != f"eval-{record['id']}.json":
                raise ValueError(f"it holds evaluation {record['id']}, its name has another id")
            if self.info.get("id") not in (None, record["spec"]["pretrain_id"]):
                raise ValueError(f"it is of another run, {record['spec']['pretrain_id']}")
        return record

    def records(self) -> list[dict[str, Any]]:
        """All evaluation records without damaged ones, oldest first."""
        return ReadRun(self.path).records()

    def lock(self, timeout: float = 0.0) -> Lease:
        """Lease for the process that works in this directory, on whatever machine."""
        return Lease(self.path / ".lock", timeout)


class ReadRun(RunDir):
    """A run as it was when it was first read, for commands that list many runs."""

    info = cached_property[dict[str, Any]](vars(RunDir)["info"].fget)
    spec = cached_property[RunSpec](vars(RunDir)["spec"].fget)
    about = cached_property[dict[str, Any]](vars(RunDir)["about"].fget)

    def records(self) -> list[dict[str, Any]]:
        return list(self._records)

    @cached_property
    def _records(self) -> list[dict[str, Any]]:
        records = (if_whole(partial(self.record, path)) for path in sorted(self.path.glob("eval-*.json")))
        return sorted(filter(None, records), key=lambda record: record["finished"])
