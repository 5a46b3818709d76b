"""Downloaded recordings: files below a folder, or members of a zip that is never unpacked to disk."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

from skelbench.core.errors import SkelbenchError
from skelbench.data.store.clip_store import first_line


class BadFile(ValueError):
    """Reason why a raw file cannot be used, printed behind its name."""


@dataclass(frozen=True, slots=True)
class RawFile:
    """One file, or one member of a zip."""

    path: str
    member: str = ""
    """Name within the zip at ``path``; "" = ``path`` is the file itself."""

    @property
    def name(self) -> str:
        """Name without folders."""
        return PurePosixPath(self.member).name if self.member else os.path.basename(self.path)

    def read(self) -> bytes:
        """Return all bytes; raise :class:`BadFile` if they are damaged or cannot be read."""
        try:
            if self.member:
                return _open_zip(self.path, os.getpid()).read(self.member)
            return Path(self.path).read_bytes()
        except OSError as error:
            raise BadFile(f"it cannot be read: {error.strerror or error}") from None
        except Exception as error:  # damaged bytes make zipfile raise almost anything
            raise BadFile(f"the zip file is damaged here ({first_line(error)}); download it again") from None


def list_all(paths: Iterable[Path]) -> list[RawFile]:
    """Return every file in several folders or zips, sorted by place and name."""
    return sorted((file for path in paths for file in _list(path)), key=lambda file: (file.path, file.member))


def _list(path: Path) -> Iterator[RawFile]:
    def refuse(error: OSError) -> None:
        raise SkelbenchError(f"the folder {error.filename} cannot be read: {error.strerror}; change its access rights")

    if path.is_dir():
        for folder, _, names in os.walk(path, onerror=refuse, followlinks=True):
            yield from (RawFile(os.path.join(folder, name)) for name in names)
    elif path.is_file():
        yield from (RawFile(str(path), name) for name in _zip_names(path))
    else:
        raise SkelbenchError(f"there is nothing at {path}; name a folder or a zip file")


def _zip_names(path: Path) -> list[str]:
    try:
        with zipfile.ZipFile(path) as file:
            return [info.filename for info in file.infolist() if not info.is_dir()]
    except Exception as error:  # damaged bytes make zipfile raise almost anything
        raise SkelbenchError(
            f"{path} is neither a folder nor a readable zip ({first_line(error)}); download it"
        ) from None


@lru_cache(maxsize=8)
def _open_zip(path: str, process: int) -> zipfile.ZipFile:
    """Open a zip once per process: its directory may be long, and forked processes share their position in a file."""
    return zipfile.ZipFile(path)
