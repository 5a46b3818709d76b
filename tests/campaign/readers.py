"""Every reader of files, with small good files, ways to spoil them, and what a reader may make of one.

A reader is given one spoilt file at a time. It may refuse it (:data:`REFUSALS`) or read it; what it reads must make
sense.
"""

import contextlib
import csv
import io
import json
import math
import os
import pickle
import random
import shutil
import struct
import zipfile
from argparse import Namespace
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from made import fuzz_pickle, fuzz_text
from made.people import person
from safetensors.numpy import save as save_tensors
from small import TINY, silent_session, tiny_run, write_small_store

from skelbench.core.errors import SkelbenchError
from skelbench.core.hashing import canonical_json
from skelbench.core.spec import EvalSpec, RunSpec
from skelbench.data.importers import ImportOptions, import_files
from skelbench.data.importers.files import recognise
from skelbench.data.raw.files import BadFile, list_raw
from skelbench.data.raw.ntu.text import parse
from skelbench.data.store import clip_store
from skelbench.data.store.clip_store import ClipStore, Meta
from skelbench.data.store.writer import Clip
from skelbench.plugin.host import get_host
from skelbench.views.skeleton.topology import NTU25, get_topology

REFUSALS = (SkelbenchError, BadFile)


@dataclass(frozen=True)
class Reader:
    """One kind of file."""

    spoil: Callable[[random.Random], Any]
    """A spoilt file: its bytes, or what it takes to make it again."""
    read: Callable[[Any], Any]
    """Reads it; raises what is refused, AssertionError for nonsense. False = refused as well."""
    weight: float
    """Share of the inputs."""


# ------------------------------------------------------------------------------------------------ spoiling bytes
NUMBERS = [struct.pack("<q", n) for n in (0, 1, -1, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, -(2**63))]


def spoil_bytes(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """One to four changes: bits, bytes, numbers, stretches lost, doubled, put in or exchanged for another file's."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if not data:
            return data
        at = min(rng.randrange(len(data) + 1), rng.randrange(len(data) + 1) if rng.random() < 0.5 else len(data))
        size = rng.choice((1, 1, 2, 4, 8, 16, 100, 1000))
        kind = rng.randrange(9)
        here = min(at, len(data) - 1)
        if kind == 0:
            data = data[:here] + bytes([data[here] ^ 1 << rng.randrange(8)]) + data[here + 1 :]
        elif kind == 1:
            data = data[:here] + bytes([rng.randrange(256)]) + data[here + 1 :]
        elif kind == 2:
            data = data[:at]
        elif kind == 3:
            data = data[:at] + data[at + size :]
        elif kind == 4:
            data = data[:at] + data[at : at + size] * 2 + data[at + size :]
        elif kind == 5:
            data = data[:at] + rng.randbytes(size) + data[at:]
        elif kind == 6:
            number = rng.choice(NUMBERS)[: rng.choice((1, 2, 4, 8))]
            data = data[:at] + number + data[at + len(number) :]
        elif kind == 7:
            data = data[:at] + bytes(size) + data[at + size :]
        else:
            begin = rng.randrange(len(other) + 1)
            data = (
                data[:at] + other[begin:] if rng.random() < 0.5 else data[:at] + other[begin : begin + size] + data[at:]
            )
    return data


# ------------------------------------------------------------------------------------------------ spoiling values
STRANGE: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3.5, -0.0, 2**31, 2**63, 2**64, -(2**63), 10**400, 1e308, 1e-320, math.nan,
    math.inf, -math.inf, "", " ", "a", "none", "nan", "0", "last", "..", "/dev/zero", "a\nb", "\x1b[31m", "\x00",
    "é\u202e",
    "x" * 5000, [], {}, [[]], [None], [0], ["a"], {"a": 1}, {"": None}, [1] * 1000,
]  # fmt: skip


def deep(levels: int) -> Any:
    """Lists in lists."""
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


def spoil_value(rng: random.Random, value: Any, strange: list[Any] = STRANGE) -> Any:
    """A copy of nested dictionaries and lists with one to three places changed: others' values, none, strange ones."""
    value = _copy(value)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places: list[tuple[Any, Any]] = []
        _collect(value, places)
        if not places:
            return _copy(rng.choice(strange))
        node, key = rng.choice(places)
        kind = rng.randrange(10)
        if kind == 0:
            del node[key]
        elif kind == 1 and isinstance(node, dict):
            node[rng.choice(["", "a", "format", "x" * 300, str(key).upper(), f"{key} "])] = node.pop(key)
        elif kind == 2:
            other, place = rng.choice(places)
            with contextlib.suppress(KeyError, IndexError):  # it may have gone with another
                node[key] = _copy(other[place])
        elif kind == 3:
            node[key] = [node[key]]
        elif kind == 4 and isinstance(node, list):
            node.insert(key, _copy(node[key]))
        elif kind == 5 and isinstance(node[key], int | float) and abs(node[key]) < 1e300:
            node[key] = rng.choice([-node[key], node[key] + 1, node[key] * 1000, float(node[key]), str(node[key])])
        elif kind == 6 and isinstance(node[key], str) and node[key]:
            text = node[key]
            at = rng.randrange(len(text))
            node[key] = rng.choice([text[:at], text + text, text[:at] + chr(rng.randrange(1, 300)) + text[at + 1 :]])
        elif kind == 7 and rng.random() < 0.05:
            node[key] = deep(rng.choice((50, 90)))
        else:
            node[key] = _copy(rng.choice(strange))  # or the next change would be to the list of strange ones
    return value


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(inner) for key, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, list) else value


def _collect(value: Any, places: list[tuple[Any, Any]], room: int = 400) -> None:
    for key in value if isinstance(value, dict) else range(min(len(value), 20)):
        if len(places) > room:
            return
        places.append((value, key))
        if isinstance(value[key], dict | list):
            _collect(value[key], places, room)


def _as_json(value: Any, indent: int | None = None) -> bytes:
    return json.dumps(value, indent=indent).encode()


def dumped(rng: random.Random, value: Any, indent: int | None = 1) -> bytes:
    """As JSON, mostly whole."""
    text = _as_json(value, indent)
    if rng.random() < 0.01:
        text = rng.choice((b"[" * 100_000, b'{"a":' * 100_000, b"9" * 10_000, b"\xff\xfe" + text, b""))
    return spoil_bytes(rng, text, text) if rng.random() < 0.4 else text


# ------------------------------------------------------------------------------------------------ spoiling arrays
DTYPES = ("f2", "f4", "f8", ">f4", "c8", "i1", "i2", "i4", ">i8", "u1", "u8", "?", "U3", "S3", "M8[s]", "V4", "f4,i4")


def spoil_array(rng: random.Random, x: np.ndarray) -> np.ndarray:
    """Another shape, type, order, or values."""
    kind = rng.randrange(12)
    try:
        if kind == 0:
            return x.astype(rng.choice(DTYPES))
        if kind == 1:
            return x[tuple(slice(0, rng.randrange(n + 1)) for n in x.shape)]
        if kind == 2:
            return x.reshape(rng.choice([(-1,), (1, *x.shape), (*x.shape, 1), (*x.shape[1:], *x.shape[:1])]))
        if kind == 3:
            return x.T
        if kind == 4:
            return np.concatenate([x, x][: rng.choice((1, 2))], axis=rng.randrange(max(1, x.ndim)))
        if kind == 5:
            return rng.choice(
                [np.array(3), np.zeros(0), np.zeros((0, 3)), np.array("a"), np.zeros((2,) * 20), x[None][0]]
            )
        if kind == 6:
            return x[np.array([rng.randrange(len(x)) for _ in x])]
        x = x.copy()
        if kind == 7:
            return np.zeros_like(x)
        flat = x.reshape(-1)
        for _ in range(rng.choice((1, 1, 5, 100))):
            value = rng.choice((0, 1, -1, 2, 0.5, 1e30, 1e-30, math.nan, math.inf, -math.inf, 2**31, -(2**63), 10**18))
            flat[rng.randrange(len(flat))] = value
        return x
    except (ValueError, TypeError, IndexError, OverflowError):
        return np.zeros(rng.randrange(4))


def spoil_arrays(rng: random.Random, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    arrays = dict(arrays)
    for _ in range(rng.choice((1, 1, 2))):
        key, other = rng.choice(list(arrays)), rng.choice(list(arrays))
        kind = rng.randrange(8)
        if kind == 0 and len(arrays) > 1:
            del arrays[key]
        elif kind == 1:
            arrays[key], arrays[other] = arrays[other], arrays[key]
        elif kind == 2:
            arrays[rng.choice(("a", "x", "x_valid", "y_valid", "meta", "a/b"))] = arrays[key]
        else:
            with np.errstate(all="ignore"):
                arrays[key] = spoil_array(rng, arrays[key])
    return arrays


def npy(x: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, x)
    return out.getvalue()


def packed(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """A zip with right checksums."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return out.getvalue()


def spoil_npz(rng: random.Random, arrays: dict[str, np.ndarray]) -> bytes:
    """By its arrays, by the bytes of one under right checksums, or by the bytes of the zip."""
    kind = rng.random()
    chosen = spoil_arrays(rng, arrays) if kind < 0.6 else arrays
    members = {f"{key}.npy": npy(x) for key, x in chosen.items()}
    if 0.6 <= kind < 0.8:
        name = rng.choice(list(members))
        members[name] = spoil_bytes(rng, members[name][:200], members[name]) + members[name][200:]
    data = packed(members, rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))
    return spoil_bytes(rng, data, data) if kind > 0.75 else data


# ------------------------------------------------------------------------------------------------ data of other people
class Place:
    """A folder in memory for the files of this process, and one file that is overwritten again and again."""

    def __init__(self) -> None:
        self.folder: Path | None = None

    def write(self, name: str, data: bytes) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    @property
    def path(self) -> Path:
        if self.folder is None:
            import tempfile

            self.folder = Path(tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
        return self.folder

    def remove(self) -> None:
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None


PLACE = Place()


def clips_of(i: int) -> np.ndarray:
    """[6, 25, 3]: somebody in motion."""
    return person(NTU25, label=i, frames=6)[0]


NAMES = [f"S001C{c:03}P{p:03}R001A{a:03}" for p in (1, 3) for c in (1, 2) for a in (1, 50)]


@cache
def foreign() -> dict[str, Any]:
    """Small whole files of other people, as values."""
    x = np.stack([np.pad(clips_of(i).reshape(6, 75), ((0, 2), (0, 75))) for i in range(4)])
    labels = np.eye(3)[[0, 1, 2, 0]]
    padded = {"x_train": x, "y_train": labels, "x_test": x[:3] + 0.01, "y_test": labels[:3]}
    ragged = {
        "joints": np.concatenate([clips_of(i) for i in range(6)]), "offsets": np.arange(0, 37, 6),
        "label": np.array([0, 1, 2] * 2), "subject": np.array([1, 1, 1, 2, 2, 2]), "origin": np.zeros((6, 3)),
        "classes": np.array(["a", "b", "c"]), "fps": np.array(30.0), "meta": np.array('{"licence": "none", "up": "y"}'),
    }  # fmt: skip
    slots = np.zeros((5, 3, 8, 25, 2), np.float32)
    for i in range(5):
        slots[i, :, :6, :, 0] = clips_of(i).transpose(2, 0, 1)
    entry = {
        "frame_dir": "", "label": 0, "keypoint": clips_of(0)[None].astype(np.float16), "total_frames": 6,
        "img_shape": (1080, 1920),
    }  # fmt: skip
    entries = [entry | {"frame_dir": name, "label": i % 3} for i, name in enumerate(NAMES)]
    solid = {"split": {"xsub_train": NAMES[:4], "xsub_val": NAMES[4:]}, "annotations": entries}
    flat = [
        one | {"keypoint": one["keypoint"][:, :, :17, :2] * 300 + 500, "keypoint_score": np.full((1, 6, 17), 0.9)}
        for one in entries
    ]  # fmt: skip
    pickled = [solid, entries, {"split": {"train": NAMES[:4], "test": NAMES[4:]}, "annotations": flat}]
    return {
        "padded": padded,
        "ragged": ragged,
        "slots": slots,
        "pyskl": pickled,
        "labels": (NAMES[:5], [0, 1, 2, 0, 1]),
    }


def read_import(path: Path, store: bool = False) -> bool:
    """All that an importer makes of a file; ``store``: through the clip store and back."""
    with np.errstate(invalid="ignore", over="ignore"):
        recording = recognise([path], ImportOptions())
        try:
            check_clips(recording)
        finally:
            recording.close()
    if store:
        name = "imported"
        shutil.rmtree(PLACE.path / name, ignore_errors=True)
        import_files([path], name, PLACE.path)
        check_store(ClipStore.open(PLACE.path / name))
    return True


def check_clips(recording: Any) -> None:
    joints, seen = recording.topology.num_joints, 0
    assert recording.splits and 0 < recording.fps < math.inf
    for entry in recording.clips():
        seen += 1
        if isinstance(entry, Clip):
            x = entry.x_MTJC
            assert x.ndim == 4 and x.shape[2:] == (joints, 3) and 0 not in x.shape and x.dtype.kind == "f", x.shape
            assert 0 <= entry.label < len(recording.classes), entry.label
            if entry.confidence_MTJ is not None:
                assert entry.confidence_MTJ.shape == x.shape[:3]
                assert ((entry.confidence_MTJ >= 0) & (entry.confidence_MTJ <= 1)).all()
    assert seen == recording.total, (seen, recording.total)


def check_store(store: ClipStore) -> None:
    store.verify()
    assert store.labels.min() >= 0 and store.labels.max() < store.num_classes
    for name in store.meta.splits:
        split = store.split(name)
        assert len(split.train) and len(split.test) and not set(split.train.tolist()) & set(split.test.tolist())
    for i in {0, len(store) // 2, len(store) - 1}:
        assert np.isfinite(store.clip(i)).all() and 0 not in store.clip(i).shape
        confidence = store.confidence(i)
        assert confidence.shape == store.clip(i).shape[:3] and ((confidence >= 0) & (confidence <= 1)).all()


def of_file(name: str, read: Callable[[Path], Any]) -> Callable[[bytes], Any]:
    return lambda data: read(PLACE.write(name, data))


def imported(name: str) -> Callable[[bytes], Any]:
    """Every sixteenth, as its bytes fall, goes all the way into a store."""
    return of_file(name, lambda path: read_import(path, store=sum(path.read_bytes()[-400:]) % 16 == 0))


def spoil_padded(rng: random.Random) -> bytes:
    return spoil_npz(rng, foreign()["padded"])


def spoil_ragged(rng: random.Random) -> bytes:
    return spoil_npz(rng, foreign()["ragged"])


def spoil_slots(rng: random.Random) -> tuple[bytes, bytes]:
    """data.npy and its label file."""
    x, labels = foreign()["slots"], foreign()["labels"]
    data, label = npy(x), pickle.dumps(labels, 4)
    if rng.random() < 0.5:
        data = npy(spoil_array(rng, x)) if rng.random() < 0.6 else spoil_bytes(rng, data[:160], data) + data[160:]
    else:
        names, numbers = spoil_value(rng, [list(labels[0]), list(labels[1])]), rng.random()
        label = pickle.dumps(tuple(names) if numbers < 0.7 and isinstance(names, list) else names, rng.randrange(6))
        label = (
            npy(np.array(labels[1])) if numbers > 0.9 else spoil_bytes(rng, label, label) if numbers > 0.8 else label
        )
    return data, label


def read_slots(pair: tuple[bytes, bytes]) -> bool:
    path = PLACE.write("slots/train_data.npy", pair[0])
    PLACE.write("slots/train_label.pkl", pair[1])
    return read_import(path, store=sum(pair[1]) % 16 == 0)


def spoil_pyskl(rng: random.Random) -> bytes:
    arrays = [
        np.zeros(3),
        np.array(["a"]),
        np.full((1, 6, 25, 3), np.nan),
        np.zeros((0, 6, 25, 3)),
        np.zeros((9, 2, 25, 3)),
    ]
    value = spoil_value(rng, rng.choice(foreign()["pyskl"]), [*STRANGE, *arrays])
    if rng.random() < 0.4:
        places: list[tuple[Any, Any]] = []
        _collect(value, places) if isinstance(value, dict | list) else None
        for node, key in places:
            if isinstance(node[key], np.ndarray) and rng.random() < 0.3:
                with np.errstate(all="ignore"):
                    node[key] = spoil_array(rng, node[key])
    data = pickle.dumps(value, rng.randrange(2, 6))
    return spoil_bytes(rng, data, data) if rng.random() < 0.15 else data


def spoil_h5(rng: random.Random) -> bytes:
    arrays = {"x": foreign()["padded"]["x_train"], "y": foreign()["padded"]["y_train"]}
    arrays |= {"test_x": arrays["x"][:3], "test_y": arrays["y"][:3]}
    kind = rng.random()
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        for key, x in (spoil_arrays(rng, arrays) if kind < 0.4 else arrays).items():
            try:
                file[key] = x
            except (TypeError, ValueError, RuntimeError):
                file[key] = np.zeros(1)
        if kind > 0.95:
            del file["x"]
            file["x"] = rng.choice([h5py.SoftLink("/x"), h5py.ExternalLink("/etc/passwd", "x"), h5py.SoftLink("y")])
    data = out.getvalue()
    return spoil_bytes(rng, data[:4096], data) + data[4096:] if kind > 0.4 else data


# ------------------------------------------------------------------------------------------------ texts, pickles, zips
@cache
def texts() -> list:
    return fuzz_text.bases(0)


def spoil_text(number: int) -> Callable[[random.Random], bytes]:
    def spoil(rng: random.Random) -> bytes:
        pool = texts()[number][2]
        return fuzz_text.mutate(rng, rng.choice(pool), rng.choice(pool))

    return spoil


def read_text(number: int) -> Callable[[bytes], bool]:
    return lambda data: fuzz_text.check(*texts()[number][:2], data)


@cache
def pickles() -> list[bytes]:
    return fuzz_pickle.seeds()


def spoil_pickle(rng: random.Random) -> bytes:
    return fuzz_pickle.mutate(np.random.default_rng(rng.getrandbits(64)), pickles())


def read_pickle(data: bytes) -> bool:
    kind, value = fuzz_pickle.judge(data)
    assert kind in ("read", "refused", "no verdict"), f"{kind}: {value}"
    return kind != "refused"


def spoil_zip(rng: random.Random) -> bytes:
    whole = {f"nturgb/{name}.skeleton": rng.choice(texts()[0][2]) for name in NAMES[:2]}
    if rng.random() < 0.4:
        other = rng.choice(["../a.skeleton", "/etc/a", "a\\..\\b", "x" * 300, "a\x1b[31m", "é", "a/", "S001.skeleton"])
        whole[other] = rng.choice([b"", b"\0" * 100_000, b"x" * 100_000])
    data = packed(whole, zipfile.ZIP_DEFLATED)
    return spoil_bytes(rng, data, data) if rng.random() < 0.8 else data


def read_zip(path: Path) -> bool:
    read = 0
    for file in list_raw(path):
        assert file.name.isprintable()
        with contextlib.suppress(BadFile):
            parse(file.read(1 << 22))
            read += 1
    return read > 0


# ------------------------------------------------------------------------------------------------ clip stores
@cache
def small_store() -> tuple[dict, dict[str, np.ndarray], bytes, bytes]:
    """meta, index and the two arrays of a store."""
    folder = PLACE.path / "made"
    path = write_small_store(folder, clips=12, topology=get_topology("coco17"), flat=True)
    with np.load(path / "index.npz") as file:
        index = dict(file)
    return json.loads((path / "meta.json").read_text()), index, *((path / name).read_bytes() for name in _ARRAYS)


_ARRAYS = ("frames.npy", "confidence.npy")


def signed(meta: Any, index: dict[str, np.ndarray]) -> Any:
    """``meta`` with the fingerprint that it and the index have, so that what follows is reached."""
    try:
        return meta | {"fingerprint": clip_store.fingerprint(Meta.model_validate(meta), index)}
    except Exception:
        return meta


def spoil_store(rng: random.Random) -> dict[str, bytes]:
    """One or two files of a store."""
    meta, index, *arrays = small_store()
    held = dict(zip(_ARRAYS, arrays))
    kind = rng.random()
    if kind < 0.5:
        meta = spoil_value(rng, meta)
    elif kind < 0.8:
        index = spoil_arrays(rng, index)
    if kind < 0.8 and rng.random() < 0.7 and isinstance(meta, dict):
        meta = signed(meta, index)
    if kind < 0.5 and isinstance(meta, dict) and rng.random() < 0.1:
        return {**held, "meta.json": dumped(rng, meta), "index.npz": spoil_npz(rng, index)}
    if kind >= 0.8:
        name = rng.choice(_ARRAYS)
        held[name] = spoil_bytes(rng, held[name][:140], held[name]) + held[name][140:]
    text = dumped(rng, meta) if rng.random() < 0.2 else _as_json(meta)
    return {**held, "meta.json": text, "index.npz": packed({f"{key}.npy": npy(x) for key, x in index.items()})}


def read_store(members: dict[str, bytes]) -> bool:
    for name, data in members.items():
        path = PLACE.write(f"store/{name}", data)
    store = ClipStore.open(path.parent)
    verified = store.meta.frames_sha256
    assert isinstance(verified, str) and len(store) >= 1 and store.max_bodies >= 1 and store.present.min() >= 0
    assert store.topology.num_joints == store.frames_FJ.shape[1]
    check_store(store)
    return True


# ------------------------------------------------------------------------------------------------ runs
@cache
def small_run() -> tuple[Path, dict[str, Any]]:
    """A results directory with a finished run, its twin and their evaluations; the values of the run's JSON files."""
    from skelbench.pipeline.controls import control
    from skelbench.pipeline.evaluate import eval_spec, evaluate
    from skelbench.pipeline.pretrain import pretrain

    from .damage import COST

    root = PLACE.path / "runs"
    write_small_store(root / "data")
    session = silent_session(root / "data", get_host(), root / "results")
    made = tiny_run(root / "data", session.host, epochs=2, batch_size=6)
    for run in [pretrain(session, made), pretrain(session, control(made, session.host))]:
        evaluate(session, run, eval_spec(session.host, run, "knn", like=made), like=made)
        run.cost_path.write_text(json.dumps(COST))
    run = session.results.by_id(made.spec.id)
    return run.path, {p.name: json.loads(p.read_text()) for p in sorted(run.path.glob("*.json"))}


def spoil_run(rng: random.Random) -> tuple[str, bytes]:
    """One of a run's JSON files."""
    _, held = small_run()
    name = rng.choice(["run.json", "run.json", *held])
    return name, dumped(rng, spoil_value(rng, held[name]))


@contextlib.contextmanager
def replaced(path: Path, data: bytes):
    whole = path.read_bytes()
    path.write_bytes(data)
    try:
        yield
    finally:
        path.write_bytes(whole)


def read_run(spoilt: tuple[str, bytes]) -> bool:
    """What stands behind ``runs show``, ``eval`` and ``run``."""
    from skelbench.pipeline.evaluate import evaluate  # noqa: F401
    from skelbench.records.run_dir import RunDir

    path, _ = small_run()
    with replaced(path / spoilt[0], spoilt[1]):
        run = RunDir(path).checked()  # as every command asks for it
        spec = run.spec
        assert isinstance(spec, RunSpec) and isinstance(run.outcome, str) and isinstance(run.title, str)
        for record in run.records():
            assert isinstance(EvalSpec.model_validate(record["spec"]).stream_title, str)
            assert 0 <= record["metrics"]["accuracy"] <= 1
        cost = run.cost()
        assert cost is None or cost["encoder"]["macs"] >= 0
    return True


def read_tables(spoilt: tuple[str, bytes]) -> bool:
    """``runs list`` and ``compare``: the run is left out, or the figures are figures; the other run is there."""
    from skelbench.cli.main import main

    path, _ = small_run()
    with replaced(path / spoilt[0], spoilt[1]):
        for words in (["runs", "list"], ["compare", "--all", "--format", "json"]):
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = main([*words, "--results", str(path.parent)])
            assert code in (0, 2, 3), err.getvalue()[-400:]
            assert err.getvalue().count("error: ") == (code == 2), err.getvalue()[-400:]
            if code == 2:
                raise SkelbenchError(err.getvalue())
    return True


def spoil_metrics(rng: random.Random) -> bytes:
    path, _ = small_run()
    data = (path / "metrics.jsonl").read_bytes()
    if rng.random() < 0.5:
        return spoil_bytes(rng, data, data)
    lines = spoil_value(rng, [json.loads(line) for line in data.splitlines()])
    return b"".join(dumped(rng, line, None) + b"\n" for line in lines) if isinstance(lines, list) else b"3"


def read_metrics(data: bytes) -> bool:
    from skelbench.training.collapse import Collapse
    from skelbench.training.shortcut import Shortcut

    from skelbench.pipeline.studies.run_status import last_metrics, trained
    from skelbench.records.metrics import read_metrics
    from skelbench.records.run_dir import RunDir

    run = RunDir(PLACE.write("logged/metrics.jsonl", data).parent)
    assert isinstance(last_metrics(run), dict) and trained(run, 100) <= 1
    frame = read_metrics(run)
    assert all(kind.kind in "ifb" for kind in frame.dtypes), frame.dtypes
    signs = Collapse(16), Shortcut(16, 2, turned=True)
    for line in frame.to_dict("records"):
        for sign in signs:
            sign.see(line)
    return True


@cache
def small_predictions() -> dict[str, np.ndarray]:
    path, _ = small_run()
    with np.load(next(path.glob("eval-*.npz"))) as file:
        return dict(file)


def read_predictions(data: bytes) -> bool:
    from skelbench.evaluation.outcomes import predictions
    from skelbench.records.run_dir import RunDir

    path, held = small_run()
    run = RunDir(PLACE.write("predicted/run.json", canonical_json(held["run.json"]).encode()).parent)
    PLACE.write("predicted/eval-a.npz", data)
    found = predictions(run, {"id": "a", "predictions": "eval-a.npz"})
    assert len({len(found[name]) for name in ("ids", "labels", "predicted", "correct")}) == 1
    return True


# ------------------------------------------------------------------------------------------------ weights and states
@cache
def small_module() -> Any:
    from skelbench.training.build import build_encoder

    path, held = small_run()
    return build_encoder(RunSpec.model_validate(held["run.json"]["spec"]), get_host(), NTU25)


def spoil_weights(rng: random.Random) -> bytes:
    """encoder.safetensors: its header as JSON, or its bytes."""
    path, _ = small_run()
    data = (path / "encoder.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    if rng.random() < 0.5:
        header = _as_json(spoil_value(rng, json.loads(data[8 : 8 + size])))
        return struct.pack("<Q", len(header)) + header + data[8 + size :]
    if rng.random() < 0.2:
        with contextlib.suppress(Exception):  # of a type that the format has not
            return save_tensors(spoil_arrays(rng, {"a": np.zeros((2, 3), np.float32), "b": np.zeros(3, np.float16)}))
    head = spoil_bytes(rng, data[: size + 40], data)
    return head + data[size + 40 :] if rng.random() < 0.5 else spoil_bytes(rng, data, data)


def read_weights(path: Path) -> bool:
    from skelbench.training.checkpoint import load_weights

    folder, held = small_run()
    load_weights(path, small_module(), held["run.json"]["id"])
    whole = torch.load(io.BytesIO(whole_weights()), weights_only=True)
    assert all(torch.equal(x, whole[name]) for name, x in small_module().state_dict().items()), "other weights"
    return True


@cache
def whole_weights() -> bytes:
    from safetensors.torch import load_file

    out = io.BytesIO()
    torch.save(load_file(small_run()[0] / "encoder.safetensors"), out)
    return out.getvalue()


STRANGE_TENSORS = [
    torch.zeros(0), torch.tensor(math.nan), torch.zeros(2, 2, dtype=torch.complex64), torch.zeros(3, dtype=torch.int32),
    torch.eye(3).to_sparse(), torch.zeros(3, device="meta"), torch.zeros(1).expand(1000, 1000),
    torch.zeros(2, dtype=torch.bool),
]  # fmt: skip


def spoil_torch(rng: random.Random, value: Any) -> bytes:
    """By what it holds, by its pickle under right checksums, or by its bytes."""
    kind = rng.random()
    out = io.BytesIO()
    torch.save(spoil_value(rng, value, [*STRANGE, *STRANGE_TENSORS]) if kind < 0.5 else value, out)
    data = out.getvalue()
    if 0.5 <= kind < 0.75:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            members = {name: file.read(name) for name in file.namelist()}
        name = rng.choice([name for name in members if name.endswith(("data.pkl", "version", "byteorder", "/0"))])
        members[name] = spoil_bytes(rng, members[name], members[name])
        if name.endswith("data.pkl") and rng.random() < 0.2:
            members[name] = fuzz_pickle.mutate(np.random.default_rng(rng.getrandbits(64)), [members[name], *pickles()])
        return packed(members)
    return spoil_bytes(rng, data, data) if kind >= 0.75 else data


def spoil_state(rng: random.Random) -> bytes:
    state = {"id": "a", "step": 3, "seconds": 1.5, "metrics_bytes": 100, "method": {"w": torch.ones(2, 3)}}
    return spoil_torch(
        rng, state | {"optimizer": {"state": {0: {"step": torch.tensor(1.0)}}, "param_groups": [{"lr": 1e-3}]}}
    )


def read_state(path: Path) -> bool:
    from skelbench.training.checkpoint import load_state

    assert load_state(path, "a")["id"] == "a"
    return True


def spoil_checkpoint(rng: random.Random) -> bytes:
    tensors: dict = {
        "encoder.weight": torch.ones(2, 3),
        "encoder.bias": torch.zeros(3),
        "n.num_batches_tracked": torch.tensor(3),
    }
    whole = {"model": tensors, "args": {"epochs": 3, "lr": 1e-3}, "epoch": 7}
    if rng.random() < 0.3:
        whole["args"] = Namespace(**whole["args"])
    return spoil_torch(
        rng, rng.choice([whole, tensors, {f"module.{name}": x for name, x in tensors.items()}, OrderedDict(tensors)])
    )


def read_checkpoint(path: Path) -> bool:
    from skelbench.pipeline.checkpoint_file import read_checkpoint

    found = read_checkpoint(path)
    assert found.state and all(bool(torch.isfinite(x).all()) for x in found.state.values())
    return True


# ------------------------------------------------------------------------------------------------ TOML and CSV
STUDY = {
    "name": "mine", "summary": "a study", "table": "linear", "preset": "quick", "dataset": "small", "split": "half",
    "seeds": [0, 1], "probe": ["linear", "knn"], "grid": {"method": ["slim", "gfp"], "tokens": [8, 15]},
    "set": {"train.lr": 1e-3, "epochs": 2, **TINY}, "trials": [{"method": "mamp", "tokens": 8}],
}  # fmt: skip
RUN = {
    "seed": 1, "preset": "quick", "tokens": 8, "dataset": "small", "encoder": {"kind": "vit", "dim": 16},
    "train": {"lr": 1e-3, "epochs": 2, "batch_size": 4}, "method": {"decoder_dim": 16}, "grid": {"frames": 64},
    "data": {},
}  # fmt: skip


def as_toml(value: dict) -> bytes:
    """As TOML where that can say it."""
    from skelbench.pipeline.studies.files import _key, literal

    lines = []
    for key, held in value.items():
        try:
            lines.append(f"{_key(str(key))} = {literal(held)}")
        except SkelbenchError:
            continue
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def spoil_toml(value: dict) -> Callable[[random.Random], bytes]:
    def spoil(rng: random.Random) -> bytes:
        spoilt = spoil_value(rng, value) if rng.random() < 0.7 else value
        data = as_toml(spoilt if isinstance(spoilt, dict) else value)
        if rng.random() < 0.01:
            data += b"\nz = " + rng.choice((b"[" * 5000, b"{a=" * 2000, b"9" * 5000, b"1979-05-27", b"07:32:00"))
        return spoil_bytes(rng, data, data) if rng.random() < 0.5 else data

    return spoil


def read_study(path: Path) -> bool:
    from skelbench.pipeline.studies.files import read_study, write_study

    study = read_study(path)
    requests = list(study.requests()) if math.prod(map(len, study.grid.values())) * len(study.seeds) < 1000 else []
    assert all(isinstance(request.method, str) for request in requests)
    write_study(study)
    return True


def read_config(path: Path) -> bool:
    from skelbench.pipeline.request import read_config

    top, settings = read_config(path)
    assert all(isinstance(key, str) and "." in key for key in settings)
    return True


@cache
def table() -> bytes:
    from skelbench.reporting.published import COLUMNS

    out = io.StringIO()
    rows = csv.writer(out)
    rows.writerow(COLUMNS)
    for i in range(6):
        rows.writerow(
            [
                f"method {i}",
                "8x25",
                "ntu60",
                "xsub",
                "linear",
                "accuracy",
                80 + i / 10,
                "" if i % 2 else 0.3,
                "A, Table 3",
                "",
            ]
        )
    return out.getvalue().encode()


def spoil_table(rng: random.Random) -> bytes:
    if rng.random() < 0.5:
        return spoil_bytes(rng, table(), table())
    lines = spoil_value(rng, [line.split(",") for line in table().decode().splitlines()])
    cells = [[str(cell) for cell in line] if isinstance(line, list) else [str(line)] for line in lines]
    return "\n".join(rng.choice((",", ",", ",", ";")).join(line) for line in cells).encode("utf-8", "surrogatepass")


def read_table(path: Path) -> bool:
    from skelbench.reporting.published import COLUMNS, _read

    for row in _read.__wrapped__(str(path)):
        assert math.isfinite(row["value"]) and (row["std"] is None or math.isfinite(row["std"])), row
        assert all(isinstance(row[column], str) for column in COLUMNS if column not in ("value", "std")), row
    return True


READERS: dict[str, Reader] = {
    "ntu text": Reader(spoil_text(0), read_text(0), 15),
    "pku text": Reader(spoil_text(1), read_text(1), 15),
    "pku labels": Reader(spoil_text(2), read_text(2), 290),
    "pku split": Reader(spoil_text(3), read_text(3), 190),
    "pickle": Reader(spoil_pickle, read_pickle, 120),
    "raw zip": Reader(spoil_zip, of_file("raw.zip", read_zip), 3),
    "padded npz": Reader(spoil_padded, imported("padded.npz"), 3),
    "ragged npz": Reader(spoil_ragged, imported("ragged.npz"), 3),
    "npy and labels": Reader(spoil_slots, read_slots, 3),
    "pyskl pickle": Reader(spoil_pyskl, imported("pyskl.pkl"), 3),
    "h5": Reader(spoil_h5, imported("sgn.h5"), 2),
    "clip store": Reader(spoil_store, read_store, 5),
    "run's json": Reader(spoil_run, read_run, 3),
    "tables": Reader(spoil_run, read_tables, 0.05),
    "metrics": Reader(spoil_metrics, read_metrics, 30),
    "predictions": Reader(lambda rng: spoil_npz(rng, small_predictions()), read_predictions, 4),
    "safetensors": Reader(spoil_weights, of_file("w.safetensors", read_weights), 60),
    "state": Reader(spoil_state, of_file("last.pt", read_state), 5),
    "torch file": Reader(spoil_checkpoint, of_file("other.pth", read_checkpoint), 5),
    "study toml": Reader(spoil_toml(STUDY), of_file("study.toml", read_study), 40),
    "run toml": Reader(spoil_toml(RUN), of_file("run.toml", read_config), 80),
    "published csv": Reader(spoil_table, of_file("table.csv", read_table), 120),
}
