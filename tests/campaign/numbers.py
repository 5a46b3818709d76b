"""Do two kinds of machine agree? ``python -m tests.campaign.numbers``.

One machine plays several: the same tiny trainings, features, probes and counts are made by processes with one thread
and two, and with the processor's newer instructions switched off (PyTorch's own kernels, MKL, oneDNN and NumPy). The
table has the largest deviations from one thread with everything; past :data:`LIMITS` it fell.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests"))

MACHINES = {
    "one thread": {},
    "two threads": {"OMP_NUM_THREADS": "2"},
    "AVX2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "NPY_DISABLE_CPU_FEATURES": "X86_V4",
    },
    "SSE4": {
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "NPY_DISABLE_CPU_FEATURES": "X86_V4,X86_V3",
    },
}
LIMITS = {
    "first loss": 1e-5,
    "loss": 2e-4,
    "features, untrained": 1e-5,
    "features": 1e-3,
    "predictions": 0.005,
    "cost": 0.0,
    "data": 0.0,
}
"""Relative deviation of losses, on the first step and on the four after it; of features, by their largest value;
share of test clips that a probe of the very same features calls another class; anything else must be equal."""
STEPS = 5
SHORT = ("mamp", "slim")


def measure(place: Path, methods: list[str]) -> dict[str, Any]:
    """What this process makes of the data set at ``place``: losses and features by method, probes, costs, data."""
    import torch
    from small import tiny_run

    from skelbench.data.store.clip_store import ClipStore
    from skelbench.data.store.source import ClipSource
    from skelbench.data.synthetic.dataset import generate
    from skelbench.evaluation.cost.report import step_cost
    from skelbench.evaluation.features import extract
    from skelbench.plugin.host import Host
    from skelbench.records.run_dir import RunDir
    from skelbench.training.build import build_method, grid_of
    from skelbench.training.loop import Trainer
    from skelbench.views.builder import ViewBuilder, evaluation_spec

    host, found = Host(), {"loss": {}, "features": {}, "untrained": {}, "cost": {}}
    for name in methods:
        made = tiny_run(place, host, name, batch_size=6, epochs=4)
        spec, store = made.spec, made.store
        method = build_method(spec, host, store.topology)
        source, grid = ClipSource(store), grid_of(spec, store.topology)
        builder = ViewBuilder({"eval": evaluation_spec(grid)}, store.topology, grid.patch)

        def features() -> list[list[float]]:
            encoder = method.inference_encoder()  # noqa: B023 - called at once
            return extract(encoder, source, np.arange(len(store)), builder).tolist()  # noqa: B023

        found["untrained"][name] = features()
        method.train()
        training = Trainer(spec, method, store, RunDir(place / "unused"), "cpu")
        steps = [training.train_step(step, training.views(step)) for step in range(STEPS)]
        found["loss"][name] = [float(step["loss"]) for step in steps]
        found["features"][name] = features()
        found["cost"][name] = step_cost(spec, host, store.topology)["flops_per_clip"]
    made_here = generate(place / f"synthetic-{os.getpid()}", subjects=(1, 2), labels=range(0, 32, 4))
    found["data"] = ClipStore.open(made_here).fingerprint
    found["kind"] = f"{torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} threads"
    return found | probes()


def probes() -> dict[str, Any]:
    """Every protocol on the same made features: predicted classes."""
    import torch

    from skelbench.evaluation.protocol import Features
    from skelbench.plugin.host import Host

    rng, host = np.random.default_rng(0), Host()
    y = np.arange(1200) % 12
    x = (rng.normal(size=(12, 32))[y] + 1.6 * rng.normal(size=(1200, 32))).astype(np.float32)
    halves = {"train_x": x[:600], "train_y": y[:600], "test_x": x[600:], "test_y": y[600:]}
    features = Features(**halves, train_ids=np.arange(600), test_ids=np.arange(600, 1200), num_classes=12)
    torch.manual_seed(0)
    settings = {"knn": {}, "linear": {"min_steps": 100, "max_steps": 100}, "linear@slim": {}}
    predicted = {}
    for name, config in settings.items():
        result = host.load(host.get("protocols", name)).model_validate(config).evaluate(features, 0, "cpu")
        predicted[name] = result.predictions["predicted"].tolist()
    return {"predicted": predicted, "labels": y[600:].tolist()}


def deviations(mine: dict[str, Any], other: dict[str, Any]) -> dict[str, tuple[float, str]]:
    """Largest deviation by what is compared, and where it is."""
    worst: dict[str, tuple[float, str]] = {}

    def see(what: str, value: float, where: str) -> None:
        worst[what] = max(worst.get(what, (0.0, "")), (float("inf") if np.isnan(value) else value, where))

    for name, losses in mine["loss"].items():
        relative = np.abs(np.subtract(losses, other["loss"][name])) / np.maximum(np.abs(losses), 1e-6)
        see("first loss", float(relative[0]), name)
        see("loss", float(relative.max()), name)
        for what, key in (("features, untrained", "untrained"), ("features", "features")):
            x, z = np.asarray(mine[key][name]), np.asarray(other[key][name])
            see(what, float(np.abs(x - z).max() / np.abs(x).max()), name)
        see("cost", float(mine["cost"][name] != other["cost"][name]), name)
    for name, predicted in mine["predicted"].items():
        see("predictions", float(np.mean(np.not_equal(predicted, other["predicted"][name]))), name)
    see("data", float(mine["data"] != other["data"]), "synthetic")
    return worst


def measured(place: Path, methods: list[str], machine: str) -> dict[str, Any]:
    """:func:`measure` in a process of that kind."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, **MACHINES[machine]}
    words = [sys.executable, "-m", "tests.campaign.numbers", "--measure", str(place), *methods]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(f"{machine}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def campaign(short: bool = False) -> dict[str, dict[str, tuple[float, str]]]:
    """Machine -> deviations from the first."""
    from small import write_small_store

    from skelbench.plugin.host import Host

    methods = [one.name for one in Host().all("methods") if one.trains and (not short or one.name in SHORT)]
    with tempfile.TemporaryDirectory() as place:
        write_small_store(Path(place))
        machines = ("one thread", "AVX2") if short else MACHINES
        found = {machine: measured(Path(place), methods, machine) for machine in machines}
    first, *others = found
    assert len({one["kind"] for one in found.values()}) == len(found), "a machine of another kind was not to be had"
    return {f"{name} ({found[name]['kind']})": deviations(found[first], found[name]) for name in others}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="two methods on two machines")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("methods", nargs="*", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        print(json.dumps(measure(asked.measure, asked.methods)))
        return
    started, fell = time.monotonic(), 0
    for machine, worst in campaign(asked.short).items():
        print(machine)
        for what, (value, where) in worst.items():
            bad = not value <= LIMITS[what]
            fell += bad
            print(f"  {what:<22}{value:>10.2g}  limit {LIMITS[what]:<8g}{where:<14}{'FELL' if bad else ''}")
    print(f"{fell} fell, in {time.monotonic() - started:.0f} s")
    sys.exit(1 if fell else 0)


if __name__ == "__main__":
    main()
