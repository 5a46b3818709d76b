"""Evaluation as a step that computes a record once and reads it back after that."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from skelbench.core import distributed
from skelbench.core.errors import SkelbenchError
from skelbench.core.files import write_atomic, write_json
from skelbench.core.hashing import derive_seed
from skelbench.core.leases import Lease
from skelbench.core.malloc import give_back_memory
from skelbench.core.spec import Configured, EvalSpec, Stream, evaluation_defaults, validated
from skelbench.data.store.clip_store import ClipStore
from skelbench.data.store.splits import EACH_SUBJECT
from skelbench.evaluation.downstream import Downstream, EncoderProtocol
from skelbench.evaluation.each_subject import evaluate_each_subject
from skelbench.evaluation.features import PreparedClips, split_features
from skelbench.evaluation.fusion import evaluate_sets
from skelbench.evaluation.preprocessing import Preprocessing
from skelbench.evaluation.protocol import Features, Protocol, ProtocolResult, advances, result_problem
from skelbench.models.encoder import Encoder
from skelbench.pipeline.encoders import as_readout, hiding_of, load_encoder, named_encoder
from skelbench.pipeline.leakage_checks import check_alike, clips_of, not_new, not_new_to_parents, source_of
from skelbench.pipeline.memory import memory_errors
from skelbench.pipeline.presets import own_of
from skelbench.pipeline.session import Session
from skelbench.plugin.host import Host
from skelbench.plugin.plugin_errors import plugin_code, wrong
from skelbench.records.environment import environment
from skelbench.records.run_dir import PROBES, RunDir
from skelbench.training.build import build_encoder, build_method, grid_of

WAY = {"data", "readout", "bodies_pool", "bodies", "center", "align", "share", "resize", "min_confidence"}
"""Settings of an evaluation that decide its features, besides encoder and stream."""


def eval_spec(
    host: Host, run: Configured, protocol: str, checkpoint: str = "last", like: Configured | None = None, **fields: Any
) -> EvalSpec:
    """Return the spec of the evaluation of ``run`` by ``protocol``.

    Settings: ``fields`` of :class:`EvalSpec` and ``config`` of the protocol, else the protocol's defaults, else the
    settings of the run ``like`` (None = ``run``), whose preset scales the protocol's own settings.
    """
    descriptor = host.get("protocols", protocol)
    spec, like = run.spec, like or run
    own = {**own_of(descriptor, like.preset), **fields.pop("config", {})}
    config = validated(protocol_class(host, protocol), own, f"protocol {protocol}")
    values = {
        "pretrain_id": spec.id,
        "checkpoint": checkpoint,
        "protocol": descriptor.name,
        "protocol_version": descriptor.version,
        "protocol_source": host.origin(descriptor).source_hash,
        "protocol_config": config.model_dump(mode="json"),
        **{"data": spec.data, "seed": spec.seed, **evaluation_defaults(like.spec)},
        **descriptor.defaults,
        **fields,
    }
    evaluation = validated(EvalSpec, values, f"evaluation by {descriptor.name}")
    same_data = evaluation.data.name == spec.data.name or evaluation.data.fingerprint == spec.data.fingerprint != ""
    if descriptor.elsewhere and same_data:
        raise SkelbenchError(
            f"protocol {descriptor.name} measures on other data than the run's: {evaluation.data.name} holds the "
            "clips that it was trained on; give --dataset NAME"
        )
    return evaluation


def protocol_class(host: Host, name: str) -> type[Protocol]:
    """The protocol ``name``, whose fields are its settings."""
    return host.subclass(host.get("protocols", name), Protocol)


def evaluate(
    session: Session,
    run: RunDir,
    spec: EvalSpec,
    force: bool = False,
    like: Configured | None = None,
    store: ClipStore | None = None,
) -> dict[str, Any]:
    """The record of ``spec``: an existing record is read, otherwise it is computed and written.

    A record is ``standard`` if the request names only the protocol; only standard records fill preset rows.
    ``store``: the clips of ``spec`` if they are open.
    """
    path = run.record_path(spec)

    def there() -> dict[str, Any] | None:
        return run.record(path) if path.exists() and not force else None

    def begun() -> dict[str, Any] | None:
        check_finished(run, spec.checkpoint)
        # A second command that wants the same record waits, and reads.
        stack.enter_context(lease)
        return there()

    lease = Lease(run.path / PROBES, math.inf)

    with ExitStack() as stack:  # the first process reads and writes
        if (record := distributed.first(there) or distributed.first(begun)) is not None:
            return record
        title = f"probing {run.name} by {spec.protocol}"
        with memory_errors(title, session.device):
            store = store or clips_of(session, spec, run)
            return _evaluate(session, run, spec, path, like, force, lease, store)


def check_finished(run: RunDir, checkpoint: str) -> None:
    """Raise SkelbenchError if the final weights are asked for and not there yet."""
    if checkpoint == "last":
        run.check_done()


def _evaluate(
    session: Session,
    run: RunDir,
    spec: EvalSpec,
    path: Path,
    like: Configured | None,
    force: bool,
    lease: Lease,
    store: ClipStore,
) -> dict[str, Any]:
    """Compute the record of ``spec`` and write it to ``path`` while ``lease`` is held; ``force``: from the start."""
    started = time.monotonic()
    protocol = protocol_class(session.host, spec.protocol).model_validate(spec.protocol_config)
    split = store.split(spec.data.split, spec.data.min_frames)
    source = store if spec.data.name == run.spec.data.name else source_of(session, run.spec.data)
    if source is not store:
        check_alike(run.spec.data, source, spec.data, store.meta.topology)
    folds = split.name == EACH_SUBJECT
    tested = np.union1d(split.train, split.test) if folds else split.test
    notes = [*not_new(run.spec, source, store, tested)] if spec.data != run.spec.data else []
    fused = [_partner(session, run, name)[0] for name in spec.partners]
    for member in (run, *fused):
        about = f"{member.name}: " if fused else ""
        notes += [about + note for note in not_new_to_parents(session, member.spec, store, tested)]
    state = path.with_suffix(".state")
    if force:
        distributed.first(lambda: _remove(state))
    if isinstance(protocol, EncoderProtocol):
        if folds:
            raise SkelbenchError(f"protocol {spec.protocol} has no folds; give another split than {split.name}")
        result = _measure_encoder(session, run, spec, protocol, store, state)
    else:
        sets = feature_sets(session, run, spec, store)
        with _probing(session, spec, "subjects" if folds else protocol.unit) as advances:
            measure = partial(evaluate_each_subject, subject_of=store.index["subject"]) if folds else evaluate_sets
            how: Any = {"fusion": spec.fusion, "weights": spec.weights, "progress": advances}
            result = measure(protocol, sets, seed=_seed(spec), device=session.device, **how)
    figures = [figure for metrics in (result.metrics, *result.curve) for figure in metrics.items()]
    if bad := next((name for name, x in figures if isinstance(x, float) and not math.isfinite(x)), ""):
        raise SkelbenchError(
            f"protocol {spec.protocol} measured a {bad} that is not finite, so its probe diverged and nothing was "
            "written; give it a lower learning rate: --set lr=..."
        )
    # Any other dataset than the run's is a standard choice: tables show it in a block of its own.
    descriptor = session.host.get("protocols", spec.protocol)
    fields: dict[str, Any] = {"data": spec.data} if spec.data.name != run.spec.data.name else {}
    plain = eval_spec(session.host, run, spec.protocol, like=like, **fields)
    ids = np.asarray(result.predictions["ids"])
    if not np.array_equal(np.sort(ids), np.sort(tested)):
        raise SkelbenchError(
            f"protocol {spec.protocol} returned predictions of other clips than the test clips; its predictions['ids'] "
            "are those it was given, in the order of its predictions"
        )
    arrays: dict[str, Any] = {**result.predictions, "subjects": store.index["subject"][ids]}
    record = {
        "id": spec.id,
        "run": run.name,
        "standard": spec == plain,
        **({"preset": (like or run).preset} if descriptor.presets else {}),
        "spec": spec.model_dump(mode="json"),
        "metrics": result.metrics,
        "measures": {name: asdict(how) for name, how in protocol.measures.items() if name in result.metrics},
        "drawn": protocol.drawn if np.ndim(result.predictions["predicted"]) == 2 else "",
        "curve": result.curve,
        "notes": [*result.notes, *notes],
        "details": result.details,
        "clips": {"train": len(split.train), "test": len(tested)},
        "predictions": path.with_suffix(".npz").name,
        "environment": environment(session.device),
        "seconds": time.monotonic() - started,
        "finished": time.time(),
    }

    def write() -> dict[str, Any]:
        lease.check()
        write_atomic(path.with_suffix(".npz"), lambda file: np.savez_compressed(file, **arrays))
        write_json(path, record)
        _remove(state)
        return record

    return distributed.first(write)


def _remove(state: Path) -> None:
    """Remove the saved state of an evaluation, of all its processes."""
    for path in state.parent.glob(f"{state.name}*"):
        path.unlink(missing_ok=True)


def _seed(spec: EvalSpec) -> int:
    return derive_seed(spec.seed, "probe", spec.protocol)


@contextmanager
def _probing(session: Session, spec: EvalSpec, unit: str) -> Iterator[Callable[[int, int], None]]:
    """The progress of a protocol."""
    with session.progress(label=f"{spec.protocol} probe", unit=unit) as report:
        yield advances(report, with_total=True)
    give_back_memory()


def _measure_encoder(
    session: Session, run: RunDir, spec: EvalSpec, protocol: EncoderProtocol, store: ClipStore, state: Path
) -> ProtocolResult:
    """Result of a protocol that needs the encoder."""
    if len(spec.streams) > 1:
        raise SkelbenchError(
            f"protocol {spec.protocol} needs the encoder of one stream; give one --stream, or fuse with a protocol on "
            "features"
        )
    (stream,) = spec.streams

    def make(trained: bool) -> Encoder:
        if trained:
            return load_encoder(session, run, spec.checkpoint, store.topology, stream, spec.readout)
        method = build_method(run.spec, session.host, store.topology, session.device)
        encoder = method.inference_encoders().get(stream, method.inference_encoder())
        if named := named_encoder(run, spec.checkpoint, spec.readout):
            encoder = as_readout(method, named)
        assert isinstance(encoder, Encoder)  # checked when the method was built
        plain = dict(build_encoder(run.spec, session.host, store.topology).named_parameters())
        for name, parameter in encoder.named_parameters():  # parameters of a teacher have no gradients
            parameter.requires_grad_(name not in plain or plain[name].requires_grad)
        return encoder.eval()

    if (processes := distributed.world()) > 1:
        state = state.with_name(f"{state.name}.{distributed.rank() + 1}of{processes}")
    task = Downstream(spec, prepared(session, run, spec, store, stream), make, state)
    with (
        _probing(session, spec, protocol.unit) as advances,
        plugin_code(protocol.evaluate_encoder, "(task, seed, device)"),
    ):
        result: Any = protocol.evaluate_encoder(task, _seed(spec), session.device, advances)
    if problem := result_problem(result, len(task.test_ids)):
        raise wrong(protocol.evaluate_encoder, problem)
    return result


def feature_sets(session: Session, run: RunDir, spec: EvalSpec, store: ClipStore | None = None) -> dict[str, Features]:
    """Features by stream, each extracted once per encoder and preprocessing in this session; ``store``: its clips."""
    store = store or clips_of(session, spec, run)
    sources = [(run, spec.checkpoint)] * len(spec.streams)
    if spec.partners:
        sources[1:] = [_partner(session, run, name) for name in spec.partners]
    return {stream: _features(session, *source, spec, stream, store) for stream, source in zip(spec.streams, sources)}


def own_features(session: Session, run: RunDir, checkpoint: str = "last") -> tuple[Features, ClipStore]:
    """Features of the clips of the run's own split, as the protocol ``knn`` prepares them, and the clips themselves.

    Raises:
        SkelbenchError: the run is not finished, kept no such snapshot, or its data are gone or have changed.
    """
    check_finished(run, checkpoint)
    spec = eval_spec(session.host, run, "knn", checkpoint)
    store, stream = clips_of(session, spec, run), spec.streams[0]
    return feature_sets(session, run, spec.model_copy(update={"streams": (stream,)}), store)[stream], store


def _partner(session: Session, run: RunDir, name: str) -> tuple[RunDir, str]:
    """Return the run ``pretrain_id[@epoch]`` that is fused with ``run``, and its checkpoint."""
    pretrain_id, _, checkpoint = name.partition("@")
    partner = session.results.by_id(pretrain_id)
    if partner is None:
        raise SkelbenchError(f"run {pretrain_id}, fused with {run.name}, is not in {session.results.root}")
    checkpoint = checkpoint or "last"
    check_finished(partner, checkpoint)
    if partner.spec.data != run.spec.data:
        raise SkelbenchError(
            f"{run.name} and {partner.name} were trained on different data; fuse runs of the same split"
        )
    ways = [{**evaluation_defaults(part.spec), "streams": ()} for part in (run, partner)]
    if different := ", ".join(key for key in ways[0] if ways[0][key] != ways[1][key]):
        raise SkelbenchError(f"{run.name} and {partner.name} prepare clips differently ({different}); fuse equal runs")
    return partner, checkpoint


def prepared(
    session: Session, run: RunDir, spec: EvalSpec, store: ClipStore, stream: Stream, checkpoint: str = ""
) -> PreparedClips:
    """The clips of ``store`` as ``spec`` shows them to the encoder of ``run``."""
    hiding = hiding_of(session, run, spec, stream, store, checkpoint)
    how = grid_of(run.spec, store.topology), torch.device(session.device), run.spec.train.precision
    return PreparedClips(store, Preprocessing.of(spec, stream), *how, hiding, spec.min_confidence)


def _features(
    session: Session, run: RunDir, checkpoint: str, spec: EvalSpec, stream: Stream, store: ClipStore
) -> Features:
    """Features of one stream by the encoder of one run."""
    choices = spec.model_dump_json(include=WAY)
    key = f"{run.spec.id} {checkpoint} {stream} {choices}"
    if key not in session.features:
        split = store.split(spec.data.split, spec.data.min_frames)
        encoder = load_encoder(session, run, checkpoint, store.topology, stream, spec.readout)
        if not named_encoder(run, checkpoint, spec.readout):
            session.encoders[run.spec.id] = encoder
        label = f"{run.title} features" if stream == "joint" else f"{run.title} {stream} features"
        with session.progress(total=len(split.train) + len(split.test), label=label, unit="clips") as report:
            session.features[key] = split_features(
                encoder, prepared(session, run, spec, store, stream, checkpoint), split, advances(report)
            )
        give_back_memory()
    return session.features[key]
