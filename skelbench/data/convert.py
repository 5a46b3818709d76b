"""Convert a stored dataset to another skeleton."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from skelbench.core.errors import SkelbenchError
from skelbench.data.importers.bodies import center
from skelbench.data.store.clip_store import EMPTY_BODY, WHO, ClipStore
from skelbench.data.store.writer import Clip, StoreWriter
from skelbench.views.skeleton.mapping import joint_mapping
from skelbench.views.skeleton.topology import Topology


def convert_store(
    store: ClipStore,
    path: Path,
    target: Topology,
    *,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Write ``store`` with the joints of ``target`` at ``path``; labels, names, subjects and splits stay the same.

    Absent joints are at 0 with confidence 0, like joints that a detector did not see. The details of the new store
    contain the mapping.
    """
    if target.name == store.topology.name:
        raise SkelbenchError(f"dataset {store.meta.name} has skeleton {target.name} already; choose another one")
    mapping, meta = joint_mapping(store.topology.joints, target), store.meta
    partial = "absent" in mapping.kinds.values() or store.confidence_FJ is not None
    details = {"converted_from": f"{meta.name} ({meta.topology})", "joints": mapping.summary}
    details["fingerprint_before"] = meta.fingerprint
    lineage = f"{meta.lineage}; {meta.topology} converted to {target.name}"
    settings: dict[str, Any] = {"topology": target, "classes": meta.classes, "splits": meta.splits, "lineage": lineage}
    settings |= {"default_split": meta.default_split, "license": meta.license, "fps": meta.fps}
    with StoreWriter(path, **settings, details=meta.details | details, overwrite=overwrite) as writer:
        for clip in range(len(store)):
            store.check(np.array([clip]))
            x_MTJC, confidence_MTJ = mapping.apply(store.clip(clip), store.confidence(clip))
            confidence_MTJ *= np.any(store.clip(clip), axis=(2, 3))[..., None]
            x_MTJC, shift_C = center(x_MTJC, target.center)
            x_MTJC *= (confidence_MTJ > 0)[..., None]
            empty = bool(store.index["flags"][clip] & EMPTY_BODY)
            writer.add_clip(
                Clip(
                    x_MTJC,
                    int(store.labels[clip]),
                    store.index["origin"][clip] + shift_C,
                    name=str(store.index["name"][clip]),
                    who={field: int(store.index[field][clip]) for field in WHO},
                    empty_body=empty,
                    confidence_MTJ=confidence_MTJ if partial else None,
                )
            )
            if progress is not None:
                progress(clip + 1, len(store))
    return path
