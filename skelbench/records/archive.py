"""Archives of runs: a zip with the records of runs below ``runs/NAME/``, for sharing results.

Members are stored without compression and without times, so equal records give an equal file.
"""

from __future__ import annotations

import re
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path

from skelbench.core.errors import SkelbenchError
from skelbench.core.files import write_whole
from skelbench.records.provenance import FIELD
from skelbench.records.run_dir import RunDir

_MEMBER = re.compile(
    r"runs/(?P<run>[\w@.+~-]{0,220}-[0-9a-f]{12})/(?P<file>run\.json|metrics\.jsonl|cost\.json|eval-[0-9a-f]{12}"
    r"\.(json|npz)|encoder[\w.@+]*\.safetensors)",
    re.ASCII,
)
"""Pattern of files that are packed and unpacked: plain names two folders deep."""
_FIRST_DATE = (1980, 1, 1, 0, 0, 0)


def pack(runs: Sequence[RunDir], output: Path, weights: bool = False) -> int:
    """Write the records of finished ``runs`` to the zip ``output``; return the number of files.

    Args:
        weights: pack the inference encoders, too.

    Raises:
        SkelbenchError: a run is not finished or was itself added; ``output`` cannot be written.
    """
    for run in runs:
        run.check_done()
        if FIELD in run.info:
            raise SkelbenchError(f"run {run.name} was added from a file; share that file instead")
    paths = [path for run in sorted(runs, key=lambda run: run.name) for path in _files(run, weights)]

    def write(file: object) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:  # type: ignore[call-overload]
            for path in paths:
                member = zipfile.ZipInfo(f"runs/{path.parent.name}/{path.name}", _FIRST_DATE)
                with open(path, "rb") as source, archive.open(member, "w", force_zip64=True) as target:
                    shutil.copyfileobj(source, target)

    write_whole(output, write)
    return len(paths)


def _files(run: RunDir, weights: bool) -> list[Path]:
    """Files of a run to pack, by name; damaged evaluations are skipped."""
    records = [run.path / f"eval-{record['id']}.json" for record in run.records()]
    paths = [run.path / "run.json", run.metrics, run.cost_path, *records]
    paths += [path.with_suffix(".npz") for path in records]
    paths += run.path.glob("encoder*.safetensors") if weights else ()
    return sorted((path for path in paths if path.exists()), key=lambda path: path.name)


def unpack(archive: Path, folder: Path) -> list[str]:
    """Unpack the runs of ``archive`` below ``folder``, each into a new directory; returns their names.

    Raises:
        SkelbenchError: it cannot be read, holds no run, or holds other files than records of runs.
    """
    try:
        with zipfile.ZipFile(archive) as file:
            members = [(info, _MEMBER.fullmatch(info.filename)) for info in file.infolist()]
            if strangers := [info for info, match in members if not match and info.filename != "manifest.json"]:
                raise SkelbenchError(f"{archive}: member {strangers[0].filename[:100]!r} is not a record of a run")
            for info, match in members:
                if match is None:  # a manifest of an earlier version
                    continue
                (folder / match["run"]).mkdir(parents=True, exist_ok=True)
                with file.open(info) as source, open(folder / match["run"] / match["file"], "xb") as target:
                    shutil.copyfileobj(source, target)
    except FileNotFoundError as error:
        raise SkelbenchError(f"there is no file {archive}; `skelbench runs export RUN -o FILE` writes one") from error
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise SkelbenchError(f"{archive} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    names = sorted({match["run"] for _, match in members if match})
    if not names:
        raise SkelbenchError(f"{archive} contains no run; it is not a file of `skelbench runs export`")
    return names
