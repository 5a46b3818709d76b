"""A tiny dataset, and tiny sizes of any method and encoder: a step of training takes milliseconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from skelbench.core.component import Spec
from skelbench.core.spec import titled
from skelbench.data.store.splits import FieldRule
from skelbench.data.store.writer import StoreWriter
from skelbench.pipeline.request import Request
from skelbench.pipeline.resolve import Resolved, resolve
from skelbench.pipeline.settings import names
from skelbench.plugin.descriptors import MethodSpec
from skelbench.plugin.host import Host
from skelbench.views.skeleton.topology import NTU25, Topology

SIZES: Mapping[str, Mapping[str, int]] = {
    "encoder": {"dim": 16, "depth": 1, "heads": 2, "hidden": 8, "base": 2, "out": 8},
    "method": {
        "decoder_dim": 16,
        "decoder_depth": 1,
        "decoder_heads": 2,
        "prototypes": 32,
        "head_hidden": 32,
        "bottleneck": 16,
        "clusters": 3,
        "embedding": 12,
        "projection": 16,
        "queue": 8,
        "local_views": 2,
        "target_hidden": 16,
        "target_hidden_global": 32,
        "target_dim": 16,
    },
}
"""Smaller values of settings that methods and encoders have by the same names."""


def write_store(
    root: Path,
    name: str = "small",
    *,
    clips: int = 24,
    seed: int = 0,
    topology: Topology | None = None,
    flat: bool = False,
    missing: float = 0.0,
    classes: Sequence[str] = tuple("abcd"),
    turn: int = 0,
    postures: bool = False,
) -> Path:
    """Write ``clips`` clips of 4 classes that differ in which joint moves; every third has a second body.

    Args:
        flat: 2-D poses with a confidence for every joint.
        missing: fraction of the joints of flat poses at the origin, with confidence 0.
        turn: number added to the labels, modulo 4.
        postures: classes differ in the posture, and little in motion.

    Returns:
        The store's folder.
    """
    topology = topology or NTU25
    rng, lost = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    pose_JC = rng.normal(0, 0.3, (topology.num_joints, 3)).astype(np.float32)
    posture_CJ3 = lost.normal(0, 1.0, (4, topology.num_joints, 3)) if postures else np.zeros((4, 1, 1))
    with StoreWriter(
        root / name,
        topology=topology,
        classes=classes,
        splits={"half": FieldRule(field="subject", train="odd")},
        default_split="half",
        lineage="made for a check",
    ) as writer:
        for clip in range(clips):
            label, frames = clip % 4, 20 + 7 * (clip % 5)
            bodies = 1 + (clip % 3 == 0)
            x_MTJC = np.tile(pose_JC + posture_CJ3[label].astype(np.float32), (bodies, frames, 1, 1))
            wave_T = np.sin(np.linspace(0, 2 * np.pi * (1 + label), frames))
            x_MTJC[:, :, 3 + label] += (0.05 if postures else 0.5) * wave_T[None, :, None]
            x_MTJC += rng.normal(0, 0.02, x_MTJC.shape)
            x_MTJC[..., 2] *= not flat
            confidence_MTJ = rng.uniform(0, 1, x_MTJC.shape[:3]) if flat else None
            if confidence_MTJ is not None and missing:
                gone_MTJ = lost.uniform(size=confidence_MTJ.shape) < missing
                x_MTJC[gone_MTJ], confidence_MTJ[gone_MTJ] = 0.0, 0.0
            subject, action = 1 + (clip // 4) % 4, (label + turn) % 4
            writer.add(x_MTJC.astype(np.float32), action, subject=subject, confidence_MTJ=confidence_MTJ)
    return root / name


def sizes(
    host: Host, method: MethodSpec, native: bool = False, wide: bool = False, variant: str = ""
) -> dict[str, Any]:
    """Return dotted settings that make ``method`` and its encoders tiny, as far as they have settings of :data:`SIZES`.

    A section that rejects these sizes keeps the sizes of its preset. ``wide``: features twice as wide, with which a
    method learns in a few steps.
    """

    def encoder_sizes(name: str) -> dict[str, Any]:
        encoder = host.get("encoders", name)
        return _fitting(host.config(encoder), encoder.presets.get("quick", {}), SIZES["encoder"], wide)

    layers = [method.recipe, method.native if native else {}, method.variants.get(variant, {})]
    values = {f"encoder.{name}": value for name, value in encoder_sizes(names(layers)["encoder"]).items()}
    values |= {f"method.{name}": x for name, x in _fitting(host.config(method), {}, SIZES["method"], wide).items()}
    for setting, kind in getattr(host.load(method), "exchangeable", {}).items():
        setting_value = next((layer[f"method.{setting}"] for layer in layers[::-1] if f"method.{setting}" in layer), "")
        if kind == "encoders" and setting_value:
            values[f"method.{setting}_settings"] = encoder_sizes(setting_value)
    return values


def _fitting(config: type[Spec], own: Mapping[str, Any], sizes: Mapping[str, int], wide: bool) -> dict[str, Any]:
    """Return ``own`` and each of ``sizes`` below its default in ``config``; empty if ``config`` rejects them."""
    defaults = {name: field.default for name, field in config.model_fields.items()}
    smaller = dict(own)
    for name, value in sizes.items():
        if type(defaults.get(name)) is int and defaults[name] > value:
            smaller[name] = 32 if wide and name in ("dim", "decoder_dim") else value
    try:
        config.model_validate(smaller)
    except ValidationError:
        return {}
    return smaller


def tiny_run(
    root: Path,
    host: Host,
    method: MethodSpec,
    dataset: str = "small",
    *,
    native: bool = False,
    tokens: int | None = None,
    epochs: float = 2,
    batch_size: int = 4,
    seed: int = 0,
    wide: bool = False,
    variant: str = "",
    **sets: Any,
) -> Resolved:
    """Return a tiny run of ``method`` on ``dataset`` below ``root``, of clips of 32 frames unless ``tokens`` is given.

    ``sets``: further dotted settings.
    """
    grid: dict[str, Any] = {"tokens": tokens} if tokens else {} if native else {"clip_length": 32, "patch": 8}
    settings = {**sizes(host, method, native, wide, variant), **sets}
    fields: dict[str, Any] = {"epochs": epochs, "batch_size": batch_size} if method.trains else {}
    request = Request(
        titled(method.name, variant),
        dataset=dataset,
        preset="paper",
        seed=seed,
        native=native,
        sets=settings,
        **grid,
        **fields,
    )
    return resolve(request, host, root, "cpu")
