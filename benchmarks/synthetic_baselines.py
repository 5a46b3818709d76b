"""Accuracy of methods that learn nothing on the synthetic dataset.

    python -m benchmarks.synthetic_baselines [--root FOLDER]

1-NN (Euclidean) on raw coordinates: every clip resized to 32 frames and flattened, both body slots side by side.
*Within view* trains and tests on cameras 2 and 3, odd against even subjects; *cross view* trains on the same clips and
tests on camera 1. "Heading removed" turns every clip about the vertical until the first frame's hips are along X, and
shows the effect of a known viewpoint.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from skelbench.data.store.clip_store import ClipStore
from skelbench.data.store.roots import data_root
from skelbench.data.synthetic.dataset import open_synthetic

FRAMES = 32


def resized(store: ClipStore, heading: bool) -> np.ndarray:
    """float32 [N, M * 32 * J * 3] of all clips; ``heading`` False turns the first body to face -Z."""
    features = np.zeros((len(store), store.max_bodies, FRAMES, store.topology.num_joints, 3), dtype=np.float32)
    left, right = store.topology.joints.index("left hip"), store.topology.joints.index("right hip")
    for i in range(len(store)):
        x_MTJC = store.clip(i)
        if not heading:
            across = x_MTJC[0, 0, right] - x_MTJC[0, 0, left]
            cos, sin = across[[0, 2]] / np.hypot(across[0], across[2])
            x_MTJC = x_MTJC @ np.array([[cos, 0, -sin], [0, 1, 0], [sin, 0, cos]], dtype=np.float32)
        at = np.linspace(0, x_MTJC.shape[1] - 1, FRAMES)
        low = np.minimum(at.astype(int), x_MTJC.shape[1] - 2)
        share = (at - low)[:, None, None].astype(np.float32)
        features[i, : len(x_MTJC)] = x_MTJC[:, low] * (1 - share) + x_MTJC[:, low + 1] * share
    return features.reshape(len(store), -1)


def nearest_neighbor(features: np.ndarray, labels: np.ndarray, train: np.ndarray, test: np.ndarray) -> float:
    """Share of test clips whose nearest training clip has their label."""
    x, y = features[train], features[test]
    distance = (x**2).sum(1)[None] - 2 * y @ x.T
    return float((labels[train][distance.argmin(1)] == labels[test]).mean())


def settings(store: ClipStore) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Name -> (train ids, test ids)."""
    odd, frontal = store.index["subject"] % 2 == 1, store.index["camera"] != 1
    train, within, across = map(np.flatnonzero, (odd & frontal, ~odd & frontal, ~odd & ~frontal))
    return {
        "within view (cameras 2, 3; odd -> even subjects)": (train, within),
        "cross view, new subjects (cameras 2, 3 -> 1; odd -> even)": (train, across),
        **{f"split {split.name}": (split.train, split.test) for split in map(store.split, store.meta.splits)},
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=None, help="data root (default: skelbench's own)")
    store = open_synthetic(parser.parse_args().root or data_root())
    raw, turned = resized(store, heading=True), resized(store, heading=False)
    print(f"{len(store)} clips, {store.num_classes} classes, chance {100 / store.num_classes:.1f} %")
    print(f"{'1-NN accuracy, %':60}{'raw':>8}{'heading removed':>18}")
    for name, (train, test) in settings(store).items():
        a, b = (100 * nearest_neighbor(x, store.labels, train, test) for x in (raw, turned))
        print(f"{name:60}{a:8.1f}{b:18.1f}")


if __name__ == "__main__":
    main()
