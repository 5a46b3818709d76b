"""A results directory made of small records: what training and probing would have left, without either."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from skelbench.core.spec import DataSpec, EvalSpec, GridSpec, RunSpec, TrainSpec
from skelbench.records.store import ResultStore

CLIPS = 40
MACS = {8: 5e7, 15: 1e8, 30: 2.5e8}
"""GFLOPs of the made encoder, by temporal tokens."""
COLLAPSE = {"what": "masked", "measure": "effective rank", "value": 1.1234, "step": 300, "epoch": 2.4}


def correct(share: float, clips: int = CLIPS, shift: int = 0) -> np.ndarray:
    """Outcomes with a fraction ``share`` of correct ones: the first ones, rotated by ``shift``."""
    return np.roll(np.arange(clips) < round(share * clips), shift)


class Fabricated:
    """Writes runs with their evaluations, costs and metrics below ``root``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self.store = ResultStore(root)

    def run(
        self,
        title: str,
        right: float | np.ndarray | None = 0.5,
        *,
        seed: int = 0,
        tokens: int = 8,
        dataset: str = "moves",
        split: str = "cross-view",
        preset: str = "small",
        hardware: str = "cpu x2",
        setting: str = "shared",
        modified: dict | None = None,
        knn: float | None = 0.4,
        protocol: str = "linear",
        standard: bool = True,
        outcome: str = "done",
        checkpoint: str = "last",
        metrics: list[dict] | None = None,
        collapse: list[dict] | None = None,
        costed: bool = True,
        finished: float = 1.0,
        version: int = 1,
        ids: np.ndarray | None = None,
        subjects: np.ndarray | None = None,
        drawn: str = "",
        labels: np.ndarray | None = None,
        predicted: np.ndarray | None = None,
        fingerprint: str = "f" * 64,
        target: str | None = None,
        encoder: str = "vit",
        encoder_config: dict | None = None,
        streams: tuple[str, ...] = ("joint",),
        fusion: str = "none",
        partners: tuple[str, ...] = (),
        trained_on: tuple[str, ...] = ("joint",),
        init_from: str | None = None,
        probe: dict | None = None,
        **train,
    ) -> str:
        """One run with a linear evaluation in which ``right`` (outcomes, or a share) holds, None = without any; returns
        its name. ``probe``: settings of the evaluation by ``protocol``, ``train``: of the training."""
        method, _, variant = title.partition(":")
        frames, patch = {8: (64, 8), 15: (120, 8), 30: (120, 4)}.get(tokens, (8 * tokens, 8))
        data = DataSpec(name=dataset, split=split, fingerprint=fingerprint)
        trains = method not in ("untrained", "raw")
        spec = RunSpec(
            method=method,
            method_version=version,
            method_config={"variant": variant, "target": target, **(modified or {})} if trains else {},
            encoder=encoder,
            encoder_config={"dim": 64, "cls": True} if encoder_config is None else encoder_config,
            grid=GridSpec(frames=frames, patch=patch),
            views={f"of {name}": {"frames": frames, "stream": name} for name in trained_on} if trains else {},
            data=data,
            train=TrainSpec(**{"batch_size": 32} | train) if trains else TrainSpec(epochs=0, batch_size=1),
            seed=seed,
            init_from=init_from,
        )
        name = f"{title.replace(':', '.')}-{dataset}-{split}-{tokens}t-{preset}-s{seed}-{spec.id}"
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        info = {
            "id": spec.id,
            "name": name,
            "preset": preset,
            "variant": variant,
            "setting": setting,
            "modified": modified or {},
            "outcome": outcome,
            "environment": {"hardware": hardware},
            "spec": spec.model_dump(mode="json"),
            "finished": finished,
            "steps": 1250 if trains else 0,
            "clips_seen": 40_000 if trains else 0,
            "train_seconds": 120.0,
        }
        self._write(folder / "run.json", info | ({"collapse": collapse} if collapse is not None else {}))
        if costed:
            step = {"flops_per_clip": 40e9} if trains else None
            macs = {"macs": MACS.get(tokens, 5e7), "class_token": encoder == "vit"}
            cost = {"grid": f"{tokens} x 25", "step": step, "encoder": macs}
            cost |= {"parameters": {"encoder": 10, "trainable": 20}}
            times = {"median_ms": 2.0, "clips_per_s": 500.0}
            cost |= {"latency": {"batch 1": times, "batch 64": times}, "peak_memory": {"bytes": 1.0, "how": "made up"}}
            self._write(folder / "cost.json", cost)
        if metrics:
            (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in metrics))
        if right is None:
            return name
        right = correct(right) if isinstance(right, float) else right
        facts = {"standard": standard, "checkpoint": checkpoint, "ids": ids, "streams": streams, "fusion": fusion}
        facts |= {"subjects": subjects, "partners": partners}
        own = {"config": probe, "standard": False} if probe else {}
        self._evaluation(folder, spec, protocol, right, **facts | own, drawn=drawn, labels=labels, predicted=predicted)
        if knn is not None:
            self._evaluation(folder, spec, "knn", correct(knn), **facts)
        return name

    def _evaluation(
        self, folder, spec, protocol, right, standard, checkpoint, ids, streams, fusion, partners=(),
        subjects=None, drawn="", labels=None, predicted=None, config=None,
    ) -> None:  # fmt: skip
        own = {"pretrain_id": spec.id, "data": spec.data, "seed": spec.seed}
        own["protocol_config"] = config or {}
        own |= {"partners": partners}
        evaluated = EvalSpec(**own, checkpoint=checkpoint, protocol=protocol, streams=streams, fusion=fusion)
        clips = right.shape[-1]
        labels = np.ones(clips, int) if labels is None else labels
        predicted = right.astype(int) if predicted is None else predicted
        arrays = {"ids": np.arange(clips) if ids is None else ids, "labels": labels, "predicted": predicted}
        arrays |= {"subjects": subjects} if subjects is not None else {}
        right = predicted == labels
        sd = {"accuracy_sd": float(right.mean(1).std(ddof=1))} if right.ndim == 2 else {}
        path = folder / f"eval-{evaluated.id}.npz"
        np.savez(path, **arrays)
        record = {
            "id": evaluated.id,
            "standard": standard,
            "spec": evaluated.model_dump(mode="json"),
            "metrics": {"accuracy": float(right.mean()), "n_test": float(clips)} | sd,
            "drawn": drawn,
            "predictions": path.name,
            "finished": 1.0,
        }
        self._write(path.with_suffix(".json"), record)

    @staticmethod
    def _write(path: Path, value: dict) -> None:
        path.write_text(json.dumps(value))
