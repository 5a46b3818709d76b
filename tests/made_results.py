"""Finished runs that nobody trained: the files of a results directory, with figures chosen by the test."""

import json
from pathlib import Path

import numpy as np

from skelbench.config import DataSpec, GridSpec, RunSpec, TrainSpec
from skelbench.results.files import write_json
from skelbench.results.store import ResultStore
from skelbench.skeleton.grid import BUDGETS


def made_run(
    root, method="slim", tokens=8, seed=0, accuracy=None, gflops=0.1, variant="", modified=(), preset="small",
    target=None, metrics=(), dataset="synthetic", split="cross-view", setting="shared", outcome="done",
    finished=1.0, **train,
):  # fmt: skip
    """The directory of one run below ``root``; with ``accuracy`` also its cost and a linear probe on 400 clips, so many
    of them right. ``metrics``: lines of metrics.jsonl."""
    frames, patch = BUDGETS[tokens]
    made = RunSpec(
        method=method,
        method_config={"variant": variant} | ({"target": target} if target else {}),
        target_version=1 if target else None,
        grid=GridSpec(frames=frames, patch=patch),
        data=DataSpec(name=dataset, split=split, fingerprint="f"),
        train=TrainSpec(**train),
        seed=seed,
    )
    Path(root).mkdir(exist_ok=True)
    facts = {"environment": {"hardware": "cpu x2"}}
    run = ResultStore(root).open(made, preset, dict(modified), facts, setting, variant)
    run.update(
        outcome=outcome, finished=finished, clips_seen=0 if method == "untrained" else 40_000, train_seconds=60.0
    )
    run.metrics.write_text("".join(json.dumps(line) + "\n" for line in metrics))
    if accuracy is not None:
        write_json(run.path / "cost.json", {"grid": f"{tokens} x 25", "encoder": {"macs": gflops / 2e-9}, "step": None})
        probe = {
            "pretrain_id": made.id, "checkpoint": "last", "protocol": "linear", "protocol_config": {},
            "data": made.data.model_dump(mode="json"), "seed": seed,
        }  # fmt: skip
        shown = np.arange(400)
        predicted = (shown >= round(400 * accuracy)).astype(int)
        np.savez(run.path / "eval-e.npz", ids=shown, labels=np.zeros(400, int), predicted=predicted)
        record = {
            "id": "e", "run": run.name, "standard": True, "spec": probe, "predictions": "eval-e.npz", "finished": 0,
            "metrics": {"accuracy": round(400 * accuracy) / 400, "n_test": 400}, "notes": [], "curve": [],
        }  # fmt: skip
        write_json(run.path / "eval-e.json", record)
    return run
