"""Recordings as they were downloaded: files below a folder, or within a zip that is never unpacked.

A zip may come from anywhere. Nothing of it is written to disk, members are read one at a time, and no member yields
more bytes than it declares and the caller allows.
"""

from __future__ import annotations

import os
import re
import stat
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from skelbench.core.errors import SkelbenchError
from skelbench.data.store.clip_store import first_line

MAX_RATIO = 200
"""Bytes of text per compressed byte; recordings have 3 to 6, and what is all alike can have 1,000."""

_FOREIGN = re.compile(rb"[^\t\n\r\x20-\x7e]")
_ENCRYPTED = 1


class BadFile(ValueError):
    """Why a raw file cannot be used, to be printed behind its name."""


def check_text(data: bytes, first_line: int = 1) -> None:
    """:class:`BadFile` if there is anything but printable ASCII, blanks, tabs and line ends."""
    if foreign := _FOREIGN.search(data):
        line, byte = first_line + data.count(b"\n", 0, foreign.start()), foreign[0][0]
        what = "NUL bytes" if byte == 0 else f"the byte 0x{byte:02x}"
        raise BadFile(f"line {line} holds {what}, which is no text; the file is damaged")


@dataclass(frozen=True, slots=True)
class RawFile:
    """One file, or one member of a zip."""

    path: str
    member: zipfile.ZipInfo | None = None
    problem: str = ""
    """Known before reading; :meth:`read` raises it."""
    folder: bool = False
    """Whether it is a folder that cannot be listed; then there is a problem."""

    @property
    def name(self) -> str:
        """Without folders; what cannot be printed is replaced."""
        path = self.member.filename.replace("\\", "/") if self.member else self.path
        name = path.rpartition("/" if self.member else os.sep)[2]
        if name.isprintable():
            return name
        return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name)

    def read(self, limit: int) -> bytes:
        """All of it; :class:`BadFile` if that is more than ``limit`` bytes, damaged, or cannot be read."""
        if self.problem:
            raise BadFile(self.problem)
        try:
            if self.member:
                return _unpack(self.path, self.member, limit)
            with open(self.path, "rb") as file:
                if os.fstat(file.fileno()).st_size > limit:
                    raise BadFile(_too_large(limit))
                return file.read()
        except OSError as error:
            raise BadFile(f"it cannot be read: {error.strerror or error}") from None


def list_all(paths: Iterable[Path]) -> list[RawFile]:
    """Every file in several places, in order of place and name; those with a problem come last."""
    return sorted((file for path in paths for file in list_raw(path)), key=_order)


def _order(file: RawFile) -> tuple:
    return bool(file.problem), file.path, (file.member.filename, file.member.header_offset) if file.member else ()


def list_raw(path: Path) -> Iterator[RawFile]:
    """Every file below a folder, or in a zip, and every folder that cannot be listed, in no particular order."""
    if path.is_dir():
        yield from _list_folder(path)
    elif path.is_file():
        yield from _list_zip(path)
    else:
        raise SkelbenchError(f"there is nothing at {path}; name a folder or a zip file")


def _list_folder(top: Path) -> Iterator[RawFile]:
    seen: set[tuple[int, int]] = set()
    errors: list[OSError] = []
    for folder, folders, names in os.walk(top, onerror=errors.append, followlinks=True):
        here = os.stat(folder)
        if (here.st_dev, here.st_ino) in seen:  # a link back to a folder above
            folders.clear()
            continue
        seen.add((here.st_dev, here.st_ino))
        for name in names:
            path = os.path.join(folder, name)
            try:
                regular = stat.S_ISREG(os.stat(path).st_mode)
            except OSError as error:
                yield RawFile(path, problem=f"it cannot be read: {error.strerror or error}")
            else:
                yield RawFile(path, problem="" if regular else "it is not a regular file")
    for refusal in errors:
        reason = refusal.strerror or refusal
        if refusal.filename == os.fspath(top):
            raise SkelbenchError(f"the folder {top} cannot be read: {reason}; choose a place you have access to")
        yield RawFile(refusal.filename, problem=f"the folder cannot be read: {reason}", folder=True)


def _list_zip(path: Path) -> Iterator[RawFile]:
    try:
        with zipfile.ZipFile(path) as file:
            infos = [info for info in file.infolist() if not info.is_dir()]
    except Exception as error:  # damaged bytes make zipfile raise almost anything
        with open(path, "rb") as raw:
            if raw.read(2) not in (b"PK", b""):
                raise SkelbenchError(
                    f"{path} is neither a folder nor a zip file; name the folder that it lies in, or download it again "
                    f"if it should be a zip"
                ) from None
        raise SkelbenchError(
            f"{path} is neither a folder nor a readable zip file ({error or type(error).__name__}); it may be cut "
            f"short, download or copy it again"
        ) from None
    if sum(info.compress_size for info in infos) > path.stat().st_size:
        raise SkelbenchError(f"{path}: its members overlap, which no honest zip file does; download it again")
    yield from (RawFile(str(path), info, _problem(info)) for info in infos)


def _problem(info: zipfile.ZipInfo) -> str:
    parts = info.filename.replace("\\", "/").split("/")
    if ".." in parts or not parts[0] or parts[0].endswith(":"):
        return "its name leads out of the zip file"
    if info.flag_bits & _ENCRYPTED:
        return "it is encrypted; unpack the zip file yourself and name the folder"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return f"it is packed by method {info.compress_type}, which is not read; unpack it yourself and name the folder"
    if info.file_size > MAX_RATIO * max(info.compress_size, 1):
        return f"it would unpack to {info.file_size // max(info.compress_size, 1)} times its size; no recording does"
    return ""


@lru_cache(maxsize=8)
def _open_zip(path: str, process: int, changed: int) -> zipfile.ZipFile:
    """Opened once: its directory may be long. A process opens its own, as forks share their place in a file."""
    return zipfile.ZipFile(path)


def _unpack(path: str, member: zipfile.ZipInfo, limit: int) -> bytes:
    if max(member.file_size, member.compress_size) > limit:
        raise BadFile(_too_large(limit))
    try:
        with _open_zip(path, os.getpid(), os.stat(path).st_mtime_ns).open(member) as stream:
            data = stream.read(member.file_size)
    except Exception as error:  # damaged bytes make zipfile raise almost anything
        raise BadFile(f"the zip file is damaged here ({first_line(error)}); download it again") from None
    if len(data) != member.file_size:
        raise BadFile("the zip file is damaged here (less than its directory says); download it again")
    return data


def _too_large(limit: int) -> str:
    return f"it is larger than {limit >> 20} MB; no recording is"
