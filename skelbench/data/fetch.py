"""Download a dataset of a plugin and store it. Downloaded files are kept until the dataset is stored."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers import Imported, readable, store_recording
from skelbench.data.importers.recording import ImportOptions, Recording
from skelbench.data.store.clip_store import first_line
from skelbench.data.store.writer import disk_errors
from skelbench.plugin.descriptors import SourceSpec

TIMEOUT_S = 60
Read = Callable[[Sequence[Path], ImportOptions], Recording]


class _Bar:
    """Progress of one download, as pooch reports it: ``report(megabytes, total=megabytes)``."""

    def __init__(self, report: Callable[..., None]) -> None:
        self.report, self.total = report, 0

    def update(self, done: int) -> None:
        """Add ``done`` bytes."""
        self.report(done / 1e6, total=round(self.total / 1e6, 1))

    def reset(self) -> None:
        """Do nothing: pooch counts the whole file once more at its end."""
        self.report = lambda *_, **__: None

    def close(self) -> None:
        """Do nothing."""


def fetch(
    source: SourceSpec,
    read: Read,
    path: Path,
    origin: Path | None = None,
    *,
    overwrite: bool = False,
    loaded: Callable[..., None] = lambda *_, **__: None,
    progress: Callable[[int, int], None] | None = None,
) -> Imported:
    """Store ``source`` at ``path``, from its addresses or from the file or folder ``origin`` that was downloaded.

    Zip files are unpacked for the time of the import. Address, checksum, license and citation go into the store.
    ``loaded(megabytes, total=megabytes)`` and ``progress(clips, all)`` report the work.
    """
    if path.exists() and not overwrite:
        raise SkelbenchError(f"{path} exists already; choose another --name, or replace it with --force")
    folder = path.with_name(f".{path.name}.download")
    if origin is not None and not origin.exists():
        raise SkelbenchError(f"there is nothing at {origin}; name the file or folder that you downloaded")
    files = [origin] if origin else [_download(url, checksum, folder, loaded) for url, checksum in source.files.items()]
    unpacked = path.with_name(f".{path.name}.unpacked")
    try:
        places = [_unpack(file, unpacked) for file in files]
        with readable(files[0]):
            recording = read(places, ImportOptions())
        recording.license = source.license
        about: dict[str, Any] = {"citation": source.citation, "from": list(source.files)}
        about["sha256"] = {file.name: _sha256(file) for file in files if file.is_file()}
        recording.details["source"] = about
        imported = store_recording(recording, path, ImportOptions(), overwrite=overwrite, progress=progress)
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    return imported


def _download(url: str, checksum: str, folder: Path, loaded: Callable[..., None]) -> Path:
    """Download ``url`` to ``folder`` and return the file; skip the download if the file has the right checksum."""
    import pooch
    import requests

    name = url.rpartition("/")[2]
    pooch.get_logger().setLevel("WARNING")
    with disk_errors(folder):
        try:
            loader = pooch.HTTPDownloader(progressbar=_Bar(loaded), timeout=TIMEOUT_S)
            return Path(pooch.retrieve(url, checksum or None, fname=name, path=folder, downloader=loader))
        except (requests.RequestException, ValueError) as error:
            manual = "or download it with a browser and name it with --from FILE"
            problem = "checksum" if "hash" in str(error) and isinstance(error, ValueError) else "download"
            raise SkelbenchError(f"{url}: {problem} failed ({first_line(error)[:200]}); try again, {manual}") from error


def _unpack(file: Path, folder: Path) -> Path:
    """Return ``file``, or the folder that a zip file is unpacked to."""
    if not zipfile.is_zipfile(file) or file.suffix == ".npz":
        return file
    place = folder / file.stem
    with readable(file), disk_errors(folder), zipfile.ZipFile(file) as archive:
        archive.extractall(place)
    return place


def _sha256(file: Path) -> str:
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
