"""``skelbench data prepare ntu60|ntu120``: raw files to a clip store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from skelbench.core.errors import SkelbenchError
from skelbench.data.raw.files import BadFile, RawFile, list_all
from skelbench.data.raw.ntu.clip import CONSTANTS, make_clip
from skelbench.data.raw.ntu.names import ACTIONS, SPLITS, official_missing, sample_of, who
from skelbench.data.raw.ntu.text import parse
from skelbench.data.raw.report import Converted, Progress, Report
from skelbench.data.store.clip_store import Skipped
from skelbench.data.store.roots import check_name
from skelbench.data.store.writer import Clip as StoredClip

LINEAGE = "ctrgcn-denoise/1, centered at SpineMid of the first body's first frame"
LICENSE = "NTU RGB+D terms of use: academic research, no redistribution"
SUFFIX = ".skeleton"


def prepare_ntu(
    which: Literal["ntu60", "ntu120"],
    raw: Sequence[Path],
    name: str,
    root: Path,
    *,
    workers: int = 1,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Make the store ``root``/``name`` of the `.skeleton` files in ``raw`` (folders, zips), clips in order of name.

    Unusable files are skipped and reported; :class:`SkelbenchError` if none is usable or a path is unreadable.
    """
    report = Report(Path(root) / check_name(name))
    files, missing = _choose(which, raw, report)
    report.store(
        list(files.values()),
        convert,
        "files",
        workers=workers,
        chunksize=8,
        progress=progress,
        skipped=[Skipped(name=stem, reason="on the official list", expected=True) for stem in missing],
        classes=ACTIONS if which == "ntu120" else ACTIONS[:60],
        splits=SPLITS[which],
        default_split="cross-subject",
        lineage=LINEAGE,
        license=LICENSE,
        details={**CONSTANTS, "official_missing": len(missing), "files": len(files)},
        overwrite=overwrite,
    )
    return report


def convert(file: RawFile) -> Converted:
    """Return the clip of a file, or the reason why there is none."""
    try:
        clip = make_clip(parse(file.read()))
    except BadFile as error:
        return [Skipped(name=file.name, reason=str(error))], {}
    stem, frames = file.name.removesuffix(SUFFIX), clip.x_MTJC.shape[1]
    counts = {"frames_raw": clip.seen_frames, "frames_denoised": frames}
    counts["files_with_missing_frames"] = int(frames < clip.seen_frames)
    return [StoredClip(clip.x_MTJC, int(stem[-3:]) - 1, clip.origin, stem, who(stem), clip.empty_body)], counts


def _choose(which: str, raw: Sequence[Path], report: Report) -> tuple[dict[str, RawFile], list[str]]:
    """Return the files to convert by sample name, in order of name, and the names skipped by the official list."""
    files: dict[str, RawFile] = {}
    missing, unrelated, extension = set(), [], []
    for file in list_all(raw):
        stem = file.name.removesuffix(SUFFIX)
        sample = sample_of(stem)
        if not file.name.endswith(SUFFIX) or file.name.startswith("._"):  # ._NAME: files that macOS adds
            unrelated.append(file)
        elif sample is None:
            report.unexpected.append((file.name, "its name is not like S001C002P003R002A013, or names no such sample"))
        elif which == "ntu60" and sample.setup > 17:
            extension.append(file)
        elif stem in official_missing():
            missing.add(stem)
        elif stem in files:
            report.unexpected.append((file.name, "another file of that name is used"))
        else:
            files[stem] = file
    if not files:
        places = ", ".join(map(str, raw))
        raise SkelbenchError(f"{places}: no file with a name like S001C002P003R002A013{SUFFIX}; name another place")
    report.unexpected.sort()
    report.ignore(unrelated, "other files")
    report.ignore(extension, "files of the half that NTU RGB+D 120 added")
    if missing:
        report.notes.append(f"samples on the authors' list of incomplete ones, excluded: {len(missing)}")
    return dict(sorted(files.items())), sorted(missing)
