"""Made PKU-MMD recordings: frames, labels and split files in the layout that MAMP's script expects."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .ntu import person

VIEWS = "LMR"


def write_video(x_T2JC: np.ndarray) -> bytes:
    """Frames as text: rows of 150 numbers with six decimals, every row after the first beginning with a blank."""
    row = " ".join(["%.6f"] * 150)
    return "\n ".join(row % tuple(values) for values in x_T2JC.reshape(len(x_T2JC), 150).tolist()).encode() + b"\n"


def video(rng: np.random.Generator, frames: int, people: float = 0.3) -> np.ndarray:
    """Somebody moving about, at times (share ``people``) two: float64 [T, 2, 25, 3]."""
    x_T2JC = np.zeros((frames, 2, 25, 3))
    x_T2JC[:, 0] = person(rng, frames)
    if rng.uniform() < people:
        start, end = np.sort(rng.integers(0, frames, 2))
        x_T2JC[start:end, 1] = person(rng, int(end - start), 0.8)
    return x_T2JC


def labels(rng: np.random.Generator, frames: int, count: int) -> list[tuple[int, int, int, int]]:
    """Actions one after the other: action, start, end, confidence."""
    edges = np.sort(rng.choice(np.arange(1, frames), 2 * count, replace=False)).reshape(count, 2)
    return [(int(rng.integers(1, 52)), int(start), int(end), 2) for start, end in edges]


def write_labels(rows: Sequence[tuple[int, ...]]) -> bytes:
    """One row per action; the original script cannot read a file of one."""
    return "".join(",".join(map(str, row)) + "\n" for row in rows).encode()


def split_file(train: list[str], test: list[str]) -> bytes:
    """Four lines, as the dataset's authors write them."""
    return f"Training videos: \n{', '.join(train)}\nValidation videos: \n{', '.join(test)}\n".encode()


def make_pku(folder: Path, sequences: int, subjects: int, frames: int = 1000, actions: int = 7, seed: int = 0) -> int:
    """Phase II: ``sequences`` x ``subjects`` x 3 videos of about 1.4 MB in ``folder``; returns the bytes of frames."""
    rng = np.random.default_rng(seed)
    (folder / "skeleton").mkdir(parents=True)
    (folder / "label").mkdir()
    names, written = [], 0
    for sequence in range(1, sequences + 1):
        for subject in range(1, subjects + 1):
            length = int(rng.integers(frames * 9 // 10, frames * 11 // 10))
            rows = write_labels(labels(rng, length, actions))
            for view in VIEWS:
                name = f"A{sequence:02}N{subject:02}-{view}"
                names.append(name)
                text = write_video(video(rng, length))
                (folder / "skeleton" / f"{name}.txt").write_bytes(text)
                (folder / "label" / f"{name}.txt").write_bytes(rows)
                written += len(text)
    sides = {"subject": lambda name: name[4:6] < "03", "view": lambda name: name[-1] != "L"}
    for split, trains in sides.items():
        train = [name for name in names if trains(name)]
        test = [name for name in names if not trains(name)]
        (folder / f"cross_{split}_v2.txt").write_bytes(split_file(train, test))
    return written
