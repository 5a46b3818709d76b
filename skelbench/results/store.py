"""The results directory: one directory per run, no central database.

A damaged file stops no command that looks at all runs: what it holds is left out, with a warning that names it, and
the rest is as ever. Only what asks for that very file fails.

results/
  skelbench.json                       format version of the directory
  slim-synthetic-cross-view-8t-quick-s0-1a2b3c4d5e6f/    slim.glcl-only-...: a variant
    run.json                           spec, preset, variant, command, environment, outcome
    metrics.jsonl                      one line per logged step
    last.pt                            everything needed to continue
    encoder.safetensors                the inference encoder after the last step
    encoder.bone.safetensors           of a stream, where the method has an encoder for it
    encoder@12.5.safetensors           kept snapshots, by epoch
    cost.json                          MACs, step FLOPs, latency, memory
    eval-<eval_id>.json, .npz          one record and its per-clip predictions per evaluation
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from skelbench.cores import uncollected
from skelbench.errors import SkelbenchError, did_you_mean
from skelbench.files import read_json, write_json
from skelbench.identity import digest
from skelbench.leases import Lease
from skelbench.locks import FileLock
from skelbench.places import said
from skelbench.results import kept
from skelbench.results.added import FIELD as ADDED
from skelbench.spec import EvalSpec, RunSpec, file_name, listed, titled

FORMAT = 2
"""2: views, optimiser and schedule stand in a run's spec as plain data; ids are others than those of format 1."""
_MARK = "skelbench.json"
log = logging.getLogger(__name__)

Found = TypeVar("Found")
Model = TypeVar("Model", bound=BaseModel)
Share = Annotated[float, Field(ge=0, le=1)]


class Damaged(SkelbenchError):
    """A file of the results that holds nothing that can be used."""

    @classmethod
    def because(cls, sentence: str, error: Exception) -> Damaged:
        """``sentence`` with what went wrong in brackets."""
        return cls(f"{sentence} ({getattr(error, 'strerror', None) or error})")


@cache
def _warn(sentence: str) -> None:
    log.warning("note: left out: %s", sentence)


_listening: list[list[str]] = []


def if_whole(read: Callable[[], Found]) -> Found | None:
    """What ``read`` returns; None where that is :class:`Damaged`, with one warning per file in a process."""
    try:
        return read()
    except Damaged as error:
        for said in _listening:
            said.append(str(error))
        _warn(str(error))
        return None


@contextmanager
def left_out() -> Iterator[list[str]]:
    """What :func:`if_whole` leaves out meanwhile, as sentences."""
    said: list[str] = []
    _listening.append(said)
    try:
        yield said
    finally:
        _listening[:] = [one for one in _listening if one is not said]


class _Facts(BaseModel):
    """What the readers of a file rely on; it may hold more."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _Environment(_Facts):
    hardware: str = ""
    threads: Annotated[int, Field(ge=1)] | None = None


class _Collapse(_Facts):
    what: str
    measure: str
    value: float
    step: int


class _Imported(_Facts):
    file: str
    sha256: str
    read: str
    settings: dict[str, Any]
    left_out: list[str]


class _RunFacts(_Facts):
    id: str = ""
    preset: str
    modified: dict[str, Any]
    environment: _Environment = _Environment()
    outcome: str
    reason: str = ""
    variant: str = ""
    setting: str = "shared"
    created: float = 0.0
    finished: float | None = None
    steps: int | None = None
    clips_seen: float | None = None
    train_seconds: float | None = None
    collapse: list[_Collapse] | None = None
    shortcut: list[_Collapse] | None = None
    imported: _Imported | None = None
    tags: list[str] = []
    note: str = ""

    @model_validator(mode="after")
    def _length(self) -> _RunFacts:
        if self.steps and (self.clips_seen is None or self.train_seconds is None):
            raise ValueError("it says how many steps were made, but not of how many clips in what time")
        return self


class _Metrics(_Facts):
    accuracy: Share
    n_test: Annotated[float, Field(ge=1)]
    accuracy_selected: Share | None = None
    accuracy_best_on_test: Share | None = None
    accuracy_sd: Annotated[float, Field(ge=0)] | None = None


class _Measure(_Facts):
    model_config = ConfigDict(extra="forbid")
    label: str = ""
    share: bool = False


class _RecordFacts(_Facts):
    id: str
    standard: bool
    metrics: _Metrics
    measures: dict[str, _Measure] = {}
    drawn: str = ""
    predictions: str
    notes: list[str] = []
    finished: float


class _Encoder(_Facts):
    macs: Annotated[float, Field(ge=0)]
    bodies: Annotated[int, Field(ge=1)] = 1


class _Step(_Facts):
    flops_per_clip: Annotated[float, Field(ge=0)]


class _Parameters(_Facts):
    encoder: int
    trainable: int


class _Time(_Facts):
    median_ms: float
    clips_per_s: float


class _Latency(_Facts):
    one: _Time = Field(alias="batch 1")
    many: _Time = Field(alias="batch 64")


class _Peak(_Facts):
    bytes: float
    how: str


class _CostFacts(_Facts):
    grid: Annotated[str, Field(pattern=r"^\d+ x \d+")]
    encoder: _Encoder
    parameters: _Parameters
    step: _Step | None
    latency: _Latency
    peak_memory: _Peak


def facts_of(model: type[Model], values: Any) -> Model:
    """``values`` as ``model``; ValueError with the first place where they are not what it says."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "it"
        raise ValueError(f"{place}: {first['msg'][0].lower()}{first['msg'][1:]}") from None


def default_root() -> Path:
    """What ``SKELBENCH_RESULTS`` or ``skelbench.toml`` says, else ``results`` in the current directory."""
    return said("results") or Path("results")


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
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> Damaged:
        said = f"run.json of {self.path} is missing or damaged; remove that directory and run again"
        return Damaged.because(said, error)

    def checked(self) -> RunDir:
        """Itself; :class:`Damaged` if run.json is not what its readers rely on, or its spec not that of its id."""
        run = self.read()
        if run.info.get("id", run.spec.id) != run.spec.id:
            raise self._damaged(ValueError("its spec is not that of its id"))
        return self

    def read(self) -> ReadRun:
        """The run as it is now, checked."""
        run = ReadRun(self.path)
        try:
            facts = facts_of(_RunFacts, run.info)
            if run.spec.imported and facts.outcome == "done" and facts.imported is None:
                raise ValueError("it does not say what was imported")
        except ValueError as error:
            raise self._damaged(error) from error
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
            raise self._damaged(error) from error

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
            facts_of(_CostFacts, cost)
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
        with FileLock(self.path / ".run.json.lock"):
            kept = {key: value for key, value in self._read_info().items() if key not in gone}
            write_json(self.path / "run.json", {**kept, **fields})

    def record_path(self, spec: EvalSpec) -> Path:
        return self.path / f"eval-{spec.id}.json"

    def record(self, path: Path) -> dict[str, Any]:
        """The evaluation record in one of this run's files."""
        try:
            record = read_json(path)
            facts_of(_RecordFacts, record)
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
    """A run as it was when it was first looked at, for what lists many and holds none while it changes.

    ``shelves``: where what its files say is kept, by their ``stamps`` from before the first of them was read; without
    either nothing is kept, and every file is read.
    """

    name = ""

    def __init__(
        self, path: Path, shelves: kept.Shelves | None = None, stamps: kept.Stamps | None = None, name: str = ""
    ) -> None:
        super().__init__(path)
        self.name = name or path.name
        self.shelves, self.stamps = shelves, stamps

    info = cached_property(RunDir._read_info)
    spec = cached_property(RunDir._read_spec)

    @cached_property
    def about(self) -> dict[str, Any]:
        """What run.json says in short, as plain data: what every list of runs needs."""
        info, spec = self.info, self.spec
        return {
            "id": spec.id,
            "said_id": info.get("id"),
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
        """Of the stamps; None where nothing is kept."""
        return self.stamps.mark if self.shelves and self.stamps else None

    def is_kept(self, kind: str) -> bool:
        """Whether :meth:`keep` makes nothing anew."""
        return bool(self.shelves and self.mark and self.shelves[kind].get(self.name, self.mark) is not None)

    def keep(self, kind: str, make: Callable[[ReadRun], Found]) -> Found:
        """``make(self)``, plain data that this run's own files decide, or what that was while they were the same.

        Of a run with a damaged file nothing is kept: it is read, and said, again.
        """
        if self.shelves is None or (mark := self.mark) is None:
            return make(self)
        found = self.shelves[kind].get(self.name, mark)
        if found is None:
            with left_out() as damaged:
                found = make(ReadRun(self.path))  # of what is remembered here damage is not said again
            if not damaged:
                self.shelves[kind].put(self.name, mark, found)
        return found

    def kept_more(self, kind: str) -> None:
        """Of what :meth:`keep` returned something was added in place."""
        if self.shelves is not None:
            self.shelves[kind].changed = True


class KeptRun(ReadRun):
    """A run of which it is known that it is whole, and what it is ``about``: its files are read when they are asked
    for."""

    def __init__(
        self, path: Path, shelves: kept.Shelves, stamps: kept.Stamps, name: str, about: dict[str, Any]
    ) -> None:
        super().__init__(path, shelves, stamps, name)
        self.about = about

    @property
    def title(self) -> str:
        return self.about["title"]

    @property
    def preset(self) -> str:
        return self.about["preset"]

    @property
    def hardware(self) -> str:
        return self.about["hardware"]

    @property
    def outcome(self) -> str:
        return self.about["outcome"]

    @property
    def reason(self) -> str:
        return self.about["reason"]

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(self.about["tags"])


def keep_of(runs: Sequence[ReadRun], kind: str, make: Callable[[], Found]) -> Found:
    """``make()``, plain data that the files of all ``runs`` decide, or what that was while they were the same runs and
    files; see :meth:`ReadRun.keep`."""
    shelves = runs[0].shelves if runs else None
    marks = [run.mark for run in runs]
    if shelves is None or None in marks:
        return make()
    mark = digest([[run.name, mark] for run, mark in zip(runs, marks, strict=True)], 24)
    found = shelves[kind].get(kept.ALL, mark)
    if found is None:
        with left_out() as damaged:
            found = make()
        if not damaged:
            shelves[kind].put(kept.ALL, mark, found)
            shelves.save()
    return found


def shown(runs: Sequence[ReadRun], kind: str, label: str) -> Iterator[ReadRun]:
    """The ``runs`` one by one while something of the ``kind`` is made of them (:meth:`ReadRun.keep`), which is written
    at the end, also if that comes early."""
    shelves = runs[0].shelves if runs else None
    if shelves is None:
        yield from runs
        return
    missing = sum(not run.is_kept(kind) for run in runs)
    with shelves.filling(len(runs), missing, label) as report:
        for run in runs:
            yield run
            report(1)


def _by_another_budget(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether a run of one length is asked for by another budget, or by another word for the same one."""
    return before != now and any(key.startswith("budget ") for key in (*before, *now))


class ResultStore:
    """All runs below one directory. ``progress``: shown where many are read that were not before."""

    def __init__(self, root: Path | str | None = None, progress: kept.Progress | None = None) -> None:
        self.root = Path(root) if root is not None else default_root()
        self._progress = progress

    def check_readable(self) -> None:
        """Refuse a file in its place, and a directory written by a newer or an earlier version."""
        if self.root.exists() and not self.root.is_dir():
            raise SkelbenchError(f"results directory {self.root} is a file; use another with --results")
        mark = self.root / _MARK
        if not mark.exists():
            return
        try:
            version = int(read_json(mark)["format"])
        except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
            raise SkelbenchError(f"{mark} is damaged; restore it or use another directory with --results") from error
        if version < FORMAT:
            raise SkelbenchError(
                f"results directory {self.root} was written by an earlier skelbench (format {version}, this one reads "
                f"{FORMAT}); keep it under another name, or use another directory with --results"
            )
        if version > FORMAT:
            raise SkelbenchError(
                f"results directory {self.root} has format {version}, newer than this skelbench reads ({FORMAT}); "
                "upgrade skelbench or use another directory with --results"
            )

    def prepare(self) -> None:
        """Make the directory and prove that it can be written, before any work is done."""
        self.check_readable()
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            write_json(self.root / _MARK, {"format": FORMAT})
        except OSError as error:
            raise SkelbenchError(
                f"results directory {self.root} cannot be written ({error.strerror or error}); "
                "free some space, fix its permissions, or use another with --results"
            ) from error

    def runs(self) -> Iterator[RunDir]:
        """Every run, by name, but for damaged ones and copies."""
        return (RunDir(run.path) for run in self.read())

    def read(self) -> list[ReadRun]:
        """The same, as they are now: run.json of each is read once, or not at all where it is as it was."""
        whole = [*filter(None, self._read())]
        by_id: dict[str, ReadRun] = {}
        for run in sorted(whole, key=lambda run: (not run.name.endswith(f"-{run.about['said_id']}"), run.name)):
            twin = by_id.setdefault(run.about["said_id"] or run.name, run)
            if twin is not run:
                _warn(f"{run.path} is a copy of run {twin.name}; remove one of them")
        return sorted(by_id.values(), key=lambda run: run.name)

    def _read(self) -> Iterator[ReadRun | None]:
        names = self._names()
        if len(names) < kept.LEAST:
            yield from (if_whole(directory.read) for directory in self._of(names))
            return
        with uncollected():
            looked = ((name, *kept.looked_at(f"{self.root}/{name}")) for name in names)
            found = [(name, stamps) for name, is_run, stamps in looked if is_run]
        shelves = kept.Shelves(self.root, [name for name, _ in found], self._progress)
        shelf = shelves["runs"]
        abouts = [shelf.get(name, stamps.mark) if stamps else None for name, stamps in found]
        with shelves.filling(len(found), sum(not about for about in abouts), "reading runs") as report:
            for (name, stamps), about in zip(found, abouts, strict=True):
                if about and stamps:
                    yield KeptRun(self.root / name, shelves, stamps, name, about)
                elif whole := if_whole(RunDir(self.root / name).read):
                    whole.shelves, whole.stamps = shelves, stamps
                    if stamps:
                        shelf.put(name, stamps.mark, whole.about)
                    yield whole
                report(1)

    def numbered(self) -> list[ReadRun]:
        """The same, the oldest first: a run's place in this list, from 1, is its number."""
        return sorted(self.read(), key=lambda run: (run.about["created"], run.name))

    def _directories(self) -> Iterator[RunDir]:
        """Every directory with something of a run in it."""
        return self._of(self._names())

    def _of(self, names: Sequence[str]) -> Iterator[RunDir]:
        for name in names:
            if any(os.path.lexists(f"{self.root}/{name}/{sign}") for sign in kept.SIGNS):
                yield RunDir(self.root / name)

    def _names(self) -> list[str]:
        """Of everything in it that is not hidden."""
        self.check_readable()
        return sorted(name for name in os.listdir(self.root) if name[0] != ".") if self.root.is_dir() else []

    def find(self, pattern: str) -> tuple[RunDir, str]:
        """The run named by its name, id, title, number, or an unambiguous part of name or id; ``RUN@50`` also names a
        snapshot.

        ``slim`` means the method rather than its variants, ``slim:glcl-only`` the variant. A whole name, id or title
        goes before the number (``7``, ``#7``) of :meth:`numbered`, which goes before a part of one.
        """
        name, _, checkpoint = pattern.partition("@")
        named, runs = list(self._directories()), self.read()
        matches: Sequence[RunDir] = [run for run in named if name == run.name] or [
            run for run in named if name == run.name.rsplit("-", 1)[-1]
        ]
        matches = matches or [run for run in runs if name == run.title]
        matches = matches or self._numbered(name, len(runs))
        matches = matches or [run for run in named if file_name(name) in run.name]
        if len(matches) == 1:
            return RunDir(matches[0].path).checked(), checkpoint or "last"
        if matches:
            names = ", ".join(run.name for run in matches[:5])
            raise SkelbenchError(f"{name!r} fits {len(matches)} runs ({names}...); give more of the name or the id")
        known = {part for run in runs for part in (run.name, run.title, run.name.rsplit("-", 1)[-1])}
        if not known:
            raise SkelbenchError(f"there is no run {name!r} in {self.root}: it holds none; see `skelbench run --help`")
        raise SkelbenchError(did_you_mean(name, sorted(known), "run", "`skelbench runs list` shows all"))

    def _numbered(self, name: str, count: int) -> list[ReadRun]:
        """The run of the number that ``name`` is; none where it is no number, or a bare one that is too high and may be
        a part of an id."""
        if not (digits := name.removeprefix("#")).isascii() or not digits.isdigit():
            return []
        if 1 <= int(digits) <= count:
            return [self.numbered()[int(digits) - 1]]
        if name != digits:
            there = f"runs have the numbers 1 to {count}" if count else "it holds none"
            raise SkelbenchError(f"there is no run {name} in {self.root}: {there}; see `skelbench runs list`")
        return []

    def by_id(self, pretrain_id: str) -> RunDir | None:
        """The run with this pretrain_id."""
        return next((run.checked() for run in self._directories() if run.name.endswith(f"-{pretrain_id}")), None)

    def open(
        self,
        spec: RunSpec,
        preset: str,
        modified: Mapping[str, Any],
        facts: Mapping[str, Any],
        setting: str = "shared",
        variant: str = "",
    ) -> RunDir:
        """The directory of ``spec``, made if new. ``facts`` (environment, command, ...) are written for a new run."""
        with FileLock(self.root / ".lock"):  # for an instant: two processes may ask for the same untrained run
            run = self.by_id(spec.id)
            if run is not None:
                if run.spec.model_dump(mode="json") != spec.model_dump(mode="json"):
                    raise run._damaged(ValueError("its spec is not that of its id"))
                if run.info["modified"] and not modified:
                    # The same run, now asked for by the preset, or preset and variant, that it equals.
                    run.update(preset=preset, variant=variant, modified={})
                elif _by_another_budget(run.info["modified"], modified):
                    # Rows over seeds are told apart by these words, and one seed may have been asked for otherwise.
                    run.update("budget", modified=dict(modified), **{k: facts[k] for k in ("budget",) if k in facts})
                if setting != run.info.get("setting", "shared") and not modified:
                    run.update(setting=setting)  # settings typed one by one that make up the method's native setting
                return run
            label = (preset if setting == "shared" else f"{preset}-{setting}") + ("+" if modified else "")
            title = file_name(titled(spec.method, variant))
            data = f"{spec.data.name}-{spec.data.split}-{spec.tokens}t"
            path = self.root / f"{title}-{data}-{label}-s{spec.seed}-{spec.id}"
            path.mkdir(parents=True, exist_ok=True)
            info: dict[str, Any] = {"id": spec.id, "name": path.name, "preset": preset, "variant": variant}
            info |= {"setting": setting, "modified": dict(modified), "outcome": "new", "created": time.time(), **facts}
            write_json(path / "run.json", {**info, "spec": spec.model_dump(mode="json")})
            return RunDir(path)
