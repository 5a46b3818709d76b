"""What the commands do: pretrain, evaluate, cost. Each step finishes, skips what is done, or leaves no trace."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import filelock
import numpy as np
import torch

from skelbench import distributed
from skelbench.data.store.clip_store import ClipStore
from skelbench.data.store.source import ClipSource
from skelbench.errors import SkelbenchError, Stopped
from skelbench.evaluate.features import extract
from skelbench.evaluate.protocol import Features
from skelbench.files import read_json, write_atomic, write_json
from skelbench.identity import derive_seed
from skelbench.methods.contract import Method
from skelbench.methods.imported import Imported
from skelbench.nn.encoder import Encoder
from skelbench.plugin.host import Host
from skelbench.results.environment import environment
from skelbench.results.store import ResultStore, RunDir
from skelbench.run.checkpoint_file import Checkpoint, fit
from skelbench.run.resolve import Resolved, open_dataset
from skelbench.spec import EvalSpec, RunSpec, evaluation_defaults, validated
from skelbench.train.build import build_encoder, build_method, grid_of
from skelbench.train.checkpoint import load_state, load_weights, save_state, save_weights
from skelbench.train.loop import Trainer
from skelbench.views.augmentations import Augment
from skelbench.views.builder import ViewBuilder, evaluation_spec
from skelbench.views.crops import Crop
from skelbench.views.keyed import Keyed
from skelbench.views.spec import ViewSpec

RESULTS = ("outcome", "step", "steps", "clips_seen", "train_seconds", "collapse", "finished")
"""What training adds to run.json."""

Progress = Callable[..., Any]
"""``progress(total=, label=, unit=)`` -> context manager that yields ``report(advance, **fields)``."""


class Workflow:
    """Runs specs against one results directory on one device."""

    def __init__(self, host: Host, results: ResultStore, data_root: Path, device: str, progress: Progress) -> None:
        self.host, self.results, self.data_root = host, results, data_root
        self.device = distributed.start_from_environment(device)
        self.progress = progress
        self._features: dict[str, Features] = {}

    # ------------------------------------------------------------------------------------------ pre-training
    def pretrain(self, resolved: Resolved, force: bool = False) -> RunDir:
        """Train ``resolved`` to the end, or continue, or return at once when it is done."""
        spec = resolved.spec
        if distributed.rank():  # the first process makes and locks the directory, the others join it
            distributed.barrier()
            run = self.results.by_id(spec.id)
            return run if run.outcome == "done" else self._train(resolved, run)
        self.results.prepare()
        facts = {"environment": environment(self.device)}
        run = self.results.open(spec, resolved.preset, resolved.modified, facts, resolved.setting, resolved.variant)
        with _alone(run, patience=1.0 if resolved.method.trains else 60.0):
            if force:
                _clear(run)
            done = run.outcome == "done"
            distributed.barrier()
            return run if done else self._train(resolved, run)

    def _train(self, resolved: Resolved, run: RunDir) -> RunDir:
        spec, chief = resolved.spec, not distributed.rank()
        method = build_method(spec, self.host, resolved.store.topology, self.device)
        announced = {"id": spec.id, "name": run.name, "directory": str(run.path), "spec": spec.model_dump(mode="json")}

        def tell(hook: str, **values: Any) -> None:
            if chief:
                self.host.notify(hook, run=announced, **values)

        def record(**fields: Any) -> None:
            if chief:
                run.update(**fields)

        outcome, facts = "failed", {"steps": 0, "clips_seen": 0, "train_seconds": 0.0}
        tell("skelbench_run_started")
        try:
            if not resolved.method.trains:
                save_weights(run.encoder(), method.inference_encoder(), {"id": spec.id, "epoch": 0})
            else:
                if spec.init_from:
                    self._warm_start(method, spec.method, spec.init_from)
                trainer = Trainer(spec, method, resolved.store, run, self.device)
                record(outcome="running", environment=environment(self.device))
                clips = trainer.total * spec.train.batch_size
                label = f"{resolved.title} {spec.tokens}x{resolved.store.topology.num_joints}"
                with self.progress(total=clips, label=label, unit="clips") as report:
                    seconds = trainer.fit(
                        report,
                        log=lambda step, line: tell("skelbench_log", step=step, metrics=line),
                        collapsed=lambda found: record(collapse=found),
                    )
                facts = {"steps": trainer.total, "clips_seen": clips, "train_seconds": seconds}
            outcome = "done"
            record(outcome=outcome, finished=time.time(), **facts)
        except Stopped as error:
            outcome = error.outcome
            record(outcome=outcome, step=error.step)
            raise
        except Exception:
            record(outcome=outcome)
            raise
        finally:
            tell("skelbench_run_finished", outcome=outcome)
        return run

    def _warm_start(self, method: Method, name: str, parent_id: str) -> None:
        """Weights of the parent: all that fit by name and shape, and its inference encoder in every encoder.

        So a second stage of the same method starts where the first ended, and another method with the parent's encoder.
        """
        parent = self.results.by_id(parent_id)
        if parent is None or parent.outcome != "done":
            raise SkelbenchError(f"--init-from {parent_id}: no finished run with that id in {self.results.root}")
        if parent.checkpoint.exists():
            weights, own = load_state(parent.checkpoint, "cpu")["method"], method.state_dict()
            fitting = {name: x for name, x in weights.items() if name in own and own[name].shape == x.shape}
            method.load_state_dict(fitting, strict=False)
        if parent.spec.method != name:
            for module in method.modules():
                if isinstance(module, Encoder):
                    # A method that replaces hidden tokens may start from one that drops them, and the other way round.
                    load_weights(parent.encoder(), module, optional=module.prepared_state)

    def import_weights(
        self, resolved: Resolved, checkpoint: Checkpoint, imported: Imported, force: bool = False
    ) -> RunDir:
        """A finished run whose weights come from a file instead of training; nothing is written if they do not fit."""
        spec = resolved.spec
        method = build_method(spec, self.host, resolved.store.topology)
        whole = fit(method, imported.weights, str(checkpoint.path))
        self.results.prepare()
        facts = {
            "file": checkpoint.path.name,
            "sha256": checkpoint.sha256,
            "epoch": checkpoint.epoch,
            "tensors": len(checkpoint.state),
            "read": "encoder and decoder" if whole else "encoder alone",
            "settings": dict(imported.settings),
            "left_out": list(imported.leftover),
        }
        ran_on = {"environment": environment(self.device)}
        run = self.results.open(spec, resolved.preset, resolved.modified, ran_on, resolved.setting, resolved.variant)
        with _alone(run):
            if force:
                _clear(run)
            if run.outcome != "done":
                weights = {name: x for name, x in method.state_dict().items() if name in imported.weights}
                save_state(run.checkpoint, {"id": spec.id, "step": 0, "method": weights})
                save_weights(run.encoder(), method.inference_encoder(), {"id": spec.id, "epoch": checkpoint.epoch})
                unknown = {"clips_seen": None, "train_seconds": None}
                run.update(outcome="done", imported=facts, steps=0, finished=time.time(), **unknown)
        return run

    # ------------------------------------------------------------------------------------------ evaluation
    def eval_spec(
        self, spec: RunSpec, protocol: str, checkpoint: str = "last", like: RunSpec | None = None, **fields: Any
    ) -> EvalSpec:
        """The evaluation of run ``spec`` by ``protocol``.

        Settings: ``fields``, else the protocol's defaults, else those that suit the run ``like`` (None = ``spec``).
        ``fields``: data, seed, readout, bodies_pool, bodies, share, resize, and config (settings of the protocol).
        """
        descriptor = self.host.get("protocols", protocol)
        config = validated(self.host.config(descriptor), fields.pop("config", {}), f"protocol {protocol}")
        values = {
            "pretrain_id": spec.id,
            "checkpoint": checkpoint,
            "protocol": descriptor.name,
            "protocol_version": descriptor.version,
            "protocol_source": self.host.origin(descriptor).source_hash,
            "protocol_config": config.model_dump(mode="json"),
            **{"data": spec.data, "seed": spec.seed, **evaluation_defaults(like or spec)},
            **descriptor.defaults,
            **fields,
        }
        return validated(EvalSpec, values, f"evaluation by {descriptor.name}")

    def evaluate(self, run: RunDir, spec: EvalSpec, force: bool = False, like: RunSpec | None = None) -> dict[str, Any]:
        """The record of ``spec``: read back when it exists, else computed and written.

        A record is marked ``standard`` when nothing was asked for but the protocol: only those fill preset rows.
        """
        path = run.record_path(spec)
        if path.exists() and not force:
            return read_json(path)
        if run.outcome != "done" and spec.checkpoint == "last":
            raise SkelbenchError(f"run {run.name} is {run.outcome}, not done; issue its command again to finish it")
        with filelock.FileLock(run.path / ".probe.lock"):  # a second process that wants the same waits, and reads it
            return read_json(path) if path.exists() and not force else self._evaluate(run, spec, path, like)

    def _evaluate(self, run: RunDir, spec: EvalSpec, path: Path, like: RunSpec | None) -> dict[str, Any]:
        """Compute the record of ``spec`` and write it to ``path``."""
        started = time.monotonic()
        features = self._extract(run, spec)
        descriptor = self.host.get("protocols", spec.protocol)
        config = self.host.config(descriptor).model_validate(spec.protocol_config)
        protocol = self.host.load(descriptor)()
        seed = derive_seed(spec.seed, "probe", spec.protocol)
        with self.progress(label=f"{spec.protocol} probe", unit=getattr(protocol, "unit", "steps")) as report:
            told = _advancing(report, with_total=True)
            result = protocol.evaluate(features, config, seed, self.device, told)
        write_atomic(path.with_suffix(".npz"), lambda file: np.savez_compressed(file, **result.predictions))
        record = {
            "id": spec.id,
            "run": run.name,
            "standard": spec == self.eval_spec(run.spec, spec.protocol, like=like),
            "spec": spec.model_dump(mode="json"),
            "metrics": result.metrics,
            "curve": result.curve,
            "notes": result.notes,
            "predictions": path.with_suffix(".npz").name,
            "environment": environment(self.device),
            "seconds": time.monotonic() - started,
            "finished": time.time(),
        }
        write_json(path, record)
        return record

    def _extract(self, run: RunDir, spec: EvalSpec) -> Features:
        """Features of train and test clips, extracted once per encoder and data setting in this process.

        Augmented passes are made when asked for and never kept.
        """
        unread = {"protocol": "", "protocol_config": {}, "protocol_version": 0, "protocol_source": None, "seed": 0}
        key = spec.model_copy(update=unread).id
        if key in self._features:
            return self._features[key]
        run_spec = run.spec
        store = self.clips(spec)
        encoder = self.encoder(run, spec.checkpoint, store)
        split = store.split(spec.data.split)
        grid = grid_of(run_spec, store.topology)
        device = torch.device(self.device)
        source = ClipSource(store, device=device, second_body=spec.data.second_body)

        def one_pass(ids: np.ndarray, view: ViewSpec, **how: Any) -> np.ndarray:
            builder = ViewBuilder(
                {"eval": view},
                store.topology,
                grid.patch,
                bodies=spec.bodies,
                device=device,
                centre=spec.centre,
                dimensions=spec.data.dimensions,
            )
            how |= {"pooling": spec.bodies_pool, "readout": spec.readout, "precision": run_spec.train.precision}
            return extract(encoder, source, ids, builder, batch_size=256, device=device, grid=grid, **how)

        def again(
            keyed: Keyed,
            crop: Crop,
            augment: tuple[Augment, ...],
            dropout: float = 0.0,
            progress: Callable[[int, int], None] | None = None,
        ) -> np.ndarray:
            view = ViewSpec(frames=grid.frames, crop=crop, augment=augment, resize=spec.resize)
            return one_pass(split.train, view, keyed=keyed, dropout=dropout, progress=progress)

        plain = evaluation_spec(grid, share=spec.share, resize=spec.resize)
        arrays = {}
        total = len(split.train) + len(split.test)
        with self.progress(total=total, label=f"{run.title} features", unit="clips") as report:
            advance = _advancing(report)
            for part, ids in (("train", split.train), ("test", split.test)):
                arrays[f"{part}_x"] = one_pass(ids, plain, progress=advance)
                arrays[f"{part}_y"] = store.labels[ids]
                arrays[f"{part}_ids"] = ids
        features = Features(num_classes=store.num_classes, again=again, **arrays)
        self._features[key] = features
        return features

    def clips(self, spec: EvalSpec) -> ClipStore:
        """The data set of ``spec``; refused when it has changed since the run was made."""
        store = open_dataset(spec.data.name, self.host, self.data_root)
        if spec.data.fingerprint and store.fingerprint != spec.data.fingerprint:
            raise SkelbenchError(
                f"data set {spec.data.name} has changed since this run was made (fingerprint {store.fingerprint[:12]}, "
                f"was {spec.data.fingerprint[:12]}); restore it, or run the training again on the new data"
            )
        return store

    def encoder(self, run: RunDir, checkpoint: str, store: ClipStore) -> torch.nn.Module:
        """The inference encoder of a run with its weights, in eval mode."""
        encoder = build_encoder(run.spec, self.host, store.topology)
        load_weights(run.encoder(checkpoint), encoder, optional=encoder.prepared_state)
        return encoder.to(self.device).eval()

    # ------------------------------------------------------------------------------------------ cost
    def cost(self, run: RunDir, store: ClipStore, force: bool = False) -> dict[str, Any]:
        """MACs, step FLOPs, parameters, and latency and peak memory on this device; measured once per run."""
        if not force and (known := run.cost()):
            return known
        from skelbench.cost.report import run_cost

        spec = run.spec
        bodies = max(store.max_bodies, 2 if spec.data.second_body == "repeat" else 1)
        cost = run_cost(spec, self.host, store.topology, self.device, bodies=bodies)
        write_json(run.cost_path, cost)
        return cost


def _advancing(report: Callable[..., None], with_total: bool = False) -> Callable[[int, int], None]:
    """``(done, total)`` of successive pieces of work as advances of one progress report.

    ``with_total``: there is one piece only, and its total is the report's.
    """
    last = 0

    def progress(done: int, total: int) -> None:
        nonlocal last
        report(done - last if done >= last else done, **({"total": total} if with_total else {}))
        last = done

    return progress


@contextmanager
def _alone(run: RunDir, patience: float = 1.0) -> Iterator[None]:
    """No other process works in ``run`` meanwhile; one that only looks in, or makes an untrained twin, is waited for
    (at most ``patience`` seconds)."""
    try:
        with run.lock().acquire(timeout=patience):
            yield
    except filelock.Timeout as error:
        raise SkelbenchError(
            f"another process is working in {run.path}; wait for it, or use another directory with --results"
        ) from error


def _clear(run: RunDir) -> None:
    """Forget a run's results, keep its spec; files that are not ours (an observer's) stay."""
    kept = {key: value for key, value in run.info.items() if key not in RESULTS}
    write_json(run.path / "run.json", {**kept, "outcome": "new"})
    for pattern in ("last.pt", "metrics.jsonl", "cost.json", "encoder*.safetensors", "eval-*", "diagnose-*"):
        for path in run.path.glob(pattern):
            path.unlink()


def pick_device(name: str | None) -> str:
    """``cuda`` when there is one, else ``cpu``; a named device is checked."""
    if name is None or name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise SkelbenchError(f"--device {name!r} is not a device; use cpu, cuda or cuda:N") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SkelbenchError(f"--device {name}: no CUDA device is available here; use --device cpu")
    if device.type not in ("cpu", "cuda"):
        raise SkelbenchError(f"--device {name}: only cpu and cuda are supported")
    return name
