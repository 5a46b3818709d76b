"""Evaluation as a step that computes a record once and reads it back after that."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import filelock
import numpy as np
import torch

from skelbench.data.source import ClipSource
from skelbench.data.store import ClipStore
from skelbench.errors import SkelbenchError
from skelbench.evaluate.features import extract
from skelbench.evaluate.protocol import Features
from skelbench.files import read_json, write_atomic, write_json
from skelbench.identity import derive_seed
from skelbench.plugin.host import Host
from skelbench.results.environment import environment
from skelbench.results.store import RunDir
from skelbench.run.resolve import open_dataset
from skelbench.run.session import Session
from skelbench.spec import EvalSpec, RunSpec, evaluation_defaults, validated
from skelbench.train.build import build_encoder, grid_of
from skelbench.train.checkpoint import load_weights
from skelbench.views.builder import ViewBuilder, evaluation_spec
from skelbench.views.keyed import Keyed
from skelbench.views.spec import Augment, Crop, ViewSpec


def eval_spec(
    host: Host, spec: RunSpec, protocol: str, checkpoint: str = "last", like: RunSpec | None = None, **fields: Any
) -> EvalSpec:
    """The evaluation of run ``spec`` by ``protocol``.

    Settings: ``fields``, else the protocol's defaults, else those that suit the run ``like`` (None = ``spec``).
    ``fields``: data, seed, readout, bodies_pool, bodies, share, resize, and config (settings of the protocol).
    """
    descriptor = host.get("protocols", protocol)
    config = validated(host.config(descriptor), fields.pop("config", {}), f"protocol {protocol}")
    values = {
        "pretrain_id": spec.id,
        "checkpoint": checkpoint,
        "protocol": descriptor.name,
        "protocol_version": descriptor.version,
        "protocol_source": host.origin(descriptor).source_hash,
        "protocol_config": config.model_dump(mode="json"),
        **{"data": spec.data, "seed": spec.seed, **evaluation_defaults(like or spec)},
        **descriptor.defaults,
        **fields,
    }
    return validated(EvalSpec, values, f"evaluation by {descriptor.name}")


def evaluate(
    session: Session, run: RunDir, spec: EvalSpec, force: bool = False, like: RunSpec | None = None
) -> dict[str, Any]:
    """The record of ``spec``: read back when it exists, else computed and written.

    A record is marked ``standard`` when nothing was asked for but the protocol: only those fill preset rows.
    """
    path = run.record_path(spec)
    if path.exists() and not force:
        return read_json(path)
    if run.outcome != "done" and spec.checkpoint == "last":
        raise SkelbenchError(f"run {run.name} is {run.outcome}, not done; issue its command again to finish it")
    with filelock.FileLock(run.path / ".probe.lock"):  # a second process that wants the same waits, and reads it
        return read_json(path) if path.exists() and not force else _evaluate(session, run, spec, path, like)


def _evaluate(session: Session, run: RunDir, spec: EvalSpec, path: Path, like: RunSpec | None) -> dict[str, Any]:
    """Compute the record of ``spec`` and write it to ``path``."""
    started = time.monotonic()
    features = extract_features(session, run, spec)
    descriptor = session.host.get("protocols", spec.protocol)
    config = session.host.config(descriptor).model_validate(spec.protocol_config)
    protocol = session.host.load(descriptor)()
    seed = derive_seed(spec.seed, "probe", spec.protocol)
    with session.progress(label=f"{spec.protocol} probe", unit=getattr(protocol, "unit", "steps")) as report:
        told = _advancing(report, with_total=True)
        result = protocol.evaluate(features, config, seed, session.device, told)
    write_atomic(path.with_suffix(".npz"), lambda file: np.savez_compressed(file, **result.predictions))
    record = {
        "id": spec.id,
        "run": run.name,
        "standard": spec == eval_spec(session.host, run.spec, spec.protocol, like=like),
        "spec": spec.model_dump(mode="json"),
        "metrics": result.metrics,
        "curve": result.curve,
        "notes": result.notes,
        "predictions": path.with_suffix(".npz").name,
        "environment": environment(session.device),
        "seconds": time.monotonic() - started,
        "finished": time.time(),
    }
    write_json(path, record)
    return record


def extract_features(session: Session, run: RunDir, spec: EvalSpec) -> Features:
    """Features of train and test clips, extracted once per encoder and data setting in this process.

    Augmented passes are made when asked for and never kept.
    """
    unread = {"protocol": "", "protocol_config": {}, "protocol_version": 0, "protocol_source": None, "seed": 0}
    key = spec.model_copy(update=unread).id
    if key in session.features:
        return session.features[key]
    run_spec = run.spec
    store = clips_of(session, spec)
    encoder = load_encoder(session, run, spec.checkpoint, store)
    split = store.split(spec.data.split)
    grid = grid_of(run_spec, store.topology)
    device = torch.device(session.device)
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
    with session.progress(total=total, label=f"{run.title} features", unit="clips") as report:
        advance = _advancing(report)
        for part, ids in (("train", split.train), ("test", split.test)):
            arrays[f"{part}_x"] = one_pass(ids, plain, progress=advance)
            arrays[f"{part}_y"] = store.labels[ids]
            arrays[f"{part}_ids"] = ids
    features = Features(num_classes=store.num_classes, again=again, **arrays)
    session.features[key] = features
    return features


def clips_of(session: Session, spec: EvalSpec) -> ClipStore:
    """The data set of ``spec``; refused when it has changed since the run was made."""
    store = open_dataset(spec.data.name, session.host, session.data_root)
    if spec.data.fingerprint and store.fingerprint != spec.data.fingerprint:
        raise SkelbenchError(
            f"data set {spec.data.name} has changed since this run was made (fingerprint {store.fingerprint[:12]}, "
            f"was {spec.data.fingerprint[:12]}); restore it, or run the training again on the new data"
        )
    return store


def load_encoder(session: Session, run: RunDir, checkpoint: str, store: ClipStore) -> torch.nn.Module:
    """The inference encoder of a run with its weights, in eval mode."""
    encoder = build_encoder(run.spec, session.host, store.topology)
    load_weights(run.encoder(checkpoint), encoder)
    return encoder.to(session.device).eval()


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
