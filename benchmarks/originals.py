"""Run the original scripts of CTR-GCN or MAMP, from a checkout of either, on synthetic files.

The checkout is copied with three changes for newer libraries: ``np.int``, ``np.string_``, and imports that the scripts
never use.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from skelbench.data.store.clip_store import ClipStore


class Run(NamedTuple):
    """Time and memory of a script."""

    seconds: float
    peak_mb: float


NTU_STEPS = ("get_raw_skes_data", "get_raw_denoised_data", "seq_transformation")
_FIELDS = {"setup": (1, 4), "camera": (5, 8), "performer": (9, 12), "replication": (13, 16), "label": (17, 20)}


def _copy(script: Path, to: Path) -> None:
    text = script.read_text(encoding="utf-8")
    text = re.sub(r"\bnp\.int\b", "int", text)
    text = re.sub(r"\bnp\.string_\b", "np.bytes_", text)
    text = re.sub(r"(?m)^(from sklearn|import h5py|from tqdm).*$", "", text)
    (to / script.name).write_text(text.replace("tqdm(", "("), encoding="utf-8")


def run_ntu(checkout: Path, raw: Path, work: Path, which: str = "ntu60") -> dict[str, Run]:
    """Run the three steps over all files of ``raw``. The npz files are left in ``work``/ntu."""
    shutil.rmtree(work, ignore_errors=True)
    here = work / "ntu"
    (here / "statistics").mkdir(parents=True)
    (work / "nturgbd_raw").mkdir()
    for name in ("nturgb+d_skeletons", "nturgb+d_skeletons_120", "nturgb+d_skeletons120"):
        (work / "nturgbd_raw" / name).symlink_to(raw.resolve())
    names = sorted(path.stem for path in raw.glob("*.skeleton"))
    statistics = {"skes_available_name": names}
    statistics |= {field: [str(int(name[a:b])) for name in names] for field, (a, b) in _FIELDS.items()}
    for field, values in statistics.items():
        (here / "statistics" / f"{field}.txt").write_text("\n".join(values) + "\n")
    runs = {}
    for step in NTU_STEPS:
        _copy(checkout / "data" / ("ntu" if which == "ntu60" else "ntu120") / f"{step}.py", here)
        runs[step] = _run(here / f"{step}.py", here)
    return runs


def run_pku(checkout: Path, raw: Path, work: Path) -> Run:
    """Run MAMP's phase II script over ``raw`` (its layout). The npz files are left in ``work``."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    _copy(checkout / "data" / "pku_v2" / "pku_gendata.py", work)
    return _run(work / "pku_gendata.py", work, "--data_path", str(raw.resolve()))


def _run(script: Path, folder: Path, *arguments: str) -> Run:
    begin = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen([sys.executable, script.name, *arguments], cwd=folder, stdout=output, stderr=output)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            raise SystemExit(f"the original {script.name} failed:\n{output.read().decode()[-2000:]}")
    return Run(time.perf_counter() - begin, used.ru_maxrss / 1024)


# ------------------------------------------------------------------------------------------------ the same arrays
_SPLITS = {"Sub": ("cross-subject", "subject"), "CS": ("cross-subject", "subject"), "View": ("cross-view", "camera"),
           "CV": ("cross-view", "camera"), "Set": ("cross-setup", "setup")}  # fmt: skip


def same_as_ntu(store: ClipStore, folder: Path, repeat: bool) -> int:
    """Compare a store bit for bit with all npz files in ``folder``; clips compared. ``repeat``: as second body."""
    names, compared = store.names, 0
    assert names is not None, "recordings of NTU RGB+D have names"
    for path in sorted(folder.glob("*.npz")):
        split, field = next(value for key, value in _SPLITS.items() if path.stem.endswith(key))
        with np.load(path) as npz:
            for part in ("train", "test"):
                ids = getattr(store.split(split), part)
                ids = ids[np.argsort(store.index[field][ids], kind="stable")]  # its rows are by performer or camera
                x_NTD = npz[f"x_{part}"]
                if len(ids) != len(x_NTD) or (npz[f"y_{part}"].argmax(1) != store.labels[ids]).any():
                    raise SystemExit(f"{path.name}: other clips in {part}")
                for i, x_TD in zip(ids.tolist(), x_NTD, strict=True):
                    if _row(store.clip(i), len(x_TD), repeat).tobytes() != x_TD.tobytes():
                        raise SystemExit(f"{path.name}: {names[i]} differs")
                compared += len(ids)
    return compared


def same_as_pku(store: ClipStore, folder: Path) -> int:
    """Compare a PKU-MMD store the same way; the original's rows are in the order in which the disk lists the files."""
    compared = 0
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as npz:
            for part in ("train", "test"):
                rows = zip(npz[f"x_{part}"], npz[f"y_{part}"], strict=True)
                theirs = sorted((int(one_hot.argmax()), x_TD.tobytes()) for x_TD, one_hot in rows)
                ids = getattr(store.split("xsub" if path.stem.endswith("Sub") else "xview"), part).tolist()
                if sorted((int(store.labels[i]), _row(store.clip(i), 300, False).tobytes()) for i in ids) != theirs:
                    raise SystemExit(f"{path.name}: {part} differs")
                compared += len(ids)
    return compared


def _row(x_MTJC: np.ndarray, frames: int, repeat: bool) -> np.ndarray:
    row = np.zeros((frames, 2, 75), dtype=np.float32)
    x_MTD = x_MTJC.reshape(*x_MTJC.shape[:2], 75)
    for body, x_TD in enumerate(np.repeat(x_MTD, 2, axis=0) if repeat and len(x_MTD) == 1 else x_MTD):
        row[: len(x_TD), body] = x_TD
    return row
