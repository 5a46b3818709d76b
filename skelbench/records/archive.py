"""A file of packed runs that somebody else made: read within limits, so that nothing in it does harm.

A member is read only after the list of all of them has been looked at: names of runs' records alone, no links, no
compression, each once, no more bytes than the file has. Nothing is unpacked by the names in the file but by ours.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import math
import re
import stat
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from skelbench.core.errors import SkelbenchError
from skelbench.core.files import check_regular, parsed, shallow
from skelbench.core.text import plain
from skelbench.records.pack import FORMAT, MANIFEST

MOST_MEMBERS = 20_000
MOST_BYTES = {".json": 2**24, ".jsonl": 2**27, ".npz": 2**28, ".safetensors": 2**32}
"""Of one member, by its kind."""
MOST_LISTED = 400 * MOST_MEMBERS
"""Bytes of the list of members, which zipfile reads at once."""
_RUN = r"[a-z0-9][A-Za-z0-9_@.+~-]{0,220}-[0-9a-f]{12}"
_MEMBER = re.compile(
    rf"runs/(?P<run>{_RUN})/(?P<file>run\.json|metrics\.jsonl|cost\.json|eval-[0-9a-f]{{12}}\.(json|npz)"
    r"|encoder(\.[a-z]+)?(@[0-9.e+]+)?\.safetensors)",
    re.ASCII,
)


class Unreadable(SkelbenchError):
    """A file that is no pack of runs, or one that was made to do harm."""


class Member(BaseModel):
    """A member of the file, as the manifest has it."""

    model_config = ConfigDict(strict=True, extra="forbid")

    bytes: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Manifest(BaseModel):
    """What the file says of itself."""

    model_config = ConfigDict(strict=True, extra="forbid")

    format: int
    skelbench: str
    weights: bool
    suites: dict[str, str]
    runs: dict[str, str]
    members: dict[str, Member]


class Packed:
    """A file of packed runs whose list of members is what it should be. Made by :func:`opened`."""

    def __init__(self, path: Path, file: zipfile.ZipFile) -> None:
        self.path, self._file = path, file
        self.members = {info.filename: info for info in _listed(path, file)}
        self.manifest = self._manifest()

    @property
    def runs(self) -> list[str]:
        """Names of the runs, sorted."""
        return sorted({found["run"] for name in self.members if (found := _MEMBER.fullmatch(name))})

    def files(self, run: str) -> list[str]:
        """Names of the files of a run."""
        prefix = f"runs/{run}/"
        return sorted(name.removeprefix(prefix) for name in self.members if name.startswith(prefix))

    def read(self, name: str) -> bytes:
        """A member. ValueError: it is not what was written."""
        try:
            return self._file.read(self.members[name])
        except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, OSError) as error:
            raise ValueError(f"it cannot be read: {error}") from error

    def unpack(self, folder: Path) -> None:
        """Write the runs below ``folder``, a directory for each; what is not what was written is left out."""
        for run in self.runs:
            (folder / run).mkdir(parents=True)
            for file in self.files(run):
                with suppress(ValueError):
                    (folder / run / file).write_bytes(self.read(f"runs/{run}/{file}"))

    def _manifest(self) -> Manifest:
        if MANIFEST not in self.members:
            raise Unreadable(f"{self.path} holds no {MANIFEST}: it is no file of `skelbench runs export`")
        try:
            found = Manifest.model_validate(load_json(self.read(MANIFEST)))
        except ValidationError as error:
            first = error.errors()[0]
            where = plain(".".join(map(str, first["loc"])))[:80]
            raise Unreadable(f"{MANIFEST} of {self.path} is damaged: {where}: {first['msg'].lower()}") from error
        except ValueError as error:
            raise Unreadable(f"{MANIFEST} of {self.path} is damaged: {error}; ask for the file again") from error
        if found.format != FORMAT:
            raise Unreadable(
                f"{self.path} has format {found.format}, this skelbench reads {FORMAT}; use the skelbench that made it "
                f"({plain(found.skelbench)[:20]})"
            )
        return found


@contextmanager
def opened(path: Path) -> Iterator[Packed]:
    """The packed runs at ``path``.

    Raises:
        Unreadable: it is not there, no such file, or made to do harm.
    """
    try:
        check_regular(path)
        data = _Sparing(io.FileIO(path))
    except FileNotFoundError as error:
        raise Unreadable(f"there is no file {path}; `skelbench runs export RUN -o FILE` makes one") from error
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror or error}") from error
    with data:
        try:
            file = zipfile.ZipFile(data)
        except Exception as error:  # damaged bytes make zipfile raise almost anything
            raise Unreadable(
                f"{path} is no file of `skelbench runs export`, or only a part of one: {plain(error)[:200]}"
            ) from error
        data.listed = True
        yield Packed(path, file)


class _Sparing(io.BufferedReader):
    """A file whose list of members is read only if it is as long as one may be."""

    listed = False
    """Whether it has been read."""

    def read(self, size: int | None = -1, /) -> bytes:
        if self.listed:
            return super().read(size)
        data = super().read(MOST_LISTED + 1 if size is None or size < 0 else min(size, MOST_LISTED + 1))
        if len(data) > MOST_LISTED:
            raise zipfile.BadZipFile(f"the list of its members is longer than {MOST_LISTED:,} bytes")
        return data


def _listed(path: Path, file: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """The members, each of which is of a kind that may be read."""
    infos, size = file.infolist(), path.stat().st_size
    if len(infos) > MOST_MEMBERS:
        raise Unreadable(f"{path} has {len(infos):,} members, more than {MOST_MEMBERS:,}; nothing was read")
    seen: set[str] = set()
    for info in infos:
        name = info.filename
        if problem := _problem(info, name in seen):
            raise Unreadable(f"{path}: member {plain(name)[:100]!r} {problem}; nothing was read")
        seen.add(name)
    if sum(info.file_size for info in infos) > size:
        raise Unreadable(f"{path}: its members say that they are larger than the file; nothing was read")
    return infos


def _problem(info: zipfile.ZipInfo, seen: bool) -> str:
    """What is wrong with a member by what the list says; "" = nothing."""
    suffix = Path(info.filename).suffix
    mode = info.external_attr >> 16
    if info.filename != MANIFEST and not _MEMBER.fullmatch(info.filename):
        return "is no record of a run"
    if seen:
        return "occurs twice"
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        return "is a link or something else that is no file"
    if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
        return "is compressed, which records never are here"
    if info.flag_bits & 1:
        return "is encrypted"
    if info.file_size > MOST_BYTES[suffix]:
        return f"has {info.file_size:,} bytes, more than {MOST_BYTES[suffix]:,}"
    return ""


# ------------------------------------------------------------------------------------------------ contents
def load_json(data: bytes) -> Any:
    """JSON without NaN, infinities and endless nesting; ValueError else."""
    return shallow(parsed(_load, data))


def _load(data: bytes) -> Any:
    return json.loads(data.decode("utf-8"), parse_constant=_no_number, parse_float=_finite, object_pairs_hook=_once)


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is not a number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is not a finite number")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("it says a key twice")
    return found


def load_predictions(data: bytes) -> Mapping[str, np.ndarray]:
    """The arrays of a ``.npz`` of whole numbers, each no larger than it can be; no pickle is read. ValueError else."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            if len(file.infolist()) > 1000:
                raise ValueError("it holds more than 1,000 arrays")
            if sum(info.file_size for info in file.infolist()) > MOST_BYTES[".npz"]:
                raise ValueError("its arrays are too large")
            for info in file.infolist():
                with file.open(info) as member:
                    _check_header(info, member.read(min(info.file_size, 4096)))
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except Exception as error:  # damaged bytes make zipfile and numpy raise almost anything
        raise ValueError(f"it holds no predictions: {plain(error)[:200]}") from error


def _check_header(info: zipfile.ZipInfo, head: bytes) -> None:
    """The shape that an array says it has is that of its bytes: numpy makes room for what is said."""
    if head[:6] != b"\x93NUMPY" or len(head) < 12:
        raise ValueError(f"{info.filename[:40]!r} is no array")
    wide = head[6] > 1
    length = int.from_bytes(head[8:12] if wide else head[8:10], "little")
    start = 12 if wide else 10
    header = ast.literal_eval(head[start : start + length].decode("latin-1"))
    dtype = np.dtype(header["descr"])
    if dtype.kind not in "iu" or not np.can_cast(dtype, np.int64):
        raise ValueError(f"{info.filename[:40]!r} holds no whole numbers that fit 64 bits")
    if math.prod(header["shape"]) * dtype.itemsize != info.file_size - start - length:
        raise ValueError(f"{info.filename[:40]!r} is not of the size that it says")


def sha256_of(path: Path) -> str:
    """Of a file, without holding it in memory."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
