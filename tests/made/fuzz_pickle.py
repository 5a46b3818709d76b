"""Damaged and hostile pickles, and what the reader of pickles must make of them (:mod:`campaign.mutate` tries them).

Good pickles of every protocol are mutated: bytes flipped, replaced, cut out, doubled, spliced with each other, lengths
falsified, instructions and calls of ``os.system`` and the like put in. Every input must be refused in one sentence or
read, within a second of processor time. What is read is compared with Python's own unpickler with the same allow-list
and a limit on memory: a value that differs, or one that Python refuses, is a wrong success.
Audit hooks watch that reading imports, opens, compiles and executes nothing.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import resource
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from skelbench.data.importers.pickles import ALLOWED, Refused, loads

SECONDS = 1.0
"""Of processor time; an input that takes longer counts as a hang."""
MEMORY = 4 << 30
"""More address space than there is when Python's own unpickler runs."""

_CALLS = [
    b"cos\nsystem\n(S'echo skelbench-fuzz'\ntR",
    b"cposix\nsystem\n(Vecho skelbench-fuzz\ntR",
    b'c__builtin__\neval\n(S\'open("skelbench-fuzz","w")\'\ntR',
    b"cbuiltins\nexec\n\x8c\x06import\x85R",
    b"\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R",
    b"(S'true'\nios\nsystem\n",
    b"(cos\nsystem\nS'true'\no",
    b"cnumpy\nload\n(S'x'\ntR",
    b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(J\xff\xff\xff\x7ftC\x01btR",
    b"r\xff\xff\xff\xff",
    b"\x8b\xff\xff\xff\x7f",
    b"\x82\x01",
    b"Pabc\n",
    b"\x97",
]
"""What hostile pickles are made of: calls, huge allocations, extensions, persistent ids, buffers."""


def seeds() -> list[bytes]:
    """Good pickles: what importers read, and every kind of plain value, in every protocol."""
    rng = np.random.default_rng(0)
    annotation = {
        "frame_dir": "S001C002P003R001A004",
        "label": 3,
        "keypoint": rng.normal(size=(1, 3, 4, 3)).astype(np.float16),
        "total_frames": 3,
        "img_shape": (1080, 1920),
    }
    score = rng.random((2, 9, 25)).astype(np.float32)
    values = [
        {"split": {"xsub_train": ["a", "b"], "xsub_val": ["c"]}, "annotations": [annotation, None]},
        (["S001C001P001R001A001.skeleton", "S001C001P001R001A002.skeleton"], [0, 1]),
        (["a"], np.array([1, 2, 3])),
        [None, True, False, -1, 255, 65535, 2**31, -(2**40), 2**80, 0.5, -1e300, "text", "é€😀", b"\x00\xff", ()],
        [[], {}, (1,), (1, "a"), {"a": [1]}],
        {"nested": [[(1, (2, (3,)))], {"k": {1: {True: b"x"}}}], "again": annotation, "once more": annotation},
        [score, score.T, np.asfortranarray(score[0]), score.transpose(1, 2, 0), score > 0.5, np.arange(5, dtype=">i2")],
        [np.array(["ab", "c€"]), np.array([b"ab"]), np.float32(1.5), np.int64(-3), np.bool_(True), np.zeros((0, 3))],
        ["long " * 300, b"\xfe" * 1500, "é" * 900, 12345678901234567890],
    ]
    made = [pickle.dumps(value, protocol) for value in values for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    # What Python 2 writes: short and long strings that are text and bytes alike.
    old = b"\x80\x02]q\x00(U\x05abc\xe9dq\x01T\x05\x00\x00\x00hello" + b"S'it\\'s\\n'\np2\nI01\nL12L\nF1.5\ne."
    return [*made, old]


def mutate(rng: np.random.Generator, pool: list[bytes]) -> bytes:
    """One to six random changes to a pickle of the pool."""
    data = bytearray(pool[rng.integers(len(pool))])
    for _ in range(rng.integers(1, 7)):
        at = int(rng.integers(len(data) + 1))
        size = int(min(rng.integers(1, 40), len(data) - at))
        what = rng.integers(10)
        other = pool[rng.integers(len(pool))]
        begin = int(rng.integers(len(other)))
        if what == 0 and data:
            data[at % len(data)] ^= 1 << int(rng.integers(8))
        elif what == 1 and data:
            data[at % len(data)] = int(rng.integers(256))
        elif what == 2:
            del data[at : at + size]
        elif what == 3:
            data[at : at + size] = other[begin : begin + int(rng.integers(1, 80))]
        elif what == 4:
            data[at : at + 4] = [b"\xff\xff\xff\x7f", b"\x00\x00\x00\x80", b"\x00\x00\x01\x00", b"\xff" * 4][at % 4]
        elif what == 5:
            data[at:] = b"." if at % 2 else b""
        else:
            steps = bytes(rng.choice(list(b"()]}.012NtaseuRbqhjrp\x85\x86\x87\x88\x89\x94\x93l\x8f\x90\x91"), 4))
            pieces = (data[at : at + size], rng.bytes(size), _CALLS[rng.integers(len(_CALLS))], steps)
            data[at:at] = pieces[what % 4]
    return bytes(data)


# ------------------------------------------------------------------------------------------------ one value, one digest
def digest(value: Any) -> str | None:
    """A hash of a value's types and contents, the same for Python's objects and ours; None for an endless one."""
    out, todo = hashlib.sha256(), [value]
    for _ in range(5000):
        if not todo:
            return out.hexdigest()
        value = todo.pop()
        if isinstance(value, (np.bool_, np.number, np.str_, np.bytes_)):
            value = value.item()
        if isinstance(value, np.ndarray):
            little = value.astype(value.dtype.newbyteorder("<"))
            out.update(f"array {little.dtype.str} {value.shape} ".encode() + little.tobytes())
        elif isinstance(value, (list, tuple)):
            out.update(f"{type(value).__name__} {len(value)} ".encode())
            todo.extend(value)
        elif isinstance(value, dict):
            out.update(f"dict {len(value)} ".encode())
            todo.extend(part for item in value.items() for part in item)
        elif isinstance(value, (type(None), bool, int, float, str, bytes, bytearray)):
            out.update(f"{type(value).__name__} {value!r} ".encode("utf-8", "surrogatepass"))
        else:
            out.update(b"a bare name or element type")
    return None


class _Python(pickle.Unpickler):
    """Python's own unpickler in C, with the names that ours allows and what they really stand for."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError("not allowed")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def python_reads(data: bytes) -> str | None:
    """The digest of what Python reads; None where it wants more memory than there is. Raises what Python raises."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, limits[1]))
    try:
        with warnings.catch_warnings(action="ignore"):
            return digest(_Python(io.BytesIO(data), encoding="latin1").load())
    except MemoryError:  # no more than one byte of a pickle makes it ask for 64 GB
        return None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


# ------------------------------------------------------------------------------------------------ the run
_EVENTS: list[str] = []
_WATCHING = False
_HOOKED: list[bool] = []


def _audit(event: str, _: tuple) -> None:
    if _WATCHING:
        _EVENTS.append(event)


def _read(data: bytes) -> tuple[str, Any]:
    """("read", value), ("refused", sentence) or (what went wrong, details)."""
    global _WATCHING
    _EVENTS.clear()
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        _WATCHING = True
        try:
            value = loads(data, "input")
        finally:
            _WATCHING = False
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except Refused as error:
        sentence = str(error)
        good = "\n" not in sentence and sentence.startswith("input ") and len(sentence) <= 400
        outcome = ("refused" if good else "bad sentence", sentence)
    except TimeoutError:
        outcome = ("hang", "")
    except BaseException as error:
        outcome = ("crash", repr(error))
    else:
        outcome = ("read", value)
    return ("executed", ", ".join(_EVENTS)) if _EVENTS else outcome


def _late(*_: Any) -> None:
    raise TimeoutError


def judge(data: bytes) -> tuple[str, Any]:
    """("read", value), ("refused", sentence), ("no verdict", "") where there is nothing to compare with, or what must
    not happen with its details."""
    if not _HOOKED:
        for good in seeds():  # so that codecs that are imported on first use have been
            loads(good)
        sys.addaudithook(_audit)  # for good: hooks cannot be removed
        _HOOKED.append(True)
    before = signal.signal(signal.SIGVTALRM, _late)
    try:
        kind, value = _read(data)
        return _compare(data, value) if kind == "read" else (kind, value)
    finally:
        signal.signal(signal.SIGVTALRM, before)


def _compare(data: bytes, value: Any) -> tuple[str, Any]:
    try:
        ours, theirs = digest(value), python_reads(data)
    except Exception as error:
        return "wrong success", f"Python refuses it: {error!r}"
    if ours is None or theirs is None:
        return "no verdict", ""
    return ("read", value) if theirs == ours else ("wrong success", "Python reads another value")
