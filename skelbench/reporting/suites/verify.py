"""Packed runs of somebody else, checked: whatever follows from something else in the file is worked out again.

What cannot be seen in a file is whether the predictions are those of the weights, or of any: that takes the training
again. All that is said here is whether the file agrees with itself, with the data that are here, and with a suite.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import DataSpec, EvalSpec, RunSpec, titled
from skelbench.evaluation.recomputed import recomputed, unlike
from skelbench.plugin.host import Host
from skelbench.records.archive import Packed, load_json, load_predictions
from skelbench.records.errors import Damaged
from skelbench.records.pack import MANIFEST
from skelbench.records.run_dir import ReadRun, RunDir
from skelbench.records.store import ResultStore
from skelbench.reporting.controls import CONTROLS
from skelbench.reporting.suites.freeze import fingerprints
from skelbench.reporting.suites.match import Recorded
from skelbench.reporting.suites.rows import rows_of
from skelbench.reporting.suites.suite import Suite

if TYPE_CHECKING:
    from skelbench.data.store.clip_store import ClipStore


@dataclass(frozen=True)
class Finding:
    """One check of one run, or of the whole file."""

    run: str
    """"" = the file."""
    check: str
    holds: bool | None
    """None: it could not be checked, or is no matter of right and wrong."""
    detail: str


@dataclass
class Place:
    """What packed runs are held against."""

    host: Host
    data_root: Path
    results: ResultStore
    suites: tuple[Suite, ...] = ()
    asked: str = ""
    """The suite whose rows the runs have to be; "" = none."""
    _opened: dict[str, ClipStore | None] = field(default_factory=dict)

    @cached_property
    def _stores(self) -> dict[str, Path]:
        return fingerprints(self.data_root)

    def store(self, data: DataSpec) -> ClipStore | None:
        """The data set with this fingerprint, None if it is not here; nothing is made."""
        from skelbench.data.store.clip_store import ClipStore

        key = data.fingerprint
        if key not in self._opened:
            try:
                self._opened[key] = ClipStore.open(self._stores[key]) if key in self._stores else None
            except SkelbenchError:
                self._opened[key] = None
        return self._opened[key]


def verify(packed: Packed, folder: Path, place: Place) -> list[Finding]:
    """All checks of a file, whose runs are unpacked into the empty ``folder``, a directory for each."""
    found = [*_hashes(packed)]
    packed.unpack(folder)
    for name in packed.runs:
        found += _run(ReadRun(folder / name), packed, place)
    return found


def _hashes(packed: Packed) -> Iterator[Finding]:
    """Whether every member is the one that the manifest counts, and there is no other."""
    said, wrong = packed.manifest.members, []
    for name in packed.members:
        if name == MANIFEST:
            continue
        try:
            data = packed.read(name)
        except ValueError as error:
            wrong.append(f"{name}: {error}")
            continue
        if name not in said:
            wrong.append(f"{name} is not in the manifest")
        elif hashlib.sha256(data).hexdigest() != said[name].sha256 or len(data) != said[name].bytes:
            wrong.append(f"{name} is not what the manifest says: it was changed")
    wrong += [f"{name} is missing" for name in said if name not in packed.members]
    if packed.runs != sorted(packed.manifest.runs):
        wrong.append("the runs are not those that the manifest names")
    if not packed.runs:
        wrong.append("it holds no run")
    detail = f"{len(said)} members are what the manifest says"
    yield Finding("", "hashes", not wrong, _all(wrong) or detail)


def _all(sentences: Iterable[str], most: int = 3) -> str:
    """The first of many, on one line."""
    told = list(sentences)
    more = f"; and {len(told) - most} more" if len(told) > most else ""
    return "; ".join(told[:most]) + more


# ------------------------------------------------------------------------------------------------ a run
def _run(run: ReadRun, packed: Packed, place: Place) -> Iterator[Finding]:
    """The checks of one unpacked run."""

    def finding(check: str, wrong: Iterable[str], detail: str) -> Finding:
        told = _all(wrong)
        return Finding(run.name, check, not told, told or detail)

    try:
        texts = [name for name in packed.files(run.name) if name.endswith(".json")]
        for name in texts:
            _strict(run.path / name)
        checked = run.read()
        spec, info = checked.spec, checked.info
    except (Damaged, ValueError) as error:
        yield Finding(run.name, "run.json", False, _cause(error))
        return
    yield finding("id", _id_wrong(run, info, spec, packed), f"{spec.id} is the hash of its spec")
    yield finding("training", _training_wrong(run, info, spec, place), _trained(info, spec))
    if (run.path / "cost.json").exists():
        yield finding("cost", _cost_wrong(run, spec), "encoder counted alike by all counters")
    yield _exact(run.name, info, spec, place)
    records, wrong = _records(run, packed)
    yield finding("evaluations", wrong, f"{len(records)} records, each named by the hash of its spec")
    counts = Counter(record["spec"]["protocol"] for record in records)
    for record in records:
        yield from _evaluation(run, record, place, counts[record["spec"]["protocol"]] > 1)
    if not wrong:
        yield from _rows(run, packed, place)


def _strict(path: Path) -> None:
    try:
        load_json(path.read_bytes())
    except (ValueError, OSError) as error:
        raise ValueError(f"{path.name}: {error}") from error


def _cause(error: BaseException) -> str:
    """What was wrong, without the advice to those who made the run."""
    return str(error.__cause__ or error) if isinstance(error, Damaged) else str(error)


def _id_wrong(run: RunDir, info: Mapping[str, Any], spec: RunSpec, packed: Packed) -> Iterator[str]:
    ids = {"run.json": info.get("id"), "manifest": packed.manifest.runs.get(run.name), "name": run.name[-12:]}
    for where, said in ids.items():
        if said != spec.id:
            yield f"the {where} says {said}, its spec has hash {spec.id}"
    if info.get("name") != run.name:
        yield "run.json is that of a run of another name"
    if info["outcome"] != "done":
        yield f"it is not done but {info['outcome']}"


def _training_wrong(run: RunDir, info: Mapping[str, Any], spec: RunSpec, place: Place) -> Iterator[str]:
    from skelbench.training.loop import total_steps

    steps, clips, here = info.get("steps"), info.get("train_clips"), _train_clips(spec.data, place)
    if not spec.views or spec.imported:
        return
    if not steps:
        yield "it does not say how many steps were made"
        return
    if info["clips_seen"] != steps * spec.train.batch_size:
        yield f"{steps} steps of {spec.train.batch_size} clips are not {info['clips_seen']:,} clips"
    if not isinstance(clips, int):
        yield "it does not say how many clips it trained on"
        return
    if here is not None and clips != here:
        yield f"it says that it trained on {clips:,} clips, {spec.data.name} {spec.data.split} has {here:,}"
    try:
        planned = total_steps(spec, clips)
    except (OverflowError, ZeroDivisionError):
        planned = 0
    if planned != steps:
        yield f"its spec makes {planned} steps with {clips} training clips, it says {steps}"
    yield from _lines_wrong(run.metrics, steps)


def _train_clips(data: DataSpec, place: Place) -> int | None:
    """How many clips are trained on, where the data set is here."""
    if (store := place.store(data)) is None:
        return None
    with suppress(SkelbenchError):  # a split that is not here
        return len(store.split(data.split, data.min_frames).train)
    return None


def _lines_wrong(path: Path, steps: int) -> Iterator[str]:
    if not path.exists():
        yield "its metrics.jsonl is missing"
        return
    last = 0
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                row = load_json(line)
                last = row["step"]
            except (ValueError, KeyError, TypeError) as error:
                yield f"metrics.jsonl, line {number}: {error}"
                return
    if last != steps:
        yield f"metrics.jsonl ends at step {last}, the training at {steps}"


def _trained(info: Mapping[str, Any], spec: RunSpec) -> str:
    if not spec.views or spec.imported:
        return "nothing was trained"
    return f"{info.get('steps') or 0:,} steps of {spec.train.batch_size} clips, as its spec has it"


def _cost_wrong(run: RunDir, spec: RunSpec) -> Iterator[str]:
    from skelbench.evaluation.cost.count import CONVENTION
    from skelbench.evaluation.cost.macs import TOLERANCE

    try:
        cost = run.cost()
    except Damaged as error:
        yield _cause(error)
        return
    encoder = cost["encoder"] if cost else {}
    if encoder.get("convention") != CONVENTION:
        yield "it does not say that it is counted by the convention of this skelbench"
    for name in ("closed_form", "fvcore", "torch_flop_counter"):
        macs = encoder.get(name)
        if not isinstance(macs, int | float):
            if name != "closed_form":  # which not every encoder has
                yield f"it has no count by {name}"
        elif abs(macs - encoder["macs"]) > TOLERANCE * encoder["macs"]:
            yield f"{name} counts {macs:,} MACs, the record says {encoder['macs']:,}"
    if cost and spec.method not in CONTROLS and not cost["grid"].startswith(f"{spec.tokens} x "):
        yield f"it is of the token grid {cost['grid']}, the run has {spec.tokens} temporal tokens"


def _exact(name: str, info: Mapping[str, Any], spec: RunSpec, place: Place) -> Finding:
    """Whether the spec is what method and preset give here."""
    from skelbench.pipeline.controls import control
    from skelbench.pipeline.request import Request
    from skelbench.pipeline.resolve import resolve

    def finding(holds: bool | None, detail: str) -> Finding:
        return Finding(name, "preset", holds, detail)

    title = titled(spec.method, info.get("variant", ""))
    if info["modified"] or spec.init_from or spec.imported:
        return finding(None, "settings were changed from the preset, and it says so")
    if place.store(spec.data) is None:
        return finding(None, f"data set {spec.data.name} ({spec.data.fingerprint[:12]}) is not here")
    try:
        method, _ = place.host.method(title)
        own = str(method.version), place.host.origin(method).source_hash
        if own != (str(spec.method_version), spec.method_source):
            return finding(None, f"method {title} is another version or file here")
        native = info.get("setting") == "native"
        request = Request(
            method=title, dataset=spec.data.name, split=spec.data.split, preset=info["preset"], seed=spec.seed,
            clip_length=spec.grid.frames, patch=spec.grid.patch, native=native, precision=spec.train.precision,
        )  # fmt: skip
        here = resolve(request, place.host, place.data_root, "cpu").spec
    except SkelbenchError as error:
        return finding(None, f"cannot be made here: {error}")
    if here.id == spec.id:
        return finding(True, f"{title} with preset {info['preset']} has this spec here too")
    if spec.method == "untrained" and native:  # its encoder is of the run whose twin it is
        for name in place.host.names("methods"):
            with suppress(SkelbenchError):  # not everyone can be made of this grid
                run = resolve(request.model_copy(update={"method": name}), place.host, place.data_root, "cpu")
                if run.method.trains and control(run, place.host).spec.id == spec.id:
                    return finding(True, f"it is the untrained twin of {name} with preset {info['preset']}, natively")
        return finding(None, f"no method here has this untrained twin with preset {info['preset']}, natively")
    mine, theirs = here.model_dump(mode="json"), spec.model_dump(mode="json")
    names = ", ".join(name for name in mine if mine[name] != theirs.get(name))
    return finding(False, f"it says that nothing was changed from preset {info['preset']}, but {names} differ from it")


# ------------------------------------------------------------------------------------------------ evaluations
def _records(run: ReadRun, packed: Packed) -> tuple[list[dict[str, Any]], list[str]]:
    """The evaluation records that can be read, and what is wrong with any."""
    records, wrong, files = [], [], packed.files(run.name)
    for name in (name for name in files if name.startswith("eval-") and name.endswith(".json")):
        try:
            record = run.record(run.path / name)
        except Damaged as error:
            wrong.append(f"{name}: {_cause(error)}")
            continue
        if (own := EvalSpec.model_validate(record["spec"]).id) != record["id"]:
            wrong.append(f"{name} says {record['id']}, its spec has hash {own}")
        elif record["predictions"] != name.replace(".json", ".npz") or record["predictions"] not in files:
            wrong.append(f"{name}: its predictions are not in the file")
        else:
            records.append(record)
    known = {record["predictions"] for record in records}
    wrong += [f"{name} belongs to no record" for name in files if name.endswith(".npz") and name not in known]
    return records, wrong


def _evaluation(run: RunDir, record: Mapping[str, Any], place: Place, twice: bool) -> Iterator[Finding]:
    """Whether predictions give the metrics, and are of the clips and labels of the data set that is here; ``twice``:
    the run was evaluated by this protocol more than once."""
    name = f"{record['spec']['protocol']} {record['id']}" if twice else record["spec"]["protocol"]
    try:
        arrays = load_predictions((run.path / record["predictions"]).read_bytes())
        wrong, again = list(unlike(record, arrays)), recomputed(record, arrays)
    except (ValueError, OSError) as error:
        yield Finding(run.name, f"{name}: metrics", False, f"{record['predictions']}: {error}")
        return
    beyond = sorted(set(record["metrics"]) - set(again))
    detail = f"{len(again)} of {len(record['metrics'])} follow from the predictions of {len(arrays['ids']):,} clips"
    detail += f"; not checked: {_all(beyond, most=4).replace(';', ',')}" if beyond else ""
    yield Finding(run.name, f"{name}: metrics", not wrong, _all(wrong) or detail)
    evaluated = EvalSpec.model_validate(record["spec"])
    if record["standard"] and (said := _not_standard(run, evaluated, place.host)):
        yield Finding(run.name, f"{name}: settings", False, said)
    data = evaluated.data
    store = place.store(data)
    if store is None:
        yield Finding(run.name, f"{name}: labels", None, f"data set {data.name} ({data.fingerprint[:12]}) is not here")
        return
    problem = _labels_wrong(store, data, arrays)
    yield Finding(run.name, f"{name}: labels", not problem, problem or f"those of {data.name} {data.split} here")


def _not_standard(run: RunDir, evaluated: EvalSpec, host: Host) -> str:
    """In what an evaluation that says it is its protocol as it stands differs from that; "" = in nothing, or it cannot
    be told: protocols of another version, those that presets scale, and controls, which are looked at as other runs."""
    from skelbench.pipeline.evaluate import eval_spec

    try:
        descriptor = host.get("protocols", evaluated.protocol)
        fields: dict[str, Any] = {"data": evaluated.data} if descriptor.elsewhere else {}
        plain = eval_spec(host, run, evaluated.protocol, **fields)
    except SkelbenchError:
        return ""
    same = ("protocol_version", "protocol_source")
    if any(getattr(plain, key) != getattr(evaluated, key) for key in same) or descriptor.presets:
        return ""
    told = ["protocol_config"] if run.spec.method in CONTROLS else [*EvalSpec.model_fields]
    differ = [key for key in told if getattr(plain, key) != getattr(evaluated, key)]
    return f"it says that nothing but the protocol was asked for, but {', '.join(differ)} differ" if differ else ""


def _labels_wrong(store: ClipStore, data: DataSpec, arrays: Mapping[str, np.ndarray]) -> str:
    try:
        test = store.split(data.split).test
    except SkelbenchError as error:
        return str(error)
    ids = arrays["ids"]
    if not np.array_equal(np.sort(ids), np.sort(test)):
        return f"they are of other clips than the test clips of {data.name} {data.split}"
    if not np.array_equal(arrays["labels"], store.labels[ids]):
        return f"{int((arrays['labels'] != store.labels[ids]).sum())} are not those of the data set"
    if "subjects" in arrays and not np.array_equal(arrays["subjects"], store.index["subject"][ids]):
        return "subjects are not those of the data set"
    return ""


# ------------------------------------------------------------------------------------------------ suites
def _rows(run: RunDir, packed: Packed, place: Place) -> Iterator[Finding]:
    """Which rows of suites the run fills."""
    for suite in place.suites:
        asked = suite.name == place.asked
        made = packed.manifest.suites.get(suite.name, suite.hash)
        evaluations, reasons = rows_of(suite, Recorded(suite, place.results), run)
        if made != suite.hash:
            evaluations, reasons = set(), [f"the file was made for hash {made}, this one has {suite.hash}"]
        filled = {r["spec"]["protocol"] for r in run.records() if r["id"] in evaluations}
        names = ", ".join(name for name in suite.protocols if name in filled)
        holds = bool(filled) if asked else True if filled else None
        detail = f"a row of {suite.title}: {names}" if filled else f"no row of {suite.title}: {_all(reasons, 2)}"
        yield Finding(run.name, f"suite {suite.name}", holds, detail)
